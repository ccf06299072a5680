//! `k8s.mariadb.com/v1alpha1`, by mariadb-operator.

use super::{ConditionsStatus, NameRef, SecretKey};
use k8s_openapi::api::core::v1::{
    PodSecurityContext, Probe, ResourceRequirements, SecurityContext, Toleration,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::CustomResource;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use std::collections::BTreeMap;

/// A MariaDB server or Galera cluster.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[kube(
    group = "k8s.mariadb.com",
    version = "v1alpha1",
    kind = "MariaDB",
    plural = "mariadbs",
    root = "MariaDb",
    namespaced,
    schema = "disabled",
    status = "MariaDbStatus",
    shortname = "mdb",
    derive = "PartialEq",
    derive = "Default",
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(
        name = "Status",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].message"
    ),
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct MariaDbSpec {
    pub image: Option<String>,
    pub replicas: Option<i32>,
    pub root_password_secret_key_ref: Option<GeneratedSecretKey>,
    pub galera: Option<Galera>,
    pub max_scale: Option<MaxScale>,
    pub storage: Option<MariaDbStorage>,
    pub my_cnf: Option<String>,
    pub metrics: Option<MariaDbMetrics>,
    pub resources: Option<ResourceRequirements>,
    pub startup_probe: Option<Probe>,
    pub readiness_probe: Option<Probe>,
    pub pod_security_context: Option<PodSecurityContext>,
    pub security_context: Option<SecurityContext>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub image_pull_secrets: Vec<NameRef>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Toleration>,
    pub priority_class_name: Option<String>,
}

/// A key that the operator may make itself.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct GeneratedSecretKey {
    pub name: String,
    pub key: String,
    pub generate: Option<bool>,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Galera {
    pub enabled: bool,
    pub recovery: Option<GaleraRecovery>,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GaleraRecovery {
    /// The pod that a person wants the cluster to begin from.
    pub force_cluster_bootstrap_in_pod: Option<String>,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct MaxScale {
    pub enabled: bool,
    pub replicas: Option<i32>,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MariaDbStorage {
    pub size: Option<Quantity>,
    pub storage_class_name: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct MariaDbMetrics {
    pub enabled: bool,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MariaDbStatus {
    #[serde(flatten)]
    pub common: ConditionsStatus,
    pub replicas: Option<i32>,
    pub current_primary: Option<String>,
}

/// A database on a server.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[kube(
    group = "k8s.mariadb.com",
    version = "v1alpha1",
    kind = "Database",
    plural = "databases",
    namespaced,
    schema = "disabled",
    status = "ConditionsStatus",
    shortname = "dmdb",
    derive = "PartialEq",
    derive = "Default",
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct DatabaseSpec {
    pub maria_db_ref: NameRef,
    pub name: Option<String>,
    pub character_set: Option<String>,
    pub collate: Option<String>,
    pub cleanup_policy: Option<String>,
}

/// A user of a server.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[kube(
    group = "k8s.mariadb.com",
    version = "v1alpha1",
    kind = "User",
    plural = "users",
    namespaced,
    schema = "disabled",
    status = "ConditionsStatus",
    shortname = "umdb",
    derive = "PartialEq",
    derive = "Default",
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct UserSpec {
    pub maria_db_ref: NameRef,
    pub name: Option<String>,
    pub host: Option<String>,
    pub password_secret_key_ref: Option<SecretKey>,
    pub max_user_connections: Option<i32>,
    pub cleanup_policy: Option<String>,
}

/// What a user may do.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[kube(
    group = "k8s.mariadb.com",
    version = "v1alpha1",
    kind = "Grant",
    plural = "grants",
    namespaced,
    schema = "disabled",
    status = "ConditionsStatus",
    shortname = "gmdb",
    derive = "PartialEq",
    derive = "Default",
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct GrantSpec {
    pub maria_db_ref: NameRef,
    #[serde(default)]
    pub privileges: Vec<String>,
    pub database: Option<String>,
    pub table: Option<String>,
    pub username: String,
    pub host: Option<String>,
    pub grant_option: Option<bool>,
    pub cleanup_policy: Option<String>,
}
