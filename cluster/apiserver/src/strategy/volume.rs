//! Volumes and claims: what a claim asks for and where a volume lies is said once.

use apimachinery::{field::FieldError, quantity::Quantity};
use serde_json::{Map, Value};

const REQUEST: &str = "/spec/resources/requests/storage";
const CLASS: &str = "storageClassName";
const ATTRIBUTES_CLASS: &str = "volumeAttributesClassName";

/// What of a PersistentVolume's spec says nothing of where its data lies.
const BESIDE_THE_SOURCE: [&str; 9] = [
    "accessModes",
    "capacity",
    "claimRef",
    "mountOptions",
    "nodeAffinity",
    "persistentVolumeReclaimPolicy",
    CLASS,
    ATTRIBUTES_CLASS,
    "volumeMode",
];

fn spec(object: &Value) -> Map<String, Value> {
    object["spec"].as_object().cloned().unwrap_or_default()
}

fn quantity(value: Option<&Value>) -> Option<Quantity> {
    value?.as_str()?.parse().ok()
}

/// A bound claim keeps its volume: with another name in `volumeName` it would be given what belongs
/// to someone else.
pub(super) fn validate_claim(object: &Value, old: &Value) -> Vec<FieldError> {
    let (mut new, mut before) = (spec(object), spec(old));
    let unset = |value: Option<&Value>| value.and_then(Value::as_str).is_none_or(str::is_empty);
    if unset(before.get("volumeName")) {
        new.remove("volumeName");
        before.remove("volumeName");
    }
    if !before.contains_key(CLASS) {
        new.remove(CLASS);
    }
    for spec in [&mut new, &mut before] {
        spec.remove(ATTRIBUTES_CLASS);
    }
    if object["status"]["phase"] == "Bound" {
        for spec in [&mut new, &mut before] {
            if let Some(requests) = spec
                .get_mut("resources")
                .and_then(|r| r.get_mut("requests")?.as_object_mut())
            {
                requests.remove("storage");
            }
        }
    }
    let mut errors = Vec::new();
    if new != before {
        let mut names: Vec<&String> = new.keys().chain(before.keys()).collect();
        names.sort();
        names.dedup();
        names.retain(|name| new.get(*name) != before.get(*name));
        let names: Vec<&str> = names.into_iter().map(String::as_str).collect();
        errors.push(FieldError::forbidden(
            "spec",
            format!(
                "spec is immutable after creation except resources.requests and volumeAttributesClassName for \
                 bound claims: {} would change",
                names.join(", ")
            ),
        ));
    }
    let wanted = quantity(object.pointer(REQUEST));
    let shrinks = wanted < quantity(old.pointer(REQUEST));
    if shrinks && wanted <= quantity(old.pointer("/status/capacity/storage")) {
        errors.push(FieldError::forbidden(
            "spec.resources.requests.storage",
            "field can not be less than status.capacity",
        ));
    }
    errors
}

/// A volume stays where it is. Its `claimRef` may change: emptying it is how a kept volume is freed.
pub(super) fn validate_volume(object: &Value, old: &Value) -> Vec<FieldError> {
    let source = |object: &Value| {
        let mut spec = spec(object);
        spec.retain(|field, _| !BESIDE_THE_SOURCE.contains(&field.as_str()));
        spec
    };
    let mut errors = Vec::new();
    if source(object) != source(old) {
        errors.push(FieldError::forbidden(
            "spec.persistentvolumesource",
            "spec.persistentvolumesource is immutable after creation",
        ));
    }
    let (mode, before) = (&object["spec"]["volumeMode"], &old["spec"]["volumeMode"]);
    if mode != before {
        errors.push(FieldError::invalid(
            "volumeMode",
            mode.clone(),
            "field is immutable",
        ));
    }
    let (affinity, before) = (&object["spec"]["nodeAffinity"], &old["spec"]["nodeAffinity"]);
    if !before.is_null() && affinity != before {
        errors.push(FieldError::invalid(
            "spec.nodeAffinity",
            affinity.clone(),
            "field is immutable, except for updating from beta label to GA",
        ));
    }
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn claim(change: &[(&str, Value)]) -> Value {
        let mut claim = json!({
            "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "fast", "volumeMode": "Filesystem",
                "volumeName": "own", "resources": {"requests": {"storage": "2Gi"}}},
            "status": {"phase": "Bound", "capacity": {"storage": "2Gi"}}});
        set(&mut claim, change);
        claim
    }

    fn set(object: &mut Value, change: &[(&str, Value)]) {
        for (pointer, value) in change {
            let (parent, field) = pointer.rsplit_once('/').unwrap();
            let parent = object.pointer_mut(parent).unwrap();
            if value.is_null() {
                parent.as_object_mut().unwrap().remove(field);
            } else {
                parent[field] = value.clone();
            }
        }
    }

    #[test]
    fn a_claim_changes_only_as_kubernetes_lets_it() {
        let none: &[(&'static str, Value)] = &[];
        let pending = &[
            ("/status", json!({"phase": "Pending"})),
            ("/spec/volumeName", Value::Null),
        ];
        type Changes = Vec<(&'static str, Value)>;
        let cases: Vec<(&str, Changes, Changes, bool)> = vec![
            (
                "another's volume",
                none.to_vec(),
                vec![("/spec/volumeName", json!("other"))],
                false,
            ),
            (
                "no volume any more",
                none.to_vec(),
                vec![("/spec/volumeName", Value::Null)],
                false,
            ),
            (
                "binding",
                pending.to_vec(),
                vec![("/spec/volumeName", json!("own"))],
                true,
            ),
            ("growth", none.to_vec(), vec![(REQUEST, json!("3Gi"))], true),
            ("shrinking", none.to_vec(), vec![(REQUEST, json!("1Gi"))], false),
            (
                "growth before it is bound",
                pending.to_vec(),
                vec![("/spec/volumeName", Value::Null), (REQUEST, json!("3Gi"))],
                false,
            ),
            (
                "another class",
                none.to_vec(),
                vec![("/spec/storageClassName", json!("slow"))],
                false,
            ),
            (
                "the default class",
                vec![("/spec/storageClassName", Value::Null)],
                none.to_vec(),
                true,
            ),
            (
                "other modes",
                none.to_vec(),
                vec![("/spec/accessModes", json!(["ReadWriteMany"]))],
                false,
            ),
            (
                "a block device",
                none.to_vec(),
                vec![("/spec/volumeMode", json!("Block"))],
                false,
            ),
            (
                "a selector",
                none.to_vec(),
                vec![("/spec/selector", json!({}))],
                false,
            ),
            (
                "labels",
                none.to_vec(),
                vec![("/metadata", json!({"labels": {"a": "b"}}))],
                true,
            ),
        ];
        for (what, before, change, allowed) in cases {
            let old = claim(&before);
            let mut new = claim(&change);
            new["status"] = old["status"].clone();
            let errors = validate_claim(&new, &old);
            assert_eq!(errors.is_empty(), allowed, "{what}: {errors:?}");
        }
    }

    #[test]
    fn a_volume_stays_where_it_is() {
        let old = json!({"spec": {"hostPath": {"path": "/a"}, "volumeMode": "Filesystem", "claimRef": {"name": "c"},
            "nodeAffinity": {"required": {}}}});
        let cases = [
            ("/spec/hostPath", json!({"path": "/b"}), false),
            ("/spec/local", json!({"path": "/b"}), false),
            ("/spec/volumeMode", json!("Block"), false),
            ("/spec/nodeAffinity", json!({}), false),
            ("/spec/claimRef", Value::Null, true),
            ("/spec/persistentVolumeReclaimPolicy", json!("Retain"), true),
            ("/spec/capacity", json!({"storage": "1Gi"}), true),
        ];
        for (pointer, value, allowed) in cases {
            let mut new = old.clone();
            set(&mut new, &[(pointer, value)]);
            assert_eq!(validate_volume(&new, &old).is_empty(), allowed, "{pointer}");
        }
    }
}
