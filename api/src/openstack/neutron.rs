use super::Process;
use crate::common::{
    Cache, Database, KeystoneAuth, LocalRef, Messaging, ObjectRef, ServiceCommon, ServiceStatus, default,
    is_default,
};
use crate::schema::{self, rules};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// The network service.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "neutron.openstack.c5c3.io",
    version = "v1alpha1",
    kind = "Neutron",
    plural = "neutrons",
    namespaced,
    status = "NeutronStatus",
    category = "c5c3",
    category = "openstack",
    derive = "PartialEq",
    doc = "The network service.",
    printcolumn(
        name = "OVN",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"OVNConnected\")].status"
    )
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[(
    "!self.ovn.enabled || !has(self.ml2) || 'ovn' in self.ml2.mechanismDrivers",
    "ml2.mechanismDrivers: must contain ovn while ovn.enabled is true",
)])))]
pub struct NeutronSpec {
    #[serde(flatten)]
    pub common: ServiceCommon,
    /// The API.
    #[serde(default, skip_serializing_if = "is_default")]
    pub api: Process,
    /// The database.
    pub database: Database,
    /// The message bus.
    pub messaging: Messaging,
    /// The cache.
    pub cache: Option<Cache>,
    /// Credentials with which it logs in to Keystone.
    pub keystone: KeystoneAuth,
    /// The network virtualization behind it.
    pub ovn: NeutronOvn,
    /// Kinds of networks.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ml2: Ml2,
    /// Metadata service for guests; an agent runs on each hypervisor.
    pub metadata: Option<NeutronMetadata>,
}

/// How the agents on the hypervisors reach Nova's metadata.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NeutronMetadata {
    /// Host of Nova's metadata API, as the hypervisors reach it.
    #[schemars(schema_with = "schema::host")]
    pub host: String,
    /// Secret with the key `secret`, which authenticates the agents.
    pub secret_ref: LocalRef,
    /// The hypervisor cluster where the agents run; this cluster when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compute_ref: Option<LocalRef>,
}

/// Where OVN's databases are.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[
    (
        "!self.enabled || has(self.clusterRef) || has(self.nbConnection)",
        "ovn: set clusterRef (managed) or nbConnection and sbConnection, or set ovn.enabled to false",
    ),
    (
        "!has(self.clusterRef) || !(has(self.nbConnection) || has(self.sbConnection))",
        "ovn: set either clusterRef (managed) or nbConnection and sbConnection, not both",
    ),
    (
        "has(self.nbConnection) == has(self.sbConnection)",
        "ovn: nbConnection and sbConnection go together; set both or neither",
    ),
])))]
pub struct NeutronOvn {
    /// Use OVN.
    #[serde(default = "default::yes")]
    pub enabled: bool,
    /// An OVNCluster.
    pub cluster_ref: Option<ObjectRef>,
    /// Northbound database, such as ssl:ovn-nb.ovn-system:6641.
    #[schemars(
        regex(pattern = r"^(tcp|ssl|unix):[^\s,]+(,(tcp|ssl|unix):[^\s,]+)*$"),
        length(max = 1024)
    )]
    pub nb_connection: Option<String>,
    /// Southbound database, such as ssl:ovn-sb.ovn-system:6642.
    #[schemars(
        regex(pattern = r"^(tcp|ssl|unix):[^\s,]+(,(tcp|ssl|unix):[^\s,]+)*$"),
        length(max = 1024)
    )]
    pub sb_connection: Option<String>,
    /// Certificates for ssl: addresses; those of the OVNCluster when left out.
    #[serde(default)]
    pub tls: Option<NeutronOvnTls>,
}

/// With what Neutron logs in to OVN.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NeutronOvnTls {
    /// Secret with tls.crt, tls.key and ca.crt.
    pub cert_secret_ref: LocalRef,
    /// The same for the agents on the hypervisors; that of certSecretRef when left out.
    #[serde(default)]
    pub hypervisor_secret_ref: Option<LocalRef>,
}

/// Kinds of networks.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = rules(&[(
    "self.tenantNetworkTypes.all(t, t in self.typeDrivers)",
    "ml2.tenantNetworkTypes: each must be one of ml2.typeDrivers",
)])))]
pub struct Ml2 {
    /// Network types that are available.
    #[schemars(
        length(min = 1, max = 8),
        inner(length(max = 63)),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub type_drivers: Vec<String>,
    /// Network types that tenants may create, preferred first.
    #[schemars(
        length(max = 8),
        inner(length(max = 63)),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub tenant_network_types: Vec<String>,
    /// Mechanism drivers.
    #[schemars(
        length(min = 1, max = 8),
        inner(length(max = 63)),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub mechanism_drivers: Vec<String>,
    /// Extension drivers.
    #[schemars(
        length(max = 16),
        inner(length(max = 63)),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub extension_drivers: Vec<String>,
}

impl Default for Ml2 {
    fn default() -> Self {
        let list = |words: &[&str]| words.iter().map(ToString::to_string).collect();
        Self {
            type_drivers: list(&["geneve", "vlan", "flat"]),
            tenant_network_types: list(&["geneve"]),
            mechanism_drivers: list(&["ovn"]),
            extension_drivers: list(&["port_security"]),
        }
    }
}

/// What was seen of Neutron.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NeutronStatus {
    #[serde(flatten)]
    pub common: ServiceStatus,
}
