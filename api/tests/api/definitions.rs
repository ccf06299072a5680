//! What every definition of ours has to have.

use c5c3_api::{Kind, Origin, conditions, registry};
use serde_json::Value;
use std::collections::BTreeSet;

fn ours() -> Vec<&'static Kind> {
    registry()
        .iter()
        .filter(|k| k.origin != Origin::Foreign)
        .collect()
}

fn schema(kind: &Kind) -> Value {
    let version = &kind.crd().spec.versions[0];
    serde_json::to_value(&version.schema.as_ref().unwrap().open_api_v3_schema).unwrap()
}

/// Calls `check` with the path and schema of every node.
fn visit(path: &str, schema: &Value, check: &mut dyn FnMut(&str, &Value)) {
    check(path, schema);
    for (name, inner) in schema
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        visit(&format!("{path}.{name}"), inner, check);
    }
    for key in ["items", "additionalProperties"] {
        if let Some(inner) = schema.get(key) {
            visit(&format!("{path}.{key}"), inner, check);
        }
    }
}

fn visit_all(check: &mut dyn FnMut(&str, &Value)) {
    for kind in ours() {
        visit(&kind.kind, &schema(kind), check);
    }
}

#[test]
fn no_definition_is_over_100_kb() {
    for kind in registry() {
        // As it is sent and stored.
        let json = serde_json::to_string(&kind.manifest()).unwrap().len();
        assert!(json < 100_000, "{}: {json}", kind.kind);
    }
}

#[test]
fn kinds_are_named_once() {
    let names: BTreeSet<_> = registry()
        .iter()
        .map(|k| (k.group.clone(), k.plural.clone()))
        .collect();
    assert_eq!(names.len(), registry().len());

    let mut short = BTreeSet::new();
    for kind in ours() {
        for name in kind.crd().spec.names.short_names.iter().flatten() {
            assert!(short.insert(name.clone()), "{name}");
        }
    }
}

#[test]
fn every_kind_tells_how_it_is() {
    for kind in ours() {
        let crd = kind.crd();
        let version = &crd.spec.versions[0];
        let columns: Vec<&str> = version
            .additional_printer_columns
            .iter()
            .flatten()
            .map(|c| c.json_path.as_str())
            .collect();
        assert!(columns.contains(&".metadata.creationTimestamp"), "{}", kind.kind);
        // Some have no conditions: a field tells, in the plain table.
        let plain = match kind.kind.as_str() {
            "Migration" => Some(".status.errMsg"),
            "OVSTrace" | "OVSCapture" => Some(".status.message"),
            _ => None,
        };
        if let Some(path) = plain {
            let mut shown = version.additional_printer_columns.iter().flatten();
            assert!(shown.any(|c| c.json_path == path && c.priority.unwrap_or(0) == 0));
        } else {
            for field in ["status", "reason", "message"] {
                let path = format!(".status.conditions[?(@.type==\"Ready\")].{field}");
                assert!(columns.contains(&path.as_str()), "{}: {field}", kind.kind);
            }
        }
        let names = crd.spec.names.categories.clone().unwrap_or_default();
        assert!(names.contains(&"c5c3".to_owned()), "{}", kind.kind);
        if kind.group.ends_with(".openstack.c5c3.io") {
            assert!(names.contains(&"openstack".to_owned()), "{}", kind.kind);
        }
        assert!(
            version.subresources.as_ref().is_some_and(|s| s.status.is_some()),
            "{}",
            kind.kind
        );
    }
}

#[test]
fn conditions_are_known() {
    for kind in ours() {
        let has = schema(kind)
            .pointer("/properties/status/properties/conditions")
            .is_some();
        assert_eq!(has, !conditions::of_kind(&kind.kind).is_empty(), "{}", kind.kind);
    }
}

#[test]
fn every_field_is_described_in_one_line() {
    visit_all(&mut |path, schema| {
        if path.ends_with(".items") || path.ends_with(".additionalProperties") {
            return;
        }
        let standard = ["apiVersion", "kind", "metadata", "spec", "status"];
        if path.split('.').count() == 2 && standard.iter().any(|s| path.ends_with(s)) {
            return;
        }
        let text = schema
            .get("description")
            .and_then(Value::as_str)
            .unwrap_or_default();
        assert!(!text.is_empty(), "{path} has no description");
        assert!(text.len() <= 120 && !text.contains('\n'), "{path}: {text}");
    });
}

#[test]
fn schemas_are_structural_and_plain() {
    visit_all(&mut |path, schema| {
        let open = schema.get("x-kubernetes-preserve-unknown-fields").is_some();
        let either = schema.get("x-kubernetes-int-or-string").is_some();
        assert!(
            open || either || schema.get("type").is_some_and(Value::is_string),
            "{path}: {schema}"
        );
        for key in ["nullable", "$ref", "oneOf", "anyOf", "allOf", "not", "title"] {
            assert!(schema.get(key).is_none(), "{path}: {key}");
        }
        if let Some(format) = schema.get("format").and_then(Value::as_str) {
            assert!(
                ["int32", "int64", "double", "date-time"].contains(&format),
                "{path}: {format}"
            );
        }
    });
}

#[test]
fn lists_say_how_they_merge() {
    visit_all(&mut |path, schema| {
        if schema.get("type") == Some(&"array".into()) {
            let list = schema.get("x-kubernetes-list-type").and_then(Value::as_str);
            assert!(list.is_some(), "{path}");
            if list == Some("map") {
                let keys = schema["x-kubernetes-list-map-keys"].as_array().unwrap();
                let required = schema["items"].get("required").and_then(Value::as_array);
                for key in keys {
                    assert!(required.is_some_and(|r| r.contains(key)), "{path}: {key}");
                }
            }
        }
    });
}

#[test]
fn specs_are_bounded() {
    for kind in ours() {
        let Some(spec) = schema(kind).pointer("/properties/spec").cloned() else {
            continue;
        };
        visit(&kind.kind, &spec, &mut |path, schema| {
            let has = |key: &str| schema.get(key).is_some();
            match schema.get("type").and_then(Value::as_str) {
                Some("string") => assert!(has("maxLength") || has("enum") || has("format"), "{path}"),
                Some("array") => assert!(has("maxItems"), "{path}"),
                Some("object") if has("additionalProperties") => assert!(has("maxProperties"), "{path}"),
                _ => {}
            }
        });
    }
}

#[test]
fn rules_name_a_field_and_the_way_out() {
    visit_all(&mut |path, schema| {
        for rule in schema
            .get("x-kubernetes-validations")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            let message = rule.get("message").and_then(Value::as_str).unwrap_or_default();
            let field = message.split(':').next().unwrap_or_default();
            assert!(
                message.contains(": ") && (!field.contains(' ') || field.contains(", ")),
                "{path}: {message}"
            );
        }
    });
}

#[test]
fn foreign_kinds_accept_anything() {
    for kind in registry().iter().filter(|k| k.origin == Origin::Foreign) {
        let schema = schema(kind);
        for part in ["spec", "status"] {
            let open = schema.pointer(&format!(
                "/properties/{part}/x-kubernetes-preserve-unknown-fields"
            ));
            assert_eq!(open, Some(&Value::Bool(true)), "{}", kind.kind);
        }
    }
}
