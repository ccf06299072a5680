//! Would a server-side apply change anything? Answered from the live object alone, so that nothing
//! is sent when it would not.
//!
//! The values must agree, and the field manager must own exactly the fields that it would send:
//! a field that it owns and no longer wants has to go. `managedFields` also tells how the server
//! merges a list (by key, as a set, as a whole), which the value alone does not.

use serde_json::{Map, Value};

/// `true` when applying `wanted` as `manager` would change `live`.
pub fn differs(wanted: &Value, live: &Value, manager: &str, subresource: Option<&str>) -> bool {
    let Some(owned) = owned(live, wanted, manager, subresource) else {
        return true;
    };
    let Some(fields) = wanted.as_object() else {
        return true;
    };
    let mut fields = fields.clone();
    fields.remove("apiVersion");
    fields.remove("kind");
    if let Some(Value::Object(meta)) = fields.get_mut("metadata") {
        // Nobody owns what identifies an object.
        meta.retain(|key, _| {
            matches!(
                key.as_str(),
                "labels" | "annotations" | "ownerReferences" | "finalizers"
            )
        });
        if meta.is_empty() {
            fields.remove("metadata");
        }
    }
    !same(&Value::Object(fields), live, owned)
}

/// The part of `live` that the manager's last apply set; null when there was none.
pub fn held(live: &Value, manager: &str, subresource: Option<&str>) -> Value {
    owned(live, live, manager, subresource).map_or(Value::Null, |owned| project(live, owned))
}

fn project(live: &Value, owned: &Value) -> Value {
    let children = children(owned);
    match live {
        Value::Object(fields) if !children.is_empty() => {
            let kept = children.iter().filter_map(|(name, below)| {
                let key = name.strip_prefix("f:")?;
                Some((key.to_owned(), project(fields.get(key)?, below)))
            });
            Value::Object(kept.collect())
        }
        Value::Array(items) if !children.is_empty() => {
            let kept = items.iter().filter_map(|item| {
                children.iter().find_map(|(name, below)| {
                    if let Some(value) = name.strip_prefix("v:") {
                        return (parsed(value).as_ref() == Some(item)).then(|| item.clone());
                    }
                    let Some(Value::Object(key)) = name.strip_prefix("k:").and_then(parsed) else {
                        return None;
                    };
                    let ours = key.iter().all(|(field, value)| item.get(field) == Some(value));
                    ours.then(|| project(item, below))
                })
            });
            Value::Array(kept.collect())
        }
        other => other.clone(),
    }
}

/// The field set of the manager's last apply.
fn owned<'a>(live: &'a Value, wanted: &Value, manager: &str, subresource: Option<&str>) -> Option<&'a Value> {
    live.pointer("/metadata/managedFields")?
        .as_array()?
        .iter()
        .find_map(|entry| {
            let text = |key: &str| entry.get(key).and_then(Value::as_str);
            let ours = text("manager") == Some(manager)
                && text("operation") == Some("Apply")
                && text("subresource").unwrap_or("") == subresource.unwrap_or("")
                && text("apiVersion") == wanted.get("apiVersion").and_then(Value::as_str);
            ours.then(|| entry.get("fieldsV1")).flatten()
        })
}

fn same(wanted: &Value, live: &Value, owned: &Value) -> bool {
    let children = children(owned);
    match wanted {
        Value::Object(fields) if !children.is_empty() => same_fields(fields, live, &children),
        Value::Array(items) if !children.is_empty() => same_items(items, live, &children),
        _ => equal(wanted, live),
    }
}

/// What is below a node of a field set, without the mark of the node itself.
fn children(owned: &Value) -> Vec<(&str, &Value)> {
    owned
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(key, _)| key.as_str() != ".")
        .map(|(key, value)| (key.as_str(), value))
        .collect()
}

fn same_fields(wanted: &Map<String, Value>, live: &Value, owned: &[(&str, &Value)]) -> bool {
    let mut met = 0;
    for (key, value) in wanted.iter().filter(|(_, v)| !v.is_null()) {
        let below = owned
            .iter()
            .find(|(name, _)| name.strip_prefix("f:") == Some(key));
        match (below, live.get(key)) {
            (Some((_, below)), Some(live)) if same(value, live, below) => met += 1,
            // The server may drop what is empty from the object, though we own it.
            (Some(_), None) if is_empty(value) => met += 1,
            _ => return false,
        }
    }
    met == owned.len()
}

fn same_items(wanted: &[Value], live: &Value, owned: &[(&str, &Value)]) -> bool {
    let Some(live) = live.as_array() else {
        return false;
    };
    let met = wanted.iter().all(|item| {
        owned.iter().any(|(name, below)| {
            if let Some(value) = name.strip_prefix("v:") {
                return parsed(value).as_ref() == Some(item) && live.contains(item);
            }
            let Some(Value::Object(key)) = name.strip_prefix("k:").and_then(parsed) else {
                return false;
            };
            // A key field may be left to its default by us, never by the server.
            let ours = key
                .iter()
                .all(|(field, value)| item.get(field).is_none_or(|v| v == value));
            let mut theirs = live
                .iter()
                .filter(|item| key.iter().all(|(field, value)| item.get(field) == Some(value)));
            ours && theirs.next().is_some_and(|live| same(item, live, below))
        })
    });
    met && wanted.len() == owned.len()
}

fn parsed(text: &str) -> Option<Value> {
    serde_json::from_str(text).ok()
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

/// Equal as values: a null is no value, and 1 is 1.0.
fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            let keys = a.keys().chain(b.keys());
            keys.into_iter().all(|key| {
                equal(
                    a.get(key).unwrap_or(&Value::Null),
                    b.get(key).unwrap_or(&Value::Null),
                )
            })
        }
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b)),
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        _ => a == b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn live(mut object: Value, fields: &Value) -> Value {
        object["metadata"]["managedFields"] = json!([
            {"manager": "kubectl", "operation": "Update", "apiVersion": "v1", "fieldsV1": {"f:data": {"f:x": {}}}},
            {"manager": "us", "operation": "Apply", "apiVersion": "v1", "fieldsV1": fields},
        ]);
        object
    }

    fn config_map(data: &Value) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "n"}, "data": data})
    }

    #[test]
    fn nothing_to_send_when_values_and_ownership_agree() {
        let there = live(
            config_map(&json!({"a": "1", "x": "theirs"})),
            &json!({"f:data": {"f:a": {}}}),
        );
        assert!(!differs(&config_map(&json!({"a": "1"})), &there, "us", None));
    }

    #[test]
    fn a_changed_added_or_dropped_field_is_sent() {
        let there = live(
            config_map(&json!({"a": "1", "b": "2"})),
            &json!({"f:data": {"f:a": {}, "f:b": {}}}),
        );
        assert!(differs(
            &config_map(&json!({"a": "1", "b": "3"})),
            &there,
            "us",
            None
        ));
        assert!(differs(
            &config_map(&json!({"a": "1", "b": "2", "c": "3"})),
            &there,
            "us",
            None
        ));
        assert!(differs(&config_map(&json!({"a": "1"})), &there, "us", None));
        assert!(!differs(
            &config_map(&json!({"a": "1", "b": "2"})),
            &there,
            "us",
            None
        ));
    }

    #[test]
    fn a_value_that_somebody_else_owns_is_claimed() {
        let there = live(
            config_map(&json!({"a": "1", "x": "2"})),
            &json!({"f:data": {"f:a": {}}}),
        );
        assert!(differs(
            &config_map(&json!({"a": "1", "x": "2"})),
            &there,
            "us",
            None
        ));
    }

    #[test]
    fn another_manager_or_subresource_or_version_is_not_us() {
        let wanted = config_map(&json!({"a": "1"}));
        let there = live(wanted.clone(), &json!({"f:data": {"f:a": {}}}));
        assert!(differs(&wanted, &there, "them", None));
        assert!(differs(&wanted, &there, "us", Some("status")));
        let mut newer = wanted.clone();
        newer["apiVersion"] = json!("v2");
        assert!(differs(&newer, &there, "us", None));
    }

    #[test]
    fn keyed_lists_are_compared_item_by_item() {
        let wanted = |status: &str| {
            json!({"apiVersion": "v1", "kind": "X", "metadata": {"name": "a"},
                   "status": {"conditions": [{"type": "Ready", "status": status}]}})
        };
        let there = live(
            json!({"apiVersion": "v1", "kind": "X", "metadata": {"name": "a"}, "status": {"conditions": [
                {"type": "AgentReady", "status": "True"}, {"type": "Ready", "status": "True"}]}}),
            &json!({"f:status": {"f:conditions": {"k:{\"type\":\"Ready\"}": {".": {}, "f:type": {}, "f:status": {}}}}}),
        );
        assert!(!differs(&wanted("True"), &there, "us", None));
        assert!(differs(&wanted("False"), &there, "us", None));
        let mut more = wanted("True");
        more["status"]["conditions"] =
            json!([{"type": "Ready", "status": "True"}, {"type": "B", "status": "True"}]);
        assert!(differs(&more, &there, "us", None));
    }

    #[test]
    fn a_key_left_to_its_default_still_matches() {
        let wanted = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"},
                            "spec": {"ports": [{"port": 80}]}});
        let there = live(
            json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"},
                   "spec": {"clusterIP": "10.0.0.1", "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}]}}),
            &json!({"f:spec": {"f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}}}}}),
        );
        assert!(!differs(&wanted, &there, "us", None));
    }

    #[test]
    fn sets_and_whole_lists() {
        let wanted = |finalizers: &Value, args: &Value| {
            json!({"apiVersion": "v1", "kind": "X", "metadata": {"name": "a", "finalizers": finalizers},
                   "spec": {"args": args}})
        };
        let there = live(
            json!({"apiVersion": "v1", "kind": "X", "metadata": {"name": "a", "finalizers": ["other", "ours"]},
                   "spec": {"args": ["a", "b"]}}),
            &json!({"f:metadata": {"f:finalizers": {".": {}, "v:\"ours\"": {}}}, "f:spec": {"f:args": {}}}),
        );
        assert!(!differs(
            &wanted(&json!(["ours"]), &json!(["a", "b"])),
            &there,
            "us",
            None
        ));
        assert!(differs(
            &wanted(&json!(["ours"]), &json!(["b", "a"])),
            &there,
            "us",
            None
        ));
        assert!(differs(
            &wanted(&json!(["ours", "more"]), &json!(["a", "b"])),
            &there,
            "us",
            None
        ));
    }

    #[test]
    fn null_is_nothing_and_an_owned_empty_map_may_be_dropped() {
        let there = live(
            config_map(&json!({"a": "1"})),
            &json!({"f:data": {"f:a": {}}, "f:binaryData": {}}),
        );
        let mut wanted = config_map(&json!({"a": "1", "b": null}));
        assert!(
            differs(&wanted, &there, "us", None),
            "binaryData is owned and no longer wanted"
        );
        wanted["binaryData"] = json!({});
        assert!(!differs(&wanted, &there, "us", None));
    }

    #[test]
    fn held_is_what_was_applied_and_nothing_else() {
        let there = live(
            json!({"apiVersion": "v1", "kind": "X", "metadata": {"name": "a"}, "status": {
                "last": "then", "theirs": 1, "conditions": [
                    {"type": "AgentReady", "status": "True"}, {"type": "Ready", "status": "True"}]}}),
            &json!({"f:status": {"f:last": {}, "f:conditions": {
                "k:{\"type\":\"Ready\"}": {".": {}, "f:type": {}, "f:status": {}}}}}),
        );
        let held = held(&there, "us", None);
        assert_eq!(
            held,
            json!({"status": {"last": "then", "conditions": [{"type": "Ready", "status": "True"}]}})
        );
        let mut again = held;
        again["apiVersion"] = json!("v1");
        assert!(!differs(&again, &there, "us", None));
    }

    #[test]
    fn an_object_that_is_not_there_is_sent() {
        assert!(differs(&config_map(&json!({})), &Value::Null, "us", None));
    }
}
