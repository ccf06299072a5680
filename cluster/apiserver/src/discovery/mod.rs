//! Discovery documents: pure functions of a registry snapshot.

mod accept;
mod aggregated;
mod legacy;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::{
    registry::{Kind, Registry},
    serve::Document,
};

use accept::Form;

/// Answers `/api`, `/api/v1`, `/apis`, `/apis/<group>` and `/apis/<group>/<version>` in the legacy and
/// the aggregated form, as `accept` asks. `None`: no such path.
pub fn document(registry: &Registry, path: &str, accept: &str) -> Option<Document> {
    let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    let root = |core: bool, plain: Value| match accept::negotiate(accept) {
        Form::Plain => json("application/json", &plain),
        form => json(form.content_type(), &aggregated::groups(registry, core, form)),
    };
    Some(match segments.as_slice() {
        ["api"] => root(true, legacy::versions(registry)),
        ["apis"] => root(false, legacy::groups(registry)),
        ["api", version] => json("application/json", &legacy::resources(registry, "", version)?),
        ["apis", group] => json("application/json", &legacy::group(registry, group)?),
        ["apis", group, version] => json("application/json", &legacy::resources(registry, group, version)?),
        _ => return None,
    })
}

fn json(content_type: &'static str, value: &Value) -> Document {
    // A Value always serialises: its keys are strings.
    let body = serde_json::to_vec(value).unwrap_or_default();
    Document {
        content_type,
        etag: Some(format!("\"{}\"", hash(&body))),
        body: body.into(),
    }
}

/// Short names and categories, where a kind has them.
fn add_names(kind: &Kind, resource: &mut Value) {
    for (field, names) in [
        ("shortNames", &kind.short_names),
        ("categories", &kind.categories),
    ] {
        if !names.is_empty() {
            resource[field] = json!(names);
        }
    }
}

/// A short name of a document's content.
pub(crate) fn hash(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    hex::encode_upper(&digest[..16])
}

/// Groups in the order in which they were registered, each with its versions, the preferred first.
fn ordered_groups(registry: &Registry) -> Vec<(String, Vec<String>)> {
    let mut versions = registry.groups();
    let mut groups = Vec::new();
    for kind in registry.kinds() {
        if let Some(versions) = versions.remove(&kind.group) {
            groups.push((kind.group.clone(), versions));
        }
    }
    groups
}

fn kinds_of<'a>(registry: &'a Registry, group: &'a str, version: &'a str) -> impl Iterator<Item = &'a Kind> {
    registry
        .kinds()
        .iter()
        .map(AsRef::as_ref)
        .filter(move |kind| kind.group == group && kind.version == version)
}

#[cfg(test)]
mod tests;
