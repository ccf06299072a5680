use crate::common::{Image, LocalRef, ResourceRequirements, is_default};
use crate::ovn::OvnTls;
use crate::schema::{self, rules};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// Database, message bus and caches: each a cluster of our own, or hosts of somebody else.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Infrastructure {
    // Rules about changes are only asked where both sides have the field, so both have it.
    /// MariaDB Galera.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(extend("default" = {}))]
    pub database: DatabaseCluster,
    /// RabbitMQ.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(extend("default" = {}))]
    pub messaging: MessagingCluster,
    /// Memcached.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cache: CacheCluster,
    /// Valkey.
    #[serde(default, skip_serializing_if = "is_default")]
    pub valkey: ValkeyCluster,
    /// OVN, for Neutron.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(extend("default" = {}))]
    pub ovn: OvnInfrastructure,
}

/// Size of a database volume of which nothing is said; a rule below has it too.
pub const DATABASE_SIZE: &str = "100Gi";
/// The same of RabbitMQ.
pub const MESSAGING_SIZE: &str = "20Gi";

/// MariaDB Galera, or a database server of somebody else.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[
    (
        "!has(self.host) || !(has(self.replicas) || has(self.storageClass) || has(self.storageSize) || has(self.resources) || has(self.image))",
        "infrastructure.database: set either host (external) or replicas, storageClass, storageSize, resources and image (managed), not both",
    ),
    (
        "!has(self.port) || has(self.host)",
        "infrastructure.database.port: only goes with host",
    ),
    (
        "has(self.host) == has(oldSelf.host)",
        "infrastructure.database: a managed database and host cannot replace each other, the data would stay behind; restore it into a new ControlPlane",
    ),
    (
        "has(self.host) || has(oldSelf.host) || ((has(self.replicas) ? self.replicas : 3) > 1) == ((has(oldSelf.replicas) ? oldSelf.replicas : 3) > 1)",
        "infrastructure.database.replicas: one server and Galera cannot replace each other; back the data up and restore it into a new ControlPlane",
    ),
    (
        "quantity(has(self.storageSize) ? self.storageSize : '100Gi').compareTo(quantity(has(oldSelf.storageSize) ? oldSelf.storageSize : '100Gi')) >= 0",
        "infrastructure.database.storageSize: volumes can grow but not shrink; keep the old size or a larger one",
    ),
    (
        "has(self.storageClass) == has(oldSelf.storageClass) && (!has(self.storageClass) || self.storageClass == oldSelf.storageClass)",
        "infrastructure.database.storageClass: cannot change, volumes do not move between classes; restore into a new ControlPlane",
    ),
])))]
pub struct DatabaseCluster {
    /// One server, or 3, 5 or 7 members of Galera; 3 when left out.
    #[schemars(range(min = 1, max = 7), extend("x-kubernetes-validations" = rules(&[(
        "self % 2 == 1",
        "infrastructure.database.replicas: Galera needs an odd number to keep quorum; use 1, 3, 5 or 7",
    )])))]
    pub replicas: Option<i32>,
    /// StorageClass of the volumes; the cluster's default when left out.
    #[serde(default)]
    #[schemars(schema_with = "schema::name")]
    pub storage_class: Option<String>,
    /// Size of each volume; 100Gi when left out.
    #[serde(default)]
    #[schemars(schema_with = "schema::size")]
    pub storage_size: Option<String>,
    /// Requests and limits of each server.
    #[serde(default)]
    #[schemars(schema_with = "schema::resources")]
    pub resources: Option<ResourceRequirements>,
    /// Image of the servers; their operator's default when left out.
    #[schemars(regex(pattern = r"^[A-Za-z0-9][A-Za-z0-9._:/@-]*$"), length(max = 255))]
    pub image: Option<String>,
    /// Host of an external database.
    #[serde(default)]
    #[schemars(schema_with = "schema::host")]
    pub host: Option<String>,
    /// Port of that host; 3306 when left out.
    #[schemars(range(min = 1, max = 65535))]
    pub port: Option<i32>,
}

/// RabbitMQ, or brokers of somebody else.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[
    (
        "!has(self.hosts) || !(has(self.replicas) || has(self.storageClass) || has(self.storageSize) || has(self.resources) || has(self.image))",
        "infrastructure.messaging: set either hosts (external) or replicas, storageClass, storageSize, resources and image (managed), not both",
    ),
    // One of which nothing is said may not be there at all.
    (
        "!(has(self.replicas) || has(self.storageSize) || has(self.storageClass)) || !(has(oldSelf.replicas) || has(oldSelf.storageSize) || has(oldSelf.storageClass)) || quantity(has(self.storageSize) ? self.storageSize : '20Gi').compareTo(quantity(has(oldSelf.storageSize) ? oldSelf.storageSize : '20Gi')) >= 0",
        "infrastructure.messaging.storageSize: volumes can grow but not shrink; keep the old size or a larger one",
    ),
    (
        "!(has(self.replicas) || has(self.storageSize) || has(self.storageClass)) || !(has(oldSelf.replicas) || has(oldSelf.storageSize) || has(oldSelf.storageClass)) || has(self.storageClass) == has(oldSelf.storageClass) && (!has(self.storageClass) || self.storageClass == oldSelf.storageClass)",
        "infrastructure.messaging.storageClass: cannot change, volumes do not move between classes; drain into a new ControlPlane",
    ),
    (
        "!(has(self.replicas) || has(self.storageSize) || has(self.storageClass)) || !(has(oldSelf.replicas) || has(oldSelf.storageSize) || has(oldSelf.storageClass)) || (has(self.replicas) ? self.replicas : 3) >= (has(oldSelf.replicas) ? oldSelf.replicas : 3)",
        "infrastructure.messaging.replicas: RabbitMQ can grow but not shrink, queues are lost with their members; keep the old number or a larger one",
    ),
])))]
pub struct MessagingCluster {
    /// RabbitMQ members: 1, 3, 5 or 7; 3 when left out.
    #[schemars(range(min = 1, max = 7), extend("x-kubernetes-validations" = rules(&[(
        "self % 2 == 1",
        "infrastructure.messaging.replicas: quorum queues need an odd number; use 1, 3, 5 or 7",
    )])))]
    pub replicas: Option<i32>,
    /// StorageClass of the volumes; the cluster's default when left out.
    #[serde(default)]
    #[schemars(schema_with = "schema::name")]
    pub storage_class: Option<String>,
    /// Size of each volume; 20Gi when left out.
    #[serde(default)]
    #[schemars(schema_with = "schema::size")]
    pub storage_size: Option<String>,
    /// Requests and limits of each member.
    #[serde(default)]
    #[schemars(schema_with = "schema::resources")]
    pub resources: Option<ResourceRequirements>,
    /// Image of the servers; their operator's default when left out.
    #[schemars(regex(pattern = r"^[A-Za-z0-9][A-Za-z0-9._:/@-]*$"), length(max = 255))]
    pub image: Option<String>,
    /// External brokers, host:port.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::host_ports")]
    pub hosts: Vec<String>,
}

/// Memcached, or servers of somebody else.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[(
    "!has(self.servers) || !(has(self.replicas) || has(self.memory) || has(self.resources) || has(self.image))",
    "infrastructure.cache: set either servers (external) or replicas, memory, resources and image (managed), not both",
)])))]
pub struct CacheCluster {
    /// Number of Memcached servers; 3 when left out.
    #[schemars(range(min = 1, max = 16))]
    pub replicas: Option<i32>,
    /// Memory of each server; the default of Memcached's operator when left out.
    #[serde(default)]
    #[schemars(schema_with = "schema::size")]
    pub memory: Option<String>,
    /// Requests and limits of each server.
    #[serde(default)]
    #[schemars(schema_with = "schema::resources")]
    pub resources: Option<ResourceRequirements>,
    /// Image of the servers; their operator's default when left out.
    #[schemars(regex(pattern = r"^[A-Za-z0-9][A-Za-z0-9._:/@-]*$"), length(max = 255))]
    pub image: Option<String>,
    /// External servers, host:port.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::host_ports")]
    pub servers: Vec<String>,
}

/// Size of a volume of OVN of which nothing is said.
pub const OVN_SIZE: &str = "10Gi";

/// OVN, or databases of somebody else.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[
    (
        "!has(self.northbound) || !(has(self.replicas) || has(self.storageClass) || has(self.storageSize) || has(self.resources) || has(self.image) || has(self.ovsImage))",
        "infrastructure.ovn: set either northbound and southbound (external) or replicas, storageClass, storageSize, resources and images (managed), not both",
    ),
    (
        "has(self.northbound) == has(self.southbound)",
        "infrastructure.ovn: northbound and southbound go together; set both or neither",
    ),
    (
        "!has(self.northbound) || !has(self.tls) || self.tls.enabled && has(self.tls.certSecretRef)",
        "infrastructure.ovn.tls: with databases that are not ours set enabled and certSecretRef, or leave tls out",
    ),
    (
        "has(self.northbound) == has(oldSelf.northbound)",
        "infrastructure.ovn: cannot switch between managed and external databases, networks would be left behind; create a new ControlPlane",
    ),
    (
        "quantity(has(self.storageSize) ? self.storageSize : '10Gi').compareTo(quantity(has(oldSelf.storageSize) ? oldSelf.storageSize : '10Gi')) >= 0",
        "infrastructure.ovn.storageSize: volumes can grow but not shrink; keep the old size or a larger one",
    ),
    (
        "has(self.storageClass) == has(oldSelf.storageClass) && (!has(self.storageClass) || self.storageClass == oldSelf.storageClass)",
        "infrastructure.ovn.storageClass: cannot change, volumes do not move between classes; make a new ControlPlane",
    ),
])))]
pub struct OvnInfrastructure {
    /// Members of each database: 1, 3 or 5; 3 when left out.
    #[schemars(range(min = 1, max = 5), extend("x-kubernetes-validations" = rules(&[(
        "self % 2 == 1",
        "infrastructure.ovn.replicas: raft needs an odd number to keep quorum; use 1, 3 or 5",
    )])))]
    pub replicas: Option<i32>,
    /// StorageClass of the volumes; the cluster's default when left out.
    #[serde(default)]
    #[schemars(schema_with = "schema::name")]
    pub storage_class: Option<String>,
    /// Size of each volume; 10Gi when left out.
    #[serde(default)]
    #[schemars(schema_with = "schema::size")]
    pub storage_size: Option<String>,
    /// Requests and limits of each member of the databases.
    #[serde(default)]
    #[schemars(schema_with = "schema::resources")]
    pub resources: Option<ResourceRequirements>,
    /// Image of OVN; that of the release when left out.
    #[serde(default)]
    pub image: Option<Image>,
    /// Image of Open vSwitch; that of the release when left out.
    #[serde(default)]
    pub ovs_image: Option<Image>,
    /// External northbound database, such as ssl:192.0.2.1:6641.
    #[schemars(
        regex(pattern = r"^(tcp|ssl):[^\s,]+(,(tcp|ssl):[^\s,]+)*$"),
        length(max = 1024)
    )]
    pub northbound: Option<String>,
    /// External southbound database.
    #[schemars(
        regex(pattern = r"^(tcp|ssl):[^\s,]+(,(tcp|ssl):[^\s,]+)*$"),
        length(max = 1024)
    )]
    pub southbound: Option<String>,
    /// TLS between OVN's parts and Neutron; databases that are not ours need certSecretRef for it.
    #[serde(default)]
    pub tls: Option<OvnTls>,
}

/// Valkey, or servers of somebody else.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[
    (
        "!has(self.hosts) || !(has(self.replicas) || has(self.sentinel))",
        "infrastructure.valkey: set either hosts (external) or replicas and sentinel (managed), not both",
    ),
    (
        "!has(self.secretRef) || has(self.hosts)",
        "infrastructure.valkey.secretRef: only goes with hosts; a managed Valkey makes its own Secret",
    ),
    (
        "!has(self.sentinel) || !self.sentinel.enabled || !has(self.replicas) || self.replicas >= 3",
        "infrastructure.valkey.replicas: sentinel needs 3 or more for a majority; raise replicas or disable sentinel",
    ),
])))]
pub struct ValkeyCluster {
    /// Number of Valkey servers; 1 when left out, 3 with sentinel.
    #[schemars(range(min = 1, max = 7))]
    pub replicas: Option<i32>,
    /// Failover.
    pub sentinel: Option<Sentinel>,
    /// External servers, host:port.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::host_ports")]
    pub hosts: Vec<String>,
    /// Secret with the password of those servers.
    pub secret_ref: Option<LocalRef>,
}

/// Failover of Valkey.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Sentinel {
    /// Run sentinels.
    #[serde(default)]
    pub enabled: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_know_the_sizes_of_which_nothing_is_said() {
        let schema = |schema: schemars::Schema| schema.to_value().to_string();
        for (text, size) in [
            (schema(schemars::schema_for!(DatabaseCluster)), DATABASE_SIZE),
            (schema(schemars::schema_for!(MessagingCluster)), MESSAGING_SIZE),
            (schema(schemars::schema_for!(OvnInfrastructure)), OVN_SIZE),
        ] {
            assert_eq!(text.matches(&format!(": '{size}'")).count(), 2, "{text}");
        }
    }
}
