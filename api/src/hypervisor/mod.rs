//! `hypervisor.c5c3.io`: hypervisors (v1), their evictions (v1) and migrations (v1alpha1).

use std::time::Duration;

mod eviction;
mod host;
mod migration;
mod status;

/// On the Lease that a node's agent renews, and on its Migrations: the name of the node.
pub const NODE_LABEL: &str = "hypervisor.c5c3.io/node";
/// How often it is renewed.
pub const HEARTBEAT: Duration = Duration::from_secs(13);
/// An agent that has not renewed it for so long is silent.
pub const HEARTBEAT_LIMIT: Duration = Duration::from_secs(45);

pub use eviction::{Eviction, EvictionSpec, EvictionStatus, InstanceEviction, InstanceState};
pub use host::{Fencing, Hypervisor, HypervisorSpec, Maintenance, RedfishFence};
pub use migration::{Migration, MigrationSpec, MigrationStatus};
pub use status::{
    AggregateStatus, Capabilities, Cell, DomainCapabilities, FailoverStatus, HistoryEntry, HypervisorStatus,
    Instance, InstanceTrouble, OnboardingPhase, OnboardingStatus, OperatingSystem, Reaction, ReactionState,
    Trouble, UpdateStatus,
};
