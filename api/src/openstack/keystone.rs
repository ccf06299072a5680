use crate::common::{Cache, Database, SecretKeyRef, ServiceCommon, ServiceStatus, default, is_default};
use crate::schema::{self, rules};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// The identity service.
#[derive(CustomResource, Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "keystone.openstack.c5c3.io",
    version = "v1alpha1",
    kind = "Keystone",
    plural = "keystones",
    namespaced,
    status = "KeystoneStatus",
    shortname = "ks",
    category = "c5c3",
    category = "openstack",
    derive = "PartialEq",
    doc = "The identity service.",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct KeystoneSpec {
    #[serde(flatten)]
    pub common: ServiceCommon,
    /// Number of API replicas.
    #[serde(default = "default::replicas")]
    #[schemars(range(min = 0, max = 64))]
    pub replicas: i32,
    /// The database.
    pub database: Database,
    /// The cache.
    pub cache: Cache,
    /// Keys of tokens.
    #[serde(default, skip_serializing_if = "is_default")]
    pub fernet: RotatedKeys,
    /// Keys that encrypt stored credentials.
    #[serde(default, skip_serializing_if = "is_default")]
    pub credential_keys: RotatedKeys,
    /// Single sign-on.
    #[serde(default, skip_serializing_if = "is_default")]
    pub federation: Federation,
    /// The first user.
    pub bootstrap: Bootstrap,
}

/// Keys that are replaced on a schedule.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RotatedKeys {
    /// Schedule of key rotations, as cron.
    #[schemars(schema_with = "schema::cron")]
    pub rotation_schedule: String,
    /// Keys that are valid at a time: primary, staged and at least one secondary.
    #[schemars(range(min = 3, max = 16))]
    pub max_active_keys: i32,
}

impl Default for RotatedKeys {
    fn default() -> Self {
        Self {
            rotation_schedule: "0 0 * * 0".to_owned(),
            max_active_keys: 3,
        }
    }
}

/// Single sign-on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Federation {
    /// Accept identities of other providers.
    pub enabled: bool,
}

/// The first user of a cloud.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Bootstrap {
    /// Name of the administrator.
    #[serde(default = "Bootstrap::admin")]
    #[schemars(
        regex(pattern = r"^[A-Za-z0-9][A-Za-z0-9@._-]*$"),
        length(max = 63),
        extend("x-kubernetes-validations" = rules(&[(
            "self == oldSelf",
            "bootstrap.adminUser: cannot change after bootstrap; make further users with K-ORC",
        )]))
    )]
    pub admin_user: String,
    /// The administrator's password.
    pub admin_password_secret_ref: SecretKeyRef,
    /// Region of the service catalogue.
    #[serde(default = "Bootstrap::region_one")]
    #[schemars(
        regex(pattern = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"),
        length(max = 63),
        extend("x-kubernetes-validations" = rules(&[(
            "self == oldSelf",
            "bootstrap.region: cannot change after bootstrap; make a new Keystone for a new region",
        )]))
    )]
    pub region: String,
}

impl Bootstrap {
    fn admin() -> String {
        "admin".to_owned()
    }
    fn region_one() -> String {
        "RegionOne".to_owned()
    }
}

/// What was seen of Keystone.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeystoneStatus {
    #[serde(flatten)]
    pub common: ServiceStatus,
    /// When token keys were last rotated.
    #[serde(default)]
    #[schemars(schema_with = "schema::time")]
    pub last_fernet_rotation: Option<crate::common::Time>,
}
