use super::SchedulingDomain;
use crate::common::{Condition, LocalRef, Quantity, Time};
use crate::schema::{self, rules};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use std::collections::BTreeMap;

/// A placement decision and the reasons for it.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "cortex.c5c3.io",
    version = "v1alpha1",
    kind = "Decision",
    plural = "decisions",
    status = "DecisionStatus",
    shortname = "cxdec",
    category = "c5c3",
    derive = "PartialEq",
    doc = "A placement decision and the reasons for it.",
    printcolumn(name = "Domain", type_ = "string", json_path = ".spec.schedulingDomain"),
    printcolumn(name = "Resource", type_ = "string", json_path = ".spec.resourceID"),
    printcolumn(name = "Host", type_ = "string", json_path = ".status.targetHost"),
    printcolumn(
        name = "Explanation",
        type_ = "string",
        json_path = ".status.explanation",
        priority = 1
    )
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[(
    "self.schedulingDomain == oldSelf.schedulingDomain && self.resourceID == oldSelf.resourceID",
    "schedulingDomain, resourceID: a Decision stays with what it is about; make another",
)])))]
pub struct DecisionSpec {
    /// What was placed.
    pub scheduling_domain: SchedulingDomain,
    /// The pipeline that decided.
    pub pipeline_ref: LocalRef,
    /// Id of what was placed.
    #[serde(rename = "resourceID")]
    #[schemars(length(min = 1, max = 255))]
    pub resource_id: String,
    /// Why it was placed: create, resize, live_migrate, evacuate, rebuild.
    #[schemars(length(max = 63))]
    pub intent: Option<String>,
}

/// What was decided, and how.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DecisionStatus {
    /// Conditions that describe the current state.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// The generation that was processed.
    pub observed_generation: Option<i64>,
    /// Hosts, best first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ordered_hosts: Vec<String>,
    /// The best host.
    pub target_host: Option<String>,
    /// Result of each step.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub step_results: Vec<StepResult>,
    /// Earlier decisions for the same thing, newest first, ten at most.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10), extend("x-kubernetes-list-type" = "atomic"))]
    pub history: Vec<PastDecision>,
    /// Explanation, for people.
    pub explanation: Option<String>,
}

/// What one step said.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepResult {
    /// Name of the step.
    pub name: String,
    /// Host → weight; a filter leaves out hosts.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub activations: BTreeMap<String, f64>,
}

/// An earlier decision.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PastDecision {
    /// When it was made.
    #[schemars(schema_with = "schema::time")]
    pub decided_at: Time,
    /// The host that was chosen.
    pub target_host: Option<String>,
    /// Why it was placed.
    pub intent: Option<String>,
    /// Explanation of the choice.
    pub explanation: Option<String>,
}

/// An instance that should move off a bad host.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "cortex.c5c3.io",
    version = "v1alpha1",
    kind = "Descheduling",
    plural = "deschedulings",
    status = "DeschedulingStatus",
    shortname = "cxdesch",
    category = "c5c3",
    derive = "PartialEq",
    derive = "Default",
    doc = "An instance that should move off a bad host.",
    printcolumn(name = "Instance", type_ = "string", json_path = ".spec.ref"),
    printcolumn(name = "From", type_ = "string", json_path = ".spec.prevHost"),
    printcolumn(name = "To", type_ = "string", json_path = ".status.newHost"),
    printcolumn(name = "Why", type_ = "string", json_path = ".spec.reason")
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[(
    "self == oldSelf",
    "spec: a Descheduling cannot change; delete it and make another",
)])))]
pub struct DeschedulingSpec {
    /// UUID of the instance.
    #[serde(rename = "ref")]
    #[schemars(schema_with = "schema::uuid")]
    pub ref_: String,
    /// The host that it should leave.
    #[schemars(length(min = 1, max = 253))]
    pub prev_host: String,
    /// Explanation, for people.
    #[schemars(schema_with = "schema::text")]
    pub reason: String,
}

/// Where the instance went.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeschedulingStatus {
    /// Conditions that describe the current state.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// The generation that was processed.
    pub observed_generation: Option<i64>,
    /// The host that it is on now.
    pub new_host: Option<String>,
}

/// Capacity that is reserved for later use.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "cortex.c5c3.io",
    version = "v1alpha1",
    kind = "Reservation",
    plural = "reservations",
    status = "ReservationStatus",
    shortname = "cxres",
    category = "c5c3",
    derive = "PartialEq",
    doc = "Capacity that is reserved for later use.",
    printcolumn(name = "Type", type_ = "string", json_path = ".spec.type"),
    printcolumn(name = "Host", type_ = "string", json_path = ".status.host"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Until", type_ = "string", json_path = ".spec.endTime")
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[
    (
        "!has(self.startTime) || !has(self.endTime) || self.startTime < self.endTime",
        "endTime: must be after startTime",
    ),
    (
        "self.type == oldSelf.type",
        "type: cannot change; make another Reservation",
    ),
    (
        "self.type == 'CommittedResource' || !has(self.committedResource)",
        "committedResource: only type CommittedResource takes it",
    ),
    (
        "self.type == 'Failover' || !has(self.failover)",
        "failover: only type Failover takes it",
    ),
])))]
pub struct ReservationSpec {
    /// Purpose of the reservation.
    #[serde(rename = "type")]
    pub type_: ReservationType,
    /// Reserved amounts: cpu, memory.
    #[schemars(schema_with = "schema::quantities", extend("minProperties" = 1))]
    pub resources: BTreeMap<String, Quantity>,
    /// The host on which to reserve it; any when left out.
    #[schemars(length(min = 1, max = 253))]
    pub target_host: Option<String>,
    /// Who may use a reservation of type CommittedResource; nobody when left out.
    pub committed_resource: Option<CommittedResource>,
    /// Who may use a reservation of type Failover; nobody when left out.
    pub failover: Option<Failover>,
    /// Start of the reservation; now when left out.
    #[serde(default)]
    #[schemars(schema_with = "schema::time")]
    pub start_time: Option<Time>,
    /// End of the reservation; never when left out.
    #[serde(default)]
    #[schemars(schema_with = "schema::time")]
    pub end_time: Option<Time>,
}

/// Servers that room was committed to.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CommittedResource {
    /// Their project.
    #[serde(rename = "projectID")]
    #[schemars(length(min = 1, max = 64))]
    pub project_id: String,
    /// Their flavours' `quota:hw_version`; those without one when left out.
    #[schemars(length(min = 1, max = 128))]
    pub resource_group: Option<String>,
    /// Their availability zone; any when left out.
    #[schemars(length(min = 1, max = 255))]
    pub availability_zone: Option<String>,
}

/// Servers that may be evacuated into the room.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Failover {
    /// Their ids.
    #[schemars(
        length(min = 1, max = 256),
        inner(length(min = 1, max = 64)),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub servers: Vec<String>,
    /// Their flavours' `quota:hw_version`: those of one group are spread a little.
    #[schemars(length(min = 1, max = 128))]
    pub resource_group: Option<String>,
}

/// What room is kept for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum ReservationType {
    #[default]
    CommittedResource,
    Failover,
}

/// Where the room is.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReservationStatus {
    /// Conditions that describe the current state.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// The generation that was processed.
    pub observed_generation: Option<i64>,
    /// The host on which it is reserved.
    pub host: Option<String>,
    /// Phase of its life cycle.
    pub phase: Option<ReservationPhase>,
}

/// Where a reservation is in its life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum ReservationPhase {
    #[default]
    Pending,
    Active,
    Failed,
    Expired,
}
