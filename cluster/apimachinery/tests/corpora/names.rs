use apimachinery::field::FieldError;
use apimachinery::names::{self, NameRule};
use serde_json::{Map, Value, json};

use super::cases::{run, same};

#[test]
fn names() {
    run("names.jsonl", |case| match case["kind"].as_str() {
        Some("string") => string(case),
        Some("pathSegment") => path_segment(case),
        Some("objectMeta") => {
            let namespaced = case["namespaced"] == json!(true);
            let meta = &case["in"];
            let mut errors = names::validate_create(meta, namespaced, NameRule::Subdomain);
            // The corpus was made with this check by itself, after the whole.
            let entries = meta["managedFields"].as_array();
            errors.extend(names::validate_managed_fields(entries.map_or(&[], Vec::as_slice)));
            field_errors(case, &errors)
        }
        Some("objectMetaUpdate") => field_errors(case, &names::validate_update(&case["in"], &case["old"])),
        other => Err(format!("unknown kind {other:?}")),
    });
}

type Validator = fn(&str) -> Vec<String>;

const VALIDATORS: [(&str, Validator); 13] = [
    ("configMapKey", names::config_map_key),
    ("dns1035Label", names::dns1035_label),
    ("dns1123Label", names::dns1123_label),
    ("dns1123Subdomain", names::dns1123_subdomain),
    ("envVarName", names::env_var_name),
    ("generateLabelName", names::dns1123_label_prefix),
    ("generateNamePrefix", names::dns1123_subdomain_prefix),
    ("httpHeaderName", names::http_header_name),
    ("labelValue", names::label_value),
    ("percent", names::percent),
    ("portName", names::port_name),
    ("qualifiedName", names::qualified_name),
    ("wildcardSubdomain", names::wildcard_subdomain),
];

fn string(case: &Value) -> Result<(), String> {
    let text = case["in"].as_str().ok_or("no text")?;
    let refused: Map<_, _> = VALIDATORS
        .iter()
        .map(|(name, validate)| (*name, validate(text)))
        .filter(|(_, faults)| !faults.is_empty())
        .map(|(name, faults)| (name.to_string(), json!(faults)))
        .collect();
    same("refused", &Value::Object(refused), &case["refused"])
}

fn path_segment(case: &Value) -> Result<(), String> {
    let text = case["in"].as_str().ok_or("no text")?;
    let (segment, namespace) = if case["prefix"] == json!(true) {
        (
            names::path_segment_prefix(text),
            names::dns1123_label_prefix(text),
        )
    } else {
        (names::path_segment(text), names::dns1123_label(text))
    };
    same("pathSegment", &json!(segment), &case["pathSegment"])?;
    same("namespace", &json!(namespace), &case["namespace"])
}

fn field_errors(case: &Value, errors: &[FieldError]) -> Result<(), String> {
    let mut got: Vec<_> = errors
        .iter()
        .map(|e| {
            json!({
                "detail": e.detail,
                "field": e.field,
                "message": e.to_string(),
                "type": e.kind.reason(),
            })
        })
        .collect();
    let mut want = case["errors"].as_array().ok_or("no errors")?.clone();
    // Kubernetes walks maps in no order.
    let by_message = |e: &Value| e["message"].to_string();
    got.sort_by_key(by_message);
    want.sort_by_key(by_message);
    same("errors", got, want)
}
