//! Values while an expression runs.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::rc::Rc;

use base64::Engine as _;
use jiff::Timestamp;
use serde_json::{Map as JsonMap, Value as Json};

use super::escape;
use crate::quantity::Quantity;
use crate::schema::Schema;
use crate::schema::time;

/// A value; data of objects is read where it lies, by its schema.
#[derive(Clone)]
pub(super) enum Value<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Rc<str>),
    Bytes(Rc<[u8]>),
    /// Nanoseconds.
    Duration(i64),
    Timestamp(Timestamp),
    List(Rc<Vec<Value<'a>>>),
    Map(Rc<BTreeMap<Key, Value<'a>>>),
    Optional(Option<Rc<Value<'a>>>),
    Type(Rc<str>),
    Quantity(Rc<Quantity>),
    Ip(IpAddr),
    Cidr(IpAddr, u8),
    Url(Rc<super::url::Url>),
    Semver(Rc<super::semver::Semver>),
    Format(&'static str),
    JsonList(&'a [Json], &'a Schema),
    JsonMap(&'a JsonMap<String, Json>, &'a Schema),
    /// Data without a schema: it can only be compared.
    Unknown(&'a Json),
    /// An element of a list that does not fit its schema, with the reason.
    Invalid(Rc<str>),
}

/// What can be the key of a map.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    Bool(bool),
    Int(i64),
    Uint(u64),
    String(Rc<str>),
}

/// Why an expression has no value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Fault {
    Error(String),
    /// The expression cost too much: nothing else is run.
    OverBudget,
}

impl Fault {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self::Error(message.into())
    }

    pub(super) fn no_such_overload() -> Self {
        Self::new("no such overload")
    }
}

pub(super) type Result<'a> = std::result::Result<Value<'a>, Fault>;

impl<'a> Value<'a> {
    pub(super) fn string(s: impl Into<Rc<str>>) -> Self {
        Self::String(s.into())
    }

    pub(super) fn list(items: Vec<Value<'a>>) -> Self {
        Self::List(Rc::new(items))
    }

    pub(super) fn some(value: Value<'a>) -> Self {
        Self::Optional(Some(Rc::new(value)))
    }

    /// Data as its schema says.
    pub(super) fn of_json(json: &'a Json, schema: &'a Schema) -> Result<'a> {
        let wrong = |want: &str| {
            Err(Fault::new(format!(
                "invalid data, expected {want}, got {}",
                go_type(json)
            )))
        };
        if json.is_null() {
            return if schema.nullable {
                Ok(Self::Null)
            } else {
                Err(Fault::new(
                    "invalid data, got null for schema with nullable=false",
                ))
            };
        }
        if schema.int_or_string {
            return match json {
                Json::String(s) => Ok(Self::string(s.as_str())),
                Json::Number(n) if n.is_i64() => Ok(Self::Int(n.as_i64().unwrap_or_default())),
                _ => Err(Fault::new(
                    "invalid data, expected XIntOrString value to be either a string or integer",
                )),
            };
        }
        match schema.type_.as_str() {
            "object" => match json {
                Json::Object(map) => Ok(Self::JsonMap(map, schema)),
                _ => Err(Fault::new(
                    "invalid data, expected a map for the provided schema with type=object",
                )),
            },
            "array" => match json {
                Json::Array(items) => Ok(Self::JsonList(items, schema)),
                _ => Err(Fault::new(
                    "invalid data, expected an array for the provided schema with type=array",
                )),
            },
            "string" => match json {
                Json::String(s) => Self::of_text(s, &schema.format),
                _ => wrong("string"),
            },
            "number" => match json.as_f64() {
                Some(f) => Ok(Self::Double(f)),
                None => wrong("float"),
            },
            "integer" => match json.as_i64() {
                Some(i) => Ok(Self::Int(i)),
                None => wrong("int"),
            },
            "boolean" => match json {
                Json::Bool(b) => Ok(Self::Bool(*b)),
                _ => wrong("bool"),
            },
            _ => Ok(Self::Unknown(json)),
        }
    }

    fn of_text(s: &str, format: &str) -> Result<'a> {
        match format {
            "duration" => time::parse_format_duration(s)
                .map(Self::Duration)
                .ok_or_else(|| Fault::new(format!("Invalid duration {s}: unable to parse {s} as duration"))),
            "date" => time::parse_date(s)
                .and_then(|d| {
                    jiff::tz::Offset::UTC
                        .to_timestamp(d.to_datetime(jiff::civil::Time::midnight()))
                        .ok()
                })
                .map(Self::Timestamp)
                .ok_or_else(|| {
                    let why = time::parse_error(s, false);
                    Fault::new(format!("Invalid date formatted string {s}: {why}"))
                }),
            "date-time" => time::parse_date_time(s).map(Self::Timestamp).ok_or_else(|| {
                let why = time::parse_error(s, true);
                Fault::new(format!("Invalid date-time formatted string {s}: {why}"))
            }),
            "byte" => base64::engine::general_purpose::URL_SAFE
                .decode(s)
                .map(|b| Self::Bytes(b.into()))
                .map_err(|_| {
                    let at = base64_fault(s);
                    Fault::new(format!(
                        "Invalid byte formatted string {s}: illegal base64 data at input byte {at}"
                    ))
                }),
            _ => Ok(Self::string(s)),
        }
    }

    pub(super) fn type_name(&self) -> &str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::String(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::Duration(_) => "google.protobuf.Duration",
            Self::Timestamp(_) => "google.protobuf.Timestamp",
            Self::List(_) | Self::JsonList(..) => "list",
            Self::Map(_) | Self::JsonMap(..) => "map",
            Self::Optional(_) => "optional_type",
            Self::Type(_) => "type",
            Self::Quantity(_) => "kubernetes.Quantity",
            Self::Ip(_) => "net.IP",
            Self::Cidr(..) => "net.CIDR",
            Self::Url(_) => "kubernetes.URL",
            Self::Semver(_) => "kubernetes.Semver",
            Self::Format(_) => "kubernetes.NamedFormat",
            Self::Unknown(_) => "unknown",
            Self::Invalid(_) => "error",
        }
    }

    pub(super) fn is_list(&self) -> bool {
        matches!(self, Self::List(_) | Self::JsonList(..))
    }

    pub(super) fn is_map(&self) -> bool {
        matches!(self, Self::Map(_) | Self::JsonMap(..))
    }

    /// Items of a list.
    pub(super) fn items(&self) -> std::result::Result<Vec<Value<'a>>, Fault> {
        match self {
            Self::List(items) => Ok(items.to_vec()),
            Self::JsonList(items, schema) => {
                let sub = item_schema(schema)?;
                let item = |i: &'a Json| match Self::of_json(i, sub) {
                    Err(Fault::Error(reason)) => Ok(Self::Invalid(reason.into())),
                    other => other,
                };
                items.iter().map(item).collect()
            }
            _ => Err(Fault::no_such_overload()),
        }
    }

    /// Size as the function `size` sees it.
    pub(super) fn size(&self) -> Option<usize> {
        Some(match self {
            Self::String(s) => s.chars().count(),
            Self::Bytes(b) => b.len(),
            Self::List(items) => items.len(),
            Self::JsonList(items, _) => items.len(),
            Self::Map(map) => map.len(),
            Self::JsonMap(map, _) => map.len(),
            _ => return None,
        })
    }

    /// Keys of a map, as rules see them.
    pub(super) fn keys(&self) -> Vec<Value<'a>> {
        match self {
            Self::Map(map) => map.keys().map(Key::value).collect(),
            Self::JsonMap(map, schema) => map
                .keys()
                .filter(|k| schema.field(k).is_some())
                .map(|k| {
                    let escaped = (!schema.properties.is_empty())
                        .then(|| escape::escape(k))
                        .flatten();
                    Self::string(escaped.unwrap_or_else(|| k.clone()))
                })
                .collect(),
            _ => Vec::new(),
        }
    }

    /// The value of a key; `None` if it is not there.
    pub(super) fn find(&self, key: &Value<'a>) -> std::result::Result<Option<Value<'a>>, Fault> {
        match self {
            Self::Map(map) => Ok(Key::of(key).and_then(|k| map.get(&k).cloned())),
            Self::JsonMap(map, schema) => {
                let Self::String(name) = key else {
                    return Err(Fault::no_such_overload());
                };
                Self::json_field(map, schema, name).transpose()
            }
            _ => Err(Fault::no_such_overload()),
        }
    }

    fn json_field(map: &'a JsonMap<String, Json>, schema: &'a Schema, name: &str) -> Option<Result<'a>> {
        let is_object = !schema.properties.is_empty();
        let value = if is_object {
            // Most names need no escaping: look first.
            match map.get(name) {
                Some(v) if !name.contains("__") => v,
                _ => map.get(&escape::unescape(name)?)?,
            }
        } else {
            map.get(name)?
        };
        if is_object && value.is_null() {
            return None;
        }
        let sub = if is_object {
            schema.properties.get(&*escape::unescape(name)?)?
        } else {
            schema.additional_schema()?
        };
        Some(Self::of_json(value, sub))
    }

    pub(super) fn index(&self, at: &Value<'a>) -> Result<'a> {
        if self.is_list() {
            let i = match at {
                Self::Int(i) => *i,
                Self::Uint(u) => i64::try_from(*u).unwrap_or(-1),
                Self::Double(f) if f.fract() == 0.0 => *f as i64,
                other => {
                    return Err(Fault::new(format!(
                        "unsupported index type '{}' in list",
                        other.type_name()
                    )));
                }
            };
            let out = || Fault::new(format!("index out of bounds: {i}"));
            let place = usize::try_from(i).map_err(|_| out())?;
            return match self {
                Self::List(items) => items.get(place).cloned().ok_or_else(out),
                Self::JsonList(items, schema) => {
                    Self::of_json(items.get(place).ok_or_else(out)?, item_schema(schema)?)
                }
                _ => Err(Fault::no_such_overload()),
            };
        }
        match self.find(at)? {
            Some(v) => Ok(v),
            None => Err(Fault::new(format!("no such key: {}", at.shown()))),
        }
    }

    /// How a key or number appears in an error.
    pub(super) fn shown(&self) -> String {
        match self {
            Self::String(s) => s.to_string(),
            Self::Int(i) => i.to_string(),
            Self::Uint(u) => u.to_string(),
            Self::Bool(b) => b.to_string(),
            Self::Double(f) => crate::field::text::float(*f),
            other => other.type_name().to_owned(),
        }
    }
}

impl Key {
    pub(super) fn of(value: &Value<'_>) -> Option<Self> {
        Some(match value {
            Value::Bool(b) => Self::Bool(*b),
            Value::Int(i) => Self::Int(*i),
            // Numbers of different types are one key if they are equal.
            Value::Uint(u) => i64::try_from(*u).map_or(Self::Uint(*u), Self::Int),
            Value::Double(f) if f.fract() == 0.0 => Self::Int(*f as i64),
            Value::String(s) => Self::String(s.clone()),
            _ => return None,
        })
    }

    pub(super) fn value<'a>(&self) -> Value<'a> {
        match self {
            Self::Bool(b) => Value::Bool(*b),
            Self::Int(i) => Value::Int(*i),
            Self::Uint(u) => Value::Uint(*u),
            Self::String(s) => Value::String(s.clone()),
        }
    }
}

/// Where Go's decoder stops reading a text that is not base64.
fn base64_fault(s: &str) -> usize {
    let is_digit = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
    let digits = s
        .bytes()
        .filter(|b| !matches!(b, b'\n' | b'\r'))
        .collect::<Vec<u8>>();
    match digits.iter().position(|b| !is_digit(b)) {
        Some(at) => at,
        None => digits.len() / 4 * 4,
    }
}

pub(super) fn item_schema(schema: &Schema) -> std::result::Result<&Schema, Fault> {
    schema
        .items
        .as_deref()
        .ok_or_else(|| Fault::new("invalid array type, expected Items with a non-empty Schema"))
}

fn go_type(json: &Json) -> &'static str {
    match json {
        Json::Null => "<nil>",
        Json::Bool(_) => "bool",
        Json::Number(n) if n.is_f64() => "float64",
        Json::Number(_) => "int64",
        Json::String(_) => "string",
        Json::Array(_) => "[]interface {}",
        Json::Object(_) => "map[string]interface {}",
    }
}
