//! Custom resources: acceptance of schemas, pruning, defaulting, validation.

use apimachinery::crd::{CustomResource, validate_schema};
use apimachinery::field::{FieldError, Path};
use apimachinery::schema::{Schema, Structural};
use serde_json::{Map, Value, json};

use super::cases;

fn schemas() -> Map<String, Value> {
    let path = format!("{}/tests/data/crd-schemas.json", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{path}: {e}"))
}

fn resource(entry: &Value) -> CustomResource {
    CustomResource {
        kind: "Thing".to_owned(),
        api_version: "example.com/v1".to_owned(),
        namespaced: true,
        status: entry["status"] == json!(true),
        schema: Structural::from_json(&entry["schema"]).expect("a readable schema"),
    }
}

fn is_accept(case: &Value) -> bool {
    case["kind"].as_str().is_some_and(|k| k.starts_with("accept"))
}

#[test]
fn schemas_are_accepted_or_refused() {
    let schemas = schemas();
    cases::run("crd.jsonl", |case| {
        if !is_accept(case) {
            return Ok(());
        }
        let name = case["schema"].as_str().unwrap_or_default();
        let entry = &schemas[name];
        let path = Path::new("spec").child("validation").child("openAPIV3Schema");
        let errors = match Schema::parse(&entry["schema"], &path) {
            Ok(schema) => validate_schema(&schema, entry["status"] == json!(true), &path),
            Err(errors) => errors,
        };
        same_errors(&errors, &case["errors"])
            .map_err(|e| format!("{name}: {e}\n    schema {}", entry["schema"]))
    });
}

#[test]
fn objects_are_checked() {
    let schemas = schemas();
    cases::run("crd.jsonl", |case| {
        if is_accept(case) {
            return Ok(());
        }
        let name = case["schema"].as_str().unwrap_or_default();
        check_object(case, &resource(&schemas[name])).map_err(|e| {
            format!(
                "{name}: {e}\n    schema {}\n    case {case}",
                schemas[name]["schema"]
            )
        })
    });
}

fn check_object(case: &Value, resource: &CustomResource) -> Result<(), String> {
    let mut object = case["object"].clone();
    let unknown = match resource.schema.decode(&mut object) {
        Ok(unknown) => unknown,
        Err(e) => return cases::same("error", json!(e), case["error"].clone()),
    };
    if let Some(error) = case.get("error") {
        return Err(format!("decoded, want error {error}"));
    }
    cases::same(
        "unknown",
        json!(unknown),
        case.get("unknownFields").cloned().unwrap_or(json!([])),
    )?;
    let mut want = case["object"].clone();
    if let Some(pruned) = case.get("pruned") {
        want = pruned.clone();
    }
    cases::same("pruned", object.to_string(), want.to_string())?;
    resource.schema.apply_defaults(&mut object);
    if let Some(defaulted) = case.get("defaulted") {
        want = defaulted.clone();
    }
    cases::same("defaulted", object.to_string(), want.to_string())?;
    let errors = match case["kind"].as_str() {
        Some("create") => {
            resource.prepare_create(&mut object);
            resource.validate_create(&object)
        }
        Some(kind) => {
            let mut old = case["old"].clone();
            resource.schema.decode(&mut old)?;
            resource.schema.apply_defaults(&mut old);
            if kind == "update" {
                resource.prepare_update(&mut object, &old);
                resource.validate_update(&object, &old)
            } else {
                resource.prepare_status_update(&mut object, &old);
                resource.validate_status_update(&object, &old)
            }
        }
        None => return Err("a case has a kind".to_owned()),
    };
    same_errors(&errors, &case["errors"])
}

/// Errors are a set, compared with type, field, detail and message.
fn same_errors(got: &[FieldError], want: &Value) -> Result<(), String> {
    let mut got: Vec<Value> = got
        .iter()
        .map(|e| {
            json!({
                "type": e.kind.reason(),
                "field": e.field,
                "detail": e.detail,
                "message": e.to_string(),
            })
        })
        .collect();
    let mut want = want.as_array().cloned().unwrap_or_default();
    let by_message = |v: &Value| v["message"].to_string();
    got.sort_by_key(by_message);
    want.sort_by_key(by_message);
    got.dedup();
    want.dedup();
    if got == want {
        return Ok(());
    }
    let lines = |mark: &str, these: &[Value], others: &[Value]| -> String {
        these
            .iter()
            .filter(|e| !others.contains(e))
            .map(|e| format!("\n    {mark} {} {}", e["type"], e["message"]))
            .collect()
    };
    Err(format!(
        "errors differ{}{}",
        lines("missing", &want, &got),
        lines("extra  ", &got, &want)
    ))
}
