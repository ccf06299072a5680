//! Keys and size of what ConfigMaps and Secrets hold. A key becomes the name of a file in a volume:
//! one that led out of the volume would write where it likes.

use apimachinery::field::{FieldError, Path};
use serde_json::Value;

/// Bytes of all values together.
const MAX: usize = 1 << 20;

pub(super) fn config_map(object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let data = keys(object, "data", &mut errors);
    let binary = keys(object, "binaryData", &mut errors);
    for key in data.iter().filter(|key| binary.contains(key)) {
        let detail = "duplicate of key present in binaryData";
        errors.push(FieldError::invalid(Path::new("data").key(key), *key, detail));
    }
    let texts: usize = values(object, "data").map(str::len).sum();
    if texts + decoded(object, "binaryData") > MAX {
        errors.push(FieldError::too_long("", MAX as i64));
    }
    errors
}

pub(super) fn secret(object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    keys(object, "data", &mut errors);
    if decoded(object, "data") > MAX {
        errors.push(FieldError::too_long("data", MAX as i64));
    }
    errors
}

fn keys<'a>(object: &'a Value, field: &str, errors: &mut Vec<FieldError>) -> Vec<&'a str> {
    let keys = object[field].as_object().into_iter().flatten();
    let keys: Vec<&str> = keys.map(|(key, _)| key.as_str()).collect();
    for key in &keys {
        for fault in apimachinery::names::config_map_key(key) {
            errors.push(FieldError::invalid(Path::new(field).key(key), *key, fault));
        }
    }
    keys
}

fn values<'a>(object: &'a Value, field: &str) -> impl Iterator<Item = &'a str> {
    let entries = object[field].as_object().into_iter().flatten();
    entries.filter_map(|(_, value)| value.as_str())
}

/// Bytes behind the base64 text.
fn decoded(object: &Value, field: &str) -> usize {
    let size = |text: &str| text.trim_end_matches('=').len() * 3 / 4;
    values(object, field).map(size).sum()
}

#[cfg(test)]
mod tests {
    use base64::{Engine, engine::general_purpose::STANDARD};
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_that_lead_out_of_a_volume_are_refused() {
        let long = "a".repeat(254);
        let bad = [
            "../../../tmp/x",
            "/tmp/x",
            "..",
            ".",
            "..data",
            "a/b",
            "a b",
            "",
            &long,
        ];
        for key in bad {
            for field in ["data", "binaryData"] {
                let errors = config_map(&json!({field: {key: ""}}));
                assert!(!errors.is_empty(), "{field} {key:?}");
                assert!(errors[0].field.starts_with(field), "{errors:?}");
            }
            assert!(!secret(&json!({"data": {key: ""}})).is_empty(), "{key:?}");
        }
        for key in ["a", ".hidden", "A_b-c.d", "a..b", &"a".repeat(253)] {
            assert!(config_map(&json!({"data": {key: ""}})).is_empty(), "{key:?}");
        }
    }

    #[test]
    fn a_key_is_in_one_of_both_maps() {
        let errors = config_map(&json!({"data": {"a": "x"}, "binaryData": {"a": "eA=="}}));
        assert_eq!(errors.len(), 1);
        assert_eq!(
            errors[0].to_string(),
            "data[a]: Invalid value: \"a\": duplicate of key present in binaryData"
        );
    }

    #[test]
    fn a_mebibyte_is_the_most() {
        let (full, over) = ("x".repeat(MAX), "x".repeat(MAX + 1));
        assert!(config_map(&json!({"data": {"a": full}})).is_empty());
        assert_eq!(config_map(&json!({"data": {"a": full, "b": "x"}})).len(), 1);
        let text = |bytes: &str| STANDARD.encode(bytes);
        for (bytes, allowed) in [(&full, true), (&over, false)] {
            assert_eq!(secret(&json!({"data": {"a": text(bytes)}})).is_empty(), allowed);
            assert_eq!(
                config_map(&json!({"binaryData": {"a": text(bytes)}})).is_empty(),
                allowed
            );
        }
    }
}
