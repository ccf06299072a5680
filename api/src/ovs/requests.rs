//! Questions to the switch of one hypervisor. Whoever may create one is answered: rights on the kinds decide who
//! asks, and the agent of that node does the work within their bounds.

use crate::common::{LocalRef, Time};
use crate::schema::{self, rules};
use kube::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// Names of bridges and ports: those of network devices.
const DEVICE: &str = "^[A-Za-z0-9_][A-Za-z0-9_.:@-]*$";
/// No option begins with these, so none can be slipped in.
const FLOW: &str = r#"^[A-Za-z0-9_][A-Za-z0-9_=,.:/|+"() -]*$"#;

fn device(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "pattern": DEVICE, "minLength": 1, "maxLength": 15 })
}

fn flow(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "pattern": FLOW, "minLength": 1, "maxLength": 1024 })
}

/// How far a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum Phase {
    /// The agent works on it.
    Running,
    /// The answer is there.
    Succeeded,
    /// There is none; message says why.
    Failed,
}

/// Asks the switch of a hypervisor what it would do with a packet. No packet is sent.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "ovs.c5c3.io",
    version = "v1alpha1",
    kind = "OVSTrace",
    plural = "ovstraces",
    root = "OvsTrace",
    namespaced,
    status = "OvsTraceStatus",
    shortname = "ovst",
    category = "c5c3",
    derive = "PartialEq",
    doc = "Asks the switch of a hypervisor what it would do with a packet. No packet is sent.",
    printcolumn(name = "Node", type_ = "string", json_path = ".spec.nodeRef.name"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Flow", type_ = "string", json_path = ".spec.flow"),
    printcolumn(name = "Message", type_ = "string", json_path = ".status.message")
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[(
    "self == oldSelf",
    "spec: a trace is asked for once and cannot change; make another OVSTrace",
)])))]
pub struct OvsTraceSpec {
    /// The hypervisor whose switch is asked; it has an OVSNode of that name.
    pub node_ref: LocalRef,
    /// The bridge that the packet enters [default: br-int].
    #[schemars(schema_with = "device")]
    #[serde(default)]
    pub bridge: Option<String>,
    /// The packet, as ovs-fields(7) writes it, such as in_port=tap0,icmp,nw_src=10.0.0.5,nw_dst=10.0.0.6.
    #[schemars(schema_with = "flow")]
    pub flow: String,
    /// Seconds after which the agent deletes it, counted from its end [default: 3600].
    #[schemars(range(min = 60, max = 86400))]
    pub ttl_seconds: Option<i32>,
}

/// What the switch answered.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OvsTraceStatus {
    /// How far it is; nothing before the agent has seen it.
    pub phase: Option<Phase>,
    /// Why there is no answer, or what is left out of it.
    #[schemars(length(max = 1024))]
    pub message: Option<String>,
    /// When the agent began.
    #[serde(default)]
    #[schemars(schema_with = "schema::time")]
    pub start_time: Option<Time>,
    /// When it was over.
    #[serde(default)]
    #[schemars(schema_with = "schema::time")]
    pub completion_time: Option<Time>,
    /// Table by table what the packet meets, and what becomes of it. Beyond 64 KiB the middle is left out.
    #[schemars(length(max = 65536))]
    pub result: Option<String>,
}

/// Records packets of one port of a hypervisor's switch, headers only unless told otherwise.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "ovs.c5c3.io",
    version = "v1alpha1",
    kind = "OVSCapture",
    plural = "ovscaptures",
    root = "OvsCapture",
    namespaced,
    status = "OvsCaptureStatus",
    shortname = "ovscap",
    category = "c5c3",
    derive = "PartialEq",
    doc = "Records packets of one port of a hypervisor's switch, headers only unless told otherwise.",
    printcolumn(name = "Node", type_ = "string", json_path = ".spec.nodeRef.name"),
    printcolumn(name = "Port", type_ = "string", json_path = ".spec.port"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Packets", type_ = "integer", json_path = ".status.packets"),
    printcolumn(name = "Secret", type_ = "string", json_path = ".status.secretRef.name"),
    printcolumn(name = "Message", type_ = "string", json_path = ".status.message")
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[(
    "self == oldSelf",
    "spec: a capture is asked for once and cannot change; make another OVSCapture",
)])))]
pub struct OvsCaptureSpec {
    /// The hypervisor whose switch is listened to; it has an OVSNode of that name.
    pub node_ref: LocalRef,
    /// The port of the switch, such as tap3b1c3a4e-6f. Other devices of the host are refused.
    #[schemars(schema_with = "device")]
    pub port: String,
    /// Only these packets [default: all].
    pub filter: Option<CaptureFilter>,
    /// It ends with this many packets [default: 100].
    #[schemars(range(min = 1, max = 2000))]
    pub packets: Option<i32>,
    /// It ends after this many seconds [default: 30].
    #[schemars(range(min = 1, max = 300))]
    pub seconds: Option<i32>,
    /// As much of each packet is kept [default: 96, which is headers]. More shows what guests say.
    #[schemars(range(min = 64, max = 9216))]
    pub bytes_per_packet: Option<i32>,
    /// Seconds after which the agent deletes it with its Secret, counted from its end [default: 3600].
    #[schemars(range(min = 60, max = 86400))]
    pub ttl_seconds: Option<i32>,
}

/// What a packet must be; all that is set must hold.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[(
    "!has(self.port) || !has(self.protocol) || self.protocol in ['tcp', 'udp']",
    "filter.port: only tcp and udp have ports; leave out port, or set protocol to tcp or udp",
)])))]
pub struct CaptureFilter {
    /// Its protocol.
    pub protocol: Option<CaptureProtocol>,
    /// Source or destination, IPv4 or IPv6; of ARP too.
    #[serde(default)]
    #[schemars(schema_with = "schema::ip")]
    pub host: Option<String>,
    /// Source or destination port of TCP or UDP.
    #[schemars(range(min = 1, max = 65535))]
    pub port: Option<i32>,
}

/// What can be told apart in a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CaptureProtocol {
    Arp,
    Icmp,
    Tcp,
    Udp,
}

/// What was recorded.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OvsCaptureStatus {
    /// How far it is; nothing before the agent has seen it.
    pub phase: Option<Phase>,
    /// Why there is none, or what ended it.
    #[schemars(length(max = 1024))]
    pub message: Option<String>,
    /// When the agent began.
    #[serde(default)]
    #[schemars(schema_with = "schema::time")]
    pub start_time: Option<Time>,
    /// When it was over.
    #[serde(default)]
    #[schemars(schema_with = "schema::time")]
    pub completion_time: Option<Time>,
    /// Packets in it.
    pub packets: Option<i32>,
    /// Size of the file; 256 KiB at most.
    pub bytes: Option<i32>,
    /// The Secret with the file, capture.pcap, for tcpdump or Wireshark. It goes with this object.
    pub secret_ref: Option<LocalRef>,
}
