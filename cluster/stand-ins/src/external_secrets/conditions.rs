//! Which namespaces may use a store.

use std::collections::BTreeMap;

use c5c3_api::foreign::external_secrets::StoreCondition;
use kube::core::{Selector, SelectorExt};
use regex::Regex;

use crate::error::Error;

const REGEXES: &str = "spec.conditions.namespaceRegexes";
const SELECTOR: &str = "spec.conditions.namespaceSelector";

fn invalid(field: &'static str) -> impl Fn(String) -> Error {
    move |reason| Error::Invalid { field, reason }
}

fn regex(text: &str) -> Result<Regex, Error> {
    Regex::new(text).map_err(|error| invalid(REGEXES)(format!("{text:?} cannot be read: {error}")))
}

fn selector(condition: &StoreCondition) -> Result<Option<Selector>, Error> {
    let Some(labels) = condition.namespace_selector.clone() else {
        return Ok(None);
    };
    let selector = Selector::try_from(labels);
    selector
        .map(Some)
        .map_err(|error| invalid(SELECTOR)(format!("cannot be read: {error}")))
}

/// Whether the conditions can be read at all.
pub(crate) fn check(conditions: &[StoreCondition]) -> Result<(), Error> {
    admit(conditions, "", &BTreeMap::new()).map(drop)
}

/// Whether a namespace may use a store with these conditions. One that cannot be read admits none.
pub(crate) fn admit(
    conditions: &[StoreCondition],
    namespace: &str,
    labels: &BTreeMap<String, String>,
) -> Result<bool, Error> {
    let mut admitted = conditions.is_empty();
    for condition in conditions {
        if let Some(selector) = selector(condition)? {
            admitted |= selector.matches(labels);
        }
        admitted |= condition.namespaces.iter().any(|name| name == namespace);
        for text in &condition.namespace_regexes {
            admitted |= regex(text)?.is_match(namespace);
        }
    }
    Ok(admitted)
}

#[cfg(test)]
mod unit {
    use super::*;
    use serde_json::{Value, json};

    fn admits(conditions: Value, namespace: &str, labels: Value) -> Result<bool, Error> {
        let conditions: Vec<StoreCondition> = serde_json::from_value(conditions).expect("conditions");
        let labels: BTreeMap<String, String> = serde_json::from_value(labels).expect("labels");
        admit(&conditions, namespace, &labels)
    }

    #[test]
    fn a_store_is_open_to_whom_a_condition_names() {
        let cases = [
            (json!([]), true),
            (json!([{}]), false),
            (json!([{"namespaces": ["a", "b"]}]), true),
            (json!([{"namespaces": ["other"]}]), false),
            (json!([{"namespaces": ["other"]}, {"namespaces": ["a"]}]), true),
            (json!([{"namespaceRegexes": ["^a$"]}]), true),
            (json!([{"namespaceRegexes": ["^b"]}]), false),
            (
                json!([{"namespaceSelector": {"matchLabels": {"team": "x"}}}]),
                true,
            ),
            (
                json!([{"namespaceSelector": {"matchLabels": {"team": "y"}}}]),
                false,
            ),
            (json!([{"namespaceSelector": {}}]), true),
            (
                json!([{"namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["x"]}]}}]),
                false,
            ),
            (
                json!([{"namespaceSelector": {"matchLabels": {"team": "y"}}, "namespaces": ["a"]}]),
                true,
            ),
        ];
        for (conditions, expected) in cases {
            let found = admits(conditions.clone(), "a", json!({"team": "x"})).expect("readable");
            assert_eq!(found, expected, "{conditions}");
        }
    }

    #[test]
    fn a_condition_that_cannot_be_read_admits_nobody() {
        for conditions in [
            json!([{"namespaces": ["a"], "namespaceRegexes": ["("]}]),
            json!([{"namespaces": ["a"], "namespaceSelector": {"matchExpressions": [{"key": "k", "operator": "Like"}]}}]),
        ] {
            assert!(
                admits(conditions.clone(), "a", json!({})).is_err(),
                "{conditions}"
            );
        }
    }
}
