use crate::common::Condition;
use crate::schema::{self, rules};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// Moves all instances away from a hypervisor.
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
    /// Why, for people.
    #[schemars(schema_with = "schema::text")]
    pub reason: String,
}

/// How far the eviction is.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EvictionStatus {
    /// What holds and what does not.
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
}
