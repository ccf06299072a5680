use crate::common::{Condition, LocalRef, Time};
use crate::schema::{self, rules};
use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// Replaces the application credential or the Ceph key of a service user on a schedule.
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
    doc = "Replaces the application credential or the Ceph key of a service user on a schedule.",
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
#[schemars(extend("x-kubernetes-validations" = rules(&[
    (
        "self.gracePeriodDays < self.schedule.intervalDays",
        "gracePeriodDays: must be below schedule.intervalDays, or old credentials pile up",
    ),
    (
        "(self.rotationType == 'cephClient') == has(self.cephClient)",
        "cephClient: set it with rotationType cephClient, and with no other",
    ),
    (
        "self.rotationType != 'cephClient' || size(self.targetServiceUser) <= 40",
        "targetServiceUser: at most 40 characters for a user of Ceph, whose number is put behind",
    ),
])))]
pub struct CredentialRotationSpec {
    /// The K-ORC User whose credential is rotated, or the prefix of the names of the users in Ceph.
    #[schemars(schema_with = "schema::name", extend("x-kubernetes-validations" = rules(&[(
        "self == oldSelf",
        "targetServiceUser: cannot change; make another CredentialRotation for another user",
    )])))]
    pub target_service_user: String,
    /// What is rotated.
    #[serde(default)]
    #[schemars(extend("x-kubernetes-validations" = rules(&[(
        "self == oldSelf",
        "rotationType: cannot change; make another CredentialRotation",
    )])))]
    pub rotation_type: RotationType,
    /// The users of Ceph that are created, one for each rotation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceph_client: Option<CephClientRotation>,
    /// When it is rotated.
    pub schedule: RotationSchedule,
    /// Days that a credential is kept after it expired, or after one created on request replaced it.
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
    CephClient,
}

/// Users of Ceph, each a CephClient `<targetServiceUser>-<number>`. Their keys are in the Secret
/// `ceph-client-<targetServiceUser>` beside them, as a keyring: first the one to use, then those that somebody may
/// still use.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CephClientRotation {
    /// The cluster that runs Ceph, by the name under which the operators know it; this cluster when left out.
    pub cluster_ref: Option<LocalRef>,
    /// The namespace of the CephCluster.
    #[schemars(schema_with = "schema::label")]
    pub namespace: String,
    /// What the user may do, by daemon.
    #[schemars(schema_with = "caps")]
    pub caps: BTreeMap<String, String>,
}

fn caps(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "object",
        "minProperties": 1,
        "maxProperties": 4,
        "additionalProperties": {"type": "string", "minLength": 1, "maxLength": 1024},
        "x-kubernetes-validations": rules(&[(
            "self.all(daemon, daemon in ['mon', 'osd', 'mgr', 'mds'])",
            "cephClient.caps: names a daemon that there is not; use mon, osd, mgr or mds",
        )]),
    })
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
    /// Days before expiry at which the next one is created.
    #[schemars(range(min = 0, max = 365))]
    pub pre_rotation_days: i32,
}

/// What was seen of the credentials.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CredentialRotationStatus {
    /// Conditions that describe the current state.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// The object that prevents this one from becoming ready.
    pub blocked_by: Option<crate::common::Blocker>,
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
    /// The K-ORC ApplicationCredential, or the CephClient, in use.
    pub current_credential_ref: Option<LocalRef>,
    /// The last value of the annotation c5c3.io/rotate-now that was processed.
    #[schemars(length(max = 253))]
    pub rotate_now: Option<String>,
}
