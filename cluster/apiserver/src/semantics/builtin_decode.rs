//! Reads an object of a built-in kind as Go's typed decoding would: unknown fields and nulls are
//! dropped, wrong types are errors.

use apimachinery::openapi::builtin_definitions;
use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Map, Value};

struct Walk {
    path: Vec<String>,
    unknown: Vec<String>,
}

pub(super) fn decode(definition: &str, object: &mut Value) -> Result<Vec<String>, String> {
    let Some(schema) = builtin_definitions().get(definition) else {
        return Ok(Vec::new());
    };
    let mut walk = Walk {
        path: Vec::new(),
        unknown: Vec::new(),
    };
    walk.value(schema, definition, object)?;
    walk.unknown.sort();
    Ok(walk.unknown)
}

fn short(definition: &str) -> &str {
    definition.rsplit('.').next().unwrap_or(definition)
}

/// `v1.Container`, as Go names types in messages.
fn go_name(definition: &str) -> String {
    let mut parts = definition.rsplit('.');
    let name = parts.next().unwrap_or_default();
    parts
        .next()
        .map_or_else(|| name.to_owned(), |version| format!("{version}.{name}"))
}

impl Walk {
    fn mismatch(&self, value: &Value, owner: &str, wanted: &str) -> String {
        let found = match value {
            Value::Null => "null".to_owned(),
            Value::Bool(_) => "bool".to_owned(),
            Value::Number(number) if number.is_f64() => format!("number {number}"),
            Value::Number(_) => "number".to_owned(),
            Value::String(_) => "string".to_owned(),
            Value::Array(_) => "array".to_owned(),
            Value::Object(_) => "object".to_owned(),
        };
        let field: Vec<&str> = self
            .path
            .iter()
            .map(String::as_str)
            .filter(|p| !p.starts_with('['))
            .collect();
        if field.is_empty() {
            return format!("json: cannot unmarshal {found} into Go value of type {wanted}");
        }
        format!(
            "json: cannot unmarshal {found} into Go struct field {}.{} of type {wanted}",
            short(owner),
            field.join(".")
        )
    }

    fn dotted(&self, last: &str) -> String {
        let mut text = String::new();
        for part in self.path.iter().map(String::as_str).chain(std::iter::once(last)) {
            if !text.is_empty() && !part.starts_with('[') {
                text.push('.');
            }
            text.push_str(part);
        }
        text
    }

    fn value(&mut self, schema: &Value, owner: &str, value: &mut Value) -> Result<(), String> {
        if let Some(name) = schema["$ref"].as_str() {
            return match builtin_definitions().get(name) {
                Some(definition) => self.value(definition, name, value),
                None => Ok(()),
            };
        }
        match schema["type"].as_str() {
            Some("object") => self.object(schema, owner, value),
            Some("array") => self.array(schema, owner, value),
            Some("string") => self.string(schema, owner, value),
            Some("boolean") if !value.is_boolean() => Err(self.mismatch(value, owner, "bool")),
            Some("integer") => self.integer(schema, owner, value),
            Some("number") if !value.is_number() => Err(self.mismatch(value, owner, "float64")),
            None => self.special(owner, value),
            _ => Ok(()),
        }
    }

    fn object(&mut self, schema: &Value, owner: &str, value: &mut Value) -> Result<(), String> {
        let items = &schema["additionalProperties"];
        let properties = schema["properties"].as_object();
        let Value::Object(map) = value else {
            let wanted = if items.is_object() {
                "map[string]string".to_owned()
            } else {
                go_name(owner)
            };
            return Err(self.mismatch(value, owner, &wanted));
        };
        if let Some(properties) = properties {
            let known = |key: &String| properties.contains_key(key);
            let unknown: Vec<String> = map.keys().filter(|key| !known(key)).cloned().collect();
            for key in unknown {
                self.unknown.push(self.dotted(&key));
                map.remove(&key);
            }
            map.retain(|_, value| !value.is_null());
            return self.fields(map, owner, |key| properties.get(key));
        }
        if items.is_object() {
            let text = items["type"] == "string";
            for value in map.values_mut().filter(|value| value.is_null()) {
                *value = if text {
                    Value::String(String::new())
                } else {
                    Value::Object(Map::new())
                };
            }
            return self.fields(map, owner, |_| Some(items));
        }
        Ok(())
    }

    fn fields<'a>(
        &mut self,
        map: &mut Map<String, Value>,
        owner: &str,
        schema: impl Fn(&str) -> Option<&'a Value>,
    ) -> Result<(), String> {
        for (key, value) in map {
            if let Some(schema) = schema(key) {
                self.path.push(key.clone());
                self.value(schema, owner, value)?;
                self.path.pop();
            }
        }
        Ok(())
    }

    fn array(&mut self, schema: &Value, owner: &str, value: &mut Value) -> Result<(), String> {
        let items = &schema["items"];
        let Value::Array(list) = value else {
            let item = items["$ref"]
                .as_str()
                .map_or_else(|| "string".to_owned(), go_name);
            return Err(self.mismatch(value, owner, &format!("[]{item}")));
        };
        for (i, value) in list.iter_mut().enumerate() {
            if value.is_null() {
                *value = if items["type"] == "string" {
                    "".into()
                } else {
                    Value::Object(Map::new())
                };
            }
            self.path.push(format!("[{i}]"));
            self.value(items, owner, value)?;
            self.path.pop();
        }
        Ok(())
    }

    fn string(&self, schema: &Value, owner: &str, value: &mut Value) -> Result<(), String> {
        let Value::String(text) = value else {
            let wanted = if schema["format"] == "byte" {
                "[]uint8"
            } else {
                "string"
            };
            return Err(self.mismatch(value, owner, wanted));
        };
        match schema["format"].as_str() {
            Some("byte") => match STANDARD.decode(text.as_bytes()) {
                Ok(_) => Ok(()),
                Err(base64::DecodeError::InvalidByte(at, _)) => {
                    Err(format!("illegal base64 data at input byte {at}"))
                }
                Err(_) => Err(format!("illegal base64 data at input byte {}", text.len())),
            },
            Some("date-time") => match text.parse::<jiff::Timestamp>() {
                Ok(time) => {
                    // Times are kept in UTC, to the second or (MicroTime) the microsecond.
                    let form = if owner.ends_with("MicroTime") {
                        "%Y-%m-%dT%H:%M:%S%.6fZ"
                    } else {
                        "%Y-%m-%dT%H:%M:%SZ"
                    };
                    *text = time.strftime(form).to_string();
                    Ok(())
                }
                Err(_) => Err(format!(
                    "parsing time {text:?} as \"2006-01-02T15:04:05Z07:00\": cannot parse {text:?} as \"2006\""
                )),
            },
            _ => Ok(()),
        }
    }

    fn integer(&self, schema: &Value, owner: &str, value: &mut Value) -> Result<(), String> {
        let wanted = if schema["format"] == "int32" {
            "int32"
        } else {
            "int64"
        };
        let Value::Number(number) = value else {
            return Err(self.mismatch(value, owner, wanted));
        };
        let whole = number.as_i64().or_else(|| {
            let float = number.as_f64()?;
            (float.fract() == 0.0 && float.abs() < 9e15).then_some(float as i64)
        });
        match whole {
            Some(whole) if wanted == "int64" || i32::try_from(whole).is_ok() => {
                *value = whole.into();
                Ok(())
            }
            _ => Err(self.mismatch(value, owner, wanted)),
        }
    }

    /// Types that JSON schema alone does not tell: int-or-string, quantities, free JSON.
    fn special(&self, owner: &str, value: &mut Value) -> Result<(), String> {
        match owner {
            "api.resource.Quantity" => {
                let text = match value {
                    Value::String(text) => text.clone(),
                    Value::Number(number) => number.to_string(),
                    _ => return Err(self.mismatch(value, owner, "resource.Quantity")),
                };
                match text.parse::<apimachinery::quantity::Quantity>() {
                    Ok(quantity) => {
                        *value = quantity.to_string().into();
                        Ok(())
                    }
                    Err(error) => Err(error.to_string()),
                }
            }
            "util.intstr.IntOrString" if !(value.is_i64() || value.is_string()) => {
                Err(self.mismatch(value, owner, "intstr.IntOrString"))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn unknown_fields_and_nulls_go() {
        let mut pod = json!({"kind": "Pod", "metadata": {"name": "a", "labels": null}, "extra": 1,
            "spec": {"containers": [{"name": "c", "imag": "x", "ports": null, "resources": {"limits": {"cpu": 1}}}]}});
        let unknown = decode("core.v1.Pod", &mut pod).unwrap();
        assert_eq!(unknown, ["extra", "spec.containers[0].imag"]);
        assert_eq!(
            pod,
            json!({"kind": "Pod", "metadata": {"name": "a"},
                "spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": "1"}}}]}})
        );
    }

    #[test]
    fn wrong_types_are_told_as_go_tells_them() {
        let cases = [
            (
                json!({"spec": {"replicas": "two"}}),
                "cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32",
            ),
            (
                json!({"spec": {"replicas": 1.5}}),
                "cannot unmarshal number 1.5 into Go struct field DeploymentSpec.spec.replicas of type int32",
            ),
            (json!({"spec": {"paused": 1}}), "of type bool"),
            (json!({"spec": []}), "cannot unmarshal array"),
            (
                json!({"metadata": {"labels": {"a": 1}}}),
                "cannot unmarshal number into Go struct field ObjectMeta.metadata.labels.a of type string",
            ),
            (
                json!({"spec": {"template": {"spec": {"containers": {}}}}}),
                "of type []v1.Container",
            ),
            (
                json!({"metadata": {"creationTimestamp": "yesterday"}}),
                "parsing time",
            ),
            (json!([]), "into Go value of type v1.Deployment"),
        ];
        for (mut object, expected) in cases {
            let error = decode("apps.v1.Deployment", &mut object).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        let error = decode("core.v1.Secret", &mut json!({"data": {"a": "@"}})).unwrap_err();
        assert_eq!(error, "illegal base64 data at input byte 0");
    }
}
