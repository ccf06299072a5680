use super::LocalRef;
use crate::schema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use std::collections::BTreeMap;

pub use k8s_openapi::api::core::v1::Toleration;

/// Placement of the pods, and secrets for pulling their images.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodSettings {
    /// Secrets for pulling images.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 16),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub image_pull_secrets: Vec<LocalRef>,
    /// Labels that a node must have; does not apply to pods on hypervisors.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::labels")]
    pub node_selector: BTreeMap<String, String>,
    /// Taints of nodes that are tolerated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::tolerations")]
    pub tolerations: Vec<Toleration>,
    /// PriorityClass; does not apply to pods on hypervisors.
    #[serde(default)]
    #[schemars(schema_with = "schema::name")]
    pub priority_class_name: Option<String>,
    /// Node label by which replicas are spread, such as topology.kubernetes.io/zone; by node when left out.
    #[schemars(length(min = 1, max = 317))]
    pub topology_key: Option<String>,
}
