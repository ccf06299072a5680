use crate::common::{Condition, Time};
use crate::schema::{self, rules};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// Moves all instances away from a hypervisor.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "hypervisor.c5c3.io",
    version = "v1",
    kind = "Eviction",
    plural = "evictions",
    status = "EvictionStatus",
    shortname = "evi",
    category = "c5c3",
    derive = "PartialEq",
    derive = "Default",
    doc = "Moves all instances away from a hypervisor.",
    printcolumn(name = "Hypervisor", type_ = "string", json_path = ".spec.hypervisor"),
    printcolumn(
        name = "State",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Evicting\")].reason"
    ),
    printcolumn(
        name = "Outstanding",
        type_ = "integer",
        json_path = ".status.outstandingRamMb",
        description = "Memory of the instances that still have to move, in MiB."
    ),
    printcolumn(
        name = "Until",
        type_ = "date",
        json_path = ".status.estimatedCompletion",
        description = "When the host is expected to be empty."
    ),
    printcolumn(name = "Why", type_ = "string", json_path = ".spec.reason", priority = 1)
)]
#[serde(rename_all = "camelCase")]
pub struct EvictionSpec {
    /// The hypervisor to empty.
    #[schemars(schema_with = "schema::name", extend("x-kubernetes-validations" = rules(&[(
        "self == oldSelf",
        "hypervisor: cannot change; delete this Eviction and make another for the other hypervisor",
    )])))]
    pub hypervisor: String,
    /// Reason for the eviction, for people.
    #[schemars(schema_with = "schema::text")]
    pub reason: String,
    /// Start no further migrations; those in progress continue.
    pub paused: Option<bool>,
    /// Maximum number of concurrent migrations [default: 4].
    #[schemars(range(min = 1, max = 100))]
    pub parallel: Option<i32>,
    /// Time limit of one migration, in seconds [default: 1800]; after that it is aborted and retried.
    #[schemars(range(min = 30, max = 86400))]
    pub deadline_seconds: Option<i32>,
}

/// How far the eviction is.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EvictionStatus {
    /// Conditions that describe the current state.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// The generation that was processed.
    pub observed_generation: Option<i64>,
    /// Nova's id of the compute service.
    pub hypervisor_service_id: Option<String>,
    /// Memory of the instances that still have to move, in MiB.
    pub outstanding_ram_mb: Option<i64>,
    /// Instances that still have to move.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub outstanding_instances: Vec<String>,
    /// When the host was first seen to be empty.
    #[serde(default)]
    #[schemars(schema_with = "schema::time")]
    pub empty_since: Option<Time>,
    /// Instances that moved.
    pub moved: Option<i32>,
    /// Memory of the instances that moved, in MiB.
    pub moved_ram_mb: Option<i64>,
    /// When the first migration was started.
    #[serde(default)]
    #[schemars(schema_with = "schema::time")]
    pub started_at: Option<Time>,
    /// When the host is expected to be empty; known once one instance has moved.
    #[serde(default)]
    #[schemars(schema_with = "schema::time")]
    pub estimated_completion: Option<Time>,
    /// Instances being moved, and those that could not be moved yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["server"]))]
    pub instances: Vec<InstanceEviction>,
}

/// How far one instance is.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InstanceEviction {
    /// UUID.
    pub server: String,
    /// Name.
    pub name: String,
    /// Waiting, Migrating, Confirming, Aborting, Failed or Unmovable.
    pub state: InstanceState,
    /// Migrations that were started.
    #[serde(default)]
    pub attempts: i32,
    /// When the last one was started, or ended without success.
    #[serde(default)]
    #[schemars(schema_with = "schema::time")]
    pub since: Option<Time>,
    /// Progress of the migration, in percent.
    pub progress: Option<i32>,
    /// Whether Nova was asked to complete this migration even if it has to pause the instance.
    pub forced: Option<bool>,
    /// Why it is not moving.
    pub message: Option<String>,
}

/// What an instance does on a host that is emptied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema)]
pub enum InstanceState {
    /// Waiting for its turn.
    #[default]
    Waiting,
    /// Being moved.
    Migrating,
    /// On the other host; the move of a stopped instance is confirmed.
    Confirming,
    /// Took too long and is being aborted.
    Aborting,
    /// Every attempt failed; it is retried later.
    Failed,
    /// Cannot be moved in its current state.
    Unmovable,
}
