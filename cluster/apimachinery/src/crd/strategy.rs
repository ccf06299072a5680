use serde_json::Value;

use crate::field::FieldError;
use crate::names::{self, NameRule};
use crate::schema::Structural;

/// One version of a kind of custom resources: how its objects are prepared and checked.
#[derive(Debug, Clone)]
pub struct CustomResource {
    pub kind: String,
    /// Group and version.
    pub api_version: String,
    pub namespaced: bool,
    /// Whether the status subresource is enabled.
    pub status: bool,
    pub schema: Structural,
}

impl CustomResource {
    /// Before a create: the status cannot be set, the generation is 1.
    pub fn prepare_create(&self, object: &mut Value) {
        if let Value::Object(map) = object
            && self.status
        {
            map.remove("status");
        }
        set_generation(object, 1);
    }

    /// Before an update: the status stays, the generation counts changes outside of metadata.
    pub fn prepare_update(&self, object: &mut Value, old: &Value) {
        if let Value::Object(map) = object
            && self.status
        {
            match old.get("status") {
                Some(status) => map.insert("status".to_owned(), status.clone()),
                None => map.remove("status"),
            };
        }
        if differs_outside_metadata(object, old) {
            let before = old.pointer("/metadata/generation").and_then(Value::as_i64);
            set_generation(object, before.unwrap_or(0).saturating_add(1));
        }
    }

    /// Before an update of the status subresource: all but the status stays.
    pub fn prepare_status_update(&self, object: &mut Value, old: &Value) {
        let status = object.get("status").cloned();
        let managers = object.pointer("/metadata/managedFields").cloned();
        *object = old.clone();
        let Value::Object(map) = object else {
            return;
        };
        match status {
            Some(status) => map.insert("status".to_owned(), status),
            None => map.remove("status"),
        };
        if let Some(Value::Object(metadata)) = map.get_mut("metadata") {
            match managers {
                Some(managers) => metadata.insert("managedFields".to_owned(), managers),
                None => metadata.remove("managedFields"),
            };
        }
    }

    pub fn validate_create(&self, object: &Value) -> Vec<FieldError> {
        let mut errors = self.type_meta(object);
        let typed = errors.is_empty();
        if typed {
            let metadata = object.get("metadata").unwrap_or(&Value::Null);
            errors = names::validate_create(metadata, self.namespaced, NameRule::Subdomain);
        }
        self.schema.validate_after(errors, typed, object, None)
    }

    pub fn validate_update(&self, object: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = self.type_meta(object);
        let typed = errors.is_empty();
        if typed {
            errors = meta_update(object, old);
        }
        self.schema.validate_after(errors, typed, object, Some(old))
    }

    pub fn validate_status_update(&self, object: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = self.type_meta(object);
        let typed = errors.is_empty();
        if typed {
            errors = meta_update(object, old);
        }
        self.schema.validate_status_after(errors, typed, object, old)
    }

    fn type_meta(&self, object: &Value) -> Vec<FieldError> {
        [("kind", &self.kind), ("apiVersion", &self.api_version)]
            .into_iter()
            .filter_map(|(field, want)| {
                let got = object.get(field).and_then(Value::as_str).unwrap_or_default();
                (got != want).then(|| FieldError::invalid(field, got, format!("must be {want}")))
            })
            .collect()
    }
}

fn meta_update(object: &Value, old: &Value) -> Vec<FieldError> {
    let empty = Value::Null;
    let metadata = object.get("metadata").unwrap_or(&empty);
    names::validate_update(metadata, old.get("metadata").unwrap_or(&empty))
}

fn set_generation(object: &mut Value, generation: i64) {
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        metadata.insert("generation".to_owned(), Value::from(generation));
    }
}

fn differs_outside_metadata(new: &Value, old: &Value) -> bool {
    match (new, old) {
        (Value::Object(new), Value::Object(old)) => {
            let others =
                |map: &serde_json::Map<String, Value>| map.len() - usize::from(map.contains_key("metadata"));
            others(new) != others(old) || new.iter().any(|(k, v)| k != "metadata" && old.get(k) != Some(v))
        }
        _ => new != old,
    }
}
