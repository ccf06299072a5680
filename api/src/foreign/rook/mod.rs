//! `ceph.rook.io/v1`, by Rook.

use super::ConditionsStatus;
use kube::CustomResource;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use std::collections::BTreeMap;

/// A Ceph cluster.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[kube(
    group = "ceph.rook.io",
    version = "v1",
    kind = "CephCluster",
    plural = "cephclusters",
    namespaced,
    schema = "disabled",
    status = "CephClusterStatus",
    shortname = "ceph",
    derive = "PartialEq",
    derive = "Default",
    printcolumn(name = "MonCount", type_ = "string", json_path = ".spec.mon.count"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Health", type_ = "string", json_path = ".status.ceph.health")
)]
#[serde(rename_all = "camelCase")]
pub struct CephClusterSpec {
    pub ceph_version: Option<CephVersion>,
    pub data_dir_host_path: Option<String>,
    pub mon: Option<MonSpec>,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CephVersion {
    pub image: Option<String>,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MonSpec {
    pub count: Option<i32>,
    /// Monitors that run outside of this cluster.
    #[serde(default, rename = "externalMonIDs", skip_serializing_if = "Vec::is_empty")]
    pub external_mon_ids: Vec<String>,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CephClusterStatus {
    #[serde(flatten)]
    pub common: ConditionsStatus,
    pub phase: Option<String>,
    pub state: Option<String>,
    pub message: Option<String>,
    pub ceph: Option<CephHealth>,
    pub version: Option<CephClusterVersion>,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct CephHealth {
    pub health: Option<String>,
    pub fsid: Option<String>,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct CephClusterVersion {
    pub image: Option<String>,
    pub version: Option<String>,
}

/// A Ceph user; Rook writes its key into a Secret.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[kube(
    group = "ceph.rook.io",
    version = "v1",
    kind = "CephClient",
    plural = "cephclients",
    namespaced,
    schema = "disabled",
    status = "PhaseStatus",
    shortname = "cephcl",
    derive = "PartialEq",
    derive = "Default",
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase")
)]
#[serde(rename_all = "camelCase")]
pub struct CephClientSpec {
    pub name: Option<String>,
    /// Daemon → capability.
    #[serde(default)]
    pub caps: BTreeMap<String, String>,
}

/// A status with a phase.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PhaseStatus {
    #[serde(flatten)]
    pub common: ConditionsStatus,
    pub phase: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub info: BTreeMap<String, String>,
}

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
    pub failure_domain: Option<String>,
    pub device_class: Option<String>,
    pub application: Option<String>,
    pub replicated: Option<Replicated>,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Replicated {
    pub size: i32,
    pub require_safe_replica_size: Option<bool>,
}
