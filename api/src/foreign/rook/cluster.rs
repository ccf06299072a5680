use super::super::ConditionsStatus;
use k8s_openapi::api::core::v1::{PersistentVolumeClaimSpec, ResourceRequirements};
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
    printcolumn(name = "Message", type_ = "string", json_path = ".status.message"),
    printcolumn(name = "Health", type_ = "string", json_path = ".status.ceph.health"),
    printcolumn(name = "FSID", type_ = "string", json_path = ".status.ceph.fsid")
)]
#[serde(rename_all = "camelCase")]
pub struct CephClusterSpec {
    pub ceph_version: Option<CephVersion>,
    pub data_dir_host_path: Option<String>,
    pub mon: Option<MonSpec>,
    pub mgr: Option<MgrSpec>,
    pub storage: Option<StorageSpec>,
    pub network: Option<NetworkSpec>,
    pub external: Option<ExternalSpec>,
    pub security: Option<SecuritySpec>,
    /// Daemon → requests and limits.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub resources: BTreeMap<String, ResourceRequirements>,
    /// Section → option → value, kept in the monitors.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub ceph_config: BTreeMap<String, BTreeMap<String, String>>,
    pub health_check: Option<HealthCheck>,
    /// What else Rook knows.
    #[serde(flatten)]
    pub more: Fields,
}

/// Fields that nobody here reads, by name.
pub type Fields = BTreeMap<String, serde_json::Value>;

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HealthCheck {
    pub daemon_health: Option<DaemonHealth>,
    #[serde(flatten)]
    pub more: Fields,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct DaemonHealth {
    pub mon: Option<DaemonCheck>,
    #[serde(flatten)]
    pub more: Fields,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct DaemonCheck {
    pub disabled: Option<bool>,
    pub interval: Option<String>,
    /// After this time a monitor is replaced; zero: never.
    pub timeout: Option<String>,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CephVersion {
    pub image: Option<String>,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MonSpec {
    pub count: Option<i32>,
    pub allow_multiple_per_node: Option<bool>,
    /// Monitors that run outside of this cluster.
    #[serde(default, rename = "externalMonIDs", skip_serializing_if = "Vec::is_empty")]
    pub external_mon_ids: Vec<String>,
    pub stretch_cluster: Option<StretchCluster>,
    pub volume_claim_template: Option<ClaimTemplate>,
    #[serde(flatten)]
    pub more: Fields,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StretchCluster {
    pub failure_domain_label: Option<String>,
    pub sub_failure_domain: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub zones: Vec<MonZone>,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MonZone {
    #[serde(default)]
    pub name: String,
    pub arbiter: Option<bool>,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MgrSpec {
    pub count: Option<i32>,
    pub allow_multiple_per_node: Option<bool>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub modules: Vec<MgrModule>,
    #[serde(flatten)]
    pub more: Fields,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct MgrModule {
    #[serde(default)]
    pub name: String,
    pub enabled: Option<bool>,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StorageSpec {
    pub use_all_nodes: Option<bool>,
    pub use_all_devices: Option<bool>,
    pub device_filter: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<StorageNode>,
    /// OSDs on volumes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub storage_class_device_sets: Vec<DeviceSet>,
    #[serde(flatten)]
    pub more: Fields,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct StorageNode {
    #[serde(default)]
    pub name: String,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeviceSet {
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub count: i32,
    pub portable: Option<bool>,
    pub encrypted: Option<bool>,
    pub resources: Option<ResourceRequirements>,
    #[serde(default)]
    pub volume_claim_templates: Vec<ClaimTemplate>,
    #[serde(flatten)]
    pub more: Fields,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct ClaimTemplate {
    pub metadata: Option<ClaimName>,
    #[serde(default)]
    pub spec: PersistentVolumeClaimSpec,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct ClaimName {
    /// What the volume is for: `data` (the default), `metadata`, `wal`.
    pub name: Option<String>,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NetworkSpec {
    /// Empty, `host` or `multus`.
    pub provider: Option<String>,
    pub host_network: Option<bool>,
    #[serde(rename = "ipFamily")]
    pub ip_family: Option<String>,
    /// Monitors with addresses that other clusters reach.
    pub multi_cluster_service: Option<MultiClusterService>,
    #[serde(flatten)]
    pub more: Fields,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct MultiClusterService {
    #[serde(default)]
    pub enabled: bool,
    #[serde(rename = "clusterID")]
    pub cluster_id: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct ExternalSpec {
    #[serde(default)]
    pub enable: bool,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct SecuritySpec {
    pub kms: Option<KeyManagement>,
    #[serde(flatten)]
    pub more: Fields,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KeyManagement {
    #[serde(default)]
    pub connection_details: BTreeMap<String, String>,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CephClusterStatus {
    #[serde(flatten)]
    pub common: ConditionsStatus,
    /// Progressing, Ready, Failure, Connected …
    pub phase: Option<String>,
    /// Creating, Created, Updating, Error …
    pub state: Option<String>,
    pub message: Option<String>,
    pub ceph: Option<CephHealth>,
    pub storage: Option<StorageStatus>,
    pub version: Option<CephClusterVersion>,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CephHealth {
    pub health: Option<String>,
    /// Code of a check → what it found.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub details: BTreeMap<String, HealthMessage>,
    pub fsid: Option<String>,
    pub previous_health: Option<String>,
    pub last_changed: Option<String>,
    pub last_checked: Option<String>,
    pub capacity: Option<Capacity>,
    pub versions: Option<DaemonVersions>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct HealthMessage {
    pub severity: String,
    pub message: String,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Capacity {
    pub bytes_total: Option<u64>,
    pub bytes_used: Option<u64>,
    pub bytes_available: Option<u64>,
    pub last_updated: Option<String>,
}

/// Version → number of daemons that run it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct DaemonVersions {
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub mon: BTreeMap<String, i64>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub mgr: BTreeMap<String, i64>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub osd: BTreeMap<String, i64>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub rgw: BTreeMap<String, i64>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub overall: BTreeMap<String, i64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StorageStatus {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub device_classes: Vec<DeviceClass>,
    #[serde(default)]
    pub osd: OsdStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct DeviceClass {
    pub name: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OsdStatus {
    /// Kind of store → number of OSDs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub store_type: BTreeMap<String, i64>,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct CephClusterVersion {
    pub image: Option<String>,
    pub version: Option<String>,
}
