use super::PhaseStatus;
use kube::{CustomResource, ResourceExt};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use std::collections::BTreeMap;

/// A pool of block devices.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[kube(
    group = "ceph.rook.io",
    version = "v1",
    kind = "CephBlockPool",
    plural = "cephblockpools",
    namespaced,
    schema = "disabled",
    status = "PhaseStatus",
    shortname = "cephbp",
    derive = "PartialEq",
    derive = "Default",
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase")
)]
#[serde(rename_all = "camelCase")]
pub struct CephBlockPoolSpec {
    pub name: Option<String>,
    #[serde(flatten)]
    pub pool: PoolSpec,
}

impl CephBlockPool {
    /// The pool's name in Ceph.
    pub fn pool(&self) -> String {
        self.spec.name.clone().unwrap_or_else(|| self.name_any())
    }
}

/// What any pool has.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolSpec {
    pub failure_domain: Option<String>,
    pub crush_root: Option<String>,
    pub device_class: Option<String>,
    pub application: Option<String>,
    pub replicated: Option<Replicated>,
    pub erasure_coded: Option<ErasureCoded>,
    /// Properties of the pool, as `ceph osd pool set` takes them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, String>,
    pub quotas: Option<PoolQuotas>,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Replicated {
    #[serde(default)]
    pub size: i32,
    pub require_safe_replica_size: Option<bool>,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ErasureCoded {
    #[serde(default)]
    pub coding_chunks: i32,
    #[serde(default)]
    pub data_chunks: i32,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolQuotas {
    pub max_size: Option<String>,
    pub max_objects: Option<u64>,
}
