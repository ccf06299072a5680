//! `memcached.c5c3.io/v1beta1`, by memcached-operator.

use super::LooseCondition;
use k8s_openapi::api::core::v1::{PodSecurityContext, ResourceRequirements, SecurityContext};
use kube::CustomResource;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// Memcached servers behind a headless Service of the same name.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[kube(
    group = "memcached.c5c3.io",
    version = "v1beta1",
    kind = "Memcached",
    plural = "memcacheds",
    namespaced,
    schema = "disabled",
    status = "MemcachedStatus",
    derive = "PartialEq",
    derive = "Default",
    printcolumn(name = "Replicas", type_ = "integer", json_path = ".spec.replicas"),
    printcolumn(name = "Ready", type_ = "integer", json_path = ".status.readyReplicas")
)]
#[serde(rename_all = "camelCase")]
pub struct MemcachedSpec {
    pub replicas: Option<i32>,
    pub image: Option<String>,
    pub memcached: Option<MemcachedConfig>,
    pub high_availability: Option<HighAvailability>,
    pub monitoring: Option<Monitoring>,
    pub resources: Option<ResourceRequirements>,
    pub security: Option<Security>,
}

/// As whom the servers run.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Security {
    pub pod_security_context: Option<PodSecurityContext>,
    pub container_security_context: Option<SecurityContext>,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MemcachedConfig {
    #[serde(rename = "maxMemoryMB")]
    pub max_memory_mb: Option<i32>,
    pub max_connections: Option<i32>,
    pub threads: Option<i32>,
    pub max_item_size: Option<String>,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HighAvailability {
    pub anti_affinity_preset: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Monitoring {
    #[serde(default)]
    pub enabled: bool,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MemcachedStatus {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<LooseCondition>,
    pub ready_replicas: Option<i32>,
    /// Each server by a name of its own, host:port, where the operator tells it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub server_list: Vec<String>,
    pub observed_generation: Option<i64>,
}
