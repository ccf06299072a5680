//! How an item of a set or list-map is known.

use serde_json::Value;

use crate::field::text;
use crate::openapi::{ListKind, ListType, Schema};
use crate::ssa::path::PathElement;
use crate::ssa::value::equal;

/// The step to a list item, or why there is none.
pub(super) fn element_of(schema: &Schema, list: &ListType, item: &Value) -> Result<PathElement, String> {
    match &list.kind {
        ListKind::Atomic => Err("invalid indexing of non-associative list".into()),
        ListKind::Set => match item {
            Value::Object(_) => Err("associative list without keys has an element that's a map type".into()),
            Value::Array(_) => Err("not supported: associative list with lists as elements".into()),
            Value::Null => Err("associative list without keys has an element that's an explicit null".into()),
            scalar => Ok(PathElement::Value(scalar.clone())),
        },
        ListKind::Map(keys) => {
            let object = match item {
                Value::Object(object) => object,
                Value::Null => {
                    return Err("associative list with keys may not have a null element".into());
                }
                _ => {
                    return Err("associative list with keys may not have non-map elements".into());
                }
            };
            let element = schema.get(list.element).map.as_ref();
            let mut found = Vec::with_capacity(keys.len());
            for key in keys {
                if let Some(value) = object.get(&**key) {
                    found.push((key.clone(), value.clone()));
                    continue;
                }
                let Some(element) = element else {
                    return Err(format!(
                        "couldn't find default value for {key}: \
                         associative list may not have non-map types"
                    ));
                };
                if let Some(default) = element.field(key).and_then(|field| field.default.as_ref()) {
                    found.push((key.clone(), default.clone()));
                }
            }
            if found.is_empty() {
                let keys: Vec<_> = keys.iter().map(|key| text::quote(key)).collect();
                return Err(format!(
                    "associative list with keys has an element that omits all key fields [{}] \
                     (and doesn't have default values for any key fields)",
                    keys.join(" ")
                ));
            }
            found.sort_by(|a, b| a.0.cmp(&b.0));
            Ok(PathElement::Key(found.into()))
        }
    }
}

/// Whether two objects of a list-map have the same key. Cheaper than two steps.
pub(super) fn same_key(schema: &Schema, list: &ListType, a: &Value, b: &Value) -> bool {
    match &list.kind {
        ListKind::Atomic => false,
        ListKind::Set => equal(a, b),
        ListKind::Map(keys) => {
            let element = schema.get(list.element).map.as_ref();
            keys.iter().all(|key| {
                let default = || element?.field(key)?.default.as_ref();
                match (a.get(&**key).or_else(default), b.get(&**key).or_else(default)) {
                    (Some(a), Some(b)) => equal(a, b),
                    (a, b) => a.is_none() && b.is_none(),
                }
            })
        }
    }
}

/// Why an item has no step to it.
pub(super) fn element_problem(schema: &Schema, list: &ListType, item: &Value) -> Option<String> {
    let good = match (&list.kind, item) {
        (ListKind::Set, item) => !item.is_object() && !item.is_array() && !item.is_null(),
        (ListKind::Map(keys), Value::Object(object)) => keys.iter().any(|key| object.contains_key(&**key)),
        _ => false,
    };
    let typed = list.kind == ListKind::Set || schema.get(list.element).map.is_some();
    if good && typed {
        return None;
    }
    element_of(schema, list, item).err()
}
