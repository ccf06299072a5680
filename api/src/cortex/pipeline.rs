use super::SchedulingDomain;
use crate::common::Condition;
use crate::schema::{self, rules};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_with::skip_serializing_none;
use std::collections::BTreeMap;

/// Steps that choose a host, or that find instances on bad hosts.
#[derive(CustomResource, Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "cortex.c5c3.io",
    version = "v1alpha1",
    kind = "Pipeline",
    plural = "pipelines",
    status = "PipelineStatus",
    shortname = "cxpipe",
    category = "c5c3",
    derive = "PartialEq",
    doc = "Steps that choose a host, or that find instances on bad hosts.",
    printcolumn(name = "Domain", type_ = "string", json_path = ".spec.schedulingDomain"),
    printcolumn(name = "Type", type_ = "string", json_path = ".spec.type"),
    printcolumn(
        name = "Steps",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"AllStepsReady\")].status"
    )
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[
    (
        "self.type != 'filter-weigher' || !has(self.detectors)",
        "detectors: only type detector takes them; set type to detector, or use filters and weighers",
    ),
    (
        "self.type != 'detector' || !(has(self.filters) || has(self.weighers))",
        "filters, weighers: only type filter-weigher takes them; set type to filter-weigher, or use detectors",
    ),
    (
        "self.type != 'detector' || has(self.detectors)",
        "detectors: type detector needs at least one",
    ),
    (
        "self.schedulingDomain == oldSelf.schedulingDomain && self.type == oldSelf.type",
        "schedulingDomain, type: cannot change; make another Pipeline",
    ),
])))]
pub struct PipelineSpec {
    /// What is being placed.
    pub scheduling_domain: SchedulingDomain,
    /// Purpose of the steps.
    #[serde(rename = "type")]
    pub type_: PipelineType,
    /// Consider all hosts, not only those that the caller asked about.
    #[serde(default)]
    pub ignore_preselection: bool,
    /// Keep a Decision of each placement.
    #[serde(default)]
    pub create_decisions: bool,
    /// Steps that drop hosts, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 64),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub filters: Vec<Step>,
    /// Steps that order hosts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 64),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub weighers: Vec<Weigher>,
    /// Steps that find instances to move.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 64),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub detectors: Vec<Step>,
}

/// What the steps of a pipeline do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PipelineType {
    #[default]
    FilterWeigher,
    Detector,
}

/// A filter or a detector.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// Name of the step.
    #[schemars(length(min = 1, max = 128))]
    pub name: String,
    /// Parameters of the step.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::any_object")]
    pub params: BTreeMap<String, Value>,
}

/// A weigher.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Weigher {
    /// Name of the step.
    #[schemars(length(min = 1, max = 128))]
    pub name: String,
    /// Parameters of the step.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::any_object")]
    pub params: BTreeMap<String, Value>,
    /// Multiplier of its weights, 1 when left out; a negative one reverses them.
    #[schemars(range(min = -1000.0, max = 1000.0))]
    pub multiplier: Option<f64>,
}

/// What was seen of the steps.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PipelineStatus {
    /// Conditions that describe the current state.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// The generation that was processed.
    pub observed_generation: Option<i64>,
}
