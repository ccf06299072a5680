use super::{CephUser, Process, Rbd};
use crate::common::{
    Cache, Database, Image, KeystoneAuth, LocalRef, Messaging, ServiceCommon, ServiceStatus, default,
    is_default,
};
use crate::schema::{self, rules};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// The compute service.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "nova.openstack.c5c3.io",
    version = "v1alpha1",
    kind = "Nova",
    plural = "novas",
    namespaced,
    status = "NovaStatus",
    category = "c5c3",
    category = "openstack",
    derive = "PartialEq",
    doc = "The compute service.",
    printcolumn(name = "Cells", type_ = "string", json_path = ".status.cells[*].name")
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[
    (
        "!has(self.cells) || self.cells.filter(c, !has(c.messaging)).size() <= 1",
        "cells: all but one need messaging of their own; two cells cannot share the message bus of the API",
    ),
    (
        "has(oldSelf.cells) ? oldSelf.cells.all(c, has(self.cells) && self.cells.exists(d, d.name == c.name)) : (!has(self.cells) || self.cells.exists(d, d.name == 'cell1'))",
        "cells: a cell cannot be taken away, its servers would be lost; move them and make a new Nova",
    ),
])))]
pub struct NovaSpec {
    #[serde(flatten)]
    pub common: ServiceCommon,
    /// The API.
    #[serde(default, skip_serializing_if = "is_default")]
    pub api: Process,
    /// The scheduler.
    #[serde(default, skip_serializing_if = "is_default")]
    pub scheduler: NovaScheduler,
    /// The conductor.
    #[serde(default, skip_serializing_if = "is_default")]
    pub conductor: Process,
    /// The databases.
    pub database: NovaDatabase,
    /// The message bus.
    pub messaging: Messaging,
    /// The cache.
    pub cache: Option<Cache>,
    /// Credentials with which it logs in to Keystone.
    pub keystone: KeystoneAuth,
    /// Credentials with which it logs in to the other services.
    pub service_auth: Option<ServiceAuth>,
    /// Metadata service for guests.
    pub metadata: Option<NovaMetadata>,
    /// The hypervisors.
    #[serde(default, skip_serializing_if = "is_default")]
    pub compute: NovaCompute,
    /// Groups of hypervisors, each with its own database and queue; cell1 when left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 16),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub cells: Vec<NovaCell>,
}

/// The scheduler.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NovaScheduler {
    /// Number of replicas.
    #[serde(default = "default::replicas")]
    #[schemars(range(min = 1, max = 64))]
    pub replicas: i32,
    /// Ask Cortex for the order of hosts.
    pub external_scheduler: Option<ExternalScheduler>,
}

impl Default for NovaScheduler {
    fn default() -> Self {
        Self {
            replicas: default::replicas(),
            external_scheduler: None,
        }
    }
}

/// A scheduler outside Nova.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[(
    "!self.enabled || has(self.endpoint)",
    "scheduler.externalScheduler.endpoint: give the address of Cortex, or set enabled to false",
)])))]
pub struct ExternalScheduler {
    /// Whether it is asked.
    #[serde(default)]
    pub enabled: bool,
    /// Its address.
    #[serde(default)]
    #[schemars(schema_with = "schema::url")]
    pub endpoint: Option<String>,
}

/// Nova's databases, on one server.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NovaDatabase {
    #[serde(flatten)]
    pub server: Database,
    /// Database of the API.
    #[serde(default = "NovaDatabase::api")]
    #[schemars(
        regex(pattern = r"^[A-Za-z0-9_]+$"),
        length(max = 64),
        extend("x-kubernetes-validations" = rules(&[(
            "self == oldSelf",
            "database.apiDatabase: cannot change, the data would stay behind; restore it into a new Nova",
        )]))
    )]
    pub api_database: String,
    /// Database of cell0, where failed instances go.
    #[serde(default = "NovaDatabase::cell0")]
    #[schemars(
        regex(pattern = r"^[A-Za-z0-9_]+$"),
        length(max = 64),
        extend("x-kubernetes-validations" = rules(&[(
            "self == oldSelf",
            "database.cellDatabase: cannot change, the data would stay behind; restore it into a new Nova",
        )]))
    )]
    pub cell_database: String,
}

impl NovaDatabase {
    fn api() -> String {
        "nova_api".to_owned()
    }
    fn cell0() -> String {
        "nova_cell0".to_owned()
    }
}

/// K-ORC Users as which Nova calls the other services.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceAuth {
    /// For Placement.
    pub placement_service_user_ref: Option<LocalRef>,
    /// For Neutron.
    pub neutron_service_user_ref: Option<LocalRef>,
    /// For Glance.
    pub glance_service_user_ref: Option<LocalRef>,
    /// For Cinder.
    pub cinder_service_user_ref: Option<LocalRef>,
}

/// A group of hypervisors.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NovaCell {
    /// Name of the cell.
    #[schemars(schema_with = "schema::label", extend("x-kubernetes-validations" = rules(&[
        (
            "self != 'cell0'",
            "cells.name: cell0 is Nova's own; name cells cell1, cell2 …",
        ),
        (
            "size(self) <= 20",
            "cells.name: use at most 20 characters; names of pods are made of it",
        ),
    ])))]
    pub name: String,
    /// The cluster of its hypervisors, by the name under which the operators know it; this cluster when left out.
    pub compute_ref: Option<LocalRef>,
    /// Its database; one on the server of the API when left out.
    pub database: Option<Database>,
    /// Its message bus; that of the API when left out.
    pub messaging: Option<Messaging>,
    /// Public address of its servers' consoles (noVNC), served by a proxy of its own; no consoles when left out.
    #[serde(default)]
    #[schemars(schema_with = "schema::url")]
    pub console_endpoint: Option<String>,
}

/// Metadata service for guests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NovaMetadata {
    /// Secret with the key `secret`, which authenticates the metadata agents.
    pub secret_ref: LocalRef,
}

/// The hypervisors.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NovaCompute {
    /// Run nova-compute on the nodes that are hypervisors.
    pub enabled: bool,
    /// Virtualization used for guests.
    pub virt_type: VirtType,
    /// Image of libvirtd; without one that of the operating system is used.
    pub libvirt_image: Option<Image>,
    /// How guests move between hypervisors, for libvirtd in pods.
    pub live_migration: LiveMigration,
    /// Secret with the key `secret`, which lets hypervisors copy disks of servers that are resized or migrated.
    pub migration_secret_ref: Option<LocalRef>,
    /// ReadWriteMany claims in which Cinder keeps volumes as files.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 16),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub volume_claims: Vec<LocalRef>,
    /// Users of Ceph whose volumes Cinder keeps there: libvirt on every hypervisor is given their keys.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub volume_users: Vec<CephUser>,
    /// A pool of Ceph for the disks of servers; when left out, disks are on the hypervisor.
    pub rbd: Option<Rbd>,
}

/// How guests move between hypervisors while they run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LiveMigration {
    /// Over TLS; hypervisors accept only each other's certificates.
    #[default]
    Tls,
    /// Guests do not move; libvirtd accepts no connections from outside its hypervisor.
    Off,
    /// Without TLS or login: whoever reaches the hypervisors' network can control them.
    Plaintext,
}

/// Virtualization used for guests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum VirtType {
    /// Hardware virtualization.
    #[default]
    Kvm,
    /// Emulation: slow, but it works everywhere.
    Qemu,
}

/// What was seen of Nova.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NovaStatus {
    #[serde(flatten)]
    pub common: ServiceStatus,
    /// Each cell.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub cells: Vec<CellStatus>,
}

/// One cell.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CellStatus {
    /// Name of the cell.
    pub name: String,
    /// Ready, or what it waits for.
    pub status: String,
    /// Hypervisors whose nova-compute is up.
    #[serde(default)]
    pub compute_nodes: i32,
}
