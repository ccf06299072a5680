//! What Kubernetes' object semantics must hold for any input.

use std::sync::LazyLock;

use apimachinery::{
    cel::Condition,
    openapi::ObjectType,
    patch,
    quantity::Quantity,
    selector::{FieldSelector, LabelSelector},
    ssa::{FieldManager, FieldSet, Version},
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

static POD: LazyLock<ObjectType> =
    LazyLock::new(|| ObjectType::builtin("core.v1.Pod").expect("a built-in kind"));

fn pod() -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "labels": {"a": "b"}, "finalizers": ["x/y"]},
        "spec": {"containers": [{"name": "c", "image": "i", "env": [{"name": "A", "value": "1"}],
            "ports": [{"containerPort": 80, "protocol": "TCP"}]}],
            "volumes": [{"name": "v", "emptyDir": {}}]}})
}

/// A strategic patch ends in an object that can be written and read again, or in an error.
pub(crate) fn strategic(data: &[u8]) {
    if let Ok(result) = patch::strategic::apply(pod(), data, &POD) {
        let read: Value = serde_json::from_str(&result.to_string()).expect("what a patch makes can be read");
        assert_eq!(read, result);
    }
}

/// What was applied can be applied again by the same manager and changes nothing; others meet it as an
/// object like any other.
pub(crate) fn apply(data: &[u8]) {
    let Ok(applied) = serde_json::from_slice::<Value>(data) else {
        return;
    };
    let version = Version {
        api_version: "v1".to_owned(),
        ty: POD.clone(),
        reset: FieldSet::of_fields(&["status"]),
    };
    let manager = FieldManager::new("", "v1", "Pod", "", vec![version]);
    let now = "2026-01-01T00:00:00Z";
    let apply = |live: Value, who: &str, force: bool| manager.apply(live, &applied, who, force, now, |_| {});
    if let Ok(made) = apply(manager.empty_object(), "one", false) {
        let again = apply(made.clone(), "one", false).expect("it was applied before");
        assert_eq!(again, made);
        let other = apply(made, "other", false).expect("the same values are no conflict");
        let read: Value = serde_json::from_str(&other.to_string()).expect("it can be read");
        assert_eq!(read, other);
    }
    let _ = apply(pod(), "one", false);
    let _ = apply(pod(), "one", true);
    // What clients send as ownership is read, or replaced.
    let mut owned = pod();
    owned["metadata"]["managedFields"] = applied["metadata"]["managedFields"].clone();
    let _ = manager.update(&pod(), owned.clone(), "two", now);
    let _ = apply(owned, "two", true);
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
