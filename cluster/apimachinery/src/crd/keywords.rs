//! What can be said of the keywords of one schema.

use serde_json::{Value, json};

use super::openapi::Place;
use super::{field_path, structural};
use crate::field::{FieldError, Path};
use crate::schema::Schema;

/// Keywords that no schema may have.
pub(super) fn standard(s: &Schema, path: &Path, place: &Place) -> Vec<FieldError> {
    const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
    let mut errors = Vec::new();
    if !s.type_.is_empty() && !TYPES.contains(&s.type_.as_str()) {
        errors.push(FieldError::not_supported(
            path.child("type"),
            s.type_.as_str(),
            TYPES,
        ));
    }
    if s.default.is_some()
        && let Some(reason) = &place.no_defaults
    {
        errors.push(FieldError::forbidden(
            path.child("default"),
            format!("must not be set {reason}"),
        ));
    }
    let mut forbid = |present: bool, field: &str, detail: &str| {
        if present {
            errors.push(FieldError::forbidden(path.child(field), detail));
        }
    };
    if let Some(u) = s.unsupported.as_deref() {
        forbid(!u.id.is_empty(), "id", "id is not supported");
        forbid(
            u.additional_items,
            "additionalItems",
            "additionalItems is not supported",
        );
        forbid(
            u.pattern_properties,
            "patternProperties",
            "patternProperties is not supported",
        );
        forbid(
            !u.definitions.is_empty(),
            "definitions",
            "definitions is not supported",
        );
        forbid(
            u.has_dependencies,
            "dependencies",
            "dependencies is not supported",
        );
        forbid(u.reference.is_some(), "$ref", "$ref is not supported");
    }
    forbid(
        s.type_ == "null",
        "type",
        "type cannot be set to null, use nullable as an alternative",
    );
    forbid(
        s.unsupported.as_deref().is_some_and(|u| !u.items.is_empty()),
        "items",
        "items must be a schema object and not an array",
    );
    forbid(
        place.inside_meta && s.embedded_resource,
        "x-kubernetes-embedded-resource",
        "must not be used inside of resource meta",
    );
    errors
}

fn wants_type(s: &Schema, type_: &str, detail: &str, path: &Path) -> FieldError {
    debug_assert_ne!(s.type_, type_);
    let at = path.child("type");
    if s.type_.is_empty() {
        FieldError::required(at, detail)
    } else {
        FieldError::invalid(at, s.type_.as_str(), detail)
    }
}

/// The keywords of Kubernetes: list types, map types, unknown fields.
pub(super) fn keywords(s: &Schema, path: &Path, errors: &mut Vec<FieldError>) {
    if s.preserve_unknown_fields == Some(false) {
        errors.push(FieldError::invalid(
            path.child("x-kubernetes-preserve-unknown-fields"),
            false,
            "must be true or undefined",
        ));
    }
    if let Some(map_type) = &s.map_type {
        if s.type_ != "object" {
            let detail = "must be object if x-kubernetes-map-type is specified";
            errors.push(wants_type(s, "object", detail, path));
        }
        if !matches!(map_type.as_str(), "atomic" | "granular") {
            let at = path.child("x-kubernetes-map-type");
            errors.push(FieldError::not_supported(
                at,
                map_type.as_str(),
                ["atomic", "granular"],
            ));
        }
    }
    if let Some(list_type) = &s.list_type {
        if s.type_ != "array" {
            let detail = "must be array if x-kubernetes-list-type is specified";
            errors.push(wants_type(s, "array", detail, path));
        } else if list_type == "set" {
            set_items(s, path, errors);
        }
        if !matches!(list_type.as_str(), "atomic" | "set" | "map") {
            let at = path.child("x-kubernetes-list-type");
            errors.push(FieldError::not_supported(
                at,
                list_type.as_str(),
                ["atomic", "set", "map"],
            ));
        }
    }
    if !s.list_map_keys.is_empty() && s.list_type.as_deref() != Some("map") {
        let at = path.child("x-kubernetes-list-type");
        let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
        errors.push(match &s.list_type {
            None => FieldError::required(at, detail),
            Some(other) => FieldError::invalid(at, other.as_str(), detail),
        });
    }
    if s.list_type.as_deref() == Some("map") {
        list_map(s, path, errors);
    }
    if let (Some(list_type @ ("set" | "map")), Some(items)) = (s.list_type.as_deref(), s.items.as_deref()) {
        list_items(s, list_type, items, path, errors);
    }
}

fn set_items(s: &Schema, path: &Path, errors: &mut Vec<FieldError>) {
    let Some(items) = s.items.as_deref() else {
        return;
    };
    let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
    let wrong = match items.type_.as_str() {
        "array" => items.list_type.as_deref().is_some_and(|t| t != "atomic"),
        "object" => items.map_type.as_deref() != Some("atomic"),
        _ => false,
    };
    if wrong {
        let field = format!(
            "x-kubernetes-{}-type",
            if items.type_ == "array" { "list" } else { "map" }
        );
        errors.push(FieldError::invalid(
            path.child("items").child(&field),
            items.list_type.clone().map_or(Value::Null, Value::from),
            detail,
        ));
    }
}

fn list_map(s: &Schema, path: &Path, errors: &mut Vec<FieldError>) {
    let keys_at = path.child("x-kubernetes-list-map-keys");
    if s.list_map_keys.is_empty() {
        errors.push(FieldError::required(
            &keys_at,
            "must not be empty if x-kubernetes-list-type is map",
        ));
    }
    let Some(items) = s.items.as_deref() else {
        if s.unsupported.as_deref().is_none_or(|u| u.items.is_empty()) {
            errors.push(FieldError::required(
                path.child("items"),
                "must have a schema if x-kubernetes-list-type is map",
            ));
        } else {
            errors.push(FieldError::invalid_omitted(
                path.child("items"),
                "must only have a single schema if x-kubernetes-list-type is map",
            ));
        }
        return;
    };
    let at = path.child("items");
    if items.type_ != "object" {
        errors.push(FieldError::invalid(
            at.child("type"),
            items.type_.as_str(),
            "must be object if parent array's x-kubernetes-list-type is map",
        ));
        return;
    }
    for (i, key) in s.list_map_keys.iter().enumerate() {
        match items.properties.get(key) {
            Some(property) if matches!(property.type_.as_str(), "array" | "object") => {
                errors.push(FieldError::invalid(
                    at.child("properties").key(key).child("type"),
                    items.type_.as_str(),
                    "must be a scalar type if parent array's x-kubernetes-list-type is map",
                ));
            }
            Some(_) => {}
            None => errors.push(FieldError::invalid(
                &keys_at,
                json!(s.list_map_keys),
                "entries must all be names of item properties",
            )),
        }
        if s.list_map_keys[..i].contains(key) {
            errors.push(FieldError::invalid(
                &keys_at,
                json!(s.list_map_keys),
                "must not contain duplicate entries",
            ));
        }
    }
}

/// Items and their keys must always be there.
fn list_items(s: &Schema, list_type: &str, items: &Schema, path: &Path, errors: &mut Vec<FieldError>) {
    let at = path.child("items");
    if items.nullable {
        errors.push(FieldError::forbidden(
            at.child("nullable"),
            format!("cannot be nullable when x-kubernetes-list-type is {list_type}"),
        ));
    }
    if list_type != "map" {
        return;
    }
    for key in &s.list_map_keys {
        let Some(property) = items.properties.get(key) else {
            continue;
        };
        let at = at.child("properties").key(key);
        if !items.required.contains(key) && property.default.is_none() {
            errors.push(FieldError::required(
                at.child("default"),
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required \
                 property",
            ));
        }
        if property.nullable {
            errors.push(FieldError::forbidden(
                at.child("nullable"),
                "this property is in x-kubernetes-list-map-keys, so it cannot be nullable",
            ));
        }
    }
}

/// What can be said of rules without compiling them.
pub(super) fn rule_forms(s: &Schema, path: &Path, errors: &mut Vec<FieldError>) {
    const REASONS: [&str; 4] = [
        "FieldValueDuplicate",
        "FieldValueForbidden",
        "FieldValueInvalid",
        "FieldValueRequired",
    ];
    let lines = |text: &str| text.contains(['\n', '\r']);
    for (i, rule) in s.validations.iter().enumerate() {
        let at = path.child("x-kubernetes-validations").index(i);
        let (source, message) = (rule.rule.trim(), rule.message.trim());
        let message_at = at.child("message");
        if source.is_empty() {
            errors.push(FieldError::required(at.child("rule"), "rule is not specified"));
        } else if !rule.message.is_empty() && message.is_empty() {
            let detail = "must be non-empty if specified";
            errors.push(FieldError::invalid(message_at, rule.message.as_str(), detail));
        } else if lines(message) {
            let detail = "must not contain line breaks";
            errors.push(FieldError::invalid(message_at, rule.message.as_str(), detail));
        } else if lines(source) && message.is_empty() {
            let detail = "message must be specified if rule contains line breaks";
            errors.push(FieldError::required(message_at, detail));
        }
        if !rule.message_expression.is_empty() && rule.message_expression.trim().is_empty() {
            errors.push(FieldError::required(
                at.child("messageExpression"),
                "messageExpression must be non-empty if specified",
            ));
        }
        if let Some(reason) = &rule.reason
            && !REASONS.contains(&reason.as_str())
        {
            errors.push(FieldError::not_supported(
                at.child("reason"),
                reason.as_str(),
                REASONS,
            ));
        }
        if rule.field_path.is_empty() {
            continue;
        }
        let mut refuse = |detail: &str| {
            let at = at.child("fieldPath");
            errors.push(FieldError::invalid(at, rule.field_path.as_str(), detail));
        };
        if rule.field_path.trim().is_empty() {
            refuse("must be non-empty if specified");
        }
        if lines(&rule.field_path) {
            refuse("must not contain line breaks");
        }
        if structural::unreadable(s).is_none() && field_path::parse(&rule.field_path, s).is_err() {
            refuse("must be a valid path");
        }
    }
}
