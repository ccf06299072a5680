//! Kubernetes' protobuf form of the built-in kinds, as Go clients send it: read into the same tree that
//! the JSON form gives.

mod special;
mod wire;

use std::{collections::BTreeMap, sync::LazyLock};

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Map, Value, json};

use wire::{Field, Reader};

/// Says that a body is in this form.
pub const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

const MAGIC: &[u8] = b"k8s\0";
/// Deepest nesting that is read.
const DEPTH: usize = 100;

/// The messages by name, each with its fields: number, JSON name (empty: the fields of the message are
/// fields of the outer one), type, and flags: `r`epeated, `m`ap with text keys, `o`mitted from JSON when
/// zero, `p`resent or not (a pointer).
const MESSAGES: &str = include_str!("../../data/protobuf.json");

type Messages = BTreeMap<String, Vec<(u32, String, String, String)>>;

// The file is part of the program and the tests read it: a parse error cannot reach a user.
static TABLE: LazyLock<Messages> =
    LazyLock::new(|| serde_json::from_str(MESSAGES).expect("the table of messages is valid"));

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtobufError {
    #[error("the body does not begin with the magic number of Kubernetes' protobuf form")]
    Magic,
    #[error("no protobuf form of kind {kind:?} in {api_version:?} is known; send JSON or YAML")]
    Kind { api_version: String, kind: String },
    #[error("the protobuf body ends in the middle of a field")]
    Truncated,
    #[error("the protobuf body is not valid: {0}")]
    Malformed(&'static str),
}

/// Reads an object with its `apiVersion` and `kind`.
pub fn decode(body: &[u8]) -> Result<Value, ProtobufError> {
    let envelope = body.strip_prefix(MAGIC).ok_or(ProtobufError::Magic)?;
    let (mut api_version, mut kind, mut raw) = (String::new(), String::new(), &[][..]);
    for field in Reader::new(envelope) {
        match field? {
            (1, Field::Bytes(type_meta)) => {
                for field in Reader::new(type_meta) {
                    match field? {
                        (1, Field::Bytes(text)) => api_version = wire::text(text)?,
                        (2, Field::Bytes(text)) => kind = wire::text(text)?,
                        _ => {}
                    }
                }
            }
            (2, Field::Bytes(bytes)) => raw = bytes,
            (3, Field::Bytes(encoding)) if !encoding.is_empty() => {
                return Err(ProtobufError::Malformed("the content is encoded"));
            }
            _ => {}
        }
    }
    let name = message_name(&api_version, &kind);
    if !TABLE.contains_key(&name) {
        return Err(ProtobufError::Kind { api_version, kind });
    }
    let mut object = message(&name, raw, 0)?;
    object["apiVersion"] = json!(api_version);
    object["kind"] = json!(kind);
    Ok(object)
}

fn message_name(api_version: &str, kind: &str) -> String {
    if kind == "DeleteOptions" {
        return "meta.v1.DeleteOptions".to_owned();
    }
    let (group, version) = api_version.split_once('/').unwrap_or(("core", api_version));
    let group = group.split('.').next().unwrap_or_default();
    format!("{group}.{version}.{kind}")
}

fn message(name: &str, bytes: &[u8], depth: usize) -> Result<Value, ProtobufError> {
    if depth > DEPTH {
        return Err(ProtobufError::Malformed("it is nested too deeply"));
    }
    if let Some(value) = special::read(name, bytes, depth)? {
        return Ok(value);
    }
    let fields = TABLE
        .get(name)
        .ok_or(ProtobufError::Malformed("a field has a type that is not known"))?;
    let mut object = Map::new();
    for field in Reader::new(bytes) {
        let (number, content) = field?;
        // Fields of newer versions are left out, as JSON without them.
        let Some((_, json_name, kind, flags)) = fields.iter().find(|(n, ..)| *n == number) else {
            continue;
        };
        let has = |flag: char| flags.contains(flag);
        if has('m') {
            let (key, value) = entry(kind, &content, depth)?;
            let map = object.entry(json_name).or_insert_with(|| json!({}));
            map[key] = value;
        } else if has('r') {
            let list = object.entry(json_name).or_insert_with(|| json!([]));
            if let Value::Array(items) = list {
                items.extend(values(kind, &content, depth)?);
            }
        } else {
            let value = value(kind, &content, depth)?;
            if json_name.is_empty() {
                if let Value::Object(inner) = value {
                    object.extend(inner);
                }
            } else if has('p') || !(value.is_null() || (has('o') && !kind.contains('.') && is_zero(&value))) {
                object.insert(json_name.clone(), value);
            }
        }
    }
    Ok(Value::Object(object))
}

/// What JSON leaves out under `omitempty`. Go keeps empty structs.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

fn value(kind: &str, content: &Field<'_>, depth: usize) -> Result<Value, ProtobufError> {
    match (kind, content) {
        ("s", Field::Bytes(bytes)) => Ok(json!(wire::text(bytes)?)),
        ("y", Field::Bytes(bytes)) => Ok(json!(STANDARD.encode(bytes))),
        ("i", Field::Varint(number)) => Ok(json!(number.cast_signed())),
        ("b", Field::Varint(number)) => Ok(json!(*number != 0)),
        ("d", Field::Fixed64(bits)) => Ok(json!(f64::from_bits(*bits))),
        ("d", Field::Fixed32(bits)) => Ok(json!(f32::from_bits(*bits))),
        (name, Field::Bytes(bytes)) if name.contains('.') => message(name, bytes, depth + 1),
        _ => Err(ProtobufError::Malformed(
            "a field has another type than it should",
        )),
    }
}

/// Numbers may come packed into one field.
fn values(kind: &str, content: &Field<'_>, depth: usize) -> Result<Vec<Value>, ProtobufError> {
    match (kind, content) {
        ("i" | "b", Field::Bytes(packed)) => wire::packed(packed)?
            .into_iter()
            .map(|number| value(kind, &Field::Varint(number), depth))
            .collect(),
        _ => Ok(vec![value(kind, content, depth)?]),
    }
}

fn entry(kind: &str, content: &Field<'_>, depth: usize) -> Result<(String, Value), ProtobufError> {
    let Field::Bytes(bytes) = content else {
        return Err(ProtobufError::Malformed("a map has an entry that is none"));
    };
    let mut key = String::new();
    let mut found = None;
    for field in Reader::new(bytes) {
        match field? {
            (1, Field::Bytes(text)) => key = wire::text(text)?,
            (2, content) => found = Some(value(kind, &content, depth)?),
            _ => {}
        }
    }
    let found = match (found, kind) {
        (Some(value), _) => value,
        (None, "s" | "y") => json!(""),
        (None, name) => message(name, &[], depth + 1)?,
    };
    Ok((key, found))
}

#[cfg(test)]
mod tests;
