use crate::common::{Condition, LocalRef, Time};
use crate::schema::{self, rules};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// Replaces the application credential of a service user before it expires.
#[derive(CustomResource, Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "c5c3.io",
    version = "v1alpha1",
    kind = "CredentialRotation",
    plural = "credentialrotations",
    namespaced,
    status = "CredentialRotationStatus",
    shortname = "crot",
    category = "c5c3",
    derive = "PartialEq",
    doc = "Replaces the application credential of a service user before it expires.",
    printcolumn(name = "User", type_ = "string", json_path = ".spec.targetServiceUser"),
    printcolumn(
        name = "Credential",
        type_ = "string",
        json_path = ".status.currentCredentialRef.name"
    ),
    printcolumn(name = "Last", type_ = "date", json_path = ".status.lastRotation"),
    printcolumn(name = "Next", type_ = "string", json_path = ".status.nextRotation")
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[(
    "self.gracePeriodDays < self.schedule.intervalDays",
    "gracePeriodDays: must be below schedule.intervalDays, or old credentials pile up",
)])))]
pub struct CredentialRotationSpec {
    /// The K-ORC User whose credential is rotated.
    #[schemars(schema_with = "schema::name", extend("x-kubernetes-validations" = rules(&[(
        "self == oldSelf",
        "targetServiceUser: cannot change; make another CredentialRotation for another user",
    )])))]
    pub target_service_user: String,
    /// What is rotated.
    #[serde(default)]
    pub rotation_type: RotationType,
    /// When it is rotated.
    pub schedule: RotationSchedule,
    /// Days that a credential is kept after it expired, or after one made on request replaced it.
    #[serde(default = "CredentialRotationSpec::one_day")]
    #[schemars(range(min = 0, max = 30))]
    pub grace_period_days: i32,
}

impl CredentialRotationSpec {
    fn one_day() -> i32 {
        1
    }
}

/// What is rotated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum RotationType {
    #[default]
    ApplicationCredential,
}

/// When a credential is replaced.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[(
    "self.preRotationDays < self.intervalDays",
    "schedule.preRotationDays: must be below intervalDays, or the new credential would be made before the old one",
)])))]
pub struct RotationSchedule {
    /// Days that a credential is valid.
    #[schemars(range(min = 1, max = 3650))]
    pub interval_days: i32,
    /// Days before expiry at which the next one is made.
    #[schemars(range(min = 0, max = 365))]
    pub pre_rotation_days: i32,
}

/// What was seen of the credentials.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CredentialRotationStatus {
    /// What holds and what does not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// The generation that was processed.
    pub observed_generation: Option<i64>,
    /// When the current credential was made.
    #[serde(default)]
    #[schemars(schema_with = "schema::time")]
    pub last_rotation: Option<Time>,
    /// When the next one is due.
    #[serde(default)]
    #[schemars(schema_with = "schema::time")]
    pub next_rotation: Option<Time>,
    /// The K-ORC ApplicationCredential in use.
    pub current_credential_ref: Option<LocalRef>,
    /// The last value of the annotation c5c3.io/rotate-now that was acted on.
    #[schemars(length(max = 253))]
    pub rotate_now: Option<String>,
}
