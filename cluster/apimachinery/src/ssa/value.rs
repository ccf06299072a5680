//! Equality, order and text of JSON values as field sets see them.
//!
//! Integers and floats compare as numbers; everything else by kind first:
//! numbers, strings, booleans, lists, maps, null.

use std::cmp::Ordering;

use serde_json::{Number, Value};

use crate::field::text as go;
use crate::go_text::{self, GoNumber, go_number};

/// Equality in which `1` and `1.0` are the same.
pub(crate) fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => compare_numbers(a, b) == Ordering::Equal,
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter()
                    .zip(b)
                    .all(|((ka, va), (kb, vb))| ka == kb && equal(va, vb))
        }
        (a, b) => a == b,
    }
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    }
}

fn compare_numbers(a: &Number, b: &Number) -> Ordering {
    #[allow(clippy::cast_precision_loss)] // Kubernetes compares them so.
    let float = |n| match n {
        GoNumber::Int(i) => i as f64,
        GoNumber::Float(f) => f,
    };
    match (go_number(a), go_number(b)) {
        (GoNumber::Int(a), GoNumber::Int(b)) => a.cmp(&b),
        (a, b) => float(a).partial_cmp(&float(b)).unwrap_or(Ordering::Equal),
    }
}

/// A total order of values.
pub(crate) fn compare(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => compare_numbers(a, b),
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Array(a), Value::Array(b)) => {
            for (a, b) in a.iter().zip(b) {
                let order = compare(a, b);
                if order.is_ne() {
                    return order;
                }
            }
            a.len().cmp(&b.len())
        }
        (Value::Object(a), Value::Object(b)) => {
            for ((ka, va), (kb, vb)) in a.iter().zip(b) {
                let order = ka.cmp(kb).then_with(|| compare(va, vb));
                if order.is_ne() {
                    return order;
                }
            }
            a.len().cmp(&b.len())
        }
        (a, b) => rank(a).cmp(&rank(b)),
    }
}

/// The text of a value in a field path.
pub(crate) fn text(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Bool(b) => b.to_string(),
        Value::Number(n) => go_text::number(n),
        Value::String(s) => go::quote(s),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(text).collect();
            format!("[{}]", items.join(","))
        }
        Value::Object(map) => map
            .iter()
            .map(|(key, item)| format!("{key}={}", text(item)))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_are_equal_across_kinds_and_text_is_not() {
        assert!(equal(&json!(1), &json!(1.0)));
        assert!(equal(&json!({"a": [1.0]}), &json!({"a": [1]})));
        assert!(!equal(&json!("1"), &json!(1)));
        assert!(!equal(&json!(null), &json!({})));
        assert_eq!(compare(&json!(2), &json!("a")), Ordering::Less);
        assert_eq!(compare(&json!([1]), &json!([1, 2])), Ordering::Less);
    }
}
