//! Validation that the schemas of built-in kinds express: required fields and enumerations. Status
//! is written by controllers and taken as it is.

use apimachinery::{
    field::{FieldError, Path},
    openapi::builtin_definitions,
};
use serde_json::Value;

pub(super) fn validate(definition: &str, object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let Some(schema) = builtin_definitions().get(definition) else {
        return errors;
    };
    check_required(schema, object, &Path::root(), &mut errors);
    let (Some(properties), Some(map)) = (schema["properties"].as_object(), object.as_object()) else {
        return errors;
    };
    for (field, value) in map {
        if matches!(field.as_str(), "metadata" | "status" | "apiVersion" | "kind") {
            continue;
        }
        if let Some(schema) = properties.get(field) {
            check(schema, value, &Path::new(field), &mut errors);
        }
    }
    errors
}

fn check(schema: &Value, value: &Value, path: &Path, errors: &mut Vec<FieldError>) {
    let schema = match schema["$ref"].as_str() {
        // A template's metadata is checked with the pods that are made of it.
        Some("meta.v1.ObjectMeta") => return,
        Some(name) => match builtin_definitions().get(name) {
            Some(definition) => definition,
            None => return,
        },
        None => schema,
    };
    match value {
        Value::Object(map) => {
            check_required(schema, value, path, errors);
            for (field, value) in map {
                if let Some(property) = schema["properties"].get(field) {
                    check(property, value, &path.child(field), errors);
                } else if schema["additionalProperties"].is_object() {
                    check(&schema["additionalProperties"], value, &path.key(field), errors);
                }
            }
        }
        Value::Array(items) => {
            for (i, item) in items.iter().enumerate() {
                check(&schema["items"], item, &path.index(i), errors);
            }
        }
        Value::String(text) => {
            if let Some(allowed) = schema["enum"].as_array()
                && !allowed.iter().any(|value| value == text)
            {
                let allowed = allowed.iter().filter_map(Value::as_str);
                errors.push(FieldError::not_supported(path, text.as_str(), allowed));
            }
        }
        _ => {}
    }
}

fn check_required(schema: &Value, value: &Value, path: &Path, errors: &mut Vec<FieldError>) {
    for field in schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
    {
        // Go cannot tell absent from zero: a field whose zero value is fine has a default that says so,
        // except for texts, where empty means missing.
        let property = &schema["properties"][field];
        let missing = match value.get(field) {
            None => property["type"] != "integer" && property["type"] != "boolean" && !lenient(property),
            Some(Value::String(text)) => text.is_empty() && !lenient(property),
            Some(_) => false,
        };
        if missing {
            errors.push(FieldError::required(path.child(field), ""));
        }
    }
}

/// Required by the schema, yet empty in many valid objects: lists, maps, and objects that may be empty.
fn lenient(property: &Value) -> bool {
    let reference = property["$ref"].as_str();
    property["type"] == "object"
        || matches!(
            reference,
            Some("meta.v1.Time" | "meta.v1.MicroTime" | "core.v1.ObjectReference" | "runtime.RawExtension")
        )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn messages(definition: &str, object: &Value) -> Vec<String> {
        validate(definition, object)
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn required_fields_and_enumerations() {
        let deployment = json!({"spec": {"strategy": {"type": "Rolling"}, "selector": {"matchLabels": {"a": "b"}},
            "template": {"spec": {"containers": [{"image": "x", "imagePullPolicy": "Sometimes"}]}}}});
        assert_eq!(
            messages("apps.v1.Deployment", &deployment),
            [
                "spec.strategy.type: Unsupported value: \"Rolling\": supported values: \"Recreate\", \"RollingUpdate\"",
                "spec.template.spec.containers[0].name: Required value",
                "spec.template.spec.containers[0].imagePullPolicy: Unsupported value: \"Sometimes\": supported values: \"Always\", \"IfNotPresent\", \"Never\"",
            ]
        );
        assert_eq!(
            messages("apps.v1.Deployment", &json!({"spec": {}})),
            ["spec.selector: Required value", "spec.template: Required value",]
        );
        assert!(messages("core.v1.ConfigMap", &json!({"data": {"a": "b"}})).is_empty());
    }
}
