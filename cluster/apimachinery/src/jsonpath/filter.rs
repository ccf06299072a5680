//! Filters of lists: `?(@.type=="Ready")`.

use std::cmp::Ordering;

use serde_json::Value;

use super::JsonPath;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Filter {
    pub left: Operand,
    /// None: the left side must exist.
    pub comparison: Option<(Comparison, Operand)>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Operand {
    Literal(Value),
    /// From the item.
    Current(JsonPath),
    /// From the whole object.
    Root(JsonPath),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Operand {
    fn value<'a>(&'a self, item: &'a Value, root: &'a Value) -> Option<&'a Value> {
        match self {
            Self::Literal(value) => Some(value),
            Self::Current(path) => path.first(item),
            Self::Root(path) => path.first(root),
        }
    }
}

impl Filter {
    pub(super) fn holds(&self, item: &Value, root: &Value) -> bool {
        let Some(left) = self.left.value(item, root) else {
            return false;
        };
        let Some((comparison, right)) = &self.comparison else {
            return true;
        };
        let Some(right) = right.value(item, root) else {
            return false;
        };
        // Values of different types compare as nothing at all.
        let Some(ordering) = compare(left, right) else {
            return false;
        };
        match comparison {
            Comparison::Equal => ordering == Ordering::Equal,
            Comparison::NotEqual => ordering != Ordering::Equal,
            Comparison::Less => ordering == Ordering::Less,
            Comparison::LessOrEqual => ordering != Ordering::Greater,
            Comparison::Greater => ordering == Ordering::Greater,
            Comparison::GreaterOrEqual => ordering != Ordering::Less,
        }
    }
}

fn compare(left: &Value, right: &Value) -> Option<Ordering> {
    match (left, right) {
        (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
        (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
        (Value::Number(a), Value::Number(b)) => match (a.as_i64(), b.as_i64()) {
            (Some(a), Some(b)) => Some(a.cmp(&b)),
            _ => a.as_f64()?.partial_cmp(&b.as_f64()?),
        },
        _ => None,
    }
}
