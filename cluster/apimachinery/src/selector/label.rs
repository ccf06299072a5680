//! Label selectors as requirements that all must hold.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::Value;

use crate::field::{FieldError, aggregate};
use crate::names;

/// What relates a label to values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operator {
    In,
    NotIn,
    Equals,
    DoubleEquals,
    NotEquals,
    Exists,
    DoesNotExist,
    GreaterThan,
    LessThan,
}

impl Operator {
    /// The name that Kubernetes uses for it in requirements and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::In => "in",
            Self::NotIn => "notin",
            Self::Equals => "=",
            Self::DoubleEquals => "==",
            Self::NotEquals => "!=",
            Self::Exists => "exists",
            Self::DoesNotExist => "!",
            Self::GreaterThan => "gt",
            Self::LessThan => "lt",
        }
    }
}

/// A selector that cannot be read; the text is Kubernetes' own.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SelectorError(pub(super) String);

/// One condition on one label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    key: String,
    operator: Operator,
    values: Vec<String>,
}

impl Requirement {
    pub fn new(
        key: impl Into<String>,
        operator: Operator,
        values: Vec<String>,
    ) -> Result<Self, SelectorError> {
        let key = key.into();
        let errors = faults(&key, operator, &values);
        if errors.is_empty() {
            Ok(Self {
                key,
                operator,
                values,
            })
        } else {
            Err(SelectorError(aggregate(&errors)))
        }
    }

    pub fn key(&self) -> &str {
        &self.key
    }

    pub fn operator(&self) -> Operator {
        self.operator
    }

    /// The values, sorted, each once.
    pub fn values(&self) -> BTreeSet<&str> {
        self.values.iter().map(String::as_str).collect()
    }

    /// Holds for the value of the label, or for its absence.
    pub fn holds(&self, value: Option<&str>) -> bool {
        let listed = |value: &str| self.values.iter().any(|v| v == value);
        match self.operator {
            Operator::In | Operator::Equals | Operator::DoubleEquals => value.is_some_and(listed),
            Operator::NotIn | Operator::NotEquals => !value.is_some_and(listed),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::GreaterThan => self.compared(value).is_some_and(|(a, b)| a > b),
            Operator::LessThan => self.compared(value).is_some_and(|(a, b)| a < b),
        }
    }

    fn compared(&self, value: Option<&str>) -> Option<(i64, i64)> {
        let [bound] = self.values.as_slice() else {
            return None;
        };
        Some((value?.parse().ok()?, bound.parse().ok()?))
    }
}

fn faults(key: &str, operator: Operator, values: &[String]) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if let Some(error) = key_fault(key, "key") {
        errors.push(error);
    }
    let about_values = |detail: &str| {
        let shown = if values.is_empty() {
            Value::Null
        } else {
            Value::from(values)
        };
        FieldError::invalid("values", shown, detail)
    };
    match operator {
        Operator::In | Operator::NotIn if values.is_empty() => {
            errors.push(about_values(
                "for 'in', 'notin' operators, values set can't be empty",
            ));
        }
        Operator::Equals | Operator::DoubleEquals | Operator::NotEquals if values.len() != 1 => {
            errors.push(about_values(
                "exact-match compatibility requires one single value",
            ));
        }
        Operator::Exists | Operator::DoesNotExist if !values.is_empty() => {
            errors.push(about_values(
                "values set must be empty for exists and does not exist",
            ));
        }
        Operator::GreaterThan | Operator::LessThan => {
            if values.len() != 1 {
                errors.push(about_values(
                    "for 'Gt', 'Lt' operators, exactly one value is required",
                ));
            }
            for (i, value) in values.iter().enumerate() {
                if value.parse::<i64>().is_err() {
                    errors.push(FieldError::invalid(
                        format!("values[{i}]"),
                        value.as_str(),
                        "for 'Gt', 'Lt' operators, the value must be an integer",
                    ));
                }
            }
        }
        _ => {}
    }
    for (i, value) in values.iter().enumerate() {
        let messages = names::label_value(value);
        if !messages.is_empty() {
            errors.push(FieldError::invalid(
                format!("values[{i}][{key}]"),
                value.as_str(),
                messages.join("; "),
            ));
        }
    }
    errors
}

pub(super) fn key_fault(key: &str, path: &str) -> Option<FieldError> {
    let messages = names::qualified_name(key);
    (!messages.is_empty()).then(|| FieldError::invalid(path, key, messages.join("; ")))
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        let mut sorted = self.values.clone();
        sorted.sort();
        let values = sorted.join(",");
        match self.operator {
            Operator::Exists => write!(f, "{key}"),
            Operator::DoesNotExist => write!(f, "!{key}"),
            Operator::Equals => write!(f, "{key}={values}"),
            Operator::DoubleEquals => write!(f, "{key}=={values}"),
            Operator::NotEquals => write!(f, "{key}!={values}"),
            Operator::In => write!(f, "{key} in ({values})"),
            Operator::NotIn => write!(f, "{key} notin ({values})"),
            Operator::GreaterThan => write!(f, "{key}>{values}"),
            Operator::LessThan => write!(f, "{key}<{values}"),
        }
    }
}

/// Requirements that all must hold, or the selector that matches nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelSelector {
    /// `None`: matches nothing.
    requirements: Option<Vec<Requirement>>,
}

impl Default for LabelSelector {
    fn default() -> Self {
        Self::everything()
    }
}

impl LabelSelector {
    pub fn everything() -> Self {
        Self::of(Vec::new())
    }

    pub fn nothing() -> Self {
        Self { requirements: None }
    }

    /// All of the requirements, in the order of their keys.
    pub fn of(mut requirements: Vec<Requirement>) -> Self {
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Self {
            requirements: Some(requirements),
        }
    }

    /// The labels that must be there, as a Service or ReplicationController selects.
    pub fn from_labels<'a>(labels: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let requirement = |(key, value): (&str, &str)| Requirement {
            key: key.to_string(),
            operator: Operator::Equals,
            values: vec![value.to_string()],
        };
        Self::of(labels.into_iter().map(requirement).collect())
    }

    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        super::parser::parse(text).map(Self::of)
    }

    /// `None` for the selector that matches nothing.
    pub fn requirements(&self) -> Option<&[Requirement]> {
        self.requirements.as_deref()
    }

    /// Matches every object.
    pub fn is_empty(&self) -> bool {
        self.requirements.as_ref().is_some_and(Vec::is_empty)
    }

    /// Whether an object with these labels is selected.
    pub fn matches<'a>(&self, lookup: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.requirements
            .as_ref()
            .is_some_and(|all| all.iter().all(|r| r.holds(lookup(&r.key))))
    }

    pub fn matches_map(&self, labels: &BTreeMap<String, String>) -> bool {
        self.matches(|key| labels.get(key).map(String::as_str))
    }

    /// Whether the object's `metadata.labels` are selected.
    pub fn matches_object(&self, object: &Value) -> bool {
        let labels = object.pointer("/metadata/labels");
        self.matches(|key| labels?.get(key)?.as_str())
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, requirement) in self.requirements.iter().flatten().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            write!(f, "{requirement}")?;
        }
        Ok(())
    }
}
