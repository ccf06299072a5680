//! Kinds of other projects that the operators create or read: only the fields that we use.
//!
//! Unknown fields are ignored when reading. We write by server-side apply of our own fields, so
//! nothing is lost. The definitions here accept any spec and status; they serve clusters where
//! the real operators are not installed.

pub mod cert_manager;
pub mod external_secrets;
pub mod gardener;
pub mod gateway;
pub mod korc;
pub mod mariadb;
pub mod memcached;
pub mod rabbitmq;
pub mod rook;
pub mod valkey;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// Who brings the kinds of a group; `None` where ours make nothing of it.
pub fn brought_by(group: &str) -> Option<&'static str> {
    Some(match group {
        "k8s.mariadb.com" => "mariadb-operator",
        "memcached.c5c3.io" => "memcached-operator",
        "rabbitmq.com" => "RabbitMQ's cluster operator",
        "cache.cs.sap.com" => "valkey-operator",
        "openstack.k-orc.cloud" => "K-ORC",
        "ceph.rook.io" => "Rook",
        _ => return None,
    })
}

/// A name, in the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct NameRef {
    pub name: String,
}

impl NameRef {
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into() }
    }
}

/// One key of a Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct SecretKey {
    pub name: String,
    pub key: String,
}

/// A status of which we read only the conditions.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ConditionsStatus {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<LooseCondition>,
    pub observed_generation: Option<i64>,
}

/// A condition as other projects write it: not all fill in every field.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LooseCondition {
    #[serde(rename = "type")]
    pub type_: String,
    pub status: String,
    pub reason: Option<String>,
    pub message: Option<String>,
    pub last_transition_time: Option<k8s_openapi::apimachinery::pkg::apis::meta::v1::Time>,
    pub observed_generation: Option<i64>,
}

impl From<Condition> for LooseCondition {
    fn from(condition: Condition) -> Self {
        Self {
            type_: condition.type_,
            status: condition.status,
            reason: Some(condition.reason),
            message: Some(condition.message),
            last_transition_time: Some(condition.last_transition_time),
            observed_generation: condition.observed_generation,
        }
    }
}

/// Does the list say that this type is True?
pub fn is_true(conditions: &[LooseCondition], type_: &str) -> bool {
    conditions.iter().any(|c| c.type_ == type_ && c.status == "True")
}
