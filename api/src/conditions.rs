//! Condition types and reasons: every one that an operator writes, spelled once.

/// This generation was processed and every required part is up. Every kind has it.
pub const READY: &str = "Ready";

/// Of several kinds.
pub const DATABASE_READY: &str = "DatabaseReady";
pub const MESSAGING_READY: &str = "MessagingReady";
pub const DEPLOYMENT_READY: &str = "DeploymentReady";
pub const CEPH_CONNECTED: &str = "CephConnected";

/// Of a ControlPlane.
pub mod control_plane {
    pub const INFRASTRUCTURE_READY: &str = "InfrastructureReady";
    pub const KEYSTONE_READY: &str = "KeystoneReady";
    pub const KORC_READY: &str = "KORCReady";
    pub const SERVICES_READY: &str = "ServicesReady";
    pub const CREDENTIALS_READY: &str = "CredentialsReady";
    pub const CROSS_CLUSTER_SYNC_READY: &str = "CrossClusterSyncReady";
}

/// Of a SecretAggregate.
pub mod secret_aggregate {
    pub const SOURCES_RESOLVED: &str = "SourcesResolved";
}

/// Of a CredentialRotation.
pub mod credential_rotation {
    pub const ROTATION_SCHEDULED: &str = "RotationScheduled";
}

/// Of the OpenStack services.
pub mod service {
    pub const FERNET_KEYS_READY: &str = "FernetKeysReady";
    pub const CREDENTIAL_KEYS_READY: &str = "CredentialKeysReady";
    pub const BOOTSTRAP_READY: &str = "BootstrapReady";
    pub const STORAGE_READY: &str = "StorageReady";
    pub const API_READY: &str = "APIReady";
    pub const BACKENDS_READY: &str = "BackendsReady";
    pub const SCHEDULER_READY: &str = "SchedulerReady";
    pub const CONDUCTOR_READY: &str = "ConductorReady";
    pub const CELLS_READY: &str = "CellsReady";
    pub const OVN_CONNECTED: &str = "OVNConnected";
    pub const TESTS_PASSED: &str = "TestsPassed";
}

/// Of OVNCluster and OVNChassis.
pub mod ovn {
    pub const NORTHBOUND_READY: &str = "NorthboundReady";
    pub const SOUTHBOUND_READY: &str = "SouthboundReady";
    pub const CONTROLLERS_READY: &str = "ControllersReady";
    pub const OVS_CONNECTED: &str = "OVSConnected";
}

/// Of an OVSNode.
pub mod ovs {
    pub const OVSDB_CONNECTED: &str = "OVSDBConnected";
    pub const OVN_CONTROLLER_CONNECTED: &str = "OVNControllerConnected";
    pub const ALL_BRIDGES_HEALTHY: &str = "AllBridgesHealthy";
    pub const ALL_BONDS_HEALTHY: &str = "AllBondsHealthy";
}

/// Of a Hypervisor; those of libvirt and of units are the agent's.
pub mod hypervisor {
    pub const ONBOARDING: &str = "Onboarding";
    pub const OFFBOARDED: &str = "Offboarded";
    pub const TERMINATING: &str = "Terminating";
    pub const TAINTED: &str = "Tainted";
    pub const TRAITS_UPDATED: &str = "TraitsUpdated";
    pub const AGGREGATES_UPDATED: &str = "AggregatesUpdated";
    pub const OVERCOMMIT_UPDATED: &str = "OvercommitUpdated";
    pub const AGENT_REPORTING: &str = "AgentReporting";
    pub const HYPERVISOR_DISABLED: &str = "HypervisorDisabled";
    pub const EVICTING: &str = "Evicting";
    pub const HA_ENABLED: &str = "HaEnabled";
    pub const HOST_FAILED: &str = "HostFailed";
    pub const INSTANCES_WELL: &str = "InstancesWell";
    pub const LIBVIRT_CONNECTION: &str = "LibVirtConnection";
    pub const LIBVIRTD_SERVICE: &str = "libvirtd.service";
    pub const OPENVSWITCH_SERVICE: &str = "openvswitch-switch.service";
    pub const OPERATING_SYSTEM_UPDATE: &str = "OperatingSystemUpdate";
    pub const TLS_CERTIFICATE_INSTALLED: &str = "TLSCertificateInstalled";
}

/// Of an Eviction, beside those it shares with a Hypervisor.
pub mod eviction {
    pub const PREFLIGHT_CHECKS_SUCCEEDED: &str = "PreflightChecksSucceeded";
    pub const MIGRATING_INSTANCE: &str = "MigratingInstance";
    pub const HYPERVISOR_RE_ENABLED: &str = "HypervisorReEnabled";
}

/// Of RemoteCluster and RemoteArbiter.
pub mod ceph {
    pub const SECRET_AVAILABLE: &str = "SecretAvailable";
    pub const CONFIG_VALID: &str = "ConfigValid";
    pub const CLUSTER_REACHABLE: &str = "ClusterReachable";
    pub const HAS_ENOUGH_PERMISSIONS: &str = "HasEnoughPermissions";
    pub const REMOTE_CLUSTER_READY: &str = "RemoteClusterReady";
    pub const CEPH_CLUSTER_READY: &str = "CephClusterReady";
    pub const ARBITER_DEPLOYMENT_READY: &str = "ArbiterDeploymentReady";
    pub const IN_QUORUM: &str = "InQuorum";
}

/// Of Cortex's kinds.
pub mod cortex {
    pub const ALL_STEPS_READY: &str = "AllStepsReady";
    pub const ALL_STEPS_INDEXED: &str = "AllStepsIndexed";
}

/// Of K-ORC's kinds.
pub mod korc {
    pub const AVAILABLE: &str = "Available";
    pub const PROGRESSING: &str = "Progressing";
}

/// Reasons: one word for programs.
pub mod reason {
    pub const READY: &str = "Ready";
    pub const PROGRESSING: &str = "Progressing";
    pub const WAITING: &str = "Waiting";
    pub const NOT_REQUIRED: &str = "NotRequired";
    pub const SUCCEEDED: &str = "Succeeded";
    pub const FAILED: &str = "Failed";
    pub const RUNNING: &str = "Running";
    pub const DELETING: &str = "Deleting";
    pub const INVALID: &str = "Invalid";
    pub const CONFLICT: &str = "Conflict";
    pub const UNREACHABLE: &str = "Unreachable";
    pub const CERTIFICATES_NOT_ACCEPTED: &str = "CertificatesNotAccepted";
    pub const KIND_MISSING: &str = "KindMissing";
    pub const DEPENDENCY_NOT_READY: &str = "DependencyNotReady";
    pub const SECRET_MISSING: &str = "SecretMissing";
    pub const KEY_MISSING: &str = "KeyMissing";
    pub const NOT_OWNED: &str = "NotOwned";
    pub const TIMEOUT: &str = "Timeout";
    pub const SCALED_TO_ZERO: &str = "ScaledToZero";
    pub const NOT_VERIFIED: &str = "NotVerified";
    /// A pass that failed did not get to it.
    pub const NOT_REACHED: &str = "NotReached";
    /// Nobody has said anything of it.
    pub const NOT_REPORTED: &str = "NotReported";
    /// What is known of it is of an older generation.
    pub const OUT_OF_DATE: &str = "OutOfDate";

    /// Of a SecretAggregate.
    pub const ALL_SOURCES_AVAILABLE: &str = "AllSourcesAvailable";
    pub const DUPLICATE_KEY: &str = "DuplicateKey";

    /// Of a CredentialRotation.
    pub const CREDENTIAL_VALID: &str = "CredentialValid";
    pub const ROTATING: &str = "Rotating";

    /// Of a ControlPlane.
    pub const ALL_SERVICES_READY: &str = "AllServicesReady";
    pub const RESTORE_NEEDED: &str = "RestoreNeeded";
    pub const NOT_SUPPORTED: &str = "NotSupported";
    pub const UNKNOWN_RELEASE: &str = "UnknownRelease";
    pub const UPGRADE_NOT_POSSIBLE: &str = "UpgradeNotPossible";

    /// Of a Hypervisor's life: Onboarding goes through these in order.
    pub const INITIAL: &str = "Initial";
    pub const ONBOARDING: &str = "Onboarding";
    pub const TESTING: &str = "Testing";
    pub const HANDOVER: &str = "Handover";
    pub const ABORTED: &str = "Aborted";
    pub const MAINTENANCE: &str = "Maintenance";
    pub const EVICTING: &str = "Evicting";
    pub const EVICTED: &str = "Evicted";
    pub const TERMINATING: &str = "Terminating";
    pub const DECOMMISSIONED: &str = "Decommissioned";
    pub const AGENT_MISSING: &str = "AgentMissing";
    pub const SILENT: &str = "Silent";
    pub const TAINTED: &str = "Tainted";
    pub const NODE_PRESSURE: &str = "NodePressure";
    pub const WAITING_FOR_CAPACITY: &str = "WaitingForCapacity";
    pub const NODE_MISSING: &str = "NodeMissing";
    pub const DISABLED_BY_OTHERS: &str = "DisabledByOthers";
    pub const NOT_IN_NOVA: &str = "NotInNova";
    pub const NO_LOGIN: &str = "NoLogin";
    pub const PAUSED: &str = "Paused";
    pub const UNMOVABLE: &str = "Unmovable";
    pub const IN_SERVICE: &str = "InService";
    pub const DOUBTFUL: &str = "Doubtful";
    pub const FENCE_NEEDED: &str = "FenceNeeded";
    pub const FENCING: &str = "Fencing";
    pub const RECOVERING: &str = "Recovering";
    pub const RECOVERED: &str = "Recovered";
    pub const RETURNING: &str = "Returning";
}

/// Condition types that a kind may have, for the reference.
pub fn of_kind(kind: &str) -> &'static [&'static str] {
    match kind {
        "ControlPlane" => &[
            READY,
            control_plane::INFRASTRUCTURE_READY,
            control_plane::KEYSTONE_READY,
            control_plane::KORC_READY,
            control_plane::SERVICES_READY,
            control_plane::CREDENTIALS_READY,
            control_plane::CROSS_CLUSTER_SYNC_READY,
        ],
        "SecretAggregate" => &[READY, secret_aggregate::SOURCES_RESOLVED],
        "CredentialRotation" => &[READY, credential_rotation::ROTATION_SCHEDULED],
        "OVNCluster" => &[
            READY,
            ovn::NORTHBOUND_READY,
            ovn::SOUTHBOUND_READY,
            ovn::CONTROLLERS_READY,
        ],
        "OVNChassis" => &[READY, ovn::OVS_CONNECTED],
        "OVSNode" => &[
            READY,
            ovs::OVSDB_CONNECTED,
            ovs::OVN_CONTROLLER_CONNECTED,
            ovs::ALL_BRIDGES_HEALTHY,
            ovs::ALL_BONDS_HEALTHY,
        ],
        "Hypervisor" => &[
            READY,
            hypervisor::ONBOARDING,
            hypervisor::OFFBOARDED,
            hypervisor::TERMINATING,
            hypervisor::TAINTED,
            hypervisor::TRAITS_UPDATED,
            hypervisor::AGGREGATES_UPDATED,
            hypervisor::OVERCOMMIT_UPDATED,
            hypervisor::AGENT_REPORTING,
            hypervisor::HYPERVISOR_DISABLED,
            hypervisor::EVICTING,
            hypervisor::HA_ENABLED,
            hypervisor::HOST_FAILED,
            hypervisor::INSTANCES_WELL,
            hypervisor::LIBVIRT_CONNECTION,
            hypervisor::LIBVIRTD_SERVICE,
            hypervisor::OPENVSWITCH_SERVICE,
            hypervisor::OPERATING_SYSTEM_UPDATE,
            hypervisor::TLS_CERTIFICATE_INSTALLED,
        ],
        "Eviction" => &[
            READY,
            eviction::PREFLIGHT_CHECKS_SUCCEEDED,
            hypervisor::HYPERVISOR_DISABLED,
            eviction::MIGRATING_INSTANCE,
            hypervisor::EVICTING,
            eviction::HYPERVISOR_RE_ENABLED,
        ],
        "RemoteCluster" => &[
            READY,
            ceph::SECRET_AVAILABLE,
            ceph::CONFIG_VALID,
            ceph::CLUSTER_REACHABLE,
            ceph::HAS_ENOUGH_PERMISSIONS,
        ],
        "RemoteArbiter" => &[
            READY,
            ceph::REMOTE_CLUSTER_READY,
            ceph::CEPH_CLUSTER_READY,
            ceph::ARBITER_DEPLOYMENT_READY,
            ceph::IN_QUORUM,
        ],
        "Pipeline" => &[READY, cortex::ALL_STEPS_READY, cortex::ALL_STEPS_INDEXED],
        "Datasource" | "Knowledge" | "KPI" | "Decision" | "Descheduling" | "Reservation" => &[READY],
        kind => crate::services::of_kind(kind).map_or(&[], |service| service.conditions),
    }
}
