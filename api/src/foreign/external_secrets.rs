//! `external-secrets.io`, by External Secrets.

use super::{ConditionsStatus, NameRef};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::CustomResource;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_with::skip_serializing_none;
use std::collections::BTreeMap;

/// Where secrets are kept.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct StoreRef {
    pub name: String,
    pub kind: Option<String>,
}

/// Reads from a store into a Secret.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[kube(
    group = "external-secrets.io",
    version = "v1",
    kind = "ExternalSecret",
    plural = "externalsecrets",
    namespaced,
    schema = "disabled",
    status = "ExternalSecretStatus",
    shortname = "es",
    derive = "PartialEq",
    derive = "Default",
    printcolumn(name = "Store", type_ = "string", json_path = ".spec.secretStoreRef.name"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct ExternalSecretSpec {
    pub refresh_interval: Option<String>,
    pub secret_store_ref: Option<StoreRef>,
    pub target: Option<ExternalSecretTarget>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub data: Vec<ExternalSecretData>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub data_from: Vec<ExternalSecretFrom>,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExternalSecretTarget {
    pub name: Option<String>,
    pub creation_policy: Option<String>,
    pub deletion_policy: Option<String>,
    pub template: Option<ExternalSecretTemplate>,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExternalSecretTemplate {
    #[serde(rename = "type")]
    pub type_: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub data: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExternalSecretData {
    pub secret_key: String,
    pub remote_ref: RemoteRef,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExternalSecretFrom {
    pub extract: RemoteRef,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RemoteRef {
    pub key: String,
    pub property: Option<String>,
    pub version: Option<String>,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExternalSecretStatus {
    #[serde(flatten)]
    pub common: ConditionsStatus,
    pub refresh_time: Option<String>,
    pub synced_resource_version: Option<String>,
    pub binding: Option<NameRef>,
}

/// Writes a Secret into a store.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[kube(
    group = "external-secrets.io",
    version = "v1alpha1",
    kind = "PushSecret",
    plural = "pushsecrets",
    namespaced,
    schema = "disabled",
    status = "PushSecretStatus",
    shortname = "ps",
    derive = "PartialEq",
    derive = "Default",
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct PushSecretSpec {
    pub refresh_interval: Option<String>,
    pub update_policy: Option<String>,
    pub deletion_policy: Option<String>,
    #[serde(default)]
    pub secret_store_refs: Vec<StoreRef>,
    pub selector: PushSecretSelector,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub data: Vec<PushSecretData>,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct PushSecretSelector {
    pub secret: Option<NameRef>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PushSecretData {
    #[serde(rename = "match")]
    pub match_: PushSecretMatch,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PushSecretMatch {
    pub secret_key: Option<String>,
    pub remote_ref: PushRemoteRef,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PushRemoteRef {
    pub remote_key: String,
    pub property: Option<String>,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PushSecretStatus {
    #[serde(flatten)]
    pub common: ConditionsStatus,
    /// Store → remote key and property → what was written there.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub synced_push_secrets: BTreeMap<String, BTreeMap<String, PushSecretData>>,
    pub refresh_time: Option<String>,
    pub synced_resource_version: Option<String>,
}

/// A store that every namespace may use.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[kube(
    group = "external-secrets.io",
    version = "v1",
    kind = "ClusterSecretStore",
    plural = "clustersecretstores",
    schema = "disabled",
    status = "ConditionsStatus",
    shortname = "css",
    derive = "PartialEq",
    derive = "Default",
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct ClusterSecretStoreSpec {
    pub controller: Option<String>,
    pub refresh_interval: Option<i64>,
    /// Provider → its settings; exactly one entry.
    #[serde(default)]
    pub provider: BTreeMap<String, Value>,
    /// Namespaces that may use the store, those of one entry or another; all if there is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<StoreCondition>,
}

/// Namespaces, by any of three ways to say which.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StoreCondition {
    pub namespace_selector: Option<LabelSelector>,
    #[serde(default)]
    pub namespaces: Vec<String>,
    #[serde(default)]
    pub namespace_regexes: Vec<String>,
}
