//! `cache.cs.sap.com/v1alpha1`, by SAP's valkey-operator.

use super::LooseCondition;
use k8s_openapi::api::core::v1::ResourceRequirements;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::CustomResource;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// Valkey servers, with sentinels if wanted.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[kube(
    group = "cache.cs.sap.com",
    version = "v1alpha1",
    kind = "Valkey",
    plural = "valkeys",
    namespaced,
    schema = "disabled",
    status = "ValkeyStatus",
    derive = "PartialEq",
    derive = "Default",
    printcolumn(name = "State", type_ = "string", json_path = ".status.state")
)]
#[serde(rename_all = "camelCase")]
pub struct ValkeySpec {
    pub version: Option<String>,
    pub image: Option<String>,
    pub replicas: Option<i32>,
    pub sentinel: Option<Toggle>,
    pub tls: Option<Toggle>,
    pub metrics: Option<Toggle>,
    pub persistence: Option<Persistence>,
    pub binding: Option<Binding>,
    pub resources: Option<ResourceRequirements>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Toggle {
    #[serde(default)]
    pub enabled: bool,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Persistence {
    #[serde(default)]
    pub enabled: bool,
    pub size: Option<Quantity>,
    pub storage_class: Option<String>,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Binding {
    pub secret_name: Option<String>,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ValkeyStatus {
    /// Ready, Processing, Deleting, Error.
    pub state: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<LooseCondition>,
    pub observed_generation: Option<i64>,
}
