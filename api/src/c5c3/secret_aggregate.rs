use crate::common::{Condition, LocalRef, Time};
use crate::schema::{self, rules};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// Merges several Secrets into one and keeps it up to date.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "c5c3.io",
    version = "v1alpha1",
    kind = "SecretAggregate",
    plural = "secretaggregates",
    namespaced,
    status = "SecretAggregateStatus",
    shortname = "sagg",
    category = "c5c3",
    derive = "PartialEq",
    derive = "Default",
    doc = "Merges several Secrets into one and keeps it up to date.",
    printcolumn(name = "Target", type_ = "string", json_path = ".spec.target.name"),
    printcolumn(name = "Aggregated", type_ = "date", json_path = ".status.lastAggregated")
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[(
    "!self.sources.exists(s, s.secretRef.name == self.target.name)",
    "target.name: the target cannot be one of the sources; give it another name",
)])))]
pub struct SecretAggregateSpec {
    /// The Secrets to merge; the same key in two of them is an error.
    #[schemars(
        length(min = 1, max = 32),
        extend("x-kubernetes-list-type" = "atomic", "x-kubernetes-validations" = rules(&[(
            "self.all(s, self.exists_one(t, t.secretRef.name == s.secretRef.name))",
            "sources: list each Secret once, with all its keys",
        )]))
    )]
    pub sources: Vec<SecretSource>,
    /// The Secret to write.
    pub target: LocalRef,
}

/// One Secret to take from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretSource {
    /// The Secret.
    pub secret_ref: LocalRef,
    /// Keys to take; all when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 128),
        inner(regex(pattern = r"^[-._a-zA-Z0-9]+$"), length(max = 253)),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub keys: Vec<String>,
}

/// What was seen of the sources and the target.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretAggregateStatus {
    /// Conditions that describe the current state.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// The generation that was processed.
    pub observed_generation: Option<i64>,
    /// When the target last changed.
    #[serde(default)]
    #[schemars(schema_with = "schema::time")]
    pub last_aggregated: Option<Time>,
}
