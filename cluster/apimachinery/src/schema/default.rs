//! Filling in of the defaults of a schema.

use serde_json::Value;

use super::model::Schema;

/// Sets missing fields, and nulls that the schema does not allow, to their default.
pub fn apply(value: &mut Value, schema: &Schema) {
    match value {
        Value::Object(map) => {
            for (name, property) in &schema.properties {
                let Some(default) = &property.default else {
                    continue;
                };
                let missing = match map.get(name) {
                    None => true,
                    Some(v) => v.is_null() && !property.nullable,
                };
                if missing {
                    map.insert(name.clone(), default.clone());
                }
            }
            for (name, v) in map.iter_mut() {
                if let Some(property) = schema.properties.get(name) {
                    apply(v, property);
                } else if let Some(sub) = schema.additional_schema() {
                    replace_null(v, sub);
                    apply(v, sub);
                }
            }
        }
        Value::Array(items) => {
            if let Some(sub) = schema.items.as_deref() {
                for item in items {
                    replace_null(item, sub);
                    apply(item, sub);
                }
            }
        }
        _ => {}
    }
}

fn replace_null(value: &mut Value, schema: &Schema) {
    if value.is_null() && !schema.nullable {
        *value = schema.default.clone().unwrap_or(Value::Null);
    }
}
