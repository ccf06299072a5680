//! All groups, versions and resources in one document.

use serde_json::{Value, json};

use super::{accept::Form, kinds_of, ordered_groups};
use crate::registry::{Kind, Registry, Subresource};

/// The core group (`/api`) or all others (`/apis`).
pub(super) fn groups(registry: &Registry, core: bool, form: Form) -> Value {
    let items: Vec<Value> = ordered_groups(registry)
        .iter()
        .filter(|(group, _)| group.is_empty() == core)
        .map(|(group, versions)| group_of(registry, group, versions))
        .collect();
    json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": format!("apidiscovery.k8s.io/{}", form.version()),
        "metadata": {},
        "items": items,
    })
}

fn group_of(registry: &Registry, group: &str, versions: &[String]) -> Value {
    let versions: Vec<Value> = versions
        .iter()
        .map(|version| {
            let resources: Vec<Value> = kinds_of(registry, group, version).map(resource).collect();
            json!({"version": version, "freshness": "Current", "resources": resources})
        })
        .collect();
    let metadata = if group.is_empty() {
        json!({"creationTimestamp": null})
    } else {
        json!({"name": group, "creationTimestamp": null})
    };
    json!({"metadata": metadata, "versions": versions})
}

fn resource(kind: &Kind) -> Value {
    let mut resource = json!({
        "resource": kind.plural,
        "responseKind": {"group": kind.group, "version": kind.version, "kind": kind.kind},
        "scope": if kind.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": kind.singular,
        "verbs": kind.verbs,
    });
    super::add_names(kind, &mut resource);
    if !kind.subresources.is_empty() {
        resource["subresources"] = kind.subresources.iter().map(|s| subresource(kind, s)).collect();
    }
    resource
}

fn subresource(kind: &Kind, subresource: &Subresource) -> Value {
    let foreign = !subresource.version.is_empty();
    let (group, version) = if foreign {
        (&subresource.group, &subresource.version)
    } else {
        (&kind.group, &kind.version)
    };
    json!({
        "subresource": subresource.name,
        "responseKind": {"group": group, "version": version, "kind": subresource.kind},
        "verbs": subresource.verbs,
    })
}
