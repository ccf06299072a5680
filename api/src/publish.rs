//! From a type to the definition that a cluster is given.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceColumnDefinition, CustomResourceDefinition, CustomResourceValidation, JSONSchemaProps,
};
use serde_json::{Map, Value, json};

/// Bounds of what a spec leaves open, so that the cost of every CEL rule can be estimated.
const MAX_LENGTH: u32 = 1024;
const MAX_ITEMS: u32 = 64;
const MAX_PROPERTIES: u32 = 64;

/// Kinds that record something; nothing in them gets ready.
const RECORDS: [&str; 3] = ["Migration", "OVSTrace", "OVSCapture"];

const READY_STATUS: &str = ".status.conditions[?(@.type==\"Ready\")].status";
const READY_REASON: &str = ".status.conditions[?(@.type==\"Ready\")].reason";
const READY_MESSAGE: &str = ".status.conditions[?(@.type==\"Ready\")].message";
const CREATED: &str = ".metadata.creationTimestamp";

/// A definition of ours: strict schema, bounds, and the columns that every kind has.
pub(crate) fn ours(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    let record = RECORDS.contains(&crd.spec.names.kind.as_str());
    for version in &mut crd.spec.versions {
        version.additional_printer_columns = Some(columns(
            version.additional_printer_columns.take().unwrap_or_default(),
            record,
        ));
        if let Some(schema) = version
            .schema
            .as_mut()
            .and_then(|s| s.open_api_v3_schema.as_mut())
        {
            *schema = tidied(schema);
        }
    }
    crd
}

/// A definition of somebody else's kind: any spec, any status.
pub(crate) fn foreign(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    let open = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let schema = json!({ "type": "object", "properties": { "spec": open, "status": open } });
    if crd.spec.group.ends_with(".k8s.io") {
        // Kubernetes guards its own groups: a definition says who approved it, or that nobody did.
        crd.metadata.annotations.get_or_insert_default().insert(
            "api-approved.kubernetes.io".to_owned(),
            "unapproved, stands in where the real definition is not installed".to_owned(),
        );
    }
    for version in &mut crd.spec.versions {
        let mut columns = version.additional_printer_columns.take().unwrap_or_default();
        columns.push(column("Age", "date", CREATED, 0));
        version.additional_printer_columns = Some(columns);
        version.schema = Some(CustomResourceValidation {
            open_api_v3_schema: serde_json::from_value(schema.clone()).ok(),
        });
    }
    crd
}

/// Ready first, then what the kind itself shows, its age, and last why it is not ready: the message is empty when it is.
fn columns(own: Vec<CustomResourceColumnDefinition>, record: bool) -> Vec<CustomResourceColumnDefinition> {
    let shows = |path: &str| own.iter().any(|c| c.json_path == path);
    let mut before = Vec::new();
    let mut after = Vec::new();
    if !record {
        if !shows(READY_STATUS) {
            before.push(column("Ready", "string", READY_STATUS, 0));
        }
        if !shows(READY_REASON) {
            after.push(column("Reason", "string", READY_REASON, 1));
        }
    }
    after.push(column("Age", "date", CREATED, 0));
    if !record && !shows(READY_MESSAGE) {
        after.push(column("Message", "string", READY_MESSAGE, 0));
    }
    before.into_iter().chain(own).chain(after).collect()
}

fn column(name: &str, type_: &str, path: &str, priority: i32) -> CustomResourceColumnDefinition {
    CustomResourceColumnDefinition {
        name: name.to_owned(),
        type_: type_.to_owned(),
        json_path: path.to_owned(),
        priority: (priority != 0).then_some(priority),
        ..CustomResourceColumnDefinition::default()
    }
}

fn tidied(schema: &JSONSchemaProps) -> JSONSchemaProps {
    let tidy = || -> serde_json::Result<JSONSchemaProps> {
        let mut value = serde_json::to_value(schema)?;
        tidy_schema(&mut value, false);
        if let Some(spec) = value.pointer_mut("/properties/spec") {
            tidy_schema(spec, true);
        }
        serde_json::from_value(value)
    };
    // A schema that came out of its own type goes back into it.
    tidy().unwrap_or_else(|_| schema.clone())
}

/// Drops what Rust needs and Kubernetes does not; bounds what is open.
fn tidy_schema(schema: &mut Value, bounded: bool) {
    let Value::Object(schema) = schema else { return };
    schema.remove("nullable");
    schema.remove("title");
    if schema.get("default").is_some_and(Value::is_null) {
        schema.remove("default");
    }
    if let Some(Value::String(text)) = schema.get_mut("description") {
        *text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    }
    if let Some(Value::Array(values)) = schema.get_mut("enum") {
        values.retain(|v| !v.is_null());
    }
    tidy_format(schema);
    if bounded {
        bound(schema);
    }
    if schema.get("type") == Some(&json!("array"))
        && !schema.contains_key("x-kubernetes-list-type")
        && schema.get("items").and_then(|i| i.get("type")) != Some(&json!("object"))
    {
        schema.insert("x-kubernetes-list-type".into(), json!("atomic"));
    }
    for key in ["items", "additionalProperties"] {
        if let Some(inner) = schema.get_mut(key) {
            tidy_schema(inner, bounded);
        }
    }
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        for inner in properties.values_mut() {
            tidy_schema(inner, bounded);
        }
    }
}

/// Rust's integer names are not formats of OpenAPI.
fn tidy_format(schema: &mut Map<String, Value>) {
    let replacement = match schema.get("format").and_then(Value::as_str) {
        Some("uint8" | "uint16" | "int8" | "int16" | "uint32") => "int32",
        Some("uint64" | "uint" | "int") => "int64",
        _ => return,
    };
    schema.insert("format".into(), json!(replacement));
}

fn bound(schema: &mut Map<String, Value>) {
    let type_ = schema.get("type").and_then(Value::as_str).unwrap_or("");
    let (key, limit) = match type_ {
        "string" if !schema.contains_key("enum") && schema.get("format").is_none() => {
            ("maxLength", MAX_LENGTH)
        }
        "array" => ("maxItems", MAX_ITEMS),
        "object" if schema.contains_key("additionalProperties") => ("maxProperties", MAX_PROPERTIES),
        _ => return,
    };
    schema.entry(key).or_insert_with(|| json!(limit));
}

/// The library keeps bounds as floats; people write `1`, not `1.0`.
pub(crate) fn whole_numbers(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            let Some(float) = number.as_f64() else { return };
            // Within 2^53 every whole float is exactly that integer.
            if float.fract() == 0.0 && float.abs() < 9e15 {
                *value = json!(float as i64);
            }
        }
        Value::Object(map) => map.values_mut().for_each(whole_numbers),
        Value::Array(items) => items.iter_mut().for_each(whole_numbers),
        _ => {}
    }
}
