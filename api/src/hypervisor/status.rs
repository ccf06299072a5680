use crate::common::{Condition, Quantity, Time};
use crate::schema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use std::collections::BTreeMap;

/// What the operator and the agent saw of the host.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HypervisorStatus {
    /// Conditions that describe the current state.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// The generation that was processed.
    pub observed_generation: Option<i64>,
    /// Version of libvirt.
    pub lib_virt_version: Option<String>,
    /// Version of QEMU or Cloud Hypervisor.
    pub hypervisor_version: Option<String>,
    /// Operating system and hardware.
    pub operating_system: Option<OperatingSystem>,
    /// Progress of an operating system update.
    pub update_status: Option<UpdateStatus>,
    /// Capabilities of the host.
    pub capabilities: Option<Capabilities>,
    /// Capabilities available to instances.
    pub domain_capabilities: Option<DomainCapabilities>,
    /// Resources used by the instances.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::quantities")]
    pub allocation: BTreeMap<String, Quantity>,
    /// Physical resources.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::quantities")]
    pub capacity: BTreeMap<String, Quantity>,
    /// Physical resources times overcommit.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::quantities")]
    pub effective_capacity: BTreeMap<String, Quantity>,
    /// NUMA cells, by number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["cellID"]))]
    pub cells: Vec<Cell>,
    /// Instances, by id.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["id"]))]
    pub instances: Vec<Instance>,
    /// Number of instances.
    pub num_instances: Option<i32>,
    /// Users of Ceph with whose keys instances open their disks, running or not. Not known when left out.
    #[schemars(length(max = 256), inner(length(max = 253)), extend("x-kubernetes-list-type" = "set"))]
    pub ceph_users: Option<Vec<String>>,
    /// Nova's id of the host.
    pub hypervisor_id: Option<String>,
    /// Nova's id of the compute service.
    pub service_id: Option<String>,
    /// Traits in Placement.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub traits: Vec<String>,
    /// Aggregates in Nova.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["uuid"]))]
    pub aggregates: Vec<AggregateStatus>,
    /// Address of the host.
    pub internal_ip: Option<String>,
    /// Whether the host is empty and in maintenance.
    pub evicted: Option<bool>,
    /// Name of the host in Nova.
    pub host: Option<String>,
    /// Progress of the onboarding.
    pub onboarding: Option<OnboardingStatus>,
    /// Failover of the host, if it failed.
    pub failover: Option<FailoverStatus>,
    /// Recent recoveries of single instances.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 64),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["server"])
    )]
    pub reactions: Vec<Reaction>,
    /// What was done about the host and its instances, and why; the newest last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50), extend("x-kubernetes-list-type" = "atomic"))]
    pub history: Vec<HistoryEntry>,
}

/// One entry of the history of a host.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HistoryEntry {
    /// When it was done.
    #[schemars(schema_with = "schema::time")]
    pub time: Time,
    /// What was done.
    pub action: String,
    /// The reason for it.
    pub reason: String,
}

/// What was done for an instance that was in trouble.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Reaction {
    /// UUID.
    pub server: String,
    /// Name.
    pub name: String,
    /// Its latest trouble.
    pub trouble: Trouble,
    /// Waiting, Restarting, Moving, Recovered or GivenUp.
    pub state: ReactionState,
    /// Restarts so far; an hour without trouble resets the count.
    #[serde(default)]
    pub attempts: i32,
    /// Requests in a row that Nova refused; they do not count as restarts.
    #[serde(default)]
    pub refusals: i32,
    /// Since when the instance is in trouble, or was.
    #[serde(default)]
    #[schemars(schema_with = "schema::time")]
    pub since: Option<Time>,
    /// Time of the last action, or of its end.
    #[serde(default)]
    #[schemars(schema_with = "schema::time")]
    pub changed: Option<Time>,
    /// The action, and the reason for it.
    pub message: Option<String>,
}

/// How far the reaction to an instance in trouble is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema)]
pub enum ReactionState {
    /// It may recover by itself.
    #[default]
    Waiting,
    /// It is restarted on this host.
    Restarting,
    /// It moves to another host.
    Moving,
    /// It is healthy again, or its owner wants it as it is.
    Recovered,
    /// A person has to look after it.
    GivenUp,
}

/// What befalls an instance against the will of its owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema)]
pub enum Trouble {
    /// Its process ended, or its kernel panicked.
    #[default]
    Crashed,
    /// Its watchdog paused it.
    Watchdog,
    /// It is paused because a disk does not answer.
    IoError,
}

/// Servers of a failed host start elsewhere.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailoverStatus {
    /// When it began.
    #[serde(default)]
    #[schemars(schema_with = "schema::time")]
    pub since: Option<Time>,
    /// Evidence that the host is powered off.
    pub fence: Option<String>,
    /// Nova's number of the newest migration before: later ones belong to this failure.
    #[serde(default)]
    pub migrations_before: i64,
}

/// How far a host is on its way into service.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OnboardingStatus {
    /// Initial, Testing, Handover, Succeeded or Aborted.
    pub phase: OnboardingPhase,
    /// When that phase began.
    #[serde(default)]
    #[schemars(schema_with = "schema::time")]
    pub since: Option<Time>,
    /// Attempts so far.
    #[serde(default)]
    pub attempt: i32,
    /// UUID of the test instance.
    pub test_server: Option<String>,
    /// The last value of the retry annotation that was processed.
    pub retried: Option<String>,
    /// Result of the test.
    pub message: Option<String>,
}

/// The phases of onboarding, in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema)]
pub enum OnboardingPhase {
    /// Nova does not know the host yet, or it is not enabled.
    #[default]
    Initial,
    /// A test instance boots on it.
    Testing,
    /// Traits, aggregates and overcommit are set.
    Handover,
    /// In service.
    Succeeded,
    /// The test failed; a retry starts over.
    Aborted,
}

/// Operating system and hardware of a host.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OperatingSystem {
    /// Version.
    pub version: Option<String>,
    /// Variant or edition.
    #[serde(rename = "variantID")]
    pub variant_id: Option<String>,
    /// Name and version for people.
    pub pretty_version: Option<String>,
    /// Name of the kernel.
    pub kernel_name: Option<String>,
    /// Release of the kernel.
    pub kernel_release: Option<String>,
    /// Build of the kernel.
    pub kernel_version: Option<String>,
    /// Command line of the kernel.
    pub kernel_command_line: Option<String>,
    /// Who made the machine.
    pub hardware_vendor: Option<String>,
    /// Model of the machine.
    pub hardware_model: Option<String>,
    /// Serial number of the machine.
    pub hardware_serial: Option<String>,
    /// Version of the firmware.
    pub firmware_version: Option<String>,
    /// Who made the firmware.
    pub firmware_vendor: Option<String>,
    /// When the firmware was made.
    #[serde(default)]
    #[schemars(schema_with = "schema::time")]
    pub firmware_date: Option<Time>,
}

/// Progress of an operating system update.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpdateStatus {
    /// Whether an update is running.
    #[serde(default)]
    pub in_progress: bool,
    /// Version that is installed and waits for a reboot.
    pub installed: Option<String>,
    /// Attempts left.
    pub retry: Option<i32>,
}

/// What a host has.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Capabilities {
    /// CPU architecture of the host.
    pub cpu_arch: Option<String>,
    /// Memory over all NUMA cells.
    #[serde(default)]
    #[schemars(schema_with = "schema::quantity")]
    pub memory: Option<Quantity>,
    /// CPUs over all NUMA cells.
    #[serde(default)]
    #[schemars(schema_with = "schema::quantity")]
    pub cpus: Option<Quantity>,
}

/// What an instance on the host may have.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DomainCapabilities {
    /// CPU architecture of instances.
    pub arch: Option<String>,
    /// kvm, qemu or ch.
    pub hypervisor_type: Option<String>,
    /// Devices: video, video/nvidia.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub supported_devices: Vec<String>,
    /// CPU modes: host-passthrough, host-passthrough/migratable.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub supported_cpu_modes: Vec<String>,
    /// Features: sev, sgx.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub supported_features: Vec<String>,
}

/// A NUMA cell of a host.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Cell {
    /// Number of the cell.
    #[serde(rename = "cellID")]
    pub cell_id: i64,
    /// Resources used by the instances.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::quantities")]
    pub allocation: BTreeMap<String, Quantity>,
    /// Physical resources.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::quantities")]
    pub capacity: BTreeMap<String, Quantity>,
    /// Physical resources times overcommit.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::quantities")]
    pub effective_capacity: BTreeMap<String, Quantity>,
}

/// A virtual machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Instance {
    /// UUID.
    pub id: String,
    /// Name.
    pub name: String,
    /// Whether it is running.
    pub active: bool,
    /// Trouble that its owner did not cause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<InstanceTrouble>,
}

/// An instance in trouble.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InstanceTrouble {
    /// Crashed, Watchdog or IoError.
    pub kind: Trouble,
    /// Since when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub since: Option<Time>,
}

/// A host aggregate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AggregateStatus {
    /// Name.
    pub name: String,
    /// UUID.
    pub uuid: String,
}
