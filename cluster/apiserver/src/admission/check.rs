//! What is wrong with a webhook configuration that somebody writes. Pure.

use std::collections::BTreeSet;

use apimachinery::{cel::Condition, field::FieldError};
use serde_json::Value;

use super::hook::{self, VARIABLES};

const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];

pub(crate) fn check(object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut names = BTreeSet::new();
    for (i, entry) in object["webhooks"].as_array().into_iter().flatten().enumerate() {
        let at = format!("webhooks[{i}]");
        let before = errors.len();
        let name = entry["name"].as_str().unwrap_or_default();
        if name.split('.').filter(|part| !part.is_empty()).count() < 3 {
            let detail = "should be a domain with at least three segments separated by dots";
            errors.push(FieldError::invalid(format!("{at}.name"), name, detail));
        }
        if !names.insert(name) {
            errors.push(FieldError::duplicate(format!("{at}.name"), name));
        }
        one_of(
            &mut errors,
            entry,
            &at,
            "sideEffects",
            &["None", "NoneOnDryRun"],
            true,
        );
        one_of(
            &mut errors,
            entry,
            &at,
            "failurePolicy",
            &["Fail", "Ignore"],
            false,
        );
        one_of(
            &mut errors,
            entry,
            &at,
            "matchPolicy",
            &["Equivalent", "Exact"],
            false,
        );
        one_of(
            &mut errors,
            entry,
            &at,
            "reinvocationPolicy",
            &["IfNeeded", "Never"],
            false,
        );
        let versions = entry["admissionReviewVersions"].as_array();
        if !versions.is_some_and(|versions| versions.iter().any(|version| version == "v1")) {
            let detail = "must include at least one of v1";
            let sent = entry["admissionReviewVersions"].clone();
            errors.push(FieldError::invalid(
                format!("{at}.admissionReviewVersions"),
                sent,
                detail,
            ));
        }
        if let Some(seconds) = entry["timeoutSeconds"].as_i64()
            && !(1..=30).contains(&seconds)
        {
            let detail = "the timeout value must be between 1 and 30 seconds";
            errors.push(FieldError::invalid(
                format!("{at}.timeoutSeconds"),
                seconds,
                detail,
            ));
        }
        rules(&mut errors, entry, &at);
        conditions(&mut errors, entry, &at);
        if errors.len() == before
            && let Err(why) = hook::read(entry)
        {
            let sent = entry["clientConfig"]["url"].clone();
            errors.push(FieldError::invalid(format!("{at}.clientConfig"), sent, why));
        }
    }
    errors
}

fn one_of(
    errors: &mut Vec<FieldError>,
    entry: &Value,
    at: &str,
    field: &str,
    allowed: &[&str],
    required: bool,
) {
    match entry[field].as_str() {
        None if required => {
            let detail = format!("must specify one of {}", allowed.join(", "));
            errors.push(FieldError::required(format!("{at}.{field}"), detail));
        }
        Some(value) if !allowed.contains(&value) => {
            let allowed = allowed.iter().copied();
            errors.push(FieldError::not_supported(format!("{at}.{field}"), value, allowed));
        }
        _ => {}
    }
}

fn rules(errors: &mut Vec<FieldError>, entry: &Value, at: &str) {
    for (i, rule) in entry["rules"].as_array().into_iter().flatten().enumerate() {
        for field in ["operations", "apiGroups", "apiVersions", "resources"] {
            let list = rule[field].as_array();
            if list.is_none_or(Vec::is_empty) {
                errors.push(FieldError::required(format!("{at}.rules[{i}].{field}"), ""));
            }
        }
        for (j, operation) in rule["operations"].as_array().into_iter().flatten().enumerate() {
            if !operation.as_str().is_some_and(|text| OPERATIONS.contains(&text)) {
                let field = format!("{at}.rules[{i}].operations[{j}]");
                errors.push(FieldError::not_supported(field, operation.clone(), OPERATIONS));
            }
        }
    }
}

fn conditions(errors: &mut Vec<FieldError>, entry: &Value, at: &str) {
    for (i, condition) in entry["matchConditions"]
        .as_array()
        .into_iter()
        .flatten()
        .enumerate()
    {
        let expression = condition["expression"].as_str().unwrap_or_default();
        let field = format!("{at}.matchConditions[{i}].expression");
        if let Err(why) = Condition::compile(expression, &VARIABLES) {
            errors.push(FieldError::invalid(field, expression, why));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn good() -> Value {
        json!({"webhooks": [{"name": "a.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"service": {"namespace": "n", "name": "s"}, "caBundle": ""},
            "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}],
            "matchConditions": [{"name": "c", "expression": "object.metadata.name != 'x'"}]}]})
    }

    #[test]
    fn wrong_fields_are_named() {
        assert!(check(&good()).is_empty(), "{:?}", check(&good()));
        for (pointer, value, field) in [
            ("/webhooks/0/name", json!("a"), "webhooks[0].name"),
            (
                "/webhooks/0/sideEffects",
                json!("Some"),
                "webhooks[0].sideEffects",
            ),
            ("/webhooks/0/sideEffects", Value::Null, "webhooks[0].sideEffects"),
            (
                "/webhooks/0/admissionReviewVersions",
                json!(["v2"]),
                "webhooks[0].admissionReviewVersions",
            ),
            (
                "/webhooks/0/rules/0/resources",
                json!([]),
                "webhooks[0].rules[0].resources",
            ),
            (
                "/webhooks/0/rules/0/operations/0",
                json!("READ"),
                "webhooks[0].rules[0].operations[0]",
            ),
            (
                "/webhooks/0/clientConfig/service",
                Value::Null,
                "webhooks[0].clientConfig",
            ),
            (
                "/webhooks/0/clientConfig/caBundle",
                json!("!"),
                "webhooks[0].clientConfig",
            ),
            (
                "/webhooks/0/matchConditions/0/expression",
                json!("object."),
                "webhooks[0].matchConditions[0].expression",
            ),
        ] {
            let mut object = good();
            *object.pointer_mut(pointer).unwrap() = value;
            let errors: Vec<String> = check(&object).iter().map(ToString::to_string).collect();
            assert!(
                errors.len() == 1 && errors[0].starts_with(field),
                "{pointer}: {errors:?}"
            );
        }
        let mut twice = good();
        let entry = twice["webhooks"][0].clone();
        twice["webhooks"].as_array_mut().unwrap().push(entry);
        assert_eq!(check(&twice).len(), 1);
    }
}
