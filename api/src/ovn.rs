//! `ovn.c5c3.io/v1alpha1`: the network virtualization.

use crate::common::{
    Condition, Image, LocalRef, PodSettings, ResourceRequirements, Time, default, is_default,
};
use crate::schema::{self, rules};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use std::collections::BTreeMap;

/// OVN's databases, and its agents on every hypervisor.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "ovn.c5c3.io",
    version = "v1alpha1",
    kind = "OVNCluster",
    plural = "ovnclusters",
    root = "OvnCluster",
    namespaced,
    status = "OvnClusterStatus",
    shortname = "ovnc",
    category = "c5c3",
    derive = "PartialEq",
    doc = "OVN's databases, and its agents on every hypervisor.",
    printcolumn(name = "Chassis", type_ = "integer", json_path = ".status.chassisCount"),
    printcolumn(name = "Active", type_ = "integer", json_path = ".status.activeControllers"),
    printcolumn(
        name = "Northbound",
        type_ = "string",
        json_path = ".status.endpoints.northbound",
        priority = 1
    )
)]
#[serde(rename_all = "camelCase")]
pub struct OvnClusterSpec {
    /// Image of OVN.
    pub ovn_image: Image,
    /// Image of Open vSwitch.
    pub ovs_image: Image,
    // Rules about changes are only asked where both sides have the field, so both have it.
    /// The northbound database.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(extend("default" = {}))]
    pub northbound: OvnDatabase,
    /// The southbound database.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(extend("default" = {}))]
    pub southbound: OvnDatabase,
    /// ovn-controller on the hypervisors.
    #[serde(default, skip_serializing_if = "is_default")]
    pub controller: OvnAgent,
    /// Open vSwitch on the hypervisors.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ovs: OvnAgent,
    /// How Neutron reaches the databases.
    #[serde(default, skip_serializing_if = "is_default")]
    pub neutron_integration: NeutronIntegration,
    /// TLS between all parts.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tls: OvnTls,
    /// The cluster whose nodes are the hypervisors, by the name that the operators know; this one when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compute_ref: Option<LocalRef>,
    /// Placement of the databases' and northd's pods, and secrets for pulling the images of all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pods: Option<PodSettings>,
}

/// One of OVN's databases: a raft cluster.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[
    (
        "has(self.storage) == has(oldSelf.storage)",
        "storage: cannot be added or dropped later, the database would stay behind; make a new OVNCluster",
    ),
    (
        "!has(self.storage) || !has(oldSelf.storage) || quantity(self.storage.size).compareTo(quantity(oldSelf.storage.size)) >= 0",
        "storage.size: volumes can grow but not shrink; keep the old size or a larger one",
    ),
    (
        "!has(self.storage) || !has(oldSelf.storage) || has(self.storage.storageClass) == has(oldSelf.storage.storageClass) && (!has(self.storage.storageClass) || self.storage.storageClass == oldSelf.storage.storageClass)",
        "storage.storageClass: cannot change, volumes do not move between classes",
    ),
])))]
pub struct OvnDatabase {
    /// Raft members: 1, 3 or 5.
    #[serde(default = "default::replicas")]
    #[schemars(range(min = 1, max = 5), extend("x-kubernetes-validations" = rules(&[(
        "self % 2 == 1",
        "replicas: raft needs an odd number to keep quorum; use 1, 3 or 5",
    )])))]
    pub replicas: i32,
    /// Where it is kept.
    pub storage: Option<OvnStorage>,
    /// Requests and limits of each member.
    #[serde(default)]
    #[schemars(schema_with = "schema::resources")]
    pub resources: Option<ResourceRequirements>,
}

impl Default for OvnDatabase {
    fn default() -> Self {
        Self {
            replicas: default::replicas(),
            storage: None,
            resources: None,
        }
    }
}

/// A volume for each member.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OvnStorage {
    /// Size of each volume.
    #[schemars(schema_with = "schema::size")]
    pub size: String,
    /// StorageClass; the cluster's default when left out.
    #[serde(default)]
    #[schemars(schema_with = "schema::name")]
    pub storage_class: Option<String>,
}

/// What runs on every hypervisor.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OvnAgent {
    /// Labels of the hypervisors.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::labels")]
    pub node_selector: BTreeMap<String, String>,
    /// Requests and limits.
    #[serde(default)]
    #[schemars(schema_with = "schema::resources")]
    pub resources: Option<ResourceRequirements>,
}

/// How Neutron reaches the databases.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NeutronIntegration {
    /// The northbound database; port 6641 when left out.
    pub nb_connection: Option<OvnConnection>,
    /// The southbound database; port 6642 when left out.
    pub sb_connection: Option<OvnConnection>,
}

/// A Service in front of a database.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OvnConnection {
    /// The Service.
    pub service: OvnService,
}

/// Name and port of a Service.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OvnService {
    /// Name of the Service.
    #[schemars(schema_with = "schema::label")]
    pub name: String,
    /// Port of the Service; that of the database when left out.
    #[schemars(range(min = 1, max = 65535))]
    pub port: Option<i32>,
}

/// TLS between all parts.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OvnTls {
    /// Encrypt and authenticate.
    #[serde(default)]
    pub enabled: bool,
    /// Secret with tls.crt, tls.key and ca.crt; the operator makes its own when left out.
    pub cert_secret_ref: Option<LocalRef>,
    /// The same for hypervisors; that of certSecretRef when left out.
    #[serde(default)]
    pub hypervisor_secret_ref: Option<LocalRef>,
}

/// What was seen of OVN.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OvnClusterStatus {
    /// Conditions that describe the current state.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// The object that prevents this one from becoming ready.
    pub blocked_by: Option<crate::common::Blocker>,
    /// The generation that was processed.
    pub observed_generation: Option<i64>,
    /// Addresses of the databases.
    pub endpoints: Option<OvnEndpoints>,
    /// With TLS: Secrets of this namespace with which clients log in.
    #[serde(default)]
    pub client_secrets: Option<OvnClientSecrets>,
    /// Hypervisors in the southbound database.
    pub chassis_count: Option<i32>,
    /// Running ovn-controllers.
    pub active_controllers: Option<i32>,
    /// Members of the northbound database.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub northbound_members: Vec<RaftMember>,
    /// Members of the southbound database.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub southbound_members: Vec<RaftMember>,
}

/// Addresses of the databases, `ssl:` when TLS is on, `tcp:` otherwise.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OvnEndpoints {
    /// The northbound database.
    pub northbound: Option<String>,
    /// The southbound database.
    pub southbound: Option<String>,
}

/// Secrets with tls.crt, tls.key and ca.crt.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OvnClientSecrets {
    /// For both databases.
    pub control_plane: LocalRef,
    /// For what runs on hypervisors: made by the operator, the northbound database does not accept it.
    pub hypervisors: LocalRef,
}

/// A member of a raft cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RaftMember {
    /// Name of the pod.
    pub name: String,
    /// What it is in the raft cluster.
    pub role: RaftRole,
}

/// What a member is in a raft cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum RaftRole {
    Leader,
    Follower,
    Candidate,
    #[default]
    Unknown,
}

/// One hypervisor in OVN.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "ovn.c5c3.io",
    version = "v1alpha1",
    kind = "OVNChassis",
    plural = "ovnchassis",
    root = "OvnChassis",
    namespaced,
    status = "OvnChassisStatus",
    shortname = "ovnch",
    category = "c5c3",
    derive = "PartialEq",
    doc = "One hypervisor in OVN.",
    printcolumn(name = "Hostname", type_ = "string", json_path = ".spec.hostname"),
    printcolumn(
        name = "Encapsulation",
        type_ = "string",
        json_path = ".spec.encapsulation.ip"
    ),
    printcolumn(name = "Heartbeat", type_ = "date", json_path = ".status.lastHeartbeat")
)]
#[serde(rename_all = "camelCase")]
pub struct OvnChassisSpec {
    /// Name of the host.
    #[schemars(schema_with = "schema::host")]
    pub hostname: String,
    /// Identity of the chassis in OVN.
    #[schemars(
        regex(pattern = r"^[A-Za-z0-9._-]+$"),
        length(max = 253),
        extend("x-kubernetes-validations" = rules(&[(
            "self == oldSelf",
            "systemId: is the chassis' identity and cannot change; delete this OVNChassis and make another",
        )]))
    )]
    pub system_id: String,
    /// Bridges to networks outside.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 64),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["physicalNetwork"])
    )]
    pub bridge_mappings: Vec<BridgeMapping>,
    /// How overlay packets travel.
    pub encapsulation: Encapsulation,
}

/// A bridge to a network outside.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BridgeMapping {
    /// Name of the network in Neutron.
    #[schemars(regex(pattern = r"^[A-Za-z0-9._-]+$"), length(max = 63))]
    pub physical_network: String,
    /// Bridge on the host.
    #[schemars(regex(pattern = r"^[A-Za-z0-9._-]+$"), length(max = 15))]
    pub bridge: String,
}

/// How overlay packets travel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Encapsulation {
    /// Kind of tunnel.
    #[serde(default, rename = "type")]
    pub type_: EncapsulationType,
    /// Address of this host in the tunnel network.
    #[schemars(schema_with = "schema::ip")]
    pub ip: String,
}

/// Kind of tunnel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EncapsulationType {
    #[default]
    Geneve,
    Vxlan,
}

/// What was seen of the chassis.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OvnChassisStatus {
    /// Conditions that describe the current state.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// The generation that was processed.
    pub observed_generation: Option<i64>,
    /// When it joined.
    #[serde(default)]
    #[schemars(schema_with = "schema::time")]
    pub registered_at: Option<Time>,
    /// When it last answered.
    #[serde(default)]
    #[schemars(schema_with = "schema::time")]
    pub last_heartbeat: Option<Time>,
}
