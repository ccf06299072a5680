//! `<service>.openstack.c5c3.io/v1alpha1`: one group and one kind for each OpenStack service.

mod cinder;
mod glance;
mod keystone;
mod neutron;
mod nova;
mod placement;
mod rbd;
mod tempest;

pub use cinder::{
    CINDER_FILE_SIZE, Cinder, CinderBackend, CinderBackendStatus, CinderBackup, CinderFile, CinderSpec,
    CinderStatus, CinderVolume,
};
pub use glance::{
    GLANCE_FILE_SIZE, Glance, GlanceBackend, GlanceFile, GlanceS3, GlanceSpec, GlanceStatus, GlanceStorage,
};
pub use keystone::{Bootstrap, Federation, Keystone, KeystoneSpec, KeystoneStatus, RotatedKeys};
pub use neutron::{Ml2, Neutron, NeutronMetadata, NeutronOvn, NeutronOvnTls, NeutronSpec, NeutronStatus};
pub use nova::{
    CellStatus, ExternalScheduler, LiveMigration, Nova, NovaCell, NovaCompute, NovaDatabase, NovaMetadata,
    NovaScheduler, NovaSpec, NovaStatus, ServiceAuth, VirtType,
};
pub use placement::{Placement, PlacementSpec, PlacementStatus};
pub use rbd::{CephUser, Rbd};
pub use tempest::{
    RUN_NOW, RUN_ONLY, Tempest, TempestFailure, TempestResults, TempestSpec, TempestStatus, TempestTests,
};

use crate::common::default;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Ports on which the services listen inside the cluster.
pub mod port {
    pub const KEYSTONE: u16 = 5000;
    pub const GLANCE: u16 = 9292;
    pub const PLACEMENT: u16 = 8778;
    pub const NOVA: u16 = 8774;
    pub const NOVA_METADATA: u16 = 8775;
    pub const NOVA_CONSOLE: u16 = 6080;
    pub const NEUTRON: u16 = 9696;
    pub const CINDER: u16 = 8776;
    pub const CORTEX: u16 = 8080;
}

/// One of the processes of a service.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Process {
    /// Number of replicas.
    #[serde(default = "default::replicas")]
    #[schemars(range(min = 1, max = 64))]
    pub replicas: i32,
}

impl Default for Process {
    fn default() -> Self {
        Self {
            replicas: default::replicas(),
        }
    }
}
