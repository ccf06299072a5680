//! The applied value on top of the live one.

use std::collections::VecDeque;

use serde_json::{Map, Value};

use super::index::{element_of, same_key};
use super::{Form, Forms, TypeProblems};
use crate::openapi::{ListKind, ListType, MapType, Schema, Type, TypeId};
use crate::ssa::path::PathElement;
use crate::ssa::value::equal;

/// Merges `applied` into `live`; both are valid. Nothing is removed.
pub(crate) fn merge(
    schema: &Schema,
    ty: TypeId,
    live: &Value,
    applied: &Value,
) -> Result<Value, TypeProblems> {
    let mut problems = TypeProblems::default();
    let merged = values(schema, Some(ty), live, applied, &mut problems);
    problems.into_result()?;
    Ok(merged.unwrap_or(Value::Null))
}

/// Whether a merge would leave the live value as it is. False may also mean that
/// only the merge can tell.
pub(crate) fn changes_nothing(schema: &Schema, ty: TypeId, live: &Value, applied: &Value) -> bool {
    let ty = schema.get(ty);
    let forms = Forms::of(ty, Some(live));
    if forms != Forms::of(ty, Some(applied)) {
        return false;
    }
    match (forms.pick(ty), &ty.map, &ty.list, live, applied) {
        (Some(Form::Map), Some(map), _, Value::Object(live), Value::Object(applied)) if !map.atomic => {
            applied.iter().all(|(key, applied)| {
                let (Some(live), Some(ty)) = (live.get(key), map.type_of(key)) else {
                    return false;
                };
                changes_nothing(schema, ty, live, applied)
            })
        }
        (Some(Form::List), _, Some(list), Value::Array(live), Value::Array(applied))
            if list.kind != ListKind::Atomic =>
        {
            live.len() == applied.len()
                && live.iter().zip(applied).all(|(live, applied)| {
                    same_key(schema, list, live, applied)
                        && changes_nothing(schema, list.element, live, applied)
                })
        }
        _ => equal(live, applied),
    }
}

fn values(
    schema: &Schema,
    ty: Option<TypeId>,
    live: &Value,
    applied: &Value,
    problems: &mut TypeProblems,
) -> Option<Value> {
    let ty = schema.get(ty?);
    let live_forms = Forms::of(ty, Some(live));
    let applied_forms = Forms::of(ty, Some(applied));
    if live_forms != applied_forms {
        // The result is that of the applied form; the live one only adds problems.
        in_form(schema, ty, live_forms.pick(ty), live, applied, problems);
    }
    in_form(schema, ty, applied_forms.pick(ty), live, applied, problems)
}

fn in_form(
    schema: &Schema,
    ty: &Type,
    form: Option<Form>,
    live: &Value,
    applied: &Value,
    problems: &mut TypeProblems,
) -> Option<Value> {
    match (form, &ty.map, &ty.list) {
        (Some(Form::Map), Some(map), _) => maps(schema, map, live, applied, problems),
        (Some(Form::List), _, Some(list)) => lists(schema, list, live, applied, problems),
        (Some(Form::Scalar(_)), ..) => Some(applied.clone()),
        _ => None,
    }
}

fn maps(
    schema: &Schema,
    map: &MapType,
    live: &Value,
    applied: &Value,
    problems: &mut TypeProblems,
) -> Option<Value> {
    let empty = Map::new();
    let left = live.as_object().unwrap_or(&empty);
    let right = applied.as_object().unwrap_or(&empty);
    if map.atomic || (left.is_empty() && right.is_empty()) {
        return Some(applied.clone());
    }
    let mut out = Map::new();
    let mut below = TypeProblems::default();
    for (key, live) in left {
        let Some(applied) = right.get(key) else {
            out.insert(key.clone(), live.clone());
            continue;
        };
        if let Some(merged) = values(schema, map.type_of(key), live, applied, &mut below) {
            out.insert(key.clone(), merged);
        }
        if !below.is_empty() {
            problems.absorb(&PathElement::field(key), std::mem::take(&mut below));
        }
    }
    for (key, applied) in right {
        if !left.contains_key(key) {
            out.insert(key.clone(), applied.clone());
        }
    }
    (!out.is_empty()).then_some(Value::Object(out))
}

fn lists(
    schema: &Schema,
    list: &ListType,
    live: &Value,
    applied: &Value,
    problems: &mut TypeProblems,
) -> Option<Value> {
    let left = live.as_array().map_or(&[][..], Vec::as_slice);
    let right = applied.as_array().map_or(&[][..], Vec::as_slice);
    if list.kind == ListKind::Atomic || (left.is_empty() && right.is_empty()) {
        return Some(applied.clone());
    }
    let (Some(right), Some(left)) = (
        index(schema, list, right, false, problems),
        index(schema, list, left, true, problems),
    ) else {
        return None;
    };
    let merged = Merge {
        schema,
        list,
        left: &left,
        right: &right,
    }
    .run();
    (!merged.is_empty()).then_some(Value::Array(merged))
}

/// The items of a list by key: in order, and sorted for lookups.
struct Indexed<'v> {
    items: Vec<(PathElement, &'v Value)>,
    /// Positions of the first item of each key, sorted by key, and whether the
    /// key has more than one item.
    sorted: Vec<(usize, bool)>,
}

impl<'v> Indexed<'v> {
    /// Position of the first item with this key, and whether there are more.
    fn find(&self, element: &PathElement) -> Option<(usize, bool)> {
        self.sorted
            .binary_search_by(|(at, _)| self.items[*at].0.cmp(element))
            .ok()
            .map(|found| self.sorted[found])
    }
}

fn index<'v>(
    schema: &Schema,
    list: &ListType,
    values: &'v [Value],
    duplicates: bool,
    problems: &mut TypeProblems,
) -> Option<Indexed<'v>> {
    let mut indexed = Indexed {
        items: Vec::with_capacity(values.len()),
        sorted: Vec::with_capacity(values.len()),
    };
    let mut good = true;
    for (i, value) in values.iter().enumerate() {
        let element = match element_of(schema, list, value) {
            Ok(element) => element,
            Err(problem) => {
                problems.push(format!("element {i}: {problem}"));
                good = false;
                continue;
            }
        };
        let place = indexed
            .sorted
            .binary_search_by(|(at, _)| indexed.items[*at].0.cmp(&element));
        match place {
            Ok(_) if !duplicates => {
                problems.push(format!("duplicate entries for key {element}"));
                good = false;
                continue;
            }
            Ok(at) => indexed.sorted[at].1 = true,
            Err(at) => indexed.sorted.insert(at, (indexed.items.len(), false)),
        }
        indexed.items.push((element, value));
    }
    good.then_some(indexed)
}

struct Merge<'a, 'v> {
    schema: &'a Schema,
    list: &'a ListType,
    left: &'a Indexed<'v>,
    right: &'a Indexed<'v>,
}

impl Merge<'_, '_> {
    /// Keeps the order of the applied list, and live items that it does not
    /// name in their place among the items that both have.
    fn run(&self) -> Vec<Value> {
        let (left, right) = (&self.left.items, &self.right.items);
        let mut shared: VecDeque<&PathElement> = right
            .iter()
            .map(|(element, _)| element)
            .filter(|element| self.left.find(element).is_some())
            .collect();
        let mut next_shared = shared.pop_front();
        let mut out = Vec::with_capacity(left.len().max(right.len()));
        // How many applied items were taken; they are taken in order.
        let (mut l, mut r) = (0, 0);
        while l < left.len() || r < right.len() {
            if let (Some((element, _)), Some((wanted, _))) = (left.get(l), right.get(r)) {
                if element == wanted {
                    out.extend(self.item(element, r));
                    l += 1;
                    r += 1;
                    next_shared = shared.pop_front();
                    continue;
                }
                if next_shared.is_some_and(|next| next != element) && self.right.find(element).is_some() {
                    // Both have it, but another one comes first.
                    l += 1;
                    continue;
                }
            }
            if let Some((element, live)) = left.get(l) {
                match self.right.find(element) {
                    None => {
                        out.push((*live).clone());
                        l += 1;
                        continue;
                    }
                    Some((at, _)) if at < r => l += 1,
                    Some(_) => {}
                }
            }
            if let Some((element, _)) = right.get(r) {
                out.extend(self.item(element, r));
                r += 1;
                if next_shared == Some(element) {
                    next_shared = shared.pop_front();
                }
            }
        }
        out
    }

    /// The applied item at `r` on top of the live one with its key. A live item
    /// that has duplicates counts as null.
    fn item(&self, element: &PathElement, r: usize) -> Option<Value> {
        let applied = self.right.items[r].1;
        match self.left.find(element) {
            None => Some(applied.clone()),
            Some((at, duplicated)) => {
                let live = if duplicated {
                    &Value::Null
                } else {
                    self.left.items[at].1
                };
                // Problems below list items are not reported.
                let mut ignored = TypeProblems::default();
                values(self.schema, Some(self.list.element), live, applied, &mut ignored)
            }
        }
    }
}
