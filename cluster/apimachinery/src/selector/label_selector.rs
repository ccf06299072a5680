//! `metav1.LabelSelector`: the selector inside objects.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::label::{LabelSelector, Operator, Requirement, SelectorError};
use crate::field::text::quote;

/// The selector as objects carry it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LabelSelectorSpec {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<LabelSelectorTerm>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LabelSelectorTerm {
    pub key: String,
    pub operator: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
}

impl LabelSelectorSpec {
    /// The selector that a field holds. A missing one selects nothing, an empty one everything.
    pub fn selector_of(value: Option<&Value>) -> Result<LabelSelector, SelectorError> {
        match value {
            None | Some(Value::Null) => Ok(LabelSelector::nothing()),
            Some(value) => Self::deserialize(value)
                .map_err(|error| SelectorError(format!("not a label selector: {error}")))?
                .selector(),
        }
    }

    pub fn selector(&self) -> Result<LabelSelector, SelectorError> {
        let mut requirements = Vec::new();
        for (key, value) in &self.match_labels {
            requirements.push(Requirement::new(key, Operator::Equals, vec![value.clone()])?);
        }
        for term in &self.match_expressions {
            let operator = match term.operator.as_str() {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                other => {
                    return Err(SelectorError(format!(
                        "{} is not a valid label selector operator",
                        quote(other)
                    )));
                }
            };
            requirements.push(Requirement::new(&term.key, operator, term.values.clone())?);
        }
        Ok(LabelSelector::of(requirements))
    }

    /// The text for people: `<none>` for a selector without requirements.
    pub fn formatted(value: Option<&Value>) -> String {
        match Self::selector_of(value) {
            Err(_) => "<error>".to_string(),
            Ok(selector) => match selector.to_string() {
                text if text.is_empty() => "<none>".to_string(),
                text => text,
            },
        }
    }
}
