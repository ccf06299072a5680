//! `hypervisor.c5c3.io`: hypervisors (v1), their evictions (v1) and migrations (v1alpha1).

mod eviction;
mod host;
mod migration;
mod status;

pub use eviction::{Eviction, EvictionSpec, EvictionStatus, InstanceEviction, InstanceState};
pub use host::{Fencing, Hypervisor, HypervisorSpec, Maintenance, RedfishFence};
pub use migration::{Migration, MigrationSpec, MigrationStatus};
pub use status::{
    AggregateStatus, Capabilities, Cell, DomainCapabilities, FailoverStatus, HypervisorStatus, Instance,
    InstanceTrouble, OnboardingPhase, OnboardingStatus, OperatingSystem, Reaction, ReactionState, Trouble,
    UpdateStatus,
};
