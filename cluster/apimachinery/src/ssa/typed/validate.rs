//! Does a value have the form that its type asks for?

use serde_json::Value;

use super::index::{element_of, element_problem, same_key};
use super::{Form, NO_TYPE, TypeProblems, form_of};
use crate::go_text;
use crate::openapi::{ListKind, ListType, MapType, Scalar, Schema, TypeId};
use crate::ssa::path::PathElement;

/// Checks form, undeclared fields, keys of list-maps and, unless allowed,
/// duplicates. Values (ranges, patterns) are not looked at.
pub(crate) fn validate(
    schema: &Schema,
    ty: TypeId,
    value: &Value,
    duplicates: bool,
) -> Result<(), TypeProblems> {
    let mut problems = TypeProblems::default();
    Validation { schema, duplicates }.value(Some(ty), value, &mut problems);
    problems.into_result()
}

/// Lists up to this length are searched for duplicates item by item.
const SHORT: usize = 16;

struct Validation<'s> {
    schema: &'s Schema,
    duplicates: bool,
}

impl Validation<'_> {
    fn value(&self, ty: Option<TypeId>, value: &Value, problems: &mut TypeProblems) {
        let Some((ty, form)) = form_of(self.schema, ty, value) else {
            problems.push(NO_TYPE);
            return;
        };
        match (form, &ty.map, &ty.list) {
            (Form::Map, Some(map), _) => self.map(map, value, problems),
            (Form::List, _, Some(list)) => self.list(list, value, problems),
            (Form::Scalar(scalar), ..) => {
                if let Some(problem) = scalar_problem(scalar, value) {
                    problems.push(problem);
                }
            }
            _ => {}
        }
    }

    fn map(&self, map: &MapType, value: &Value, problems: &mut TypeProblems) {
        let object = match value {
            Value::Object(object) => object,
            Value::Null => return,
            other => {
                problems.push(format!("expected map, got &{{{}}}", go_text::plain(other)));
                return;
            }
        };
        for (key, item) in object {
            let ty = map.type_of(key);
            let mut below = TypeProblems::default();
            if ty.is_none() {
                below.push("field not declared in schema");
            } else {
                self.value(ty, item, &mut below);
            }
            if !below.is_empty() {
                problems.absorb(&PathElement::field(key), below);
            }
            if ty.is_none() {
                return;
            }
        }
    }

    fn list(&self, list: &ListType, value: &Value, problems: &mut TypeProblems) {
        let items = match value {
            Value::Array(items) => items,
            Value::Null => return,
            other => {
                problems.push(format!("expected list, got &{{{}}}", go_text::plain(other)));
                return;
            }
        };
        if list.kind == ListKind::Atomic {
            for (i, item) in items.iter().enumerate() {
                let mut below = TypeProblems::default();
                self.value(Some(list.element), item, &mut below);
                if !below.is_empty() {
                    let index = i64::try_from(i).unwrap_or(i64::MAX);
                    problems.absorb(&PathElement::Index(index), below);
                }
            }
            return;
        }
        let mut seen = Vec::new();
        for (i, item) in items.iter().enumerate() {
            if let Some(problem) = element_problem(self.schema, list, item) {
                problems.push(format!("element {i}: {problem}"));
                return;
            }
            let repeated = !self.duplicates
                && if items.len() <= SHORT {
                    (items[..i].iter()).any(|before| same_key(self.schema, list, before, item))
                } else {
                    self.seen(list, item, &mut seen)
                };
            if repeated && let Ok(element) = element_of(self.schema, list, item) {
                problems.push(format!("duplicate entries for key {element}"));
            }
            let mut below = TypeProblems::default();
            self.value(Some(list.element), item, &mut below);
            if !below.is_empty()
                && let Ok(element) = element_of(self.schema, list, item)
            {
                problems.absorb(&element, below);
            }
        }
    }

    /// Notes an item of a long list; true if its key was there before.
    fn seen(&self, list: &ListType, item: &Value, seen: &mut Vec<PathElement>) -> bool {
        let Ok(element) = element_of(self.schema, list, item) else {
            return false;
        };
        match seen.binary_search(&element) {
            Ok(_) => true,
            Err(at) => {
                seen.insert(at, element);
                false
            }
        }
    }
}

/// Why this is not such a scalar. Null is every scalar.
pub(super) fn scalar_problem(scalar: Scalar, value: &Value) -> Option<String> {
    match (scalar, value) {
        (_, Value::Null)
        | (Scalar::Numeric | Scalar::Untyped, Value::Number(_))
        | (Scalar::String | Scalar::Untyped, Value::String(_))
        | (Scalar::Boolean | Scalar::Untyped, Value::Bool(_)) => None,
        (Scalar::Numeric, other) => Some(format!(
            "expected numeric (int or float), got {}",
            go_text::type_name(other)
        )),
        (Scalar::String, other) => Some(format!(
            "expected string, got &value.valueUnstructured{{Value:{}}}",
            go_text::syntax(other)
        )),
        (Scalar::Boolean, other) => Some(format!("expected boolean, got &{{{}}}", go_text::plain(other))),
        (Scalar::Untyped, other) => Some(format!("expected any scalar, got &{{{}}}", go_text::plain(other))),
    }
}
