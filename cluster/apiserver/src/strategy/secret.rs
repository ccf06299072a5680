//! Secrets: `stringData` is written as `data`; some types need certain keys.

use apimachinery::field::{FieldError, Path};
use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::Value;

use super::data;

pub(super) fn prepare(object: &mut Value) {
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

pub(super) fn validate(object: &Value) -> Vec<FieldError> {
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
        .map(|key| FieldError::required(Path::new("data").key(key), ""))
        .collect();
    errors.extend(data::secret(object));
    errors
}
