//! Field sets written before their type became atomic.

use super::{Form, Forms};
use crate::openapi::{ListKind, Schema, TypeId};
use crate::ssa::path::PathElement;
use crate::ssa::set::FieldSet;

/// Turns ownership below what is now one leaf into ownership of that leaf.
/// The other way round needs nothing: the leaf stays owned as it is. Returns
/// whether the set changed.
pub(crate) fn reconcile(schema: &Schema, ty: TypeId, set: &mut FieldSet) -> bool {
    let mut changed = false;
    walk(schema, Some(ty), set, &mut changed);
    changed
}

/// Returns whether the value that holds this set is one leaf.
fn walk(schema: &Schema, ty: Option<TypeId>, set: &mut FieldSet, changed: &mut bool) -> bool {
    let Some(ty) = ty.map(|id| schema.get(id)) else {
        return false;
    };
    match (Forms::of(ty, None).pick(ty), &ty.map, &ty.list) {
        (Some(Form::Map), Some(map), _) => {
            if map.deduced {
                return false;
            }
            if map.atomic {
                return !set.is_empty();
            }
            for node in &mut set.nodes {
                let ty = match &node.element {
                    PathElement::Field(name) => map.type_of(name),
                    _ => map.element,
                };
                if walk(schema, ty, &mut node.children, changed) {
                    node.member = true;
                    node.children = FieldSet::default();
                    *changed = true;
                }
            }
        }
        (Some(Form::List), _, Some(list)) => {
            if list.kind == ListKind::Atomic {
                return !set.is_empty();
            }
            for node in &mut set.nodes {
                if walk(schema, Some(list.element), &mut node.children, changed) {
                    node.member = true;
                    node.children = FieldSet::default();
                    *changed = true;
                }
            }
        }
        _ => {}
    }
    false
}
