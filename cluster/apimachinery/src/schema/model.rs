//! The fields of an OpenAPI v3 schema as a CustomResourceDefinition may carry them.

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::{Map, Value};

use super::formats::Format;
use crate::field::{FieldError, Path};

/// One node of a schema. The same type serves the structural part and the
/// value validations below `allOf`, `anyOf`, `oneOf` and `not`.
#[derive(Debug, Clone, Default)]
pub struct Schema {
    pub type_: String,
    pub format: String,
    pub nullable: bool,
    pub title: String,
    pub description: String,
    /// `default: null` reads as no default.
    pub default: Option<Value>,
    pub example: Option<Value>,
    pub external_docs: Option<Value>,

    pub maximum: Option<f64>,
    pub exclusive_maximum: bool,
    pub minimum: Option<f64>,
    pub exclusive_minimum: bool,
    pub multiple_of: Option<f64>,
    pub max_length: Option<i64>,
    pub min_length: Option<i64>,
    pub pattern: Option<Pattern>,
    pub max_items: Option<i64>,
    pub min_items: Option<i64>,
    pub unique_items: bool,
    pub max_properties: Option<i64>,
    pub min_properties: Option<i64>,
    pub required: Vec<String>,
    pub enum_: Vec<Value>,

    pub items: Option<Box<Schema>>,
    pub properties: BTreeMap<String, Schema>,
    pub additional_properties: Option<Additional>,
    pub all_of: Vec<Schema>,
    pub any_of: Vec<Schema>,
    pub one_of: Vec<Schema>,
    pub not: Option<Box<Schema>>,

    pub preserve_unknown_fields: Option<bool>,
    pub embedded_resource: bool,
    pub int_or_string: bool,
    pub list_type: Option<String>,
    pub list_map_keys: Vec<String>,
    pub map_type: Option<String>,
    pub validations: Vec<Rule>,

    /// What a structural schema may not have; kept to name it in an error.
    pub unsupported: Option<Box<Unsupported>>,
    /// The format that values are checked against; unknown formats are ignored.
    pub(crate) checked_format: Option<Format>,
}

/// `additionalProperties`: a schema or a boolean.
#[derive(Debug, Clone)]
pub enum Additional {
    Allowed(bool),
    Schema(Box<Schema>),
}

/// A rule of `x-kubernetes-validations`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rule {
    pub rule: String,
    pub message: String,
    pub message_expression: String,
    pub reason: Option<String>,
    pub field_path: String,
    pub optional_old_self: Option<bool>,
}

/// Keywords that are refused when a CustomResourceDefinition is created.
#[derive(Debug, Clone, Default)]
pub struct Unsupported {
    pub id: String,
    pub schema: String,
    pub reference: Option<String>,
    pub additional_items: bool,
    pub dependencies: BTreeMap<String, Option<Schema>>,
    pub has_dependencies: bool,
    pub pattern_properties: bool,
    pub definitions: BTreeMap<String, Schema>,
    pub items: Vec<Schema>,
}

/// A regular expression; one that does not compile keeps the reason.
#[derive(Debug, Clone)]
pub struct Pattern {
    pub source: String,
    pub regex: Result<Regex, String>,
}

impl Pattern {
    pub fn new(source: &str) -> Self {
        Self {
            source: source.to_owned(),
            regex: super::regexp::compile(source),
        }
    }
}

impl Schema {
    /// The schema of the field `name`, from properties or else additionalProperties.
    pub fn field(&self, name: &str) -> Option<&Schema> {
        self.properties.get(name).or_else(|| self.additional_schema())
    }

    pub fn additional_schema(&self) -> Option<&Schema> {
        match &self.additional_properties {
            Some(Additional::Schema(s)) => Some(s),
            _ => None,
        }
    }

    pub fn preserves_unknown_fields(&self) -> bool {
        self.preserve_unknown_fields == Some(true)
    }

    /// Reads a schema; a value of the wrong JSON type is an error with its path.
    pub fn parse(value: &Value, path: &Path) -> Result<Self, Vec<FieldError>> {
        let mut reader = Reader::default();
        let schema = reader.schema(value, path);
        if reader.errors.is_empty() {
            Ok(schema)
        } else {
            Err(reader.errors)
        }
    }
}

#[derive(Default)]
struct Reader {
    errors: Vec<FieldError>,
}

impl Reader {
    fn wrong(&mut self, path: &Path, value: &Value, want: &str) {
        self.errors.push(FieldError::type_invalid(
            path,
            value.clone(),
            format!("must be of type {want}"),
        ));
    }

    fn schema(&mut self, value: &Value, path: &Path) -> Schema {
        let Value::Object(map) = value else {
            if !value.is_null() {
                self.wrong(path, value, "object");
            }
            return Schema::default();
        };
        let mut s = Schema::default();
        let mut unsupported = Unsupported::default();
        for (key, v) in map {
            if v.is_null() {
                continue;
            }
            let at = path.child(key);
            match key.as_str() {
                "type" => s.type_ = self.text(v, &at),
                "format" => s.format = self.text(v, &at),
                "nullable" => s.nullable = self.flag(v, &at),
                "title" => s.title = self.text(v, &at),
                "description" => s.description = self.text(v, &at),
                "default" => s.default = Some(v.clone()),
                "example" => s.example = Some(v.clone()),
                "externalDocs" => s.external_docs = Some(v.clone()),
                "maximum" => s.maximum = self.number(v, &at),
                "exclusiveMaximum" => s.exclusive_maximum = self.flag(v, &at),
                "minimum" => s.minimum = self.number(v, &at),
                "exclusiveMinimum" => s.exclusive_minimum = self.flag(v, &at),
                "multipleOf" => s.multiple_of = self.number(v, &at),
                "maxLength" => s.max_length = self.integer(v, &at),
                "minLength" => s.min_length = self.integer(v, &at),
                "pattern" => {
                    let source = self.text(v, &at);
                    s.pattern = (!source.is_empty()).then(|| Pattern::new(&source));
                }
                "maxItems" => s.max_items = self.integer(v, &at),
                "minItems" => s.min_items = self.integer(v, &at),
                "uniqueItems" => s.unique_items = self.flag(v, &at),
                "maxProperties" => s.max_properties = self.integer(v, &at),
                "minProperties" => s.min_properties = self.integer(v, &at),
                "required" => s.required = self.texts(v, &at),
                "enum" => match v {
                    Value::Array(items) => s.enum_ = items.clone(),
                    _ => self.wrong(&at, v, "array"),
                },
                "items" => match v {
                    Value::Array(items) => {
                        unsupported.items = self.schemas(items, &at);
                    }
                    _ => s.items = Some(Box::new(self.schema(v, &at))),
                },
                "properties" => s.properties = self.map(v, &at),
                "additionalProperties" => {
                    s.additional_properties = Some(match v {
                        Value::Bool(b) => Additional::Allowed(*b),
                        _ => Additional::Schema(Box::new(self.schema(v, &at))),
                    });
                }
                "allOf" => s.all_of = self.list(v, &at),
                "anyOf" => s.any_of = self.list(v, &at),
                "oneOf" => s.one_of = self.list(v, &at),
                "not" => s.not = Some(Box::new(self.schema(v, &at))),
                "x-kubernetes-preserve-unknown-fields" => {
                    s.preserve_unknown_fields = Some(self.flag(v, &at));
                }
                "x-kubernetes-embedded-resource" => s.embedded_resource = self.flag(v, &at),
                "x-kubernetes-int-or-string" => s.int_or_string = self.flag(v, &at),
                "x-kubernetes-list-type" => s.list_type = Some(self.text(v, &at)),
                "x-kubernetes-list-map-keys" => s.list_map_keys = self.texts(v, &at),
                "x-kubernetes-map-type" => s.map_type = Some(self.text(v, &at)),
                "x-kubernetes-validations" => s.validations = self.rules(v, &at),
                "id" => unsupported.id = self.text(v, &at),
                "$schema" => unsupported.schema = self.text(v, &at),
                "$ref" => unsupported.reference = Some(self.text(v, &at)),
                "additionalItems" => unsupported.additional_items = true,
                "patternProperties" => {
                    unsupported.pattern_properties = v.as_object().is_some_and(|m| !m.is_empty());
                }
                "definitions" => unsupported.definitions = self.map(v, &at),
                "dependencies" => {
                    unsupported.has_dependencies = true;
                    if let Value::Object(deps) = v {
                        for (name, dep) in deps {
                            let schema = dep.is_object().then(|| self.schema(dep, &at.key(name)));
                            unsupported.dependencies.insert(name.clone(), schema);
                        }
                    }
                }
                // Unknown keys are the business of strict decoding.
                _ => {}
            }
        }
        s.checked_format = Format::of_schema(&s.type_, s.int_or_string, &s.format);
        if unsupported.is_set() {
            s.unsupported = Some(Box::new(unsupported));
        }
        s
    }

    fn rules(&mut self, v: &Value, path: &Path) -> Vec<Rule> {
        let Value::Array(items) = v else {
            self.wrong(path, v, "array");
            return Vec::new();
        };
        let empty = Map::new();
        let mut rules = Vec::with_capacity(items.len());
        for (i, item) in items.iter().enumerate() {
            let at = path.index(i);
            if !item.is_object() && !item.is_null() {
                self.wrong(&at, item, "object");
            }
            let map = item.as_object().unwrap_or(&empty);
            let mut text = |key: &str| match map.get(key) {
                None | Some(Value::Null) => None,
                Some(v) => Some(self.text(v, &at.child(key))),
            };
            rules.push(Rule {
                rule: text("rule").unwrap_or_default(),
                message: text("message").unwrap_or_default(),
                message_expression: text("messageExpression").unwrap_or_default(),
                reason: text("reason"),
                field_path: text("fieldPath").unwrap_or_default(),
                optional_old_self: map.get("optionalOldSelf").and_then(Value::as_bool),
            });
        }
        rules
    }

    fn text(&mut self, v: &Value, path: &Path) -> String {
        match v {
            Value::String(s) => s.clone(),
            _ => {
                self.wrong(path, v, "string");
                String::new()
            }
        }
    }

    fn texts(&mut self, v: &Value, path: &Path) -> Vec<String> {
        match v {
            Value::Array(items) => items
                .iter()
                .enumerate()
                .map(|(i, item)| self.text(item, &path.index(i)))
                .collect(),
            _ => {
                self.wrong(path, v, "array");
                Vec::new()
            }
        }
    }

    fn flag(&mut self, v: &Value, path: &Path) -> bool {
        v.as_bool().unwrap_or_else(|| {
            self.wrong(path, v, "boolean");
            false
        })
    }

    fn number(&mut self, v: &Value, path: &Path) -> Option<f64> {
        let number = v.as_f64();
        if number.is_none() {
            self.wrong(path, v, "number");
        }
        number
    }

    fn integer(&mut self, v: &Value, path: &Path) -> Option<i64> {
        let integer = v.as_i64();
        if integer.is_none() {
            self.wrong(path, v, "integer");
        }
        integer
    }

    fn schemas(&mut self, items: &[Value], path: &Path) -> Vec<Schema> {
        items
            .iter()
            .enumerate()
            .map(|(i, item)| self.schema(item, &path.index(i)))
            .collect()
    }

    fn list(&mut self, v: &Value, path: &Path) -> Vec<Schema> {
        match v {
            Value::Array(items) => self.schemas(items, path),
            _ => {
                self.wrong(path, v, "array");
                Vec::new()
            }
        }
    }

    fn map(&mut self, v: &Value, path: &Path) -> BTreeMap<String, Schema> {
        match v {
            Value::Object(map) => map
                .iter()
                .map(|(k, item)| (k.clone(), self.schema(item, &path.key(k))))
                .collect(),
            _ => {
                self.wrong(path, v, "object");
                BTreeMap::new()
            }
        }
    }
}

impl Unsupported {
    fn is_set(&self) -> bool {
        !self.id.is_empty()
            || !self.schema.is_empty()
            || self.reference.is_some()
            || self.additional_items
            || self.has_dependencies
            || self.pattern_properties
            || !self.definitions.is_empty()
            || !self.items.is_empty()
    }
}
