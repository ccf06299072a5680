//! What changed between two values of one type.

use serde_json::Value;

use super::index::element_of;
use super::{Form, Forms};
use crate::openapi::{ListKind, ListType, MapType, Schema, Type, TypeId};
use crate::ssa::path::PathElement;
use crate::ssa::set::{FieldSet, Node};
use crate::ssa::value::equal;

/// The fields that differ. No field is in more than one of the sets.
#[derive(Clone, Debug, Default)]
pub(crate) struct Comparison {
    pub removed: FieldSet,
    pub modified: FieldSet,
    pub added: FieldSet,
}

impl Comparison {
    /// Forgets what lies in or below these fields.
    pub(crate) fn without(mut self, fields: Option<&FieldSet>) -> Self {
        if let Some(fields) = fields {
            self.removed.subtract_trees(fields);
            self.modified.subtract_trees(fields);
            self.added.subtract_trees(fields);
        }
        self
    }
}

/// Compares two valid values.
pub(crate) fn compare(schema: &Schema, ty: TypeId, old: &Value, new: &Value) -> Comparison {
    let change = values(schema, Some(ty), Some(old), Some(new));
    Comparison {
        removed: change.removed.below,
        modified: change.modified.below,
        added: change.added.below,
    }
}

/// Whether a value itself is in a set, and what of the values below it is.
#[derive(Default)]
struct Mark {
    here: bool,
    below: FieldSet,
}

impl Mark {
    fn absorb(&mut self, other: Self) {
        self.here |= other.here;
        self.below.union_with(other.below);
    }

    fn push(&mut self, element: &PathElement, child: Self) {
        self.below.push(Node {
            element: element.clone(),
            member: child.here,
            children: child.below,
        });
    }
}

#[derive(Default)]
struct Change {
    removed: Mark,
    modified: Mark,
    added: Mark,
    /// Handled as one leaf.
    leaf: bool,
}

impl Change {
    fn push(&mut self, element: &PathElement, child: Self) {
        if child.is_none() {
            return;
        }
        self.removed.push(element, child.removed);
        self.modified.push(element, child.modified);
        self.added.push(element, child.added);
    }

    fn is_none(&self) -> bool {
        let none = |mark: &Mark| !mark.here && mark.below.is_empty();
        none(&self.removed) && none(&self.modified) && none(&self.added)
    }

    fn sort(&mut self) {
        self.removed.below.sort();
        self.modified.below.sort();
        self.added.below.sort();
    }
}

fn values(schema: &Schema, ty: Option<TypeId>, old: Option<&Value>, new: Option<&Value>) -> Change {
    let Some(ty) = ty.map(|id| schema.get(id)) else {
        return Change::default();
    };
    let old_forms = Forms::of(ty, old);
    let new_forms = Forms::of(ty, new);
    let mut change = if new.is_none() {
        in_form(schema, ty, old_forms.pick(ty), old, new)
    } else if old.is_none() || old_forms == new_forms {
        in_form(schema, ty, new_forms.pick(ty), old, new)
    } else {
        let before = in_form(schema, ty, old_forms.pick(ty), old, new);
        let mut after = in_form(schema, ty, new_forms.pick(ty), old, new);
        after.removed.absorb(before.removed);
        after.modified.absorb(before.modified);
        after.added.absorb(before.added);
        after
    };
    if !change.leaf {
        change.added.here |= old.is_none();
        change.removed.here |= new.is_none();
    }
    change
}

fn in_form(
    schema: &Schema,
    ty: &Type,
    form: Option<Form>,
    old: Option<&Value>,
    new: Option<&Value>,
) -> Change {
    match (form, &ty.map, &ty.list) {
        (Some(Form::Map), Some(map), _) => maps(schema, map, old, new),
        (Some(Form::List), _, Some(list)) => lists(schema, list, old, new),
        (Some(Form::Scalar(_)), ..) => leaf(old, new),
        _ => Change::default(),
    }
}

fn leaf(old: Option<&Value>, new: Option<&Value>) -> Change {
    let mut change = Change {
        leaf: true,
        ..Change::default()
    };
    match (old, new) {
        (None, _) => change.added.here = true,
        (_, None) => change.removed.here = true,
        (Some(old), Some(new)) => change.modified.here = !equal(old, new),
    }
    change
}

fn maps(schema: &Schema, map: &MapType, old: Option<&Value>, new: Option<&Value>) -> Change {
    let before = old.and_then(Value::as_object);
    let after = new.and_then(Value::as_object);
    let size = |object: Option<&serde_json::Map<_, _>>| object.map_or(0, serde_json::Map::len);
    if map.atomic || size(before) + size(after) == 0 {
        return leaf(old, new);
    }
    let mut change = Change::default();
    let mut before = before.into_iter().flatten().peekable();
    let mut after = after.into_iter().flatten().peekable();
    loop {
        // Both sides are sorted by key.
        let (key, old, new) = match (before.peek(), after.peek()) {
            (None, None) => return change,
            (Some(&(key, value)), None) => {
                before.next();
                (key, Some(value), None)
            }
            (None, Some(&(key, value))) => {
                after.next();
                (key, None, Some(value))
            }
            (Some(&(old_key, old)), Some(&(new_key, new))) => match old_key.cmp(new_key) {
                std::cmp::Ordering::Less => {
                    before.next();
                    (old_key, Some(old), None)
                }
                std::cmp::Ordering::Greater => {
                    after.next();
                    (new_key, None, Some(new))
                }
                std::cmp::Ordering::Equal => {
                    before.next();
                    after.next();
                    (old_key, Some(old), Some(new))
                }
            },
        };
        let field = map.field(key);
        let ty = field.map_or(map.element, |field| Some(field.ty));
        let child = values(schema, ty, old, new);
        if !child.is_none() {
            let element = field.map_or_else(
                || PathElement::field(key),
                |field| PathElement::Field(field.name.clone()),
            );
            change.push(&element, child);
        }
    }
}

fn lists(schema: &Schema, list: &ListType, old: Option<&Value>, new: Option<&Value>) -> Change {
    let before = old.and_then(Value::as_array);
    let after = new.and_then(Value::as_array);
    let size = |items: Option<&Vec<_>>| items.map_or(0, Vec::len);
    if list.kind == ListKind::Atomic || size(before) + size(after) == 0 {
        return leaf(old, new);
    }
    let mut groups: Vec<Group<'_>> = Vec::with_capacity(size(before).max(size(after)));
    for (is_new, items) in [(false, before), (true, after)] {
        for item in items.into_iter().flatten() {
            if let Ok(element) = element_of(schema, list, item) {
                Group::add(&mut groups, element, item, is_new);
            }
        }
    }
    let mut change = Change::default();
    for Group { element, old, new } in groups {
        let item = |old, new| values(schema, Some(list.element), old, new);
        let child = match (&old[..], &new[..]) {
            ([] | [_], [] | [_]) => item(old.first().copied(), new.first().copied()),
            ([_, _, ..], [_, _, ..]) => {
                let same = old.len() == new.len() && old.iter().zip(&new).all(|(old, new)| equal(old, new));
                let mut child = Change::default();
                child.modified.here = !same;
                child
            }
            // Duplicates are owned as one leaf: it goes, the single item comes.
            ([_, _, ..], _) => {
                let mut child = new
                    .first()
                    .map_or_else(Change::default, |new| item(None, Some(new)));
                child.removed.here = true;
                child
            }
            (_, [_, _, ..]) => {
                let mut child = old
                    .first()
                    .map_or_else(Change::default, |old| item(Some(old), None));
                child.added.here = true;
                child
            }
        };
        change.push(&element, child);
    }
    change.sort();
    change
}

/// The items of both lists with the same key.
struct Group<'v> {
    element: PathElement,
    old: Vec<&'v Value>,
    new: Vec<&'v Value>,
}

impl<'v> Group<'v> {
    fn add(groups: &mut Vec<Self>, element: PathElement, item: &'v Value, is_new: bool) {
        let at = match groups.binary_search_by(|group| group.element.cmp(&element)) {
            Ok(at) => at,
            Err(at) => {
                groups.insert(
                    at,
                    Self {
                        element,
                        old: Vec::new(),
                        new: Vec::new(),
                    },
                );
                at
            }
        };
        let group = &mut groups[at];
        if is_new {
            group.new.push(item);
        } else {
            group.old.push(item);
        }
    }
}
