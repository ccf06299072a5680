//! Messages whose JSON form is not an object of their fields.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    ProtobufError, message, wire,
    wire::{Field, Reader},
};

/// The value of a special message; `None` for an ordinary one.
pub(super) fn read(name: &str, bytes: &[u8], depth: usize) -> Result<Option<Value>, ProtobufError> {
    Ok(Some(match name {
        "meta.v1.Time" => time(bytes, "%Y-%m-%dT%H:%M:%SZ")?,
        "meta.v1.MicroTime" => time(bytes, "%Y-%m-%dT%H:%M:%S%.6fZ")?,
        "api.resource.Quantity" => json!(one_text(bytes)?),
        "util.intstr.IntOrString" => int_or_string(bytes)?,
        "runtime.RawExtension" | "apiextensions.v1.JSON" | "meta.v1.FieldsV1" => raw_json(bytes)?,
        "authentication.v1.ExtraValue"
        | "authentication.v1.AttestationValue"
        | "authorization.v1.ExtraValue"
        | "certificates.v1.ExtraValue" => texts(bytes, 1)?,
        "apiextensions.v1.JSONSchemaPropsOrBool"
        | "apiextensions.v1.JSONSchemaPropsOrArray"
        | "apiextensions.v1.JSONSchemaPropsOrStringArray" => schema_or(name, bytes, depth)?,
        _ => return Ok(None),
    }))
}

/// Null for the zero time, which has no fields.
fn time(bytes: &[u8], format: &str) -> Result<Value, ProtobufError> {
    let (mut seconds, mut nanos) = (0_i64, 0_i64);
    for field in Reader::new(bytes) {
        match field? {
            (1, Field::Varint(number)) => seconds = number.cast_signed(),
            (2, Field::Varint(number)) => nanos = number.cast_signed(),
            _ => {}
        }
    }
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let wrong = ProtobufError::Malformed("a time is out of range");
    let nanos = i32::try_from(nanos).map_err(|_| wrong.clone())?;
    let time = Timestamp::new(seconds, nanos).map_err(|_| wrong)?;
    Ok(json!(time.strftime(format).to_string()))
}

fn one_text(bytes: &[u8]) -> Result<String, ProtobufError> {
    let mut text = String::new();
    for field in Reader::new(bytes) {
        if let (1, Field::Bytes(bytes)) = field? {
            text = wire::text(bytes)?;
        }
    }
    Ok(text)
}

fn int_or_string(bytes: &[u8]) -> Result<Value, ProtobufError> {
    let (mut is_text, mut number, mut text) = (false, 0_i64, String::new());
    for field in Reader::new(bytes) {
        match field? {
            (1, Field::Varint(kind)) => is_text = kind == 1,
            (2, Field::Varint(value)) => number = value.cast_signed(),
            (3, Field::Bytes(value)) => text = wire::text(value)?,
            _ => {}
        }
    }
    Ok(if is_text { json!(text) } else { json!(number) })
}

fn raw_json(bytes: &[u8]) -> Result<Value, ProtobufError> {
    let mut value = Value::Null;
    for field in Reader::new(bytes) {
        if let (1, Field::Bytes(raw)) = field?
            && !raw.is_empty()
        {
            value = serde_json::from_slice(raw)
                .map_err(|_| ProtobufError::Malformed("a field that holds JSON does not"))?;
        }
    }
    Ok(value)
}

fn texts(bytes: &[u8], wanted: u32) -> Result<Value, ProtobufError> {
    let mut items = Vec::new();
    for field in Reader::new(bytes) {
        match field? {
            (number, Field::Bytes(text)) if number == wanted => items.push(json!(wire::text(text)?)),
            _ => {}
        }
    }
    Ok(Value::Array(items))
}

/// A schema, or what else may stand in its place.
fn schema_or(name: &str, bytes: &[u8], depth: usize) -> Result<Value, ProtobufError> {
    const SCHEMA: &str = "apiextensions.v1.JSONSchemaProps";
    let or_bool = name.ends_with("OrBool");
    let or_texts = name.ends_with("OrStringArray");
    let (mut schema, mut flag, mut items) = (None, false, Vec::new());
    for field in Reader::new(bytes) {
        match field? {
            (1, Field::Varint(allows)) if or_bool => flag = allows != 0,
            (2, Field::Bytes(body)) if or_bool => schema = Some(message(SCHEMA, body, depth + 1)?),
            (1, Field::Bytes(body)) => schema = Some(message(SCHEMA, body, depth + 1)?),
            (2, Field::Bytes(text)) if or_texts => items.push(json!(wire::text(text)?)),
            (2, Field::Bytes(body)) => items.push(message(SCHEMA, body, depth + 1)?),
            _ => {}
        }
    }
    Ok(match schema {
        Some(schema) => schema,
        None if or_bool => json!(flag),
        None => Value::Array(items),
    })
}
