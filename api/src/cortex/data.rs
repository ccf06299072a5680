use super::SchedulingDomain;
use crate::common::{Condition, LocalRef, Time, is_default};
use crate::schema::{self, rules};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_with::skip_serializing_none;
use std::collections::BTreeMap;

/// A source of data that is read regularly: an OpenStack API or a Prometheus query.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "cortex.c5c3.io",
    version = "v1alpha1",
    kind = "Datasource",
    plural = "datasources",
    status = "DatasourceStatus",
    shortname = "cxds",
    category = "c5c3",
    derive = "PartialEq",
    doc = "A source of data that is read regularly: an OpenStack API or a Prometheus query.",
    printcolumn(name = "Domain", type_ = "string", json_path = ".spec.schedulingDomain"),
    printcolumn(name = "Type", type_ = "string", json_path = ".spec.type"),
    printcolumn(name = "Objects", type_ = "integer", json_path = ".status.numberOfObjects"),
    printcolumn(name = "Synced", type_ = "date", json_path = ".status.lastSynced")
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[
    (
        "(self.type == 'openstack') == has(self.openstack)",
        "openstack: type openstack needs it and type prometheus does not take it",
    ),
    (
        "(self.type == 'prometheus') == has(self.prometheus)",
        "prometheus: type prometheus needs it and type openstack does not take it",
    ),
])))]
pub struct DatasourceSpec {
    /// Domain for which it is read.
    pub scheduling_domain: SchedulingDomain,
    /// What it is.
    #[serde(rename = "type")]
    pub type_: DatasourceType,
    /// An OpenStack API.
    pub openstack: Option<OpenStackSource>,
    /// A Prometheus query.
    pub prometheus: Option<PrometheusSource>,
}

/// What a source is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DatasourceType {
    #[default]
    Openstack,
    Prometheus,
}

/// An OpenStack API.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OpenStackSource {
    /// Which data is read.
    #[serde(rename = "type")]
    #[schemars(extend("enum" = ["nova", "placement", "cinder", "manila", "identity", "limes"]))]
    pub type_: String,
    /// Time between reads.
    #[serde(default = "OpenStackSource::ten_minutes")]
    #[schemars(schema_with = "schema::duration", extend("x-kubernetes-validations" = rules(&[(
        "duration(self) >= duration('10s')",
        "openstack.syncInterval: use 10s or more, each read lists everything",
    )])))]
    pub sync_interval: String,
    /// Secret with clouds.yaml or an application credential.
    pub secret_ref: Option<LocalRef>,
}

impl OpenStackSource {
    fn ten_minutes() -> String {
        "600s".to_owned()
    }
}

/// A Prometheus query over a time range.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[
    (
        "duration(self.resolution) >= duration('1s')",
        "prometheus.resolution: use 1s or more",
    ),
    (
        "duration(self.resolution) <= duration(self.interval)",
        "prometheus.resolution: must not be above interval",
    ),
    (
        "duration(self.interval) <= duration(self.timeRange)",
        "prometheus.interval: must not be above timeRange",
    ),
])))]
pub struct PrometheusSource {
    /// The query.
    #[schemars(length(min = 1, max = 4096))]
    pub query: String,
    /// Name of the metric inside Cortex.
    #[schemars(regex(pattern = r"^[a-zA-Z_][a-zA-Z0-9_]*$"), length(max = 128))]
    pub alias: String,
    /// How far back to read.
    #[serde(default = "PrometheusSource::four_weeks")]
    #[schemars(schema_with = "schema::duration")]
    pub time_range: String,
    /// Time span of one request.
    #[serde(default = "PrometheusSource::one_day")]
    #[schemars(schema_with = "schema::duration")]
    pub interval: String,
    /// Time between samples.
    #[serde(default = "PrometheusSource::twelve_hours")]
    #[schemars(schema_with = "schema::duration")]
    pub resolution: String,
    /// Secret with url and, if asked for, username and password.
    pub secret_ref: Option<LocalRef>,
}

impl PrometheusSource {
    fn four_weeks() -> String {
        "672h".to_owned()
    }
    fn one_day() -> String {
        "24h".to_owned()
    }
    fn twelve_hours() -> String {
        "12h".to_owned()
    }
}

/// What was read.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DatasourceStatus {
    /// Conditions that describe the current state.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// The generation that was processed.
    pub observed_generation: Option<i64>,
    /// When it was last read.
    #[serde(default)]
    #[schemars(schema_with = "schema::time")]
    pub last_synced: Option<Time>,
    /// Number of items that were read.
    pub number_of_objects: Option<i64>,
    /// When it is read next.
    #[serde(default)]
    #[schemars(schema_with = "schema::time")]
    pub next_sync_time: Option<Time>,
}

/// Features computed from data, which pipelines use.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "cortex.c5c3.io",
    version = "v1alpha1",
    kind = "Knowledge",
    plural = "knowledges",
    status = "KnowledgeStatus",
    shortname = "cxkn",
    category = "c5c3",
    derive = "PartialEq",
    doc = "Features computed from data, which pipelines use.",
    printcolumn(name = "Domain", type_ = "string", json_path = ".spec.schedulingDomain"),
    printcolumn(name = "Extractor", type_ = "string", json_path = ".spec.extractor.name"),
    printcolumn(name = "Features", type_ = "integer", json_path = ".status.rawLength"),
    printcolumn(name = "Extracted", type_ = "date", json_path = ".status.lastExtracted")
)]
#[serde(rename_all = "camelCase")]
pub struct KnowledgeSpec {
    /// Domain in which it is used.
    #[serde(default)]
    pub scheduling_domain: SchedulingDomain,
    /// Extractor that computes the features.
    pub extractor: Extractor,
    /// Maximum age of the features.
    #[serde(default = "KnowledgeSpec::one_minute")]
    #[schemars(schema_with = "schema::duration", extend("x-kubernetes-validations" = rules(&[(
        "duration(self) >= duration('1s')",
        "recency: use 1s or more",
    )])))]
    pub recency: String,
    /// Sources from which it is computed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub dependencies: Dependencies,
}

impl KnowledgeSpec {
    fn one_minute() -> String {
        "60s".to_owned()
    }
}

/// What computes features.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Extractor {
    /// Name of the extractor.
    #[schemars(length(min = 1, max = 128))]
    pub name: String,
    /// Parameters of the extractor.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::any_object")]
    pub config: BTreeMap<String, Value>,
}

/// Sources from which something is computed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Dependencies {
    /// Datasources.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub datasources: Vec<LocalRef>,
    /// Knowledges.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub knowledges: Vec<LocalRef>,
}

/// The features.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KnowledgeStatus {
    /// Conditions that describe the current state.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// The generation that was processed.
    pub observed_generation: Option<i64>,
    /// The features, in the format of the extractor.
    #[serde(default)]
    #[schemars(schema_with = "schema::any_value")]
    pub raw: Option<Value>,
    /// Number of features.
    pub raw_length: Option<i64>,
    /// When they were computed.
    #[serde(default)]
    #[schemars(schema_with = "schema::time")]
    pub last_extracted: Option<Time>,
}

/// A number computed from data and published as a metric.
#[derive(CustomResource, Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "cortex.c5c3.io",
    version = "v1alpha1",
    kind = "KPI",
    plural = "kpis",
    root = "Kpi",
    status = "KpiStatus",
    shortname = "cxkpi",
    category = "c5c3",
    derive = "PartialEq",
    doc = "A number computed from data and published as a metric.",
    printcolumn(name = "Domain", type_ = "string", json_path = ".spec.schedulingDomain"),
    printcolumn(name = "Implementation", type_ = "string", json_path = ".spec.impl")
)]
#[serde(rename_all = "camelCase")]
pub struct KpiSpec {
    /// Domain that it describes.
    #[serde(default)]
    pub scheduling_domain: SchedulingDomain,
    /// Implementation that computes it.
    #[serde(rename = "impl")]
    #[schemars(length(min = 1, max = 128))]
    pub impl_: String,
    /// Parameters of the implementation.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::any_object")]
    pub opts: BTreeMap<String, Value>,
    /// Sources from which it is computed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub dependencies: Dependencies,
}

/// Whether the metric is published.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KpiStatus {
    /// Conditions that describe the current state.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// The generation that was processed.
    pub observed_generation: Option<i64>,
}
