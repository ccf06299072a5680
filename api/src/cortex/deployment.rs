use crate::common::{Database, KeystoneAuth, ServiceCommon, ServiceStatus, default, is_default};
use crate::schema::{self, rules};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// The placement service beside Nova, Cinder and Manila.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "cortex.c5c3.io",
    version = "v1alpha1",
    kind = "Cortex",
    plural = "cortexes",
    namespaced,
    status = "CortexStatus",
    shortname = "cx",
    category = "c5c3",
    category = "openstack",
    derive = "PartialEq",
    doc = "The placement service beside Nova, Cinder and Manila.",
    printcolumn(name = "Pipelines", type_ = "string", json_path = ".status.activePipelines"),
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct CortexSpec {
    #[serde(flatten)]
    pub common: ServiceCommon,
    /// Number of replicas.
    #[serde(default = "default::replicas")]
    #[schemars(range(min = 0, max = 16))]
    pub replicas: i32,
    /// Where features are kept; in memory when left out.
    pub database: Option<Database>,
    /// Credentials with which it logs in to Keystone.
    pub keystone: KeystoneAuth,
    /// Pipelines to create.
    #[serde(default, skip_serializing_if = "is_default")]
    pub pipelines: CortexPipelines,
    /// Sources of the features.
    #[serde(default, skip_serializing_if = "is_default")]
    pub datasources: CortexDatasources,
}

/// Pipelines to create.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CortexPipelines {
    /// For instances.
    pub nova: Option<PipelineToggle>,
    /// For volumes.
    pub cinder: Option<PipelineToggle>,
}

/// One pipeline.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PipelineToggle {
    /// Whether it is created.
    #[serde(default)]
    pub enabled: bool,
    /// Filters in order; the domain's usual ones when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 64),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub filters: Vec<FilterName>,
    /// Weighers; the domain's usual ones when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 64),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub weighers: Vec<WeigherWeight>,
}

/// A filter by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FilterName {
    /// Name of the filter.
    #[schemars(length(min = 1, max = 128))]
    pub name: String,
}

/// A weigher by name.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WeigherWeight {
    /// Name of the weigher.
    #[schemars(length(min = 1, max = 128))]
    pub name: String,
    /// Multiplier of its weights; a negative one reverses them.
    #[serde(default = "WeigherWeight::one")]
    pub weight: f64,
}

impl WeigherWeight {
    fn one() -> f64 {
        1.0
    }
}

/// Sources of the features.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CortexDatasources {
    /// Metrics.
    pub prometheus: Option<DatasourceToggle>,
    /// Servers, hypervisors and aggregates.
    pub nova: Option<DatasourceToggle>,
}

/// One source.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[(
    "!self.enabled || has(self.endpoint)",
    "datasources.endpoint: give the address of the source, or set enabled to false",
)])))]
pub struct DatasourceToggle {
    /// Whether it is read.
    #[serde(default)]
    pub enabled: bool,
    /// Its address.
    #[serde(default)]
    #[schemars(schema_with = "schema::url")]
    pub endpoint: Option<String>,
}

/// What was seen of Cortex.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CortexStatus {
    #[serde(flatten)]
    pub common: ServiceStatus,
    /// Pipelines in use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub active_pipelines: Vec<String>,
}
