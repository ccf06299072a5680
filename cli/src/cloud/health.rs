//! The names and owners of objects, as they are shown.

pub(crate) use c5c3_api::health::{Health, Trouble, counts, of as health};
use c5c3_kit::ownership::OWNER_UID;
use serde_json::Value;

/// Whether one belongs to the other: by a reference, or by our mark where none is possible.
pub(crate) fn is_owned(object: &Value, uid: &str) -> bool {
    let owners = object
        .pointer("/metadata/ownerReferences")
        .and_then(Value::as_array);
    let mut owners = owners.into_iter().flatten();
    let marked = object
        .pointer("/metadata/labels")
        .map_or("", |labels| labels[OWNER_UID].as_str().unwrap_or_default());
    !uid.is_empty() && (marked == uid || owners.any(|owner| text(owner, "/uid") == uid))
}

pub(crate) fn text<'a>(object: &'a Value, path: &str) -> &'a str {
    object.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

pub(crate) fn name(object: &Value) -> &str {
    text(object, "/metadata/name")
}

pub(crate) fn kind(object: &Value) -> &str {
    text(object, "/kind")
}

/// The API group; empty for the core of Kubernetes.
pub(crate) fn group(object: &Value) -> &str {
    text(object, "/apiVersion")
        .rsplit_once('/')
        .map_or("", |(group, _)| group)
}
