//! Lists that merge, and their order.

use serde_json::Value;

use super::meta::Meta;
use super::{DIRECTIVE, MAP, PatchError, bad_type, internal, merge_fields, no_merge_key, unknown_directive};
use crate::go_text;

/// What the items of a list are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct ElementKind(&'static str);

impl ElementKind {
    pub(super) fn is_map(self) -> bool {
        self.0 == MAP
    }
}

/// The one kind of items of two lists.
pub(super) fn element_kind(old: &[Value], patch: &[Value]) -> Result<ElementKind, PatchError> {
    let mut kind = None;
    for item in old.iter().chain(patch) {
        let this = go_text::type_name(item);
        match kind {
            None if item.is_array() => {
                return Err(PatchError::Unprocessable(
                    "lists of lists are not supported".into(),
                ));
            }
            None if !item.is_null() => kind = Some(this),
            Some(kind) if kind == this => {}
            _ => {
                return Err(internal(format!(
                    "list element types are not identical: [{} {}]",
                    go_text::plain(&Value::Array(old.to_vec())),
                    go_text::plain(&Value::Array(patch.to_vec()))
                )));
            }
        }
    }
    kind.map(ElementKind)
        .ok_or_else(|| internal("no elements in any of the given slices"))
}

/// Merges two lists: scalars as sets, objects by the merge key.
pub(super) fn merge_list(
    old: Vec<Value>,
    patch: Vec<Value>,
    meta: Meta<'_>,
    key: &str,
) -> Result<Vec<Value>, PatchError> {
    if old.is_empty() && patch.is_empty() {
        return Ok(old);
    }
    let kind = element_kind(&old, &patch)?;
    if !kind.is_map() {
        let (merged, live) = unique(&old, &patch);
        let (listed, others) = split_by(merged, &patch, key)?;
        return in_order(listed, others, &patch, &live, key, kind);
    }
    if key.is_empty() {
        return Err(internal(format!(
            "cannot merge lists without merge key for {}",
            meta.kind()
        )));
    }
    let (old, patch) = directives(old, patch, key)?;
    let mut merged = old.clone();
    for item in &patch {
        let value = item.get(key).ok_or_else(|| no_merge_key(item, key))?;
        match merged.iter().position(|old| old.get(key) == Some(value)) {
            Some(at) => {
                if let (Value::Object(old), Value::Object(item)) = (merged[at].take(), item) {
                    merged[at] = Value::Object(merge_fields(old, item.clone(), meta)?);
                }
            }
            None => merged.push(item.clone()),
        }
    }
    let (listed, others) = split_by(merged, &patch, key)?;
    in_order(listed, others, &patch, &old, key, kind)
}

/// Carries out `$patch` in items. A single `replace` makes the patch the list.
fn directives(
    mut old: Vec<Value>,
    patch: Vec<Value>,
    key: &str,
) -> Result<(Vec<Value>, Vec<Value>), PatchError> {
    let mut plain = Vec::with_capacity(patch.len());
    let mut replace = false;
    for item in patch {
        let Value::Object(fields) = &item else {
            continue;
        };
        match fields.get(DIRECTIVE) {
            None => plain.push(item),
            Some(Value::String(directive)) if directive == "delete" => {
                let value = fields.get(key).ok_or_else(|| no_merge_key(&item, key))?;
                old.retain(|old| old.get(key) != Some(value));
            }
            Some(Value::String(directive)) if directive == "replace" => replace = true,
            Some(Value::String(directive)) if directive == "merge" => {
                return Err(internal("merging lists cannot yet be specified in the patch"));
            }
            Some(other) => return Err(unknown_directive(other, fields)),
        }
    }
    Ok(if replace {
        (plain, Vec::new())
    } else {
        (old, plain)
    })
}

/// Both lists without duplicates: the last item takes the place of a dropped
/// one. Also returns the order of the live list, which Kubernetes changes along
/// when both lists fit into the memory of the live one.
fn unique(old: &[Value], patch: &[Value]) -> (Vec<Value>, Vec<Value>) {
    let mut items: Vec<Value> = old.iter().chain(patch).cloned().collect();
    let shared = items.len() <= old.len().next_power_of_two();
    let mut len = items.len();
    let mut i = 0;
    while i < len {
        let mut j = i + 1;
        while j < len {
            if items[i] == items[j] {
                len -= 1;
                items[j] = items[len].clone();
            } else {
                j += 1;
            }
        }
        i += 1;
    }
    let live = if shared { &items[..old.len()] } else { old }.to_vec();
    items.truncate(len);
    (items, live)
}

/// Splits items into those that are in the list and the others.
pub(super) fn split_by(
    items: Vec<Value>,
    list: &[Value],
    key: &str,
) -> Result<(Vec<Value>, Vec<Value>), PatchError> {
    let (mut listed, mut others) = (Vec::new(), Vec::new());
    for item in items {
        let found = if key.is_empty() {
            list.contains(&item)
        } else {
            if !item.is_object() {
                return Err(bad_type(MAP, &item));
            }
            let value = item.get(key).ok_or_else(|| no_merge_key(&item, key))?;
            find(list, key, value)?
        };
        if found { &mut listed } else { &mut others }.push(item);
    }
    Ok((listed, others))
}

fn find(list: &[Value], key: &str, value: &Value) -> Result<bool, PatchError> {
    for (i, item) in list.iter().enumerate() {
        if !item.is_object() {
            return Err(internal(format!("value for key {i} is not a map")));
        }
        if item.get(key) == Some(value) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Items of the patch in its order, the server's own items among them where the
/// live list has them.
pub(super) fn in_order(
    listed: Vec<Value>,
    others: Vec<Value>,
    order: &[Value],
    live: &[Value],
    key: &str,
    kind: ElementKind,
) -> Result<Vec<Value>, PatchError> {
    let listed = sorted(listed, order, key, kind)?;
    let others = sorted(others, live, key, kind)?;
    let place = |item: &Value| index(live, item, key, kind);
    let mut out = Vec::with_capacity(listed.len() + others.len());
    let (mut left, mut right) = (others.into_iter().peekable(), listed.into_iter().peekable());
    loop {
        let first = match (left.peek(), right.peek()) {
            (None, None) => return Ok(out),
            (Some(_), None) => left.next(),
            (None, Some(_)) => right.next(),
            (Some(other), Some(listed)) => match (place(other), place(listed)) {
                (Some(other), Some(listed)) if other < listed => left.next(),
                _ => right.next(),
            },
        };
        out.extend(first);
    }
}

fn index(list: &[Value], item: &Value, key: &str, kind: ElementKind) -> Option<usize> {
    let value = |item: &'_ Value| -> Option<Value> {
        if kind.is_map() {
            item.get(key).cloned()
        } else {
            Some(item.clone())
        }
    };
    let wanted = value(item);
    list.iter().position(|item| value(item) == wanted)
}

/// Sorts by the order of another list; items that it lacks move to the front,
/// items to delete to the end.
fn sorted(
    items: Vec<Value>,
    order: &[Value],
    key: &str,
    kind: ElementKind,
) -> Result<Vec<Value>, PatchError> {
    let (mut kept, mut deleted) = (Vec::new(), Vec::new());
    if kind.is_map() {
        for item in items.iter().chain(order) {
            if !item.is_object() {
                return Err(bad_type(MAP, item));
            }
            if item.get(key).is_none() {
                return Err(no_merge_key(item, key));
            }
        }
        for item in items {
            let delete = item.get(DIRECTIVE).is_some_and(|directive| directive == "delete");
            if delete { &mut deleted } else { &mut kept }.push(item);
        }
    } else {
        kept = items;
    }
    let mut places: Vec<(Option<usize>, Value)> = kept
        .into_iter()
        .map(|item| (index(order, &item, key, kind), item))
        .collect();
    // An insertion sort, because items without a place have no consistent order.
    for i in 1..places.len() {
        let mut j = i;
        while j > 0
            && match (places[j].0, places[j - 1].0) {
                (Some(this), Some(before)) => this < before,
                _ => true,
            }
        {
            places.swap(j, j - 1);
            j -= 1;
        }
    }
    Ok(places.into_iter().map(|(_, item)| item).chain(deleted).collect())
}

/// The items of a patch must come in the order that `$setElementOrder` gives.
pub(super) fn check_order(patch: &[Value], order: &[Value], key: &str) -> Result<(), PatchError> {
    if patch.is_empty() || order.is_empty() {
        return Ok(());
    }
    let mut items: Vec<&Value> = Vec::with_capacity(patch.len());
    for item in patch {
        if key.is_empty() {
            items.push(item);
            continue;
        }
        if !item.is_object() {
            return Err(bad_type(MAP, item));
        }
        if item.get(DIRECTIVE).is_none_or(|directive| directive != "delete") {
            items.push(item);
        }
    }
    let mut left = items.into_iter().peekable();
    let mut wanted = order.iter();
    while let Some(item) = left.peek() {
        if item.get(DIRECTIVE).is_some() {
            left.next();
            continue;
        }
        let Some(wanted) = wanted.next() else { break };
        if same_key(item, wanted, key)? {
            left.next();
        }
    }
    if left.peek().is_some() {
        return Err(internal(format!(
            "The order in patch list:\n{}\n doesn't match $setElementOrder list:\n{}\n",
            go_text::plain(&Value::Array(patch.to_vec())),
            go_text::plain(&Value::Array(order.to_vec()))
        )));
    }
    Ok(())
}

fn same_key(item: &Value, wanted: &Value, key: &str) -> Result<bool, PatchError> {
    if key.is_empty() {
        return Ok(item == wanted);
    }
    let value = |item: &Value| -> Result<Value, PatchError> {
        if !item.is_object() {
            return Err(bad_type(MAP, item));
        }
        (item.get(key).cloned()).ok_or_else(|| no_merge_key(item, key))
    };
    Ok(value(item)? == value(wanted)?)
}
