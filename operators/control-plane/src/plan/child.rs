//! What is known of an object that the plan made: is it well, at its newest generation?

use std::collections::BTreeMap;

use c5c3_api::conditions::{self, READY, korc, reason};
use c5c3_kit::HOME;
use c5c3_kit::kinds::{Key, Reference};
use serde_json::Value;

use super::completion::COMPLETED;

/// How a child is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    Ready,
    /// It works on it.
    Progressing(String),
    /// It will not get better by itself.
    Failed {
        reason: String,
        text: String,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub struct Child {
    pub health: Health,
    /// `spec.image` of a service.
    pub image: Option<Value>,
    /// The version whose schema is in its database.
    pub installed: Option<String>,
    /// The version whose last schema steps have begun: from there no way leads back.
    pub contracting: Option<String>,
    /// Further images, by field.
    pub images: BTreeMap<String, Value>,
    /// Of K-ORC: what it is in Keystone, and what was set there beside K-ORC.
    pub id: Option<String>,
    pub completed: Option<String>,
}

/// Reasons of a condition that is false only because something is under way.
const UNDER_WAY: &[&str] = &[
    reason::PROGRESSING,
    reason::WAITING,
    reason::RUNNING,
    reason::ROTATING,
    reason::DELETING,
    reason::DEPENDENCY_NOT_READY,
    "NotReached",
    "NotReported",
];

impl Child {
    /// From the object as the API server has it.
    pub fn of(live: &Value) -> Self {
        Child {
            health: health(live),
            image: live.pointer("/spec/image").cloned(),
            installed: text(live, "/status/installedRelease").map(str::to_owned),
            contracting: text(live, "/status/contracting").map(str::to_owned),
            images: images(live),
            id: text(live, "/status/id")
                .filter(|id| !id.is_empty())
                .map(str::to_owned),
            completed: live
                .pointer("/metadata/annotations")
                .and_then(|all| all.get(COMPLETED)?.as_str())
                .map(str::to_owned),
        }
    }
}

/// The fields of a spec that name an image, beside `image` itself.
pub(super) fn images(object: &Value) -> BTreeMap<String, Value> {
    let fields = object.get("spec").and_then(Value::as_object);
    let libvirt = object.pointer("/spec/compute/libvirtImage");
    fields
        .into_iter()
        .flatten()
        .filter(|(name, _)| name.ends_with("Image"))
        .map(|(name, image)| (name.clone(), image.clone()))
        .chain(libvirt.map(|image| ("libvirtImage".to_owned(), image.clone())))
        .collect()
}

/// Kind with its group, namespace and name, as the kit writes it.
pub fn reference(object: &Value) -> Reference {
    let kind = text(object, "/kind").unwrap_or_default();
    let group = text(object, "/apiVersion").and_then(|version| version.split_once('/'));
    Reference {
        cluster: HOME,
        kind: group.map_or_else(|| kind.to_owned(), |(group, _)| format!("{kind}.{group}")),
        key: Key::new(
            text(object, "/metadata/namespace"),
            text(object, "/metadata/name").unwrap_or_default(),
        ),
    }
}

fn health(live: &Value) -> Health {
    if live.pointer("/metadata/deletionTimestamp").is_some() {
        return Health::Progressing("is being deleted".to_owned());
    }
    match text(live, "/kind").unwrap_or_default() {
        "Valkey" => valkey(live),
        "RabbitmqCluster" => rabbitmq(live),
        "Memcached" => by_condition(live, "Available"),
        _ if text(live, "/apiVersion").is_some_and(|v| v.starts_with("openstack.k-orc.cloud/")) => orc(live),
        _ => by_condition(live, READY),
    }
}

fn by_condition(live: &Value, type_: &str) -> Health {
    let Some(condition) = condition(live, type_) else {
        return Health::Progressing("has not reported yet".to_owned());
    };
    if stale(live, condition) {
        return not_processed();
    }
    if status(condition) == "True" {
        return Health::Ready;
    }
    let said = message(live, condition);
    let under_way = condition
        .get("reason")
        .and_then(Value::as_str)
        .is_none_or(|reason| UNDER_WAY.contains(&reason));
    // Kinds of other projects have reasons of their own: they are taken to be at work.
    if status(condition) == "Unknown" || under_way || !is_ours(live) {
        Health::Progressing(said)
    } else {
        failed(condition, said)
    }
}

fn failed(condition: &Value, text: String) -> Health {
    let why = condition.get("reason").and_then(Value::as_str);
    Health::Failed {
        reason: why
            .filter(|why| !why.is_empty())
            .unwrap_or(reason::FAILED)
            .to_owned(),
        text,
    }
}

fn orc(live: &Value) -> Health {
    let progressing = condition(live, korc::PROGRESSING);
    let available = condition(live, korc::AVAILABLE);
    let fresh = |condition: &&Value| !stale(live, condition);
    if available.filter(fresh).is_some_and(|c| status(c) == "True") {
        return Health::Ready;
    }
    match progressing.or(available) {
        None => Health::Progressing("has not been looked at by K-ORC yet".to_owned()),
        Some(condition) if stale(live, condition) => not_processed(),
        // K-ORC has given up until somebody changes something.
        Some(condition) if progressing.is_some() && status(condition) == "False" => {
            failed(condition, message(live, condition))
        }
        Some(condition) => Health::Progressing(message(live, condition)),
    }
}

fn valkey(live: &Value) -> Health {
    let observed = live.pointer("/status/observedGeneration").and_then(Value::as_i64);
    if behind(live, observed) {
        return not_processed();
    }
    match text(live, "/status/state") {
        Some("Ready") => Health::Ready,
        Some("Error") => failed(
            &Value::Null,
            first_message(live).unwrap_or_else(|| "failed".to_owned()),
        ),
        _ => Health::Progressing(first_message(live).unwrap_or_else(|| "is starting".to_owned())),
    }
}

/// Its operator tells apart how the members are and whether it could do as the spec says. What it
/// refuses it does not count as observed.
fn rabbitmq(live: &Value) -> Health {
    match condition(live, "ReconcileSuccess") {
        Some(condition) if status(condition) == "False" => failed(condition, message(live, condition)),
        _ => by_condition(live, "AllReplicasReady"),
    }
}

fn not_processed() -> Health {
    Health::Progressing("its last change is not processed yet".to_owned())
}

fn is_ours(live: &Value) -> bool {
    text(live, "/apiVersion").is_some_and(|version| {
        version.split('/').next().is_some_and(|group| {
            group == "c5c3.io" || group == "ovn.c5c3.io" || group.ends_with(".openstack.c5c3.io")
        })
    })
}

fn condition<'a>(live: &'a Value, type_: &str) -> Option<&'a Value> {
    let list = live.pointer("/status/conditions")?.as_array()?;
    list.iter()
        .find(|c| c.get("type").and_then(Value::as_str) == Some(type_))
}

fn status(condition: &Value) -> &str {
    condition
        .get("status")
        .and_then(Value::as_str)
        .unwrap_or("Unknown")
}

/// A condition about an older generation says nothing about this one.
fn stale(live: &Value, condition: &Value) -> bool {
    let observed = condition.get("observedGeneration").and_then(Value::as_i64);
    behind(
        live,
        observed.or_else(|| live.pointer("/status/observedGeneration").and_then(Value::as_i64)),
    )
}

/// Our kinds always say which generation they mean; those of others need not.
fn behind(live: &Value, observed: Option<i64>) -> bool {
    let generation = live.pointer("/metadata/generation").and_then(Value::as_i64);
    match (observed, generation) {
        (Some(seen), Some(now)) => seen < now,
        (None, Some(_)) => is_ours(live),
        _ => false,
    }
}

/// The message without the name of the condition that it was taken from.
fn message(live: &Value, condition: &Value) -> String {
    let said = condition
        .get("message")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let known = conditions::of_kind(text(live, "/kind").unwrap_or_default());
    let is_condition = |name: &str| known.contains(&name) || self::condition(live, name).is_some();
    let bare = match said.split_once(": ") {
        Some((type_, rest)) if is_condition(type_) => rest,
        _ => said,
    };
    if bare.is_empty() {
        "not ready".to_owned()
    } else {
        bare.to_owned()
    }
}

fn first_message(live: &Value) -> Option<String> {
    let list = live.pointer("/status/conditions")?.as_array()?;
    let said = list.iter().find_map(|c| c.get("message").and_then(Value::as_str));
    said.filter(|said| !said.is_empty()).map(str::to_owned)
}

fn text<'a>(value: &'a Value, path: &str) -> Option<&'a str> {
    value.pointer(path).and_then(Value::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(api: &str, kind: &str, generation: i64, conditions: &Value) -> Value {
        json!({"apiVersion": api, "kind": kind, "metadata": {"name": "x", "namespace": "ns", "generation": generation},
            "status": {"conditions": conditions}})
    }

    fn failure(reason: &str, text: &str) -> Health {
        Health::Failed {
            reason: reason.into(),
            text: text.into(),
        }
    }

    fn keystone(generation: i64, status: &str, reason: &str, message: &str, observed: i64) -> Value {
        let ready = json!([{"type": "Ready", "status": status, "reason": reason, "message": message, "observedGeneration": observed}]);
        object(
            "keystone.openstack.c5c3.io/v1alpha1",
            "Keystone",
            generation,
            &ready,
        )
    }

    #[test]
    fn a_failure_is_told_without_the_name_of_its_condition() {
        let words = "DatabaseReady: db-sync failed: access denied for user keystone";
        assert_eq!(
            Child::of(&keystone(2, "False", "Failed", words, 2)).health,
            failure("Failed", "db-sync failed: access denied for user keystone")
        );
        assert_eq!(
            Child::of(&keystone(
                2,
                "False",
                "Waiting",
                "DatabaseReady: MariaDB mariadb: starting",
                2
            ))
            .health,
            Health::Progressing("MariaDB mariadb: starting".into())
        );
    }

    #[test]
    fn an_older_generation_says_nothing() {
        for status in ["True", "False"] {
            let child = Child::of(&keystone(3, status, "Failed", "old", 2));
            assert_eq!(child.health, not_processed());
        }
        assert_eq!(
            Child::of(&keystone(3, "True", "Ready", "", 3)).health,
            Health::Ready
        );
        let mut silent = keystone(3, "True", "Ready", "", 3);
        silent["status"]["conditions"][0]["observedGeneration"] = Value::Null;
        assert_eq!(Child::of(&silent).health, not_processed());
    }

    #[test]
    fn each_project_has_its_own_way_of_saying_so() {
        let korc = |available: &str, progressing: &str| {
            object(
                "openstack.k-orc.cloud/v1alpha1",
                "User",
                1,
                &json!([
                    {"type": "Available", "status": available, "reason": "x", "message": "a", "observedGeneration": 1},
                    {"type": "Progressing", "status": progressing, "reason": "x", "message": "no such domain", "observedGeneration": 1},
                ]),
            )
        };
        assert_eq!(Child::of(&korc("True", "False")).health, Health::Ready);
        assert_eq!(
            Child::of(&korc("False", "False")).health,
            failure("x", "no such domain")
        );
        assert_eq!(
            Child::of(&korc("False", "True")).health,
            Health::Progressing("no such domain".into())
        );
        let mariadb = |status: &str| {
            object(
                "k8s.mariadb.com/v1alpha1",
                "MariaDB",
                1,
                &json!([
            {"type": "Ready", "status": status, "reason": "StatefulSetNotReady", "message": "Not ready"}]),
            )
        };
        assert_eq!(Child::of(&mariadb("True")).health, Health::Ready);
        assert_eq!(
            Child::of(&mariadb("False")).health,
            Health::Progressing("Not ready".into())
        );
        let rabbitmq = |done: &str| {
            object(
                "rabbitmq.com/v1beta1",
                "RabbitmqCluster",
                1,
                &json!([
                    {"type": "AllReplicasReady", "status": "True", "reason": "AllPodsAreReady"},
                    {"type": "ReconcileSuccess", "status": done, "reason": "UnsupportedOperation", "message": "Cluster Scale down not supported"},
                ]),
            )
        };
        assert_eq!(Child::of(&rabbitmq("True")).health, Health::Ready);
        assert_eq!(Child::of(&rabbitmq("Unknown")).health, Health::Ready);
        let mut refused = rabbitmq("False");
        refused["metadata"]["generation"] = json!(2);
        refused["status"]["observedGeneration"] = json!(1);
        assert_eq!(
            Child::of(&refused).health,
            failure("UnsupportedOperation", "Cluster Scale down not supported")
        );
        let valkey = json!({"apiVersion": "cache.cs.sap.com/v1alpha1", "kind": "Valkey", "metadata": {"generation": 2},
            "status": {"state": "Ready", "observedGeneration": 1}});
        assert_eq!(Child::of(&valkey).health, not_processed());
    }

    #[test]
    fn references_read_as_the_kit_writes_them() {
        let keystone = keystone(1, "True", "", "", 1);
        assert_eq!(
            reference(&keystone).to_string(),
            "Keystone.keystone.openstack.c5c3.io ns/x"
        );
        let secret =
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "ns"}});
        assert_eq!(reference(&secret).to_string(), "Secret ns/s");
    }
}
