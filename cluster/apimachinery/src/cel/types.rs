//! Types of expressions, and how schemas become types.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::escape;
use crate::schema::{Additional, Schema};

#[derive(Debug, Clone)]
#[expect(clippy::enum_variant_names, reason = "the type of a type is a type")]
pub enum Type {
    Dyn,
    Error,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Duration,
    Timestamp,
    List(Arc<Type>),
    Map(Arc<Type>, Arc<Type>),
    Optional(Arc<Type>),
    /// The type of a type; `None` if it is not known of what.
    Type(Option<Arc<Type>>),
    /// A type of a library with fields that nobody can select.
    Struct(&'static str),
    /// A type of a library that is none of the above.
    Opaque(&'static str),
    /// An object of a schema.
    Object(Arc<Decl>),
    /// A type that is not known yet.
    Var(usize),
    /// A parameter in the declaration of a function.
    Param(char),
}

impl Type {
    pub fn list(item: Type) -> Self {
        Self::List(Arc::new(item))
    }

    pub fn map(key: Type, value: Type) -> Self {
        Self::Map(Arc::new(key), Arc::new(value))
    }

    pub fn optional(inner: Type) -> Self {
        Self::Optional(Arc::new(inner))
    }

    pub fn is_dyn_or_error(&self) -> bool {
        matches!(self, Self::Dyn | Self::Error)
    }

    /// Exactly the same type.
    pub fn same(&self, other: &Type) -> bool {
        match (self, other) {
            (Self::List(a), Self::List(b)) | (Self::Optional(a), Self::Optional(b)) => a.same(b),
            (Self::Map(a, b), Self::Map(c, d)) => a.same(c) && b.same(d),
            (Self::Type(a), Self::Type(b)) => match (a, b) {
                (Some(a), Some(b)) => a.same(b),
                (a, b) => a.is_none() == b.is_none(),
            },
            (Self::Struct(a), Self::Struct(b)) | (Self::Opaque(a), Self::Opaque(b)) => a == b,
            (Self::Object(a), Self::Object(b)) => a.name == b.name,
            (Self::Var(a), Self::Var(b)) => a == b,
            (Self::Param(a), Self::Param(b)) => a == b,
            (a, b) => std::mem::discriminant(a) == std::mem::discriminant(b) && a.is_plain(),
        }
    }

    fn is_plain(&self) -> bool {
        matches!(
            self,
            Self::Dyn
                | Self::Error
                | Self::Null
                | Self::Bool
                | Self::Int
                | Self::Uint
                | Self::Double
                | Self::String
                | Self::Bytes
                | Self::Duration
                | Self::Timestamp
        )
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dyn => f.write_str("dyn"),
            Self::Error => f.write_str("!error!"),
            Self::Null => f.write_str("null"),
            Self::Bool => f.write_str("bool"),
            Self::Int => f.write_str("int"),
            Self::Uint => f.write_str("uint"),
            Self::Double => f.write_str("double"),
            Self::String => f.write_str("string"),
            Self::Bytes => f.write_str("bytes"),
            Self::Duration => f.write_str("duration"),
            Self::Timestamp => f.write_str("timestamp"),
            Self::List(item) => write!(f, "list({item})"),
            Self::Map(k, v) => write!(f, "map({k}, {v})"),
            Self::Optional(inner) => write!(f, "optional_type({inner})"),
            Self::Type(None) => f.write_str("type"),
            Self::Type(Some(inner)) => write!(f, "type({inner})"),
            Self::Struct(name) | Self::Opaque(name) => f.write_str(name),
            Self::Object(decl) => f.write_str(&decl.name),
            Self::Var(n) => write!(f, "_var{n}"),
            Self::Param(c) => write!(f, "{c}"),
        }
    }
}

/// What a rule knows of the data below it: types, and bounds for the cost.
#[derive(Debug)]
pub struct Decl {
    /// The name of an object type.
    pub name: String,
    kind: Shape,
    /// The most elements, characters or entries it can have.
    pub max_elements: u64,
    /// The least bytes of its JSON.
    pub min_size: u64,
}

#[derive(Debug)]
enum Shape {
    Simple(Type),
    List(Arc<Decl>),
    Map(Arc<Decl>, Arc<Decl>),
    Object(BTreeMap<String, Arc<Decl>>),
}

/// The largest request that is accepted; nothing can be larger.
pub const MAX_REQUEST: u64 = 3 * 1024 * 1024;

impl Decl {
    fn simple(type_: Type, max_elements: u64, min_size: u64) -> Arc<Self> {
        Arc::new(Self {
            name: String::new(),
            kind: Shape::Simple(type_),
            max_elements,
            min_size,
        })
    }

    pub fn of_type(self: &Arc<Self>) -> Type {
        match &self.kind {
            Shape::Simple(t) => t.clone(),
            Shape::List(item) => Type::list(item.of_type()),
            Shape::Map(k, v) => Type::map(k.of_type(), v.of_type()),
            Shape::Object(_) => Type::Object(self.clone()),
        }
    }

    /// A field of an object, by its escaped name.
    pub fn field(&self, name: &str) -> Option<&Arc<Decl>> {
        match &self.kind {
            Shape::Object(fields) => fields.get(name),
            _ => None,
        }
    }

    /// Items of a list or values of a map.
    pub fn element(&self) -> Option<&Arc<Decl>> {
        match &self.kind {
            Shape::List(item) | Shape::Map(_, item) => Some(item),
            _ => None,
        }
    }

    pub fn map_key(&self) -> Option<&Arc<Decl>> {
        match &self.kind {
            Shape::Map(key, _) => Some(key),
            _ => None,
        }
    }

    /// The declaration of a schema; `None` if rules cannot see such data.
    /// `schema` must have gone through [`with_meta`].
    pub fn of_schema(schema: &Schema, name: &str) -> Option<Arc<Self>> {
        let positive = |n: i64| u64::try_from(n).unwrap_or(0);
        if schema.int_or_string {
            let max = schema.max_length.map_or(MAX_REQUEST - 2, |n| positive(n) * 4);
            return Some(Self::simple(Type::Dyn, max, 1));
        }
        match schema.type_.as_str() {
            "array" => {
                let item = Self::of_schema(schema.items.as_deref()?, &format!("{name}.@idx"))?;
                let max = schema
                    .max_items
                    .map_or((MAX_REQUEST - 2) / (item.min_size + 1), positive);
                Some(Arc::new(Self {
                    name: String::new(),
                    kind: Shape::List(item),
                    max_elements: max,
                    min_size: 2,
                }))
            }
            "object" => {
                if let Some(Additional::Schema(sub)) = &schema.additional_properties {
                    let value = Self::of_schema(sub, &format!("{name}.@elem"))?;
                    let max = schema
                        .max_properties
                        .map_or((MAX_REQUEST - 2) / (value.min_size + 6), positive);
                    let key = Self::simple(Type::String, 0, 2);
                    return Some(Arc::new(Self {
                        name: String::new(),
                        kind: Shape::Map(key, value),
                        max_elements: max,
                        min_size: 2,
                    }));
                }
                let mut fields = BTreeMap::new();
                let mut min_size = 2;
                for (key, property) in &schema.properties {
                    let escaped = escape::escape(key);
                    let below = format!("{name}.{}", escaped.as_deref().unwrap_or(key));
                    let Some(decl) = Self::of_schema(property, &below) else {
                        continue;
                    };
                    if schema.required.contains(key) && property.default.is_none() {
                        min_size += key.len() as u64 + decl.min_size + 4;
                    }
                    if let Some(escaped) = escaped {
                        fields.insert(escaped, decl);
                    }
                }
                Some(Arc::new(Self {
                    name: name.to_owned(),
                    kind: Shape::Object(fields),
                    max_elements: 0,
                    min_size,
                }))
            }
            "string" => Some(Self::of_string(schema)),
            "boolean" => Some(Self::simple(Type::Bool, 0, 4)),
            "number" => Some(Self::simple(Type::Double, 0, 1)),
            "integer" => Some(Self::simple(Type::Int, 0, 1)),
            _ => None,
        }
    }

    fn of_string(schema: &Schema) -> Arc<Self> {
        let max = schema.max_length.map(|n| u64::try_from(n).unwrap_or(0));
        match schema.format.as_str() {
            "byte" => Self::simple(Type::Bytes, max.unwrap_or(MAX_REQUEST - 2), 2),
            "duration" => Self::simple(Type::Duration, 32, 3),
            "date" => Self::simple(Type::Timestamp, 12, 12),
            "date-time" => Self::simple(Type::Timestamp, 32, 21),
            _ => {
                let longest = || {
                    schema
                        .enum_
                        .iter()
                        .filter_map(|v| v.as_str())
                        .map(|s| s.len() as u64)
                        .max()
                        .unwrap_or(0)
                };
                let max = match max {
                    Some(max) => max * 4,
                    None if !schema.enum_.is_empty() => longest(),
                    None => MAX_REQUEST - 2,
                };
                Self::simple(Type::String, max, 2)
            }
        }
    }
}

/// The schema as rules see it: roots of resources have kind, apiVersion and
/// the names of metadata, and nothing else of metadata.
pub fn with_meta(schema: &Schema, resource_root: bool) -> Schema {
    let mut s = schema.clone();
    if let Some(items) = &mut s.items {
        **items = with_meta(items, items.embedded_resource);
    }
    if let Some(Additional::Schema(sub)) = &mut s.additional_properties {
        **sub = with_meta(sub, sub.embedded_resource);
    }
    for property in s.properties.values_mut() {
        *property = with_meta(property, property.embedded_resource);
    }
    if !resource_root {
        return s;
    }
    let is = |name: &str, type_: &str, within: &BTreeMap<String, Schema>| {
        within.get(name).is_some_and(|p| p.type_ == type_)
    };
    let metadata = s.properties.get("metadata");
    let complete = is("kind", "string", &s.properties)
        && is("apiVersion", "string", &s.properties)
        && metadata.is_some_and(|m| {
            m.type_ == "object"
                && is("name", "string", &m.properties)
                && is("generateName", "string", &m.properties)
        });
    if complete {
        return s;
    }
    let capped = |name: &str, limit: i64| {
        let existing = metadata.and_then(|m| m.properties.get(name));
        let max = existing
            .and_then(|e| e.max_length)
            .map_or(limit, |m| m.min(limit));
        Schema {
            type_: "string".to_owned(),
            max_length: Some(max),
            validations: existing.map(|e| e.validations.clone()).unwrap_or_default(),
            ..Schema::default()
        }
    };
    let names = [("name", 253), ("generateName", 252)]
        .into_iter()
        .map(|(name, limit)| (name.to_owned(), capped(name, limit)))
        .collect();
    let validations = metadata.map(|m| m.validations.clone()).unwrap_or_default();
    let text = || Schema {
        type_: "string".to_owned(),
        ..Schema::default()
    };
    s.properties.insert("kind".to_owned(), text());
    s.properties.insert("apiVersion".to_owned(), text());
    s.properties.insert(
        "metadata".to_owned(),
        Schema {
            type_: "object".to_owned(),
            properties: names,
            validations,
            ..Schema::default()
        },
    );
    s
}
