//! Operations on values of a known type: validation, field sets, merge,
//! comparison and removal.

mod compare;
mod fields;
mod index;
mod merge;
mod reconcile;
mod remove;
mod validate;

use std::fmt;

use serde_json::Value;

pub(crate) use compare::{Comparison, compare};
pub(crate) use fields::field_set;
pub(crate) use merge::{changes_nothing, merge};
pub(crate) use reconcile::reconcile;
pub(crate) use remove::remove;
pub(crate) use validate::validate;

use super::path::PathElement;
use crate::openapi::{Scalar, Schema, Type, TypeId};

/// What is wrong with a value, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TypeProblem {
    pub path: String,
    pub message: String,
}

/// All that is wrong with a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TypeProblems(pub Vec<TypeProblem>);

impl TypeProblems {
    pub(crate) fn push(&mut self, message: impl Into<String>) {
        self.0.push(TypeProblem {
            path: String::new(),
            message: message.into(),
        });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes over problems from one step below.
    pub(crate) fn absorb(&mut self, element: &PathElement, below: Self) {
        if below.is_empty() {
            return;
        }
        let prefix = element.to_string();
        for mut problem in below.0 {
            problem.path.insert_str(0, &prefix);
            self.0.push(problem);
        }
    }

    pub(crate) fn into_result(self) -> Result<(), Self> {
        if self.is_empty() { Ok(()) } else { Err(self) }
    }
}

impl fmt::Display for TypeProblems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let one = |f: &mut fmt::Formatter<'_>, problem: &TypeProblem| {
            if problem.path.is_empty() {
                f.write_str(&problem.message)
            } else {
                write!(f, "{}: {}", problem.path, problem.message)
            }
        };
        if let [only] = &self.0[..] {
            return one(f, only);
        }
        f.write_str("errors:")?;
        for problem in &self.0 {
            f.write_str("\n  ")?;
            one(f, problem)?;
        }
        Ok(())
    }
}

impl std::error::Error for TypeProblems {}

/// The forms of a type that a value may take.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Forms {
    scalar: bool,
    list: bool,
    map: bool,
}

/// The form in which a value is handled: the first of map, scalar, list.
#[derive(Clone, Copy)]
enum Form {
    Map,
    Scalar(Scalar),
    List,
}

impl Forms {
    /// Narrows a type to the form of the value; null and values of a wrong form
    /// leave it open.
    fn of(ty: &Type, value: Option<&Value>) -> Self {
        let open = Self {
            scalar: ty.scalar.is_some(),
            list: ty.list.is_some(),
            map: ty.map.is_some(),
        };
        let none = Self {
            scalar: false,
            list: false,
            map: false,
        };
        match value {
            Some(Value::Bool(_) | Value::Number(_) | Value::String(_)) if open.scalar => {
                Self { scalar: true, ..none }
            }
            Some(Value::Array(_)) if open.list => Self { list: true, ..none },
            Some(Value::Object(_)) if open.map => Self { map: true, ..none },
            _ => open,
        }
    }

    fn pick(self, ty: &Type) -> Option<Form> {
        if self.map {
            Some(Form::Map)
        } else if let (true, Some(scalar)) = (self.scalar, ty.scalar) {
            Some(Form::Scalar(scalar))
        } else if self.list {
            Some(Form::List)
        } else {
            None
        }
    }
}

/// The type and form in which a single value is handled.
fn form_of<'s>(schema: &'s Schema, ty: Option<TypeId>, value: &Value) -> Option<(&'s Type, Form)> {
    let ty = schema.get(ty?);
    Forms::of(ty, Some(value)).pick(ty).map(|form| (ty, form))
}

const NO_TYPE: &str = "schema error: invalid atom: inlined";
