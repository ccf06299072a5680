//! Go's way to print decoded JSON, for error texts that clients see.

use std::fmt::Write;

use serde_json::{Number, Value};

use crate::field::text::{float, quote};

/// A number as Kubernetes decodes it: integers that fit 64 bits, else floats.
#[derive(Clone, Copy, Debug)]
pub(crate) enum GoNumber {
    Int(i64),
    Float(f64),
}

pub(crate) fn go_number(number: &Number) -> GoNumber {
    number.as_i64().map_or_else(
        || GoNumber::Float(number.as_f64().unwrap_or(f64::NAN)),
        GoNumber::Int,
    )
}

/// `%v` of a decoded JSON value.
pub(crate) fn plain(value: &Value) -> String {
    let mut out = String::new();
    write_plain(&mut out, value);
    out
}

fn write_plain(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("<nil>"),
        Value::Bool(b) => {
            let _ = write!(out, "{b}");
        }
        Value::Number(n) => out.push_str(&number(n)),
        Value::String(s) => out.push_str(s),
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(' ');
                }
                write_plain(out, item);
            }
            out.push(']');
        }
        Value::Object(map) => {
            out.push_str("map[");
            for (i, (key, item)) in map.iter().enumerate() {
                if i > 0 {
                    out.push(' ');
                }
                out.push_str(key);
                out.push(':');
                write_plain(out, item);
            }
            out.push(']');
        }
    }
}

/// `%#v` of a decoded JSON value.
pub(crate) fn syntax(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".into(),
        Value::Bool(b) => b.to_string(),
        Value::Number(n) => number(n),
        Value::String(s) => quote(s),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(syntax).collect();
            format!("[]interface {{}}{{{}}}", items.join(", "))
        }
        Value::Object(map) => {
            let items: Vec<_> = map
                .iter()
                .map(|(key, item)| format!("{}:{}", quote(key), syntax(item)))
                .collect();
            format!("map[string]interface {{}}{{{}}}", items.join(", "))
        }
    }
}

/// `%s` of a decoded JSON value: all but strings are marked as a mistake.
pub(crate) fn verb_s(value: &Value) -> String {
    match value {
        Value::Null => "%!s(<nil>)".into(),
        Value::String(s) => s.clone(),
        Value::Bool(_) | Value::Number(_) => {
            format!("%!s({}={})", type_name(value), plain(value))
        }
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(verb_s).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(map) => {
            let items: Vec<_> = map
                .iter()
                .map(|(key, item)| format!("{key}:{}", verb_s(item)))
                .collect();
            format!("map[{}]", items.join(" "))
        }
    }
}

/// `%T` of a decoded JSON value.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(n) => match go_number(n) {
            GoNumber::Int(_) => "int64",
            GoNumber::Float(_) => "float64",
        },
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

pub(crate) fn number(number: &Number) -> String {
    match go_number(number) {
        GoNumber::Int(i) => i.to_string(),
        GoNumber::Float(f) => float(f),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn prints_as_go_does() {
        assert_eq!(
            plain(&json!({"b": [1, "x", null], "a": {"c": 1.5}})),
            "map[a:map[c:1.5] b:[1 x <nil>]]"
        );
        assert_eq!(
            syntax(&json!({"a": ["x"]})),
            "map[string]interface {}{\"a\":[]interface {}{\"x\"}}"
        );
    }
}
