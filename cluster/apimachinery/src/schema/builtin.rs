//! Built-in kinds: decoding into their types, with what strict decoding reports.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use serde_json::{Map, Value};

use super::formats::Format;
use super::time;
use crate::field::{FieldError, Path};
use crate::quantity::Quantity;

/// Types of the built-in kinds by name, such as `apps.v1.Deployment`; cheap to clone.
#[derive(Debug, Clone)]
pub struct Definitions(Arc<BTreeMap<String, Shape>>);

#[derive(Debug)]
enum Shape {
    /// Anything.
    Any,
    Reference(String),
    Struct {
        fields: BTreeMap<String, Shape>,
        required: Vec<String>,
    },
    Map(Box<Shape>),
    List(Box<Shape>),
    String,
    Bytes,
    Time,
    Bool,
    Int32,
    Int64,
    Double,
    IntOrString,
    Quantity,
}

impl Definitions {
    /// The kinds that this server has built in.
    pub fn builtin() -> Self {
        static KNOWN: LazyLock<Definitions> =
            LazyLock::new(|| Definitions::from_json(crate::openapi::builtin_definitions()));
        KNOWN.clone()
    }

    /// Reads the `definitions` of an OpenAPI document; `$ref` is a bare name.
    pub fn from_json(definitions: &Map<String, Value>) -> Self {
        Self(Arc::new(
            definitions
                .iter()
                .map(|(name, schema)| (name.clone(), Shape::parse(name, schema)))
                .collect(),
        ))
    }

    pub fn contains(&self, definition: &str) -> bool {
        self.0.contains_key(definition)
    }

    /// Brings an object into the shape of its type: unknown fields and nulls are dropped.
    ///
    /// Returns the paths of unknown fields, which `fieldValidation` reports as
    /// `unknown field "spec.foo"`. The error is a value of the wrong type, in the
    /// words of Go's decoder.
    pub fn decode(&self, definition: &str, object: &mut Value) -> Result<Vec<String>, String> {
        let mut decoder = Decoder {
            definitions: self,
            unknown: Vec::new(),
            path: Vec::new(),
            struct_name: go_name(definition).to_owned(),
        };
        match self.0.get(definition) {
            Some(shape) => decoder.value(object, shape, definition)?,
            None => return Err(format!("no type {definition:?} is known")),
        }
        Ok(decoder.unknown)
    }

    /// Fields that a type requires and that are missing.
    pub fn missing(&self, definition: &str, object: &Value) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if let Some(shape) = self.0.get(definition) {
            self.missing_in(object, shape, &Path::root(), &mut errors);
        }
        errors
    }

    fn resolve<'a>(&'a self, shape: &'a Shape) -> &'a Shape {
        match shape {
            Shape::Reference(name) => self.0.get(name).unwrap_or(&Shape::Any),
            other => other,
        }
    }

    fn missing_in(&self, value: &Value, shape: &Shape, path: &Path, errors: &mut Vec<FieldError>) {
        match (self.resolve(shape), value) {
            (Shape::Struct { fields, required }, Value::Object(map)) => {
                for name in required.iter().filter(|n| map.get(*n).is_none_or(Value::is_null)) {
                    errors.push(FieldError::required(path.child(name), ""));
                }
                for (name, v) in map {
                    if let Some(field) = fields.get(name) {
                        self.missing_in(v, field, &path.child(name), errors);
                    }
                }
            }
            (Shape::Map(inner), Value::Object(map)) => {
                for (key, v) in map {
                    self.missing_in(v, inner, &path.key(key), errors);
                }
            }
            (Shape::List(inner), Value::Array(items)) => {
                for (i, item) in items.iter().enumerate() {
                    self.missing_in(item, inner, &path.index(i), errors);
                }
            }
            _ => {}
        }
    }
}

impl Shape {
    fn parse(name: &str, schema: &Value) -> Self {
        match name {
            "api.resource.Quantity" => return Self::Quantity,
            "util.intstr.IntOrString" => return Self::IntOrString,
            _ => {}
        }
        if let Some(Value::String(reference)) = schema.get("$ref") {
            return Self::Reference(reference.clone());
        }
        let text = |key: &str| schema.get(key).and_then(Value::as_str).unwrap_or_default();
        match (text("type"), text("format")) {
            ("object", _) => Self::parse_object(schema),
            ("array", _) => Self::List(Box::new(Self::parse("", &schema["items"]))),
            ("string", "byte") => Self::Bytes,
            ("string", "date-time") => Self::Time,
            ("string", _) => Self::String,
            ("boolean", _) => Self::Bool,
            ("integer", "int32") => Self::Int32,
            ("integer", _) => Self::Int64,
            ("number", _) => Self::Double,
            (_, "int-or-string") => Self::IntOrString,
            _ => Self::Any,
        }
    }

    fn parse_object(schema: &Value) -> Self {
        if let Some(Value::Object(properties)) = schema.get("properties") {
            let required = schema.get("required").and_then(Value::as_array);
            return Self::Struct {
                fields: properties
                    .iter()
                    .map(|(name, s)| (name.clone(), Self::parse("", s)))
                    .collect(),
                required: required
                    .into_iter()
                    .flatten()
                    .filter_map(|r| r.as_str().map(str::to_owned))
                    .collect(),
            };
        }
        match schema.get("additionalProperties") {
            Some(inner @ Value::Object(_)) => Self::Map(Box::new(Self::parse("", inner))),
            // Raw data: FieldsV1, RawExtension.
            _ => Self::Any,
        }
    }

    /// The type as Go names it.
    fn go_type(&self) -> String {
        match self {
            Self::Any => "runtime.RawExtension".to_owned(),
            Self::Reference(name) => go_type(name),
            Self::Struct { .. } => "struct".to_owned(),
            Self::Map(inner) => format!("map[string]{}", inner.go_type()),
            Self::List(inner) => format!("[]{}", inner.go_type()),
            Self::String => "string".to_owned(),
            Self::Bytes => "[]uint8".to_owned(),
            Self::Time => "v1.Time".to_owned(),
            Self::Bool => "bool".to_owned(),
            Self::Int32 => "int32".to_owned(),
            Self::Int64 => "int64".to_owned(),
            Self::Double => "float64".to_owned(),
            Self::IntOrString => "intstr.IntOrString".to_owned(),
            Self::Quantity => "resource.Quantity".to_owned(),
        }
    }
}

/// `core.v1.ServicePort` is `v1.ServicePort` in Go.
fn go_type(definition: &str) -> String {
    let mut parts = definition.rsplit('.');
    match (parts.next(), parts.next()) {
        (Some(name), Some(package)) => format!("{package}.{name}"),
        _ => definition.to_owned(),
    }
}

fn go_name(definition: &str) -> &str {
    definition.rsplit('.').next().unwrap_or(definition)
}

enum Step {
    Field(String),
    Index(usize),
}

struct Decoder<'a> {
    definitions: &'a Definitions,
    unknown: Vec<String>,
    path: Vec<Step>,
    /// The struct that the current field belongs to.
    struct_name: String,
}

impl Decoder<'_> {
    fn unknown_at(&self, name: &str) -> String {
        let mut out = String::new();
        for step in &self.path {
            match step {
                Step::Field(field) if out.is_empty() => out.push_str(field),
                Step::Field(field) => {
                    out.push('.');
                    out.push_str(field);
                }
                Step::Index(i) => out.push_str(&format!("[{i}]")),
            }
        }
        if !out.is_empty() {
            out.push('.');
        }
        out + name
    }

    fn wrong(&self, value: &Value, go_type: &str) -> String {
        let kind = match value {
            Value::Null => "null".to_owned(),
            Value::Bool(_) => "bool".to_owned(),
            Value::Number(n) if matches!(go_type, "int32" | "int64") => format!("number {n}"),
            Value::Number(_) => "number".to_owned(),
            Value::String(_) => "string".to_owned(),
            Value::Array(_) => "array".to_owned(),
            Value::Object(_) => "object".to_owned(),
        };
        let fields: Vec<&str> = self
            .path
            .iter()
            .filter_map(|step| match step {
                Step::Field(name) => Some(name.as_str()),
                Step::Index(_) => None,
            })
            .collect();
        if fields.is_empty() {
            return format!("json: cannot unmarshal {kind} into Go value of type {go_type}");
        }
        format!(
            "json: cannot unmarshal {kind} into Go struct field {}.{} of type {go_type}",
            self.struct_name,
            fields.join(".")
        )
    }

    fn value(&mut self, value: &mut Value, shape: &Shape, definition: &str) -> Result<(), String> {
        let name = match shape {
            Shape::Reference(name) => name.as_str(),
            _ => definition,
        };
        match self.definitions.resolve(shape) {
            Shape::Struct { fields, .. } => {
                let Value::Object(map) = value else {
                    return Err(self.wrong(value, &go_type(name)));
                };
                let outer = std::mem::replace(&mut self.struct_name, go_name(name).to_owned());
                self.fields(map, fields)?;
                self.struct_name = outer;
                Ok(())
            }
            Shape::Map(inner) => {
                let Value::Object(map) = value else {
                    return Err(self.wrong(value, &shape.go_type()));
                };
                for v in map.values_mut().filter(|v| !v.is_null()) {
                    self.value(v, inner, "")?;
                }
                Ok(())
            }
            Shape::List(inner) => {
                let Value::Array(items) = value else {
                    return Err(self.wrong(value, &shape.go_type()));
                };
                for (i, item) in items.iter_mut().enumerate().filter(|(_, item)| !item.is_null()) {
                    self.path.push(Step::Index(i));
                    self.value(item, inner, "")?;
                    self.path.pop();
                }
                Ok(())
            }
            scalar => self.scalar(value, scalar),
        }
    }

    fn fields(
        &mut self,
        map: &mut Map<String, Value>,
        fields: &BTreeMap<String, Shape>,
    ) -> Result<(), String> {
        let mut failed = None;
        map.retain(|key, v| {
            let Some(field) = fields.get(key) else {
                self.unknown.push(self.unknown_at(key));
                return false;
            };
            if v.is_null() {
                return false;
            }
            if failed.is_none() {
                self.path.push(Step::Field(key.clone()));
                failed = self.value(v, field, "").err();
                self.path.pop();
            }
            true
        });
        failed.map_or(Ok(()), Err)
    }

    fn scalar(&self, value: &Value, shape: &Shape) -> Result<(), String> {
        let fits = match (shape, value) {
            (Shape::Any | Shape::Reference(_), _) => true,
            (Shape::String, Value::String(_)) | (Shape::Bool, Value::Bool(_)) => true,
            (Shape::Double, Value::Number(_)) => true,
            (Shape::Int64, Value::Number(n)) => n.is_i64(),
            (Shape::Int32, Value::Number(n)) => n.as_i64().is_some_and(|n| i32::try_from(n).is_ok()),
            (Shape::IntOrString, Value::String(_)) => true,
            (Shape::IntOrString, Value::Number(n)) => n.as_i64().is_some_and(|n| i32::try_from(n).is_ok()),
            (Shape::Quantity, Value::String(_) | Value::Number(_)) => {
                return Quantity::from_json(value).map(|_| ()).map_err(|e| e.to_string());
            }
            (Shape::Bytes, Value::String(s)) => {
                if !s.is_empty() && !Format::Byte.accepts(&s.replace(['\n', '\r'], "")) {
                    let at = s
                        .bytes()
                        .position(|b| !b.is_ascii_alphanumeric() && !b"+/=".contains(&b))
                        .unwrap_or(s.len() / 4 * 4);
                    return Err(format!("illegal base64 data at input byte {at}"));
                }
                true
            }
            (Shape::Time, Value::String(s)) => {
                if !s.is_empty() && time::parse_rfc3339(s).is_none() {
                    let layout = "2006-01-02T15:04:05Z07:00";
                    return Err(format!(
                        "parsing time \"{s}\" as \"{layout}\": cannot parse \"{s}\" as \"2006\""
                    ));
                }
                true
            }
            _ => false,
        };
        if fits {
            Ok(())
        } else {
            Err(self.wrong(value, &shape.go_type()))
        }
    }
}

/// What `fieldValidation: Strict` answers for these unknown fields.
pub fn strict_error(unknown: &[String]) -> Option<String> {
    if unknown.is_empty() {
        return None;
    }
    let fields: Vec<String> = unknown.iter().map(|f| format!("unknown field \"{f}\"")).collect();
    Some(format!("strict decoding error: {}", fields.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn unknown_fields_and_nulls_go() {
        let mut service = json!({
            "apiVersion": "v1", "kind": "Service", "foo": 1,
            "metadata": {"name": "a", "labels": null, "bar": 2},
            "spec": {"ports": [{"port": 80, "targetPort": "http", "x": 1}], "selector": {"a": "b"}}
        });
        let unknown = Definitions::builtin()
            .decode("core.v1.Service", &mut service)
            .expect("decodes");
        assert_eq!(unknown, ["foo", "metadata.bar", "spec.ports[0].x"]);
        assert_eq!(service["metadata"], json!({"name": "a"}));
        assert_eq!(
            strict_error(&unknown[..1]).as_deref(),
            Some("strict decoding error: unknown field \"foo\"")
        );
    }

    #[test]
    fn wrong_types_read_as_in_go() {
        for (definition, object, want) in [
            (
                "core.v1.Service",
                json!({"spec": {"ports": "x"}}),
                "json: cannot unmarshal string into Go struct field ServiceSpec.spec.ports of type []v1.ServicePort",
            ),
            (
                "apps.v1.Deployment",
                json!({"spec": {"replicas": "3"}}),
                "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32",
            ),
            (
                "core.v1.ConfigMap",
                json!({"data": {"a": 1}}),
                "json: cannot unmarshal number into Go struct field ConfigMap.data of type string",
            ),
            (
                "core.v1.Secret",
                json!({"data": {"a": "%"}}),
                "illegal base64 data at input byte 0",
            ),
        ] {
            let mut object = object;
            let error = Definitions::builtin()
                .decode(definition, &mut object)
                .expect_err(definition);
            assert_eq!(error, want);
        }
    }

    #[test]
    fn required_fields_are_named() {
        let errors = Definitions::builtin().missing("apps.v1.Deployment", &json!({"spec": {}}));
        let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            lines,
            ["spec.selector: Required value", "spec.template: Required value"]
        );
    }
}
