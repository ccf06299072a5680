use apimachinery::protobuf::decode;
use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::Value;

use super::cases::{diff, run};

#[test]
fn protobuf() {
    run("protobuf.jsonl", |case| {
        let body = STANDARD.decode(case["body"].as_str().ok_or("no body")?);
        let object = decode(&body.map_err(|e| e.to_string())?).map_err(|e| e.to_string())?;
        diff("object", &without_nulls(&object), &without_nulls(&case["json"]))
    });
}

/// Go writes the zero time as null and empty lists sometimes so: nothing is there either way.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(key, value)| (key.clone(), without_nulls(value)))
            .collect(),
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        other => other.clone(),
    }
}
