//! apiVersion, kind and metadata of resources, at the root and embedded.

use serde_json::{Map, Value};

use super::model::{Additional, Schema};
use super::time;
use crate::field::{FieldError, Path};
use crate::names;

/// `metadata` as the typed ObjectMeta holds it, and the paths of fields that it does not know.
///
/// The error is what Go's decoder says of a field of the wrong type.
pub fn decode(metadata: &Value) -> Result<(Value, Vec<String>), String> {
    let mut decoder = Decoder::default();
    let decoded = decoder.structure(metadata, OBJECT_META, "v1.ObjectMeta", "");
    match decoder.error {
        Some(error) => Err(error),
        None => Ok((decoded.unwrap_or_default(), decoder.unknown)),
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Text,
    Uid,
    Int,
    /// Kept also if it is zero.
    OptionalInt,
    OptionalBool,
    Time,
    Texts,
    TextMap,
    Owners,
    Managers,
    Any,
}

type Fields = &'static [(&'static str, Kind)];

const OBJECT_META: Fields = &[
    ("name", Kind::Text),
    ("generateName", Kind::Text),
    ("namespace", Kind::Text),
    ("selfLink", Kind::Text),
    ("uid", Kind::Uid),
    ("resourceVersion", Kind::Text),
    ("generation", Kind::Int),
    ("creationTimestamp", Kind::Time),
    ("deletionTimestamp", Kind::Time),
    ("deletionGracePeriodSeconds", Kind::OptionalInt),
    ("labels", Kind::TextMap),
    ("annotations", Kind::TextMap),
    ("ownerReferences", Kind::Owners),
    ("finalizers", Kind::Texts),
    ("managedFields", Kind::Managers),
];

const OWNER: Fields = &[
    ("apiVersion", Kind::Text),
    ("kind", Kind::Text),
    ("name", Kind::Text),
    ("uid", Kind::Uid),
    ("controller", Kind::OptionalBool),
    ("blockOwnerDeletion", Kind::OptionalBool),
];

const MANAGER: Fields = &[
    ("manager", Kind::Text),
    ("operation", Kind::Text),
    ("apiVersion", Kind::Text),
    ("time", Kind::Time),
    ("fieldsType", Kind::Text),
    ("fieldsV1", Kind::Any),
    ("subresource", Kind::Text),
];

#[derive(Default)]
struct Decoder {
    error: Option<String>,
    unknown: Vec<String>,
}

impl Decoder {
    fn fail(&mut self, value: &Value, field: &str, go_type: &str) {
        let kind = match value {
            Value::Null => return,
            Value::Bool(_) => "bool".to_owned(),
            Value::Number(n) if go_type == "int64" => format!("number {n}"),
            Value::Number(_) => "number".to_owned(),
            Value::String(_) => "string".to_owned(),
            Value::Array(_) => "array".to_owned(),
            Value::Object(_) => "object".to_owned(),
        };
        let target = if field.is_empty() {
            format!("Go value of type {go_type}")
        } else {
            format!("Go struct field ObjectMeta.{field} of type {go_type}")
        };
        self.error
            .get_or_insert(format!("json: cannot unmarshal {kind} into {target}"));
    }

    fn structure(&mut self, value: &Value, fields: Fields, go_type: &str, at: &str) -> Option<Value> {
        let map = match value {
            Value::Object(map) => map,
            Value::Null => return Some(Value::Object(Map::new())),
            _ => {
                self.fail(value, strip_indices(at).as_str(), go_type);
                return None;
            }
        };
        let mut out = Map::new();
        for (key, v) in map {
            let path = if at.is_empty() {
                key.clone()
            } else {
                format!("{at}.{key}")
            };
            match fields.iter().find(|(name, _)| name == key) {
                None => self.unknown.push(path),
                Some((_, kind)) => {
                    if let Some(v) = self.field(v, *kind, &path) {
                        out.insert(key.clone(), v);
                    }
                }
            }
        }
        if std::ptr::eq(fields, OWNER) {
            for name in ["apiVersion", "kind", "name", "uid"] {
                out.entry(name).or_insert_with(|| Value::from(""));
            }
        }
        Some(Value::Object(out))
    }

    /// The value to keep; zero values are left out.
    fn field(&mut self, value: &Value, kind: Kind, path: &str) -> Option<Value> {
        if value.is_null() {
            return None;
        }
        let field = strip_indices(path);
        match kind {
            Kind::Any => Some(value.clone()),
            Kind::Text | Kind::Uid => match value {
                Value::String(s) => (!s.is_empty()).then(|| value.clone()),
                _ => {
                    let go_type = if matches!(kind, Kind::Uid) {
                        "types.UID"
                    } else {
                        "string"
                    };
                    self.fail(value, &field, go_type);
                    None
                }
            },
            Kind::Int | Kind::OptionalInt => match value.as_i64() {
                Some(0) if matches!(kind, Kind::Int) => None,
                Some(n) => Some(Value::from(n)),
                None => {
                    self.fail(value, &field, "int64");
                    None
                }
            },
            Kind::OptionalBool => match value {
                Value::Bool(_) => Some(value.clone()),
                _ => {
                    self.fail(value, &field, "bool");
                    None
                }
            },
            Kind::Time => self.time(value),
            Kind::Texts => self.texts(value, &field),
            Kind::TextMap => self.text_map(value, &field),
            Kind::Owners => self.list(value, OWNER, "v1.OwnerReference", path),
            Kind::Managers => self.list(value, MANAGER, "v1.ManagedFieldsEntry", path),
        }
    }

    fn time(&mut self, value: &Value) -> Option<Value> {
        let Value::String(text) = value else {
            self.fail(value, "", "string");
            return None;
        };
        match time::parse_rfc3339(text) {
            Some(t) => Some(Value::from(t.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())),
            None => {
                let layout = "2006-01-02T15:04:05Z07:00";
                self.error.get_or_insert(format!(
                    "parsing time \"{text}\" as \"{layout}\": cannot parse \"{text}\" as \"2006\""
                ));
                None
            }
        }
    }

    fn texts(&mut self, value: &Value, field: &str) -> Option<Value> {
        let Value::Array(items) = value else {
            self.fail(value, field, "[]string");
            return None;
        };
        let items: Vec<Value> = items
            .iter()
            .map(|item| match item {
                Value::String(_) => item.clone(),
                other => {
                    self.fail(other, field, "string");
                    Value::from("")
                }
            })
            .collect();
        (!items.is_empty()).then_some(Value::Array(items))
    }

    fn text_map(&mut self, value: &Value, field: &str) -> Option<Value> {
        let Value::Object(map) = value else {
            self.fail(value, field, "map[string]string");
            return None;
        };
        let map: Map<String, Value> = map
            .iter()
            .map(|(k, v)| {
                let v = match v {
                    Value::String(_) => v.clone(),
                    other => {
                        self.fail(other, field, "string");
                        Value::from("")
                    }
                };
                (k.clone(), v)
            })
            .collect();
        (!map.is_empty()).then_some(Value::Object(map))
    }

    fn list(&mut self, value: &Value, fields: Fields, go_type: &str, path: &str) -> Option<Value> {
        let Value::Array(items) = value else {
            self.fail(value, &strip_indices(path), &format!("[]{go_type}"));
            return None;
        };
        let items: Vec<Value> = items
            .iter()
            .enumerate()
            .filter_map(|(i, item)| self.structure(item, fields, go_type, &format!("{path}[{i}]")))
            .collect();
        (!items.is_empty()).then_some(Value::Array(items))
    }
}

/// Go's decoder names the fields of a path, not the places in lists.
fn strip_indices(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    let mut inside = false;
    for c in path.chars() {
        match c {
            '[' => inside = true,
            ']' => inside = false,
            c if !inside => out.push(c),
            _ => {}
        }
    }
    out
}

/// Brings metadata of embedded resources into shape; unknown fields of it are removed
/// and returned.
pub fn coerce(
    value: &mut Value,
    schema: &Schema,
    resource_root: bool,
    path: &Path,
) -> Result<Vec<String>, FieldError> {
    let mut unknown = Vec::new();
    coerce_node(value, schema, resource_root, path, &mut unknown)?;
    unknown.sort();
    Ok(unknown)
}

fn coerce_node(
    value: &mut Value,
    schema: &Schema,
    root: bool,
    path: &Path,
    unknown: &mut Vec<String>,
) -> Result<(), FieldError> {
    match value {
        Value::Object(map) => {
            let embedded = schema.embedded_resource || root;
            for (key, v) in map.iter_mut() {
                if embedded {
                    match key.as_str() {
                        "apiVersion" | "kind" if !v.is_string() => {
                            return Err(FieldError::invalid(
                                path.child(key),
                                v.clone(),
                                "must be a string",
                            ));
                        }
                        "metadata" => {
                            let at = path.child("metadata");
                            let (decoded, fields) =
                                decode(v).map_err(|e| FieldError::invalid(&at, v.clone(), e))?;
                            unknown.extend(fields.iter().map(|f| format!("{at}.{f}")));
                            *v = decoded;
                        }
                        _ => {}
                    }
                }
                if let Some(property) = schema.properties.get(key) {
                    coerce_node(v, property, false, &path.child(key), unknown)?;
                } else if let Some(Additional::Schema(sub)) = &schema.additional_properties {
                    coerce_node(v, sub, false, &path.key(key), unknown)?;
                }
            }
        }
        Value::Array(items) => {
            if let Some(sub) = schema.items.as_deref() {
                for (i, item) in items.iter_mut().enumerate() {
                    coerce_node(item, sub, false, &path.index(i), unknown)?;
                }
            }
        }
        _ => {}
    }
    Ok(())
}

/// Whether a schema embeds resources.
pub fn embeds(schema: &Schema) -> bool {
    schema.embedded_resource
        || schema.items.as_deref().is_some_and(embeds)
        || schema.additional_schema().is_some_and(embeds)
        || schema.properties.values().any(embeds)
}

/// Checks apiVersion, kind and metadata of embedded resources.
pub fn validate(
    value: &Value,
    schema: &Schema,
    resource_root: bool,
    path: &Path,
    errors: &mut Vec<FieldError>,
) {
    match value {
        Value::Object(map) => {
            if schema.embedded_resource || resource_root {
                embedded(map, path, errors);
            }
            for (key, v) in map {
                if let Some(property) = schema.properties.get(key) {
                    validate(v, property, false, &path.child(key), errors);
                } else if let Some(sub) = schema.additional_schema() {
                    validate(v, sub, false, &path.key(key), errors);
                }
            }
        }
        Value::Array(items) => {
            if let Some(sub) = schema.items.as_deref() {
                for (i, item) in items.iter().enumerate() {
                    validate(item, sub, false, &path.index(i), errors);
                }
            }
        }
        _ => {}
    }
}

fn embedded(map: &Map<String, Value>, path: &Path, errors: &mut Vec<FieldError>) {
    for key in ["apiVersion", "kind"] {
        let at = path.child(key);
        match map.get(key) {
            None => errors.push(FieldError::required(at, "")),
            Some(Value::String(s)) if s.is_empty() => {
                errors.push(FieldError::invalid(at, "", "must not be empty"));
            }
            Some(Value::String(s)) if key == "apiVersion" => {
                if s.matches('/').count() > 1 {
                    let detail = format!("unexpected GroupVersion string: {s}");
                    errors.push(FieldError::invalid(at, s.as_str(), detail));
                }
            }
            Some(Value::String(s)) => {
                let faults = names::dns1035_label(&s.to_lowercase());
                if !faults.is_empty() {
                    let detail = format!(
                        "may have mixed case, but should otherwise match: {}",
                        faults.join(",")
                    );
                    errors.push(FieldError::invalid(at, s.as_str(), detail));
                }
            }
            Some(other) => {
                errors.push(FieldError::invalid(at, other.clone(), "must be a string"));
            }
        }
    }
    if let Some(metadata) = map.get("metadata") {
        let at = path.child("metadata");
        match decode(metadata) {
            Err(e) => errors.push(FieldError::invalid(at, metadata.clone(), e)),
            Ok((mut decoded, _)) => {
                if decoded.get("name").is_none()
                    && let Value::Object(fields) = &mut decoded
                {
                    // An embedded resource need not have a name.
                    fields.insert("name".to_owned(), Value::from("fakename"));
                }
                let namespaced = decoded.get("namespace").is_some();
                let rule = names::NameRule::PathSegment;
                for mut error in names::validate_create(&decoded, namespaced, rule) {
                    if !path.is_root() {
                        error.field = format!("{path}.{}", error.field);
                    }
                    errors.push(error);
                }
            }
        }
    }
}
