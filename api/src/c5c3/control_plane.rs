use super::{Infrastructure, Services};
use crate::common::{
    Blocker, Condition, ExtraConfig, Image, PodSettings, PolicyOverrides, default, is_default,
};
use crate::openstack::TempestTests;
use crate::schema::{self, rules};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use std::collections::BTreeMap;

/// One OpenStack cloud: give a release, get infrastructure, services, catalogue and credentials.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "c5c3.io",
    version = "v1alpha1",
    kind = "ControlPlane",
    plural = "controlplanes",
    namespaced,
    status = "ControlPlaneStatus",
    shortname = "cp",
    category = "c5c3",
    category = "openstack",
    derive = "PartialEq",
    doc = "One OpenStack cloud: give a release, get infrastructure, services, catalogue and credentials.",
    printcolumn(name = "Release", type_ = "string", json_path = ".spec.openStackRelease"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.updatePhase"),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].message"
    )
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[
    (
        "!has(self.services) || !has(self.services.keystone) || self.services.keystone.enabled || (has(self.korc) && has(self.korc.cloudCredentialsRef))",
        "services.keystone.enabled: without Keystone of its own a cloud needs korc.cloudCredentialsRef of an existing one",
    ),
    (
        "!has(self.services) || !has(self.services.placement) || self.services.placement.enabled || (has(self.services.nova) && !self.services.nova.enabled)",
        "services.placement.enabled: Nova needs Placement; enable it, or set services.nova.enabled to false too",
    ),
    (
        "!has(self.services) || !has(self.services.glance) || self.services.glance.enabled || (has(self.services.nova) && !self.services.nova.enabled)",
        "services.glance.enabled: Nova needs Glance; enable it, or set services.nova.enabled to false too",
    ),
    (
        "!has(self.cortex) || !self.cortex.enabled || !has(self.services) || !has(self.services.nova) || self.services.nova.enabled",
        "cortex.enabled: Cortex places Nova's instances; set services.nova.enabled to true, or cortex.enabled to false",
    ),
    (
        "(!has(self.services.keystone) || self.services.keystone.enabled) == (!has(oldSelf.services.keystone) || oldSelf.services.keystone.enabled)",
        "services.keystone.enabled: cannot change, users, projects and credentials would stay behind in the other Keystone; make a new ControlPlane",
    ),
    (
        "(has(self.korc) && has(self.korc.cloudCredentialsRef)) == (has(oldSelf.korc) && has(oldSelf.korc.cloudCredentialsRef))",
        "korc.cloudCredentialsRef: can neither be added nor taken away, K-ORC would look for its objects in another Keystone; make a new ControlPlane",
    ),
])))]
pub struct ControlPlaneSpec {
    /// OpenStack release, such as 2025.2; the catalogue of releases gives the images.
    #[schemars(regex(pattern = r"^\d{4}\.\d$"), length(max = 6))]
    pub open_stack_release: String,
    /// What to do with new builds of the running release, such as a newer c5c3 brings.
    #[serde(default, skip_serializing_if = "is_default")]
    pub update_policy: UpdatePolicy,
    /// Region of the service catalogue.
    #[serde(default = "ControlPlaneSpec::region_one")]
    #[schemars(
        regex(pattern = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"),
        length(max = 63),
        extend("x-kubernetes-validations" = rules(&[(
            "self == oldSelf",
            "region: cannot change, the catalogue would point nowhere; make a new ControlPlane for a new region",
        )]))
    )]
    pub region: String,
    /// Database, message bus and caches.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(extend("default" = {}))]
    pub infrastructure: Infrastructure,
    /// The OpenStack services; one that is not named is deployed with its defaults.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(extend("default" = {}))]
    pub services: Services,
    /// Smart placement (off by default).
    #[serde(default, skip_serializing_if = "is_default")]
    pub cortex: CortexToggle,
    /// Integration tests on a schedule (off by default).
    #[serde(default, skip_serializing_if = "is_default")]
    pub tempest: TempestToggle,
    /// The service catalogue, kept by K-ORC.
    #[serde(default, skip_serializing_if = "is_default")]
    pub korc: Korc,
    /// Settings for all services.
    #[serde(default, skip_serializing_if = "is_default")]
    pub global: Global,
}

impl ControlPlaneSpec {
    fn region_one() -> String {
        "RegionOne".to_owned()
    }
}

/// What becomes of new builds of the release that runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum UpdatePolicy {
    /// They are rolled out, tier by tier.
    #[default]
    Automatic,
    /// Images stay as they are until openStackRelease, an image or this field changes.
    Hold,
}

/// Smart placement.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CortexToggle {
    /// Deploy it.
    #[serde(default)]
    pub enabled: bool,
    /// Number of replicas.
    #[schemars(range(min = 1, max = 16))]
    pub replicas: Option<i32>,
    /// Image to use instead of the release's.
    pub image: Option<Image>,
}

/// Integration tests on a schedule.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TempestToggle {
    /// Deploy it.
    #[serde(default)]
    pub enabled: bool,
    /// When to run, as cron; once after each update when left out.
    #[serde(default)]
    #[schemars(schema_with = "schema::cron")]
    pub schedule: Option<String>,
    /// Which tests run; the smoke tests when left out.
    pub tests: Option<TempestTests>,
    /// Options of tempest.conf, which override what is discovered in the cloud: section, option, value.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "crate::common::extra_config")]
    pub extra_config: ExtraConfig,
    /// Image to use instead of the release's.
    pub image: Option<Image>,
}

/// The service catalogue, kept by K-ORC.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Korc {
    /// Let K-ORC register services, endpoints, users and credentials.
    #[serde(default = "default::yes")]
    pub enabled: bool,
    /// Objects of Keystone's bootstrap that K-ORC imports, beside the roles that service users need; all of them when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 3), extend("x-kubernetes-list-type" = "set"))]
    pub bootstrap_resources: Vec<BootstrapResource>,
    /// Credentials of K-ORC; created from Keystone's bootstrap when left out.
    pub cloud_credentials_ref: Option<CloudCredentialsRef>,
    /// How long credentials of service users are valid.
    #[serde(default, skip_serializing_if = "is_default")]
    pub credentials: CredentialTerms,
}

/// How long credentials of service users are valid.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = rules(&[(
    "self.preRotationDays < self.intervalDays && self.gracePeriodDays < self.intervalDays",
    "korc.credentials.intervalDays: must be above preRotationDays and gracePeriodDays, or old credentials pile up",
)])))]
pub struct CredentialTerms {
    /// Days that a credential is valid.
    #[schemars(range(min = 1, max = 3650))]
    pub interval_days: i32,
    /// Days before expiry at which the next one is created.
    #[schemars(range(min = 0, max = 365))]
    pub pre_rotation_days: i32,
    /// Days that a credential is kept after it expired, or after one created on request replaced it.
    #[schemars(range(min = 0, max = 30))]
    pub grace_period_days: i32,
}

impl Default for CredentialTerms {
    fn default() -> Self {
        Self {
            interval_days: 90,
            pre_rotation_days: 7,
            grace_period_days: 1,
        }
    }
}

impl Default for Korc {
    fn default() -> Self {
        Self {
            enabled: true,
            bootstrap_resources: Vec::new(),
            cloud_credentials_ref: None,
            credentials: CredentialTerms::default(),
        }
    }
}

/// What Keystone's bootstrap makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum BootstrapResource {
    Domains,
    Projects,
    Roles,
}

/// One cloud of a clouds.yaml.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CloudCredentialsRef {
    /// Name of the cloud in clouds.yaml.
    #[schemars(length(min = 1, max = 256))]
    pub cloud_name: String,
    /// Secret with clouds.yaml.
    #[schemars(schema_with = "schema::name")]
    pub secret_name: String,
}

/// Settings for all services.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Global {
    /// TLS of the public endpoints.
    pub tls: Option<Tls>,
    /// Policy rules for every service; a service's own rules override them.
    pub policy_overrides: Option<PolicyOverrides>,
    /// Metrics, dashboards and alerts.
    #[serde(default, skip_serializing_if = "is_default")]
    pub monitoring: Monitoring,
    /// Registry to use instead of the releases' own, such as mirror.example.com/c5c3.
    #[schemars(regex(pattern = r"^[a-z0-9]([-a-z0-9.:/_]*[a-z0-9])?$"), length(max = 255))]
    pub image_registry: Option<String>,
    /// Placement of the pods of services, MariaDB, RabbitMQ and OVN, and secrets for pulling their images.
    pub pods: Option<PodSettings>,
}

/// Metrics, dashboards and alerts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Monitoring {
    /// Deploy them.
    #[serde(default)]
    pub enabled: bool,
}

/// TLS of the public endpoints.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[(
    "!self.enabled || has(self.issuerRef)",
    "global.tls.issuerRef: name the cert-manager issuer, or set global.tls.enabled to false",
)])))]
pub struct Tls {
    /// Serve HTTPS.
    #[serde(default)]
    pub enabled: bool,
    /// The cert-manager issuer that signs.
    pub issuer_ref: Option<IssuerRef>,
}

/// A cert-manager issuer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IssuerRef {
    /// Name of the issuer.
    #[schemars(schema_with = "schema::name")]
    pub name: String,
    /// Issuer of this namespace, or ClusterIssuer.
    #[serde(default)]
    pub kind: IssuerKind,
}

/// Where an issuer lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum IssuerKind {
    #[default]
    Issuer,
    ClusterIssuer,
}

/// What was seen of the cloud.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ControlPlaneStatus {
    /// Conditions that describe the current state.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// The object that prevents this one from becoming ready.
    pub blocked_by: Option<Blocker>,
    /// The generation that was processed.
    pub observed_generation: Option<i64>,
    /// Step of a running update.
    pub update_phase: Option<UpdatePhase>,
    /// The release that every service runs, except those whose image is set in the spec.
    pub installed_release: Option<String>,
    /// Each service by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub services: BTreeMap<String, ServiceReadiness>,
}

/// Step of an update of the whole cloud.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum UpdatePhase {
    #[default]
    Idle,
    Validating,
    UpdatingInfra,
    UpdatingKeystone,
    UpdatingServices,
    Verifying,
    Complete,
    RollingBack,
}

/// One service at a glance.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceReadiness {
    /// Whether it is ready, at the current generation.
    pub ready: bool,
    /// Version whose schema is in its database.
    pub version: Option<String>,
    /// Release of that version, where it is known.
    pub release: Option<String>,
    /// Tag or digest of the image that it is configured to run.
    pub image: Option<String>,
    /// Whether its image is set in the spec and does not follow the release.
    #[serde(default, skip_serializing_if = "is_default")]
    pub pinned: bool,
    /// What it is waiting for.
    pub message: Option<String>,
}
