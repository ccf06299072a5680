use super::{Process, Rbd};
use crate::common::{Cache, Database, KeystoneAuth, Messaging, ServiceCommon, ServiceStatus, is_default};
use crate::schema::{self, rules};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// The volume service.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "cinder.openstack.c5c3.io",
    version = "v1alpha1",
    kind = "Cinder",
    plural = "cinders",
    namespaced,
    status = "CinderStatus",
    category = "c5c3",
    category = "openstack",
    derive = "PartialEq",
    doc = "The volume service.",
    printcolumn(name = "Backends", type_ = "string", json_path = ".spec.backends[*].name")
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[(
    "!has(self.defaultVolumeType) || self.backends.exists(b, b.name == self.defaultVolumeType)",
    "defaultVolumeType: must be the name of one of the backends",
)])))]
pub struct CinderSpec {
    #[serde(flatten)]
    pub common: ServiceCommon,
    /// The API.
    #[serde(default, skip_serializing_if = "is_default")]
    pub api: Process,
    /// The scheduler.
    #[serde(default, skip_serializing_if = "is_default")]
    pub scheduler: Process,
    /// The volume service.
    #[serde(default, skip_serializing_if = "is_default")]
    pub volume: Process,
    /// The database.
    pub database: Database,
    /// The message bus.
    pub messaging: Messaging,
    /// The cache.
    pub cache: Option<Cache>,
    /// How it logs in.
    pub keystone: KeystoneAuth,
    /// Where volumes are kept.
    #[schemars(
        length(min = 1, max = 16),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub backends: Vec<CinderBackend>,
    /// The backend that is used when nobody asks for one.
    #[serde(default)]
    #[schemars(schema_with = "schema::label")]
    pub default_volume_type: Option<String>,
}

/// Where volumes are kept.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[(
    "self.driver != 'cinder.volume.drivers.rbd.RBDDriver' || has(self.rbd)",
    "backends.rbd: the RBD driver needs pool and cephSecretRef",
)])))]
pub struct CinderBackend {
    /// Name of the backend and of its volume type.
    #[schemars(schema_with = "schema::label")]
    pub name: String,
    /// Class of the driver.
    #[serde(default = "CinderBackend::rbd_driver")]
    #[schemars(regex(pattern = r"^[A-Za-z0-9_.]+$"), length(max = 253))]
    pub driver: String,
    /// Ceph block devices.
    pub rbd: Option<Rbd>,
}

impl CinderBackend {
    fn rbd_driver() -> String {
        "cinder.volume.drivers.rbd.RBDDriver".to_owned()
    }
}

/// What was seen of Cinder.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CinderStatus {
    #[serde(flatten)]
    pub common: ServiceStatus,
    /// Each backend.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub backends: Vec<CinderBackendStatus>,
}

/// One backend.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CinderBackendStatus {
    /// Name of the backend.
    pub name: String,
    /// Ready, or what it waits for.
    pub status: String,
    /// Free space in GiB.
    pub available_capacity_gb: Option<i64>,
}
