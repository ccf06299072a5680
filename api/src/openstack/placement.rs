use crate::common::{Cache, Database, KeystoneAuth, ServiceCommon, ServiceStatus, default};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// The service that tracks what hypervisors have and who uses it.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "placement.openstack.c5c3.io",
    version = "v1alpha1",
    kind = "Placement",
    plural = "placements",
    namespaced,
    status = "PlacementStatus",
    shortname = "plc",
    category = "c5c3",
    category = "openstack",
    derive = "PartialEq",
    doc = "The service that tracks what hypervisors have and who uses it.",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct PlacementSpec {
    #[serde(flatten)]
    pub common: ServiceCommon,
    /// Number of API replicas.
    #[serde(default = "default::replicas")]
    #[schemars(range(min = 0, max = 64))]
    pub replicas: i32,
    /// The database.
    pub database: Database,
    /// The cache.
    pub cache: Option<Cache>,
    /// Credentials with which it logs in to Keystone.
    pub keystone: KeystoneAuth,
}

/// What was seen of Placement.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlacementStatus {
    #[serde(flatten)]
    pub common: ServiceStatus,
}
