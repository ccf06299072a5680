//! Columns, scale and selectable fields of a version.

use serde_json::Value;

use super::definition::text_at;
use super::field_path;
use crate::field::{FieldError, Path, text};
use crate::schema::Schema;

/// A warning of clients that use an old version.
pub(super) fn deprecation(version: &Value, path: &Path, errors: &mut Vec<FieldError>) {
    let Some(warning) = version.get("deprecationWarning").and_then(Value::as_str) else {
        return;
    };
    let mut refuse = |detail: String| {
        errors.push(FieldError::invalid(
            path.child("deprecationWarning"),
            warning,
            detail,
        ));
    };
    if version.get("deprecated") != Some(&Value::Bool(true)) {
        refuse("can only be set for deprecated versions".to_owned());
        return;
    }
    if warning.len() > 256 {
        refuse("must be <= 256 characters long".to_owned());
    }
    if warning.is_empty() {
        refuse("must not be an empty string".to_owned());
    }
    if let Some((i, _)) = warning.char_indices().find(|(_, c)| !text::is_printable(*c)) {
        refuse(format!(
            "must only contain printable UTF-8 characters; non-printable character found at index {i}"
        ));
    }
}

pub(super) fn columns(version: &Value, path: &Path, errors: &mut Vec<FieldError>) {
    const TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
    const FORMATS: [&str; 8] = [
        "byte",
        "date",
        "date-time",
        "double",
        "float",
        "int32",
        "int64",
        "password",
    ];
    let list = version.get("additionalPrinterColumns").and_then(Value::as_array);
    for (i, column) in list.into_iter().flatten().enumerate() {
        let at = path.index(i);
        if text_at(column, "name").is_empty() {
            errors.push(FieldError::required(at.child("name"), ""));
        }
        let type_ = text_at(column, "type");
        let detail = format!("must be one of {}", TYPES.join(","));
        if type_.is_empty() {
            errors.push(FieldError::required(at.child("type"), detail));
        } else if !TYPES.contains(&type_) {
            errors.push(FieldError::invalid(at.child("type"), type_, detail));
        }
        let format = text_at(column, "format");
        if !format.is_empty() && !FORMATS.contains(&format) {
            let detail = format!("must be one of {}", FORMATS.join(","));
            errors.push(FieldError::invalid(at.child("format"), format, detail));
        }
        let json_path = text_at(column, "jsonPath");
        if json_path.is_empty() {
            errors.push(FieldError::required(at.child("JSONPath"), ""));
        } else {
            simple_path(json_path, &at.child("JSONPath"), errors);
        }
    }
}

fn simple_path(text: &str, at: &Path, errors: &mut Vec<FieldError>) -> bool {
    let fine = text.starts_with('.');
    if !fine {
        errors.push(FieldError::invalid(
            at,
            text,
            "must be a simple json path starting with .",
        ));
    }
    fine
}

pub(super) fn scale(scale: &Value, path: &Path, errors: &mut Vec<FieldError>) {
    if scale.is_null() {
        return;
    }
    for (field, root) in [("specReplicasPath", ".spec."), ("statusReplicasPath", ".status.")] {
        let at = path.child(&format!("scale.{field}"));
        let text = text_at(scale, field);
        if text.is_empty() {
            errors.push(FieldError::required(at, ""));
        } else if simple_path(text, &at, errors) && !text.starts_with(root) {
            let root = root.trim_end_matches('.');
            errors.push(FieldError::invalid(
                at,
                text,
                format!("should be a json path under {root}"),
            ));
        }
    }
    let text = text_at(scale, "labelSelectorPath");
    let at = path.child("scale.labelSelectorPath");
    if !text.is_empty()
        && simple_path(text, &at, errors)
        && !text.starts_with(".spec.")
        && !text.starts_with(".status.")
    {
        errors.push(FieldError::invalid(
            at,
            text,
            "should be a json path under either .spec or .status",
        ));
    }
}

pub(super) fn selectable(version: &Value, schema: &Schema, path: &Path, errors: &mut Vec<FieldError>) {
    const MOST: usize = 8;
    let list = version.get("selectableFields").and_then(Value::as_array);
    let mut seen: Vec<String> = Vec::new();
    for (i, field) in list.into_iter().flatten().enumerate() {
        let at = path.child("selectableFields").index(i).child("jsonPath");
        let text = text_at(field, "jsonPath");
        if text.is_empty() {
            errors.push(FieldError::required(at, ""));
            continue;
        }
        let found = if text.contains('[') {
            Err("array notation is not allowed".to_owned())
        } else {
            field_path::parse(text, schema)
        };
        let (target, found) = match found {
            Ok(found) => found,
            Err(why) => {
                errors.push(FieldError::invalid(
                    at,
                    text,
                    format!("is an invalid path: {why}"),
                ));
                continue;
            }
        };
        let target = target.to_string();
        if target.split('.').next() == Some("metadata") {
            errors.push(FieldError::invalid(
                &at,
                text,
                "must not point to fields in metadata",
            ));
        }
        if !matches!(found.type_.as_str(), "string" | "boolean" | "integer") {
            errors.push(FieldError::invalid(
                &at,
                text,
                "must point to a field of type string, boolean or integer. Enum string fields and strings with \
                 formats are allowed.",
            ));
        }
        if seen.contains(&target) {
            errors.push(FieldError::duplicate(at, text));
        } else {
            seen.push(target);
        }
    }
    if seen.len() > MOST {
        let (actual, most) = (i64::try_from(seen.len()).unwrap_or(i64::MAX), 8);
        errors.push(FieldError::too_many(path.child("selectableFields"), actual, most));
    }
}
