use crate::common::{
    ExtraConfig, Image, LocalRef, PolicyOverrides, ResourceRequirements, default, is_default,
};
use crate::openstack::{CinderBackend, CinderBackup, GlanceStorage, LiveMigration, Rbd, VirtType};
use crate::schema::{self, rules};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use std::collections::BTreeMap;

/// The OpenStack services of a cloud.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Services {
    /// Identity.
    #[serde(default, skip_serializing_if = "is_default")]
    pub keystone: KeystoneService,
    // Its rules about changes are only asked where both sides have the field.
    /// Images.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(extend("default" = {}))]
    pub glance: GlanceService,
    /// Resource tracking.
    #[serde(default, skip_serializing_if = "is_default")]
    pub placement: PlainService,
    // Its rule about changes is only asked where both sides have the field.
    /// Compute.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(extend("default" = {}))]
    pub nova: NovaService,
    /// Networks.
    #[serde(default, skip_serializing_if = "is_default")]
    pub neutron: PlainService,
    /// Volumes.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cinder: CinderService,
}

/// What every service of a ControlPlane takes.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceToggle {
    /// Deploy it.
    #[serde(default = "default::yes")]
    pub enabled: bool,
    /// Image to use instead of the release's.
    pub image: Option<Image>,
    /// Rules of oslo.policy; they override global ones.
    pub policy_overrides: Option<PolicyOverrides>,
    /// Further oslo.config options: section, option, value.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "crate::common::extra_config")]
    pub extra_config: ExtraConfig,
    /// Requests and limits of each container.
    #[serde(default)]
    #[schemars(schema_with = "schema::resources")]
    pub resources: Option<ResourceRequirements>,
    /// Address under which users reach the API.
    #[serde(default)]
    #[schemars(schema_with = "schema::url")]
    pub public_endpoint: Option<String>,
}

impl Default for ServiceToggle {
    fn default() -> Self {
        Self {
            enabled: true,
            image: None,
            policy_overrides: None,
            extra_config: BTreeMap::new(),
            resources: None,
            public_endpoint: None,
        }
    }
}

/// A service with one kind of process.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlainService {
    /// Number of API replicas; 3 when left out.
    #[schemars(range(min = 1, max = 64))]
    pub replicas: Option<i32>,
    #[serde(flatten)]
    pub common: ServiceToggle,
}

/// Identity.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeystoneService {
    /// Number of API replicas; 3 when left out.
    #[schemars(range(min = 1, max = 64))]
    pub replicas: Option<i32>,
    /// Keys of tokens.
    pub fernet: Option<Fernet>,
    #[serde(flatten)]
    pub common: ServiceToggle,
}

/// Images.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
// Storage that is left out is a volume too. While Glance is off, all of it may be said again.
#[schemars(extend("x-kubernetes-validations" = rules(&[
    (
        "!oldSelf.enabled || (has(self.storage) ? self.storage.backend : 'file') == (has(oldSelf.storage) ? oldSelf.storage.backend : 'file')",
        "services.glance.storage.backend: cannot change, and is file when left out; images do not move by themselves. Make a new ControlPlane and copy them",
    ),
    (
        "!oldSelf.enabled || quantity(has(self.storage) && has(self.storage.file) && has(self.storage.file.size) ? self.storage.file.size : '10Gi').compareTo(quantity(has(oldSelf.storage) && has(oldSelf.storage.file) && has(oldSelf.storage.file.size) ? oldSelf.storage.file.size : '10Gi')) >= 0",
        "services.glance.storage.file.size: volumes can grow but not shrink, and have 10Gi when it is left out; keep the old size or a larger one",
    ),
    (
        "!oldSelf.enabled || (has(self.storage) && has(self.storage.file) && has(self.storage.file.storageClass) ? self.storage.file.storageClass : '') == (has(oldSelf.storage) && has(oldSelf.storage.file) && has(oldSelf.storage.file.storageClass) ? oldSelf.storage.file.storageClass : '')",
        "services.glance.storage.file.storageClass: cannot change, volumes do not move between classes; make a new ControlPlane and copy the images",
    ),
])))]
pub struct GlanceService {
    /// Number of API replicas; 3 when left out.
    #[schemars(range(min = 1, max = 64))]
    pub replicas: Option<i32>,
    /// Where images are kept; on a volume of the cluster with 10Gi when left out.
    pub storage: Option<GlanceStorage>,
    #[serde(flatten)]
    pub common: ServiceToggle,
}

/// Keys of tokens.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Fernet {
    /// Keys that are valid at a time.
    #[schemars(range(min = 3, max = 16))]
    pub max_active_keys: Option<i32>,
    /// Time between rotations, such as 24h.
    #[serde(default)]
    #[schemars(
        schema_with = "schema::duration",
        extend("x-kubernetes-validations" = rules(&[(
            "['1h', '2h', '3h', '4h', '6h', '8h', '12h', '24h', '168h'].exists(d, duration(self) == duration(d))",
            "services.keystone.fernet.rotationInterval: use 1h, 2h, 3h, 4h, 6h, 8h, 12h, 24h or 168h, which a cron schedule can say",
        )]))
    )]
    pub rotation_interval: Option<String>,
}

/// Compute.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
// Cells that are left out are one, cell1.
#[schemars(extend("x-kubernetes-validations" = rules(&[(
    "has(oldSelf.cells) ? oldSelf.cells.all(c, has(self.cells) && c in self.cells) : (!has(self.cells) || 'cell1' in self.cells)",
    "services.nova.cells: a cell cannot be taken away, its servers would be lost; move them and make a new ControlPlane",
), (
    "!has(self.consoles) || self.consoles.all(c, has(self.cells) ? c in self.cells : c == 'cell1')",
    "services.nova.consoles: name a cell of services.nova.cells, which is cell1 when left out",
)])))]
pub struct NovaService {
    /// Replicas of each process.
    pub replicas: Option<NovaReplicas>,
    /// The hypervisors.
    pub compute: Option<ComputeNodes>,
    /// Groups of hypervisors, each with its own database and message bus; cell1 when left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 16),
        inner(length(max = 20), regex(pattern = r"^[a-z]([-a-z0-9]*[a-z0-9])?$")),
        extend("x-kubernetes-list-type" = "set", "x-kubernetes-validations" = rules(&[(
            "self.all(c, c != 'cell0')",
            "services.nova.cells: cell0 is Nova's own; name cells cell1, cell2 …",
        )]))
    )]
    pub cells: Vec<String>,
    /// Public address of the consoles (noVNC) of each cell's servers, by cell; a cell without an address has no consoles.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::urls")]
    pub consoles: BTreeMap<String, String>,
    #[serde(flatten)]
    pub common: ServiceToggle,
}

/// The hypervisors of a cloud: nodes with the label node-role.kubernetes.io/hypervisor.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ComputeNodes {
    /// Run nova-compute on them.
    pub enabled: bool,
    /// Virtualization used for guests.
    pub virt_type: VirtType,
    /// Where libvirtd comes from.
    pub libvirt: LibvirtFrom,
    /// How guests move between hypervisors, for libvirtd in pods.
    pub live_migration: LiveMigration,
    /// The cluster whose nodes they are, by the name under which the operators know it; this cluster when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_ref: Option<LocalRef>,
    /// A pool of Ceph for the disks of servers; when left out, disks are on the hypervisor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rbd: Option<Rbd>,
}

impl Default for ComputeNodes {
    fn default() -> Self {
        Self {
            enabled: true,
            virt_type: VirtType::default(),
            libvirt: LibvirtFrom::default(),
            live_migration: LiveMigration::default(),
            cluster_ref: None,
            rbd: None,
        }
    }
}

/// Where libvirtd comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LibvirtFrom {
    /// A pod on each hypervisor.
    #[default]
    Pod,
    /// The operating system of the hypervisor.
    Host,
}

/// Replicas of Nova's processes.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NovaReplicas {
    /// API.
    #[schemars(range(min = 1, max = 64))]
    pub api: Option<i32>,
    /// Scheduler.
    #[schemars(range(min = 1, max = 64))]
    pub scheduler: Option<i32>,
    /// Conductor.
    #[schemars(range(min = 1, max = 64))]
    pub conductor: Option<i32>,
}

/// Volumes.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CinderService {
    /// Replicas of each process.
    pub replicas: Option<CinderReplicas>,
    /// Where volumes are kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 16),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub backends: Vec<CinderBackend>,
    /// The default backend, for volumes that name no type.
    #[serde(default)]
    #[schemars(schema_with = "schema::label")]
    pub default_volume_type: Option<String>,
    /// Backups of volumes; disabled when left out.
    pub backup: Option<CinderBackup>,
    #[serde(flatten)]
    pub common: ServiceToggle,
}

/// Replicas of Cinder's processes.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CinderReplicas {
    /// API.
    #[schemars(range(min = 1, max = 64))]
    pub api: Option<i32>,
    /// Scheduler.
    #[schemars(range(min = 1, max = 64))]
    pub scheduler: Option<i32>,
    /// Volume.
    #[schemars(range(min = 1, max = 64))]
    pub volume: Option<i32>,
}
