//! The fields that a value mentions.

use serde_json::Value;

use super::index::element_of;
use super::{Form, form_of};
use crate::openapi::{ListKind, ListType, MapType, Schema, TypeId};
use crate::ssa::path::PathElement;
use crate::ssa::set::{FieldSet, Node};

/// Every leaf, list item and map key of a valid value.
pub(crate) fn field_set(schema: &Schema, ty: TypeId, value: &Value) -> FieldSet {
    below(schema, Some(ty), value).1
}

/// Whether the value itself is a leaf, and the fields below it.
fn below(schema: &Schema, ty: Option<TypeId>, value: &Value) -> (bool, FieldSet) {
    let Some((ty, form)) = form_of(schema, ty, value) else {
        return (false, FieldSet::default());
    };
    match (form, &ty.map, &ty.list) {
        (Form::Map, Some(map), _) => {
            if map.atomic {
                return (true, FieldSet::default());
            }
            (false, map_fields(schema, map, value))
        }
        (Form::List, _, Some(list)) => {
            if list.kind == ListKind::Atomic {
                return (true, FieldSet::default());
            }
            (false, list_items(schema, list, value))
        }
        (Form::Scalar(_), ..) => (true, FieldSet::default()),
        _ => (false, FieldSet::default()),
    }
}

fn map_fields(schema: &Schema, map: &MapType, value: &Value) -> FieldSet {
    let mut set = FieldSet::default();
    let Value::Object(object) = value else {
        return set;
    };
    set.nodes.reserve(object.len());
    for (key, item) in object {
        let field = map.field(key);
        let ty = field.map_or(map.element, |field| Some(field.ty));
        let (leaf, children) = below(schema, ty, item);
        let hollow = match item {
            Value::Null => true,
            Value::Object(object) => object.is_empty(),
            _ => false,
        };
        set.push(Node {
            element: field.map_or_else(
                || PathElement::field(key),
                |field| PathElement::Field(field.name.clone()),
            ),
            member: leaf || hollow || field.is_none(),
            children,
        });
    }
    set
}

fn list_items(schema: &Schema, list: &ListType, value: &Value) -> FieldSet {
    let mut set = FieldSet::default();
    let Value::Array(items) = value else {
        return set;
    };
    set.nodes.reserve(items.len());
    for item in items {
        let Ok(element) = element_of(schema, list, item) else {
            continue;
        };
        let (_, children) = below(schema, Some(list.element), item);
        set.nodes.push(Node {
            element,
            member: true,
            children,
        });
    }
    set.sort();
    // Items with the same key are owned as one leaf.
    set.nodes.dedup_by(|later, first| {
        let same = later.element == first.element;
        if same {
            first.children = FieldSet::default();
        }
        same
    });
    set
}
