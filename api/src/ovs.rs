//! `ovs.c5c3.io/v1alpha1`: what Open vSwitch on one hypervisor looks like, and questions that its agent answers.

mod requests;

pub use requests::{
    CaptureFilter, CaptureProtocol, OvsCapture, OvsCaptureSpec, OvsCaptureStatus, OvsTrace, OvsTraceSpec,
    OvsTraceStatus, Phase,
};

use crate::common::{Condition, LocalRef, Time};
use crate::schema::{self, rules};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// Open vSwitch on one hypervisor, as its agent sees it.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "ovs.c5c3.io",
    version = "v1alpha1",
    kind = "OVSNode",
    plural = "ovsnodes",
    root = "OvsNode",
    namespaced,
    status = "OvsNodeStatus",
    shortname = "ovsn",
    category = "c5c3",
    derive = "PartialEq",
    doc = "Open vSwitch on one hypervisor, as its agent sees it.",
    printcolumn(name = "Node", type_ = "string", json_path = ".spec.nodeRef.name"),
    printcolumn(name = "OVS", type_ = "string", json_path = ".status.ovsVersion"),
    printcolumn(name = "DPDK", type_ = "boolean", json_path = ".status.dpdkEnabled"),
    printcolumn(name = "Flows", type_ = "integer", json_path = ".status.flowStats.totalFlows"),
    printcolumn(
        name = "Connected",
        type_ = "boolean",
        json_path = ".status.ovnController.connected"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct OvsNodeSpec {
    /// The node that it runs on.
    #[schemars(extend("x-kubernetes-validations" = rules(&[(
        "self == oldSelf",
        "nodeRef: cannot change; delete this OVSNode, the agent of the other node makes its own",
    )])))]
    pub node_ref: LocalRef,
}

/// What the agent saw.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OvsNodeStatus {
    /// Conditions that describe the current state.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// The generation that was processed.
    pub observed_generation: Option<i64>,
    /// Version of ovs-vswitchd.
    pub ovs_version: Option<String>,
    /// Version of ovsdb-server's schema.
    pub ovsdb_version: Option<String>,
    /// Is the DPDK datapath in use?
    pub dpdk_enabled: Option<bool>,
    /// Version of DPDK.
    pub dpdk_version: Option<String>,
    /// The bridges, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub bridges: Vec<BridgeStatus>,
    /// The network cards and their bonds.
    pub interfaces: Option<Interfaces>,
    /// The OVN agent beside it.
    pub ovn_controller: Option<OvnControllerStatus>,
    /// How many flows there are.
    pub flow_stats: Option<FlowStats>,
    /// Counters over all interfaces.
    pub metrics: Option<OvsMetrics>,
    /// What looks wrong, newest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "atomic"))]
    pub issues: Vec<OvsIssue>,
}

/// One bridge.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BridgeStatus {
    /// Name of the bridge.
    pub name: String,
    /// Number of ports.
    #[serde(default)]
    pub ports: i32,
    /// Number of flows.
    #[serde(default)]
    pub flows: i64,
    /// system or netdev.
    pub datapath_type: Option<String>,
    /// Is it up?
    pub status: LinkState,
}

/// Is a link up?
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum LinkState {
    Active,
    Degraded,
    Down,
    #[default]
    Unknown,
}

/// Network cards and bonds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Interfaces {
    /// The network cards, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub physical: Vec<PhysicalInterface>,
    /// The bonds, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub bonds: Vec<Bond>,
}

/// One network card.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PhysicalInterface {
    /// Name of the interface.
    pub name: String,
    /// Is it up?
    pub status: LinkState,
    /// Speed, such as 25Gbps.
    pub speed: Option<String>,
    /// The bond that it belongs to.
    pub bond: Option<String>,
}

/// One bond.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Bond {
    /// Name of the bond.
    pub name: String,
    /// How it spreads traffic.
    pub mode: Option<String>,
    /// Is it up?
    pub status: LinkState,
    /// Number of members.
    #[serde(default)]
    pub members: i32,
    /// Members that carry traffic.
    #[serde(default)]
    pub active_members: i32,
}

/// The OVN agent.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OvnControllerStatus {
    /// Does it reach the southbound database?
    pub connected: bool,
    /// Address of that database.
    pub sb_connection: Option<String>,
    /// Its chassis.
    pub chassis_id: Option<String>,
}

/// How many flows there are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FlowStats {
    /// All flows of all bridges.
    #[serde(default)]
    pub total_flows: i64,
    /// Flows by OpenFlow table.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 256),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["table"])
    )]
    pub flows_per_table: Vec<TableFlows>,
}

/// Flows of one OpenFlow table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TableFlows {
    /// Number of the table.
    pub table: i32,
    /// Number of flows.
    pub flows: i64,
}

/// Counters over all interfaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct OvsMetrics {
    /// Packets in.
    pub packets_received: i64,
    /// Packets out.
    pub packets_sent: i64,
    /// Bytes in.
    pub bytes_received: i64,
    /// Bytes out.
    pub bytes_sent: i64,
    /// Packets dropped.
    pub drops: i64,
    /// Packets with errors.
    pub errors: i64,
}

/// Something that looks wrong.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OvsIssue {
    /// How bad it is.
    pub severity: Severity,
    /// What it is.
    pub message: String,
    /// When it was first seen.
    #[schemars(schema_with = "schema::time")]
    pub detected_at: Time,
}

/// How bad something is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum Severity {
    Info,
    #[default]
    Warning,
    Critical,
}
