//! From client-side to server-side apply: kubectl keeps what it applied in an
//! annotation.

use serde_json::{Map, Value};

use super::set::FieldSet;
use super::typed;
use crate::field::text;
use crate::openapi::ObjectType;

/// The only manager for which the annotation counts.
pub(crate) const MANAGER: &str = "kubectl";
const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// All annotations of an object together may not be larger.
const MAX_ANNOTATIONS: usize = 256 * 1024;

/// The fields that kubectl applied and that still have the value it gave them.
pub(crate) fn owned(live: &Value, ty: &ObjectType, api_version: &str, kind: &str) -> Option<FieldSet> {
    let text = annotation(live)?;
    let applied: Value = serde_json::from_str(text).ok()?;
    if applied["apiVersion"] != api_version || applied["kind"] != kind {
        return None;
    }
    for object in [live, &applied] {
        typed::validate(&ty.schema, ty.root, object, false).ok()?;
    }
    let mut set = typed::field_set(&ty.schema, ty.root, &applied);
    let changes = typed::compare(&ty.schema, ty.root, &applied, live);
    set.subtract(&changes.modified);
    set.subtract(&changes.added);
    set.subtract(&changes.removed);
    Some(set)
}

fn annotation(object: &Value) -> Option<&str> {
    let text = object["metadata"]["annotations"][ANNOTATION].as_str()?;
    (!text.is_empty()).then_some(text)
}

/// Brings an annotation that is there up to date with what was applied.
pub(crate) fn refresh(object: &mut Value, applied: &Value) {
    if annotation(object).is_none() {
        return;
    }
    let mut applied = applied.clone();
    if let Some(metadata) = applied.get_mut("metadata").and_then(Value::as_object_mut) {
        match metadata.get_mut("annotations") {
            Some(Value::Object(annotations)) => {
                annotations.remove(ANNOTATION);
                nulls_to_text(annotations);
            }
            _ => {
                metadata.remove("annotations");
            }
        }
    }
    let mut text = text::json(&applied);
    text.push('\n');
    let annotations = object
        .get_mut("metadata")
        .and_then(|metadata| metadata.get_mut("annotations"))
        .and_then(Value::as_object_mut);
    if let Some(annotations) = annotations {
        nulls_to_text(annotations);
        annotations.insert(ANNOTATION.to_owned(), Value::String(text));
        if size(annotations) > MAX_ANNOTATIONS {
            annotations.remove(ANNOTATION);
        }
    }
}

/// Annotations are read as texts: null is the empty one.
fn nulls_to_text(annotations: &mut Map<String, Value>) {
    for value in annotations.values_mut().filter(|value| value.is_null()) {
        *value = Value::from("");
    }
}

fn size(annotations: &Map<String, Value>) -> usize {
    annotations
        .iter()
        .map(|(key, value)| key.len() + value.as_str().map_or(0, str::len))
        .sum()
}
