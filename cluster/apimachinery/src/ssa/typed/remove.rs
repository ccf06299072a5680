//! A value without some of its fields.

use serde_json::{Map, Value};

use super::index::element_of;
use super::{Form, form_of};
use crate::openapi::{ListKind, Schema, TypeId};
use crate::ssa::path::PathElement;
use crate::ssa::set::FieldSet;

/// Removes fields and items. A container that loses its last field, or that is
/// one leaf with something to remove below it, becomes null.
pub(crate) fn remove(schema: &Schema, ty: Option<TypeId>, value: &Value, fields: &FieldSet) -> Value {
    let Some((ty, form)) = form_of(schema, ty, value) else {
        return Value::Null;
    };
    match (form, &ty.map, &ty.list, value) {
        (Form::Scalar(_), ..) => value.clone(),
        (Form::Map, Some(map), _, Value::Object(object)) if !map.atomic => {
            let mut out = Map::new();
            for (key, item) in object {
                let Some(node) = fields.node(&PathElement::field(key)) else {
                    out.insert(key.clone(), item.clone());
                    continue;
                };
                if node.member {
                    continue;
                }
                out.insert(
                    key.clone(),
                    remove(schema, map.type_of(key), item, &node.children),
                );
            }
            if out.is_empty() {
                Value::Null
            } else {
                Value::Object(out)
            }
        }
        (Form::List, _, Some(list), Value::Array(items)) if list.kind != ListKind::Atomic => {
            let mut out = Vec::with_capacity(items.len());
            for item in items {
                let node = element_of(schema, list, item)
                    .ok()
                    .and_then(|element| fields.node(&element));
                match node {
                    None => out.push(item.clone()),
                    Some(node) if node.member => {}
                    Some(node) => {
                        out.push(remove(schema, Some(list.element), item, &node.children));
                    }
                }
            }
            if out.is_empty() {
                Value::Null
            } else {
                Value::Array(out)
            }
        }
        _ => Value::Null,
    }
}
