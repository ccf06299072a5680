use super::{PhaseStatus, PoolSpec};
use k8s_openapi::api::core::v1::ResourceRequirements;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::CustomResource;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use std::collections::BTreeMap;

/// An object store: gateways that speak S3 and Swift.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[kube(
    group = "ceph.rook.io",
    version = "v1",
    kind = "CephObjectStore",
    plural = "cephobjectstores",
    namespaced,
    schema = "disabled",
    status = "ObjectStoreStatus",
    shortname = "cephos",
    derive = "PartialEq",
    derive = "Default",
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Endpoint", type_ = "string", json_path = ".status.info.endpoint")
)]
#[serde(rename_all = "camelCase")]
pub struct CephObjectStoreSpec {
    pub metadata_pool: Option<PoolSpec>,
    pub data_pool: Option<PoolSpec>,
    pub preserve_pools_on_delete: Option<bool>,
    #[serde(default)]
    pub gateway: Gateway,
    /// The zone of a multisite configuration.
    pub zone: Option<ObjectZone>,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Gateway {
    pub port: Option<u16>,
    pub secure_port: Option<u16>,
    pub ssl_certificate_ref: Option<String>,
    pub instances: Option<i32>,
    pub resources: Option<ResourceRequirements>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub rgw_config: BTreeMap<String, String>,
    /// On the Deployment and its pods.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct ObjectZone {
    #[serde(default)]
    pub name: String,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectStoreStatus {
    #[serde(flatten)]
    pub phase: PhaseStatus,
    pub message: Option<String>,
    pub replicas: Option<i32>,
    pub selector: Option<String>,
    pub endpoints: Option<ObjectEndpoints>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct ObjectEndpoints {
    #[serde(default)]
    pub insecure: Vec<String>,
    #[serde(default)]
    pub secure: Vec<String>,
}

/// A user of an object store; Rook writes its keys into a Secret.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[kube(
    group = "ceph.rook.io",
    version = "v1",
    kind = "CephObjectStoreUser",
    plural = "cephobjectstoreusers",
    namespaced,
    schema = "disabled",
    status = "PhaseStatus",
    shortname = "cephosu",
    shortname = "objectuser",
    derive = "PartialEq",
    derive = "Default",
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase")
)]
#[serde(rename_all = "camelCase")]
pub struct CephObjectStoreUserSpec {
    #[serde(default)]
    pub store: String,
    pub display_name: Option<String>,
    pub cluster_namespace: Option<String>,
    /// Right of an administrator → `read`, `write`, `*`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub capabilities: BTreeMap<String, String>,
    pub quotas: Option<ObjectUserQuotas>,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectUserQuotas {
    pub max_buckets: Option<i64>,
    pub max_size: Option<Quantity>,
    pub max_objects: Option<i64>,
}
