//! `crossplane.c5c3.io/v1alpha1`: whole Kubernetes clusters, ordered by a claim.
//!
//! Crossplane serves two kinds for each: the composite (`X…`, cluster-wide) and the claim that
//! people write. Both have the same spec; the definition is made from the composite's type.

use crate::common::is_default;
use crate::schema::{self, rules};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use std::collections::BTreeMap;

/// A cluster for OpenStack's control plane.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "crossplane.c5c3.io",
    version = "v1alpha1",
    kind = "XControlPlaneCluster",
    plural = "xcontrolplaneclusters",
    status = "ControlPlaneClusterStatus",
    category = "c5c3",
    derive = "PartialEq",
    doc = "A cluster for OpenStack's control plane.",
    printcolumn(name = "Region", type_ = "string", json_path = ".spec.region"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Workers", type_ = "integer", json_path = ".spec.workers")
)]
#[serde(rename_all = "camelCase")]
pub struct ControlPlaneClusterSpec {
    /// Gardener region, such as eu-de-1.
    #[schemars(schema_with = "region")]
    pub region: String,
    /// Kubernetes version, such as 1.33; the landscape's own when left out.
    #[serde(default)]
    #[schemars(schema_with = "kubernetes_version")]
    pub kubernetes_version: Option<String>,
    /// Number of worker nodes.
    #[serde(default = "five")]
    #[schemars(range(min = 1, max = 1000))]
    pub workers: i32,
    /// Machine type of the workers.
    #[schemars(length(min = 1, max = 128))]
    pub machine_type: Option<String>,
    /// Volume of each worker.
    #[serde(default = "ControlPlaneClusterSpec::volume")]
    #[schemars(schema_with = "schema::size")]
    pub volume_size: String,
    /// Spread over zones.
    #[serde(default = "crate::common::default::yes")]
    pub high_availability: bool,
}

impl ControlPlaneClusterSpec {
    fn volume() -> String {
        "200Gi".to_owned()
    }
}

/// What was seen of the cluster.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ControlPlaneClusterStatus {
    /// Phase of its life cycle.
    pub phase: Option<ControlPlaneClusterPhase>,
    /// Name of the Shoot.
    pub cluster_name: Option<String>,
    /// Secret with the kubeconfig.
    pub kubeconfig: Option<String>,
}

/// Where a control-plane cluster is in its life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum ControlPlaneClusterPhase {
    #[default]
    Provisioning,
    Ready,
    Failed,
}

/// A pool of bare-metal hypervisors.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "crossplane.c5c3.io",
    version = "v1alpha1",
    kind = "XHypervisorCluster",
    plural = "xhypervisorclusters",
    status = "HypervisorClusterStatus",
    category = "c5c3",
    derive = "PartialEq",
    doc = "A pool of bare-metal hypervisors.",
    printcolumn(name = "Region", type_ = "string", json_path = ".spec.region"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Nodes", type_ = "integer", json_path = ".status.nodeCount")
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[(
    "self.workers <= self.maxWorkers",
    "maxWorkers: must be workers or more",
)])))]
pub struct HypervisorClusterSpec {
    /// Gardener region, such as eu-de-1.
    #[schemars(schema_with = "region")]
    pub region: String,
    /// Name of the pool, such as hv-pool-a.
    #[schemars(schema_with = "pool_name")]
    pub name: String,
    /// Kubernetes version, such as 1.33; the landscape's own when left out.
    #[serde(default)]
    #[schemars(schema_with = "kubernetes_version")]
    pub kubernetes_version: Option<String>,
    /// Number of hypervisors.
    #[serde(default = "HypervisorClusterSpec::twenty")]
    #[schemars(range(min = 1, max = 1000))]
    pub workers: i32,
    /// Maximum number of hypervisors in the pool.
    #[serde(default = "HypervisorClusterSpec::hundred")]
    #[schemars(range(min = 1, max = 1000))]
    pub max_workers: i32,
    /// The machines.
    pub ironcore: KvmMachines,
    /// Labels of the nodes, for scheduling.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::labels")]
    pub labels: BTreeMap<String, String>,
}

impl HypervisorClusterSpec {
    fn twenty() -> i32 {
        20
    }
    fn hundred() -> i32 {
        100
    }
}

/// Machines for instances.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KvmMachines {
    /// IronCore machine pool.
    #[schemars(schema_with = "schema::name")]
    pub machine_pool: String,
    /// IronCore machine class.
    #[serde(default = "KvmMachines::kvm")]
    #[schemars(schema_with = "schema::name")]
    pub machine_class: String,
}

impl KvmMachines {
    fn kvm() -> String {
        "baremetal-kvm".to_owned()
    }
}

/// What was seen of the pool.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HypervisorClusterStatus {
    /// Phase of its life cycle.
    pub phase: Option<HypervisorClusterPhase>,
    /// Name of the Shoot.
    pub cluster_name: Option<String>,
    /// Hypervisors that joined.
    pub node_count: Option<i32>,
    /// Free resources.
    pub available_capacity: Option<AvailableCapacity>,
}

/// Where a pool of hypervisors is in its life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum HypervisorClusterPhase {
    #[default]
    Provisioning,
    Ready,
    Scaling,
    Failed,
}

/// What is free in a pool.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AvailableCapacity {
    /// Virtual CPUs.
    pub vcpus: Option<i64>,
    /// Memory in GB.
    #[serde(rename = "memoryGB")]
    pub memory_gb: Option<i64>,
}

/// A pool of bare-metal storage nodes with Ceph.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "crossplane.c5c3.io",
    version = "v1alpha1",
    kind = "XStorageCluster",
    plural = "xstorageclusters",
    status = "StorageClusterStatus",
    category = "c5c3",
    derive = "PartialEq",
    doc = "A pool of bare-metal storage nodes with Ceph.",
    printcolumn(name = "Region", type_ = "string", json_path = ".spec.region"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Health", type_ = "string", json_path = ".status.health"),
    printcolumn(name = "Capacity", type_ = "string", json_path = ".status.capacity.total")
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[(
    "self.ceph.replicationFactor <= self.workers",
    "ceph.replicationFactor: each copy needs a node of its own; lower it or raise workers",
)])))]
pub struct StorageClusterSpec {
    /// Gardener region, such as eu-de-1.
    #[schemars(schema_with = "region")]
    pub region: String,
    /// Name of the pool, such as st-pool-a.
    #[schemars(schema_with = "pool_name")]
    pub name: String,
    /// Kubernetes version, such as 1.33; the landscape's own when left out.
    #[serde(default)]
    #[schemars(schema_with = "kubernetes_version")]
    pub kubernetes_version: Option<String>,
    /// Number of storage nodes.
    #[serde(default = "five")]
    #[schemars(range(min = 1, max = 1000))]
    pub workers: i32,
    /// The machines.
    pub ironcore: StorageMachines,
    /// Configuration of Ceph on them.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(extend("default" = {}))]
    pub ceph: CephPool,
    /// Cluster of the tie-breaking monitor, for a stretched setup.
    #[serde(default)]
    #[schemars(schema_with = "schema::name")]
    pub arbiter_cluster: Option<String>,
}

/// Machines for disks.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StorageMachines {
    /// IronCore machine pool.
    #[schemars(schema_with = "schema::name")]
    pub machine_pool: String,
    /// IronCore machine class.
    #[serde(default = "StorageMachines::storage")]
    #[schemars(schema_with = "schema::name")]
    pub machine_class: String,
}

impl StorageMachines {
    fn storage() -> String {
        "baremetal-storage".to_owned()
    }
}

/// What Ceph makes of a pool.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CephPool {
    /// OSDs on each node.
    #[serde(default = "CephPool::fifteen")]
    #[schemars(range(min = 1, max = 256))]
    pub osd_count: i32,
    /// Kind of disk.
    #[serde(default)]
    pub device_class: DeviceClass,
    /// Requested capacity, such as 500Ti.
    #[serde(default)]
    #[schemars(schema_with = "schema::size")]
    pub target_capacity: Option<String>,
    /// Copies of each object.
    #[serde(default = "CephPool::three")]
    #[schemars(range(min = 1, max = 5))]
    pub replication_factor: i32,
}

impl Default for CephPool {
    fn default() -> Self {
        Self {
            osd_count: Self::fifteen(),
            device_class: DeviceClass::default(),
            target_capacity: None,
            replication_factor: Self::three(),
        }
    }
}

impl CephPool {
    fn fifteen() -> i32 {
        15
    }
    fn three() -> i32 {
        3
    }
}

/// Kind of disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DeviceClass {
    Hdd,
    Ssd,
    #[default]
    Nvme,
}

/// What was seen of the pool.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StorageClusterStatus {
    /// Phase of its life cycle.
    pub phase: Option<StorageClusterPhase>,
    /// Name of the Shoot.
    pub cluster_name: Option<String>,
    /// Capacity and usage.
    pub capacity: Option<StorageCapacity>,
    /// Health as reported by Ceph.
    pub health: Option<CephHealth>,
}

/// Where a pool of storage nodes is in its life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum StorageClusterPhase {
    #[default]
    Provisioning,
    Ready,
    Expanding,
    Failed,
}

/// How full a pool is.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StorageCapacity {
    /// All space.
    pub total: Option<String>,
    /// Free space.
    pub available: Option<String>,
    /// Used space.
    pub used: Option<String>,
}

/// Health as reported by Ceph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum CephHealth {
    HealthOk,
    HealthWarn,
    HealthErr,
}

fn five() -> i32 {
    5
}

fn region(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "string",
        "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
        "maxLength": 63,
        "x-kubernetes-validations": rules(&[(
            "self == oldSelf",
            "region: cannot change, a cluster does not move; make another claim",
        )]),
    })
}

fn pool_name(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "string",
        "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
        "maxLength": 21,
        "x-kubernetes-validations": rules(&[(
            "self == oldSelf",
            "name: cannot change, it names the Shoot; make another claim",
        )]),
    })
}

fn kubernetes_version(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "string",
        "pattern": r"^1\.[0-9]{2}(\.[0-9]{1,2})?$",
        "maxLength": 8,
    })
}

/// Claim kinds: the same spec, in a namespace.
mod claims {
    use super::{
        ControlPlaneClusterSpec, ControlPlaneClusterStatus, HypervisorClusterSpec, HypervisorClusterStatus,
        StorageClusterSpec, StorageClusterStatus,
    };
    use kube::core::Object;

    /// Claims an XControlPlaneCluster.
    pub type ControlPlaneCluster = Object<ControlPlaneClusterSpec, ControlPlaneClusterStatus>;
    /// Claims an XHypervisorCluster.
    pub type HypervisorCluster = Object<HypervisorClusterSpec, HypervisorClusterStatus>;
    /// Claims an XStorageCluster.
    pub type StorageCluster = Object<StorageClusterSpec, StorageClusterStatus>;
}

pub use claims::{ControlPlaneCluster, HypervisorCluster, StorageCluster};
