//! What Kubernetes' object semantics must hold for any input.

use apimachinery::{
    cel::Condition,
    patch,
    quantity::Quantity,
    selector::{FieldSelector, LabelSelector},
};
use serde_json::{Value, json};

fn object() -> Value {
    json!({"apiVersion": "v1", "kind": "X", "metadata": {"name": "a", "labels": {"a": "b"}},
        "spec": {"list": [1, {"a": [true]}, "x"], "map": {"k": null}}})
}

/// Patches end in an object that can be written and read again, or in an error.
pub(crate) fn patches(data: &[u8]) {
    for result in [
        patch::json::apply(object(), data),
        patch::merge::apply(object(), data),
    ]
    .into_iter()
    .flatten()
    {
        let text = result.to_string();
        let read: Value = serde_json::from_str(&text).expect("what a patch makes can be read");
        assert_eq!(read, result);
    }
}

/// An expression is refused, or runs within its cost.
pub(crate) fn cel(data: &[u8]) {
    let Ok(source) = std::str::from_utf8(data) else {
        return;
    };
    if let Ok(condition) = Condition::compile(source, &["object"]) {
        let _ = condition.holds(&[("object", &object())]);
    }
}

/// What is parsed means the same when it is written and parsed again.
pub(crate) fn selectors(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let lookup = |key: &str| (key == "a").then_some("b");
    if let Ok(selector) = LabelSelector::parse(text) {
        let again = LabelSelector::parse(&selector.to_string()).expect("a selector");
        assert_eq!(again.to_string(), selector.to_string());
        assert_eq!(again.matches(lookup), selector.matches(lookup));
    }
    if let Ok(selector) = FieldSelector::parse(text) {
        let again = FieldSelector::parse(&selector.to_string()).expect("a selector");
        assert_eq!(again.matches(lookup), selector.matches(lookup));
    }
}

pub(crate) fn quantities(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Ok(quantity) = Quantity::parse(text) {
        let canonical = quantity.to_string();
        let again = Quantity::parse(&canonical).expect("a quantity");
        assert_eq!(again.to_string(), canonical);
        assert_eq!(again.sign(), quantity.sign());
    }
}
