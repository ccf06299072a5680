//! What cells are made of.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::duration::since;
use crate::field::text;
use crate::quantity::Quantity;
use crate::selector::LabelSelectorSpec;

/// Reads fields of an object with the zero values that missing ones have.
pub(super) trait Fields {
    fn at(&self, pointer: &str) -> &Value;
    fn text(&self, pointer: &str) -> &str;
    fn number(&self, pointer: &str) -> i64;
    fn flag(&self, pointer: &str) -> bool;
    fn items(&self, pointer: &str) -> &[Value];
}

impl Fields for Value {
    fn at(&self, pointer: &str) -> &Value {
        self.pointer(pointer).unwrap_or(&Value::Null)
    }

    fn text(&self, pointer: &str) -> &str {
        self.at(pointer).as_str().unwrap_or("")
    }

    fn number(&self, pointer: &str) -> i64 {
        self.at(pointer).as_i64().unwrap_or(0)
    }

    fn flag(&self, pointer: &str) -> bool {
        self.at(pointer).as_bool().unwrap_or(false)
    }

    fn items(&self, pointer: &str) -> &[Value] {
        self.at(pointer).as_array().map_or(&[], Vec::as_slice)
    }
}

pub(super) fn name(object: &Value) -> Value {
    json!(object.text("/metadata/name"))
}

pub(super) fn age(object: &Value, now: Timestamp) -> Value {
    json!(since(object.at("/metadata/creationTimestamp").as_str(), now))
}

/// The text, or a stand-in where it is empty.
pub(super) fn or<'a>(text: &'a str, empty: &'a str) -> &'a str {
    if text.is_empty() { empty } else { text }
}

/// Texts of a list, with commas between.
pub(super) fn joined(items: &[Value], pointer: &str) -> String {
    let texts: Vec<_> = items.iter().map(|item| item.text(pointer)).collect();
    texts.join(",")
}

/// Labels as `a=b,c=d`.
pub(super) fn labels(map: &Value) -> String {
    let pairs: Vec<_> = map
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or("")))
        .collect();
    or(&pairs.join(","), "<none>").to_string()
}

pub(super) fn selector(value: &Value) -> String {
    LabelSelectorSpec::formatted(Some(value))
}

/// The canonical form of a quantity; zero where there is none.
pub(super) fn quantity(value: &Value) -> String {
    Quantity::from_json(value).map_or_else(|_| "0".to_string(), |q| q.to_string())
}

/// At most three items, then how many more.
pub(super) fn first_three(items: &[String], none: &str) -> String {
    const SHOWN: usize = 3;
    if items.len() > SHOWN {
        let more = items.len() - SHOWN;
        return format!("{} + {more} more...", items[..SHOWN].join(","));
    }
    or(&items.join(","), none).to_string()
}

/// The condition of a type.
pub(super) fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    let mut conditions = object.items("/status/conditions").iter();
    conditions.find(|condition| condition.text("/type") == kind)
}

pub(super) fn is_true(object: &Value, kind: &str) -> bool {
    condition(object, kind).is_some_and(|condition| condition.text("/status") == "True")
}

pub(super) fn deleting(object: &Value) -> bool {
    !object.at("/metadata/deletionTimestamp").is_null()
}

/// A cell of a custom resource: a value of another type than the column's gives no cell.
pub(super) fn custom(kind: &str, value: &Value, now: Timestamp) -> Value {
    match (kind, value) {
        (_, Value::Null) => Value::Null,
        ("string", Value::String(text)) => json!(text),
        ("string", Value::Number(number)) => json!(number.to_string()),
        ("string", other) => json!(text::json(other)),
        ("integer", Value::Number(number)) => {
            let rounded = || number.as_f64().map(|number| number as i64);
            json!(number.as_i64().or_else(rounded))
        }
        ("number", Value::Number(number)) => json!(number.as_f64()),
        ("boolean", Value::Bool(flag)) => json!(flag),
        ("date", Value::String(time)) => json!(since(Some(time), now)),
        _ => Value::Null,
    }
}
