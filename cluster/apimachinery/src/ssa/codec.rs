//! `fieldsV1`: field sets as JSON.

use std::sync::Arc;

use serde_json::{Map, Number, Value};

use super::path::PathElement;
use super::set::{FieldSet, Node};
use crate::field::text;

/// Reads `fieldsV1`. Kinds of steps that are not known are dropped, as a later
/// version may have written them.
pub(crate) fn decode(fields: &Value) -> Result<FieldSet, String> {
    Ok(decode_node(fields)?.0)
}

/// The set below, and whether the node itself is a member.
fn decode_node(fields: &Value) -> Result<(FieldSet, bool), String> {
    let mut set = FieldSet::default();
    let mut member = false;
    match fields {
        Value::Null => {}
        Value::Object(map) => {
            set.nodes.reserve(map.len());
            let mut sorted = true;
            for (key, below) in map {
                if key == "." {
                    member = true;
                    continue;
                }
                let Some(element) = decode_element(key)? else {
                    continue;
                };
                let (children, member) = decode_node(below)?;
                sorted &= set.nodes.last().is_none_or(|last| last.element < element);
                set.nodes.push(Node {
                    element,
                    member,
                    children,
                });
            }
            if !sorted {
                set.sort();
                set.nodes.dedup_by(|b, a| {
                    let same = a.element == b.element;
                    if same {
                        a.member |= b.member;
                        a.children.union_with(std::mem::take(&mut b.children));
                    }
                    same
                });
            }
        }
        other => return Err(format!("expected an object in fieldsV1, got {other}")),
    }
    let member = member || set.is_empty();
    Ok((set, member))
}

fn decode_element(key: &str) -> Result<Option<PathElement>, String> {
    let bytes = key.as_bytes();
    if bytes.len() < 2 {
        return Err("key must be 2 characters long:".into());
    }
    if bytes[1] != b':' {
        return Err(format!("missing colon: {key}"));
    }
    // Both bytes are ASCII from here on, or the kind is unknown.
    let rest = key.get(2..).unwrap_or_default();
    let bad = |error: serde_json::Error| format!("{key:?}: {error}");
    Ok(Some(match bytes[0] {
        b'f' => PathElement::field(rest),
        b'v' => PathElement::Value(number_as_float(serde_json::from_str(rest).map_err(bad)?)),
        b'k' => {
            let keys: Map<String, Value> = serde_json::from_str(rest).map_err(bad)?;
            let mut keys: Vec<(Arc<str>, Value)> = keys
                .into_iter()
                .map(|(name, value)| (Arc::from(name), number_as_float(value)))
                .collect();
            keys.sort_by(|a, b| a.0.cmp(&b.0));
            PathElement::Key(keys.into())
        }
        b'i' => PathElement::Index(rest.parse().map_err(|_| format!("{key:?}: not a number"))?),
        _ => return Ok(None),
    }))
}

/// Numbers in a stored set are floats: this shows in the text of a path.
fn number_as_float(value: Value) -> Value {
    match value {
        Value::Number(n) => n
            .as_f64()
            .and_then(Number::from_f64)
            .map_or(Value::Number(n), Value::Number),
        other => other,
    }
}

/// Writes `fieldsV1`.
pub(crate) fn encode(set: &FieldSet) -> Value {
    Value::Object(encode_nodes(set, false))
}

fn encode_nodes(set: &FieldSet, member: bool) -> Map<String, Value> {
    let mut out = Map::new();
    if member && !set.is_empty() {
        out.insert(".".into(), Value::Object(Map::new()));
    }
    for node in &set.nodes {
        out.insert(
            encode_element(&node.element),
            Value::Object(encode_nodes(&node.children, node.member)),
        );
    }
    out
}

fn encode_element(element: &PathElement) -> String {
    match element {
        PathElement::Field(name) => {
            let mut out = String::with_capacity(name.len() + 2);
            out.push_str("f:");
            out.push_str(name);
            out
        }
        PathElement::Key(keys) => {
            let mut out = String::from("k:{");
            for (i, (name, value)) in keys.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                out.push('"');
                out.push_str(name);
                out.push_str("\":");
                out.push_str(&text::json(value));
            }
            out.push('}');
            out
        }
        PathElement::Value(value) => format!("v:{}", text::json(value)),
        PathElement::Index(index) => format!("i:{index}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn reads_back_what_it_writes() {
        let fields = json!({
            "f:metadata": {"f:finalizers": {".": {}, "v:\"a\\u003cb\"": {}}},
            "f:spec": {
                "f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:name": {}}},
                "i:3": {},
            },
        });
        assert_eq!(encode(&decode(&fields).unwrap()), fields);
    }

    #[test]
    fn unknown_steps_are_dropped_and_bad_ones_refused() {
        assert!(decode(&json!({"x:a": {}})).unwrap().is_empty());
        assert!(decode(&json!({"f": {}})).is_err());
        assert!(decode(&json!({"fa": {}})).is_err());
        assert!(decode(&json!({"k:{": {}})).is_err());
        assert!(decode(&json!({"i:x": {}})).is_err());
        assert!(decode(&json!({"f:a": 1})).is_err());
    }
}
