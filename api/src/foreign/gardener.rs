//! `core.gardener.cloud/v1beta1`, by Gardener.

use super::LooseCondition;
use kube::CustomResource;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_with::skip_serializing_none;
use std::collections::BTreeMap;

/// A Kubernetes cluster that Gardener makes.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[kube(
    group = "core.gardener.cloud",
    version = "v1beta1",
    kind = "Shoot",
    plural = "shoots",
    namespaced,
    schema = "disabled",
    status = "ShootStatus",
    derive = "PartialEq",
    derive = "Default",
    printcolumn(name = "Region", type_ = "string", json_path = ".spec.region"),
    printcolumn(name = "Version", type_ = "string", json_path = ".spec.kubernetes.version"),
    printcolumn(
        name = "Operation",
        type_ = "string",
        json_path = ".status.lastOperation.state"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct ShootSpec {
    pub cloud_profile_name: Option<String>,
    pub secret_binding_name: Option<String>,
    pub region: String,
    pub purpose: Option<String>,
    pub kubernetes: Option<ShootKubernetes>,
    pub provider: Option<ShootProvider>,
    pub control_plane: Option<ShootControlPlane>,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct ShootKubernetes {
    pub version: Option<String>,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ShootProvider {
    #[serde(rename = "type")]
    pub type_: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workers: Vec<ShootWorker>,
    pub infrastructure_config: Option<Value>,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ShootWorker {
    pub name: String,
    pub machine: ShootMachine,
    pub minimum: i32,
    pub maximum: i32,
    pub volume: Option<ShootVolume>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub zones: Vec<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    pub provider_config: Option<Value>,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct ShootMachine {
    #[serde(rename = "type")]
    pub type_: String,
    pub image: Option<ShootMachineImage>,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct ShootMachineImage {
    pub name: String,
    pub version: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct ShootVolume {
    pub size: String,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ShootControlPlane {
    pub high_availability: Option<ShootHighAvailability>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ShootHighAvailability {
    pub failure_tolerance: FailureTolerance,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct FailureTolerance {
    /// node or zone.
    #[serde(rename = "type")]
    pub type_: String,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ShootStatus {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<LooseCondition>,
    pub observed_generation: Option<i64>,
    pub last_operation: Option<LastOperation>,
    #[serde(rename = "technicalID")]
    pub technical_id: Option<String>,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LastOperation {
    #[serde(rename = "type")]
    pub type_: Option<String>,
    pub state: Option<String>,
    pub progress: Option<i32>,
    pub description: Option<String>,
}
