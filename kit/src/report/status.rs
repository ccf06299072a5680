//! The report step: what is written to `.status`, and when.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::clusters::HOME;
use crate::kinds::{Key, Reference};

/// The conditions of a live object; an entry that does not parse is as good as none.
pub(crate) fn conditions(live: &Value) -> Vec<Condition> {
    let list = live.pointer("/status/conditions").and_then(Value::as_array);
    list.into_iter()
        .flatten()
        .filter_map(|condition| serde_json::from_value(condition.clone()).ok())
        .collect()
}

/// The apply body for `.status`. Without a report the fields of the last one stay: an error is no
/// reason to forget what is known. `held` is what this manager last applied.
pub(crate) fn body(
    live: &Value,
    held: &Value,
    reported: Option<&Value>,
    conditions: &[Condition],
    generation: Option<i64>,
) -> Value {
    let fields = match reported {
        Some(fields) => fields.as_object().cloned(),
        None => held.get("status").and_then(Value::as_object).cloned(),
    };
    let mut status: Map<String, Value> = fields.unwrap_or_default();
    status.retain(|_, value| !value.is_null());
    status.insert("conditions".to_owned(), json!(conditions));
    if let Some(generation) = generation {
        status.insert("observedGeneration".to_owned(), json!(generation));
    }
    let meta = live.get("metadata");
    let mut metadata = Map::new();
    for key in ["name", "namespace"] {
        if let Some(value) = meta.and_then(|meta| meta.get(key)) {
            metadata.insert(key.to_owned(), value.clone());
        }
    }
    json!({
        "apiVersion": live.get("apiVersion"),
        "kind": live.get("kind"),
        "metadata": metadata,
        "status": status,
    })
}

/// The object that keeps another one from being ready, as `status.blockedBy` has it. What is the same as of that other
/// one is left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Blocker {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    pub kind: String,
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
}

/// Names the object that keeps this one from being ready, or takes the name away.
pub(crate) fn point(body: &mut Value, own: &Key, blocker: Option<&Reference>) {
    let Some(status) = body["status"].as_object_mut() else {
        return;
    };
    status.remove("blockedBy");
    if let Some(blocker) = blocker {
        status.insert("blockedBy".to_owned(), json!(Blocker::of(own, blocker)));
    }
}

impl Blocker {
    pub fn of(own: &Key, blocker: &Reference) -> Self {
        let (kind, group) = blocker.kind.split_once('.').unwrap_or((&blocker.kind, ""));
        let elsewhere = |namespace: &&String| own.namespace.as_ref() != Some(namespace);
        Blocker {
            group: (!group.is_empty()).then(|| group.to_owned()),
            kind: kind.to_owned(),
            name: blocker.key.name.clone(),
            namespace: blocker.key.namespace.as_ref().filter(elsewhere).cloned(),
            cluster: (blocker.cluster != HOME).then(|| blocker.cluster.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_keeps_the_other_fields_and_a_report_replaces_them() {
        let live = json!({"apiVersion": "g/v1", "kind": "K", "metadata": {"name": "a", "uid": "u"}});
        let held = json!({"status": {"lastAggregated": "then", "conditions": [], "observedGeneration": 1}});
        let failed = body(&live, &held, None, &[], Some(2));
        assert_eq!(failed["status"]["lastAggregated"], "then");
        assert_eq!(failed["status"]["observedGeneration"], 2);
        assert_eq!(failed["metadata"], json!({"name": "a"}));
        let reported = json!({"phase": "Idle", "nothing": null, "conditions": ["by hand"]});
        let told = body(&live, &held, Some(&reported), &[], Some(2));
        assert_eq!(
            told["status"],
            json!({"phase": "Idle", "conditions": [], "observedGeneration": 2})
        );
        let added = body(&live, &Value::Null, Some(&reported), &[], None);
        assert_eq!(added["status"], json!({"phase": "Idle", "conditions": []}));
    }

    #[test]
    fn a_status_names_its_blocker_and_forgets_it() {
        let own = Key::new(Some("ns"), "cloud");
        let mut body = json!({"status": {"phase": "Idle"}});
        let mut blocker = Reference {
            cluster: HOME,
            kind: "MariaDB.k8s.mariadb.com".to_owned(),
            key: Key::new(Some("ns"), "mariadb"),
        };
        point(&mut body, &own, Some(&blocker));
        assert_eq!(
            body["status"]["blockedBy"],
            json!({"group": "k8s.mariadb.com", "kind": "MariaDB", "name": "mariadb"})
        );
        blocker = Reference {
            cluster: "far".into(),
            kind: "Pod".to_owned(),
            key: Key::new(Some("other"), "p"),
        };
        point(&mut body, &own, Some(&blocker));
        assert_eq!(
            body["status"]["blockedBy"],
            json!({"kind": "Pod", "name": "p", "namespace": "other", "cluster": "far"})
        );
        point(&mut body, &own, None);
        assert_eq!(body["status"], json!({"phase": "Idle"}));
    }

    #[test]
    fn broken_conditions_are_passed_over() {
        let live = json!({"status": {"conditions": [{"type": 5}, {
            "type": "Ready", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
        assert_eq!(conditions(&live).len(), 1);
        assert!(conditions(&json!({"status": "odd"})).is_empty());
    }
}
