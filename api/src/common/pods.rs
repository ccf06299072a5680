use super::LocalRef;
use crate::schema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use std::collections::BTreeMap;

pub use k8s_openapi::api::core::v1::Toleration;

/// Where pods run, and with which right to pull their images.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodSettings {
    /// Secrets with which images are pulled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 16),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub image_pull_secrets: Vec<LocalRef>,
    /// Labels that a node must have; pods of hypervisors have their own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::labels")]
    pub node_selector: BTreeMap<String, String>,
    /// Taints that do not keep them away.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::tolerations")]
    pub tolerations: Vec<Toleration>,
    /// PriorityClass; pods of hypervisors have their own.
    #[serde(default)]
    #[schemars(schema_with = "schema::name")]
    pub priority_class_name: Option<String>,
    /// Node label over whose values replicas are spread, such as topology.kubernetes.io/zone; over nodes when left out.
    #[schemars(length(min = 1, max = 317))]
    pub topology_key: Option<String>,
}
