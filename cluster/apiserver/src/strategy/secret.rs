//! Secrets: `stringData` is written as `data`; some types need certain keys.

use apimachinery::field::{FieldError, Path};
use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::Value;

pub fn prepare(object: &mut Value) {
    let Some(map) = object.as_object_mut() else { return };
    let Some(Value::Object(texts)) = map.remove("stringData") else {
        return;
    };
    if texts.is_empty() {
        return;
    }
    let data = map
        .entry("data")
        .or_insert_with(|| Value::Object(serde_json::Map::new()));
    for (key, text) in texts {
        data[key] = STANDARD.encode(text.as_str().unwrap_or_default()).into();
    }
}

pub fn validate(object: &Value) -> Vec<FieldError> {
    let data = Path::new("data");
    let wanted: &[&str] = match object["type"].as_str().unwrap_or_default() {
        "kubernetes.io/tls" => &["tls.crt", "tls.key"],
        "kubernetes.io/dockerconfigjson" => &[".dockerconfigjson"],
        "kubernetes.io/dockercfg" => &[".dockercfg"],
        "kubernetes.io/ssh-auth" => &["ssh-privatekey"],
        _ => &[],
    };
    let mut errors: Vec<FieldError> = wanted
        .iter()
        .filter(|key| object["data"].get(**key).is_none())
        .map(|key| FieldError::required(data.key(key), ""))
        .collect();
    for key in object["data"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, _)| key)
    {
        for fault in apimachinery::names::config_map_key(key) {
            errors.push(FieldError::invalid(data.key(key), key.as_str(), fault));
        }
    }
    errors
}
