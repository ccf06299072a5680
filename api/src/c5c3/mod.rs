//! `c5c3.io/v1alpha1`: orchestration, secrets and credentials.

mod control_plane;
mod credential_rotation;
mod infrastructure;
mod secret_aggregate;
mod services;

pub use control_plane::{
    BootstrapResource, CloudCredentialsRef, ControlPlane, ControlPlaneSpec, ControlPlaneStatus, CortexToggle,
    CredentialTerms, Global, IssuerKind, IssuerRef, Korc, Monitoring, ServiceReadiness, TempestToggle, Tls,
    UpdatePhase, UpdatePolicy,
};
pub use credential_rotation::{
    CephClientRotation, CredentialRotation, CredentialRotationSpec, CredentialRotationStatus,
    RotationSchedule, RotationType,
};
pub use infrastructure::{
    CacheCluster, DATABASE_SIZE, DatabaseCluster, Infrastructure, MESSAGING_SIZE, MessagingCluster, OVN_SIZE,
    OvnInfrastructure, Sentinel, ValkeyCluster,
};
pub use secret_aggregate::{SecretAggregate, SecretAggregateSpec, SecretAggregateStatus, SecretSource};
pub use services::{
    CinderReplicas, CinderService, ComputeNodes, Fernet, GlanceService, KeystoneService, LibvirtFrom,
    NovaReplicas, NovaService, PlainService, ServiceToggle, Services,
};

/// The API group.
pub const GROUP: &str = "c5c3.io";
