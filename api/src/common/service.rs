use super::{
    Blocker, Condition, Image, LocalRef, PodSettings, ResourceRequirements, Time, default, is_default,
};
use crate::schema::{self, rules};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use std::collections::BTreeMap;

/// oslo.config: section → option → value.
pub type ExtraConfig = BTreeMap<String, BTreeMap<String, String>>;

/// What every OpenStack service CR takes.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceCommon {
    /// The image to run.
    pub image: Image,
    /// Wait for these objects first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 16),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["kind", "name"])
    )]
    pub depends_on: Vec<Dependency>,
    /// Rules of oslo.policy that differ from the service's own.
    pub policy_overrides: Option<PolicyOverrides>,
    /// Further oslo.config options: section, option, value.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "extra_config")]
    pub extra_config: ExtraConfig,
    /// Requests and limits of each container.
    #[serde(default)]
    #[schemars(schema_with = "schema::resources")]
    pub resources: Option<ResourceRequirements>,
    /// Placement of the pods, and secrets for pulling their images.
    pub pods: Option<PodSettings>,
    /// Scale the number of API replicas with the load.
    pub autoscaling: Option<Autoscaling>,
    /// Which incoming traffic is allowed.
    pub network_policy: Option<NetworkPolicy>,
    /// What is logged, and how.
    pub logging: Option<Logging>,
    /// Address under which users reach the API.
    #[serde(default)]
    #[schemars(schema_with = "schema::url")]
    pub public_endpoint: Option<String>,
}

/// An object that must have a condition before this one starts.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Dependency {
    /// Kind of the object.
    #[schemars(extend("enum" = [
        "Keystone", "Glance", "Placement", "Nova", "Neutron", "Cinder", "Cortex", "OVNCluster",
        "MariaDB", "RabbitmqCluster", "Memcached", "Valkey"
    ]))]
    pub kind: String,
    /// Name of the object, in the same namespace.
    #[schemars(schema_with = "schema::name")]
    pub name: String,
    /// Condition type that must be True.
    #[serde(default = "default::ready")]
    #[schemars(regex(pattern = r"^[A-Za-z][A-Za-z0-9.]*$"), length(max = 63))]
    pub condition: String,
}

/// Rules of oslo.policy: written here, or in a ConfigMap under policy.yaml.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[(
    "has(self.rules) || has(self.configMapRef)",
    "policyOverrides: set rules, configMapRef or both, or leave policyOverrides out",
)])))]
pub struct PolicyOverrides {
    /// Rule name → rule; overrides configMapRef.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 256, "minProperties" = 1))]
    pub rules: BTreeMap<String, String>,
    /// ConfigMap with policy.yaml.
    pub config_map_ref: Option<LocalRef>,
}

/// Let load decide the number of replicas.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[(
    "self.minReplicas <= self.maxReplicas",
    "autoscaling.minReplicas: must not be above maxReplicas",
)])))]
pub struct Autoscaling {
    /// Minimum number of replicas.
    #[serde(default = "Autoscaling::one")]
    #[schemars(range(min = 1, max = 64))]
    pub min_replicas: i32,
    /// Maximum number of replicas.
    #[schemars(range(min = 1, max = 64))]
    pub max_replicas: i32,
    /// Target CPU usage, in percent of the request.
    #[serde(default = "Autoscaling::eighty")]
    #[schemars(range(min = 1, max = 100))]
    pub target_cpu_utilization: i32,
}

impl Autoscaling {
    fn one() -> i32 {
        1
    }
    fn eighty() -> i32 {
        80
    }
}

/// Which incoming traffic is allowed.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkPolicy {
    /// Allow only traffic that is known to be needed.
    #[serde(default = "default::yes")]
    pub enabled: bool,
    /// Further namespaces that may call the API.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = 63)), extend("x-kubernetes-list-type" = "set"))]
    pub allowed_namespaces: Vec<String>,
}

/// What is logged, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Logging {
    /// Minimum severity of the lines that are written.
    pub level: LogLevel,
    /// Format of a line.
    pub format: LogFormat,
}

/// Severity of a log line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum LogLevel {
    Debug,
    #[default]
    Info,
    Warning,
    Error,
}

/// Shape of a log line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    #[default]
    Text,
    Json,
}

/// What every OpenStack service CR reports.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceStatus {
    /// Conditions that describe the current state.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// The object that prevents this one from becoming ready.
    pub blocked_by: Option<Blocker>,
    /// Address inside the cluster.
    pub endpoint: Option<String>,
    /// The generation that was processed.
    pub observed_generation: Option<i64>,
    /// Version of the service whose database schema is in place.
    pub installed_release: Option<String>,
    /// Version whose last schema steps have begun: until they are done no other version can run.
    pub contracting: Option<String>,
    /// Step of a running upgrade.
    #[serde(default, skip_serializing_if = "is_default")]
    pub upgrade_phase: UpgradePhase,
    /// Running API replicas.
    pub replicas: Option<i32>,
    /// Label selector of the API pods.
    pub selector: Option<String>,
    /// Each job that runs on a schedule or once for each change, with its last run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub recurring_jobs: Vec<RecurringJobStatus>,
}

/// The last run of a job.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecurringJobStatus {
    /// Name of the job.
    pub name: String,
    /// Schedule in UTC, if it has one.
    pub schedule: Option<String>,
    /// When the last run started.
    #[serde(default)]
    #[schemars(schema_with = "schema::time")]
    pub last_run: Option<Time>,
    /// Whether the last run that ended succeeded.
    pub succeeded: Option<bool>,
    /// The step that failed in it, and its last words.
    pub failure: Option<String>,
}

/// Step of an upgrade.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum UpgradePhase {
    #[default]
    Idle,
    Expanding,
    RollingOut,
    Contracting,
    Failed,
}

/// Options that carry secrets: they come from Secrets only.
const SECRET_OPTIONS: &str = "['connection', 'slave_connection', 'transport_url', 'password', \
     'admin_password', 'application_credential_secret', 'memcache_secret_key', 'sql_connection', \
     'metadata_proxy_shared_secret', 'rabbit_password', 'secret_key', 's3_store_secret_key']";

pub(crate) fn extra_config(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let rule = format!("self.all(s, self[s].all(o, !(o in {SECRET_OPTIONS})))");
    schemars::json_schema!({
        "type": "object",
        "maxProperties": 64,
        "additionalProperties": {
            "type": "object",
            "maxProperties": 64,
            "additionalProperties": { "type": "string", "maxLength": 4096 },
        },
        "x-kubernetes-validations": rules(&[(
            &rule,
            "extraConfig: options that hold secrets (connection, transport_url, password …) come from the Secrets that database, messaging and keystone name",
        )]),
    })
}
