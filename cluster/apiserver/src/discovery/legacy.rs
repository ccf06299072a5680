//! One document for each group and each version.

use crate::verb::Verb;
use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{kinds_of, ordered_groups};
use crate::registry::{Kind, Registry, Subresource, api_version};

/// `/api`
pub(super) fn versions(registry: &Registry) -> Value {
    json!({
        "kind": "APIVersions",
        "versions": registry.groups().get("").cloned().unwrap_or_default(),
        "serverAddressByClientCIDRs": [],
    })
}

/// `/apis`
pub(super) fn groups(registry: &Registry) -> Value {
    let groups: Vec<Value> = ordered_groups(registry)
        .iter()
        .filter(|(group, _)| !group.is_empty())
        .map(|(group, versions)| group_of(group, versions))
        .collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// `/apis/<group>`
pub(super) fn group(registry: &Registry, name: &str) -> Option<Value> {
    let versions = registry.groups().remove(name).filter(|_| !name.is_empty())?;
    let mut group = group_of(name, &versions);
    group["kind"] = json!("APIGroup");
    group["apiVersion"] = json!("v1");
    Some(group)
}

fn group_of(group: &str, versions: &[String]) -> Value {
    let entry = |version: &String| json!({"groupVersion": api_version(group, version), "version": version});
    json!({
        "name": group,
        "versions": versions.iter().map(entry).collect::<Vec<_>>(),
        "preferredVersion": versions.first().map(entry),
    })
}

/// `/api/<version>` and `/apis/<group>/<version>`
pub(super) fn resources(registry: &Registry, group: &str, version: &str) -> Option<Value> {
    let mut resources = Vec::new();
    for kind in kinds_of(registry, group, version) {
        resources.push(resource(kind));
        resources.extend(kind.subresources.iter().map(|s| subresource(kind, s)));
    }
    if resources.is_empty() {
        return None;
    }
    Some(json!({
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": api_version(group, version),
        "resources": resources,
    }))
}

fn resource(kind: &Kind) -> Value {
    let mut resource = json!({
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": kind.verbs,
    });
    super::add_names(kind, &mut resource);
    if kind.allows(&Verb::List) {
        resource["storageVersionHash"] = json!(storage_version_hash(kind));
    }
    resource
}

/// Clients that migrate stored objects compare it; Kubernetes makes it in this very way.
fn storage_version_hash(kind: &Kind) -> String {
    let stored = format!("{}/{}/{}", kind.group, kind.storage_version, kind.kind);
    STANDARD.encode(&Sha256::digest(stored)[..8])
}

fn subresource(kind: &Kind, subresource: &Subresource) -> Value {
    let mut resource = json!({
        "name": format!("{}/{}", kind.plural, subresource.name),
        "singularName": "",
        "namespaced": kind.namespaced,
        "kind": subresource.kind,
        "verbs": subresource.verbs,
    });
    for (field, text) in [("group", &subresource.group), ("version", &subresource.version)] {
        if !text.is_empty() {
            resource[field] = json!(text);
        }
    }
    resource
}
