//! Built-in kinds, read from the schemas of Kubernetes itself.

use crate::verb::Verb;
use std::sync::{Arc, LazyLock};

use apimachinery::openapi::{ObjectType, builtin_document};
use serde::Deserialize;

use super::{Column, Kind, Schema, Subresource};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    group: String,
    version: String,
    kind: String,
    definition: String,
    plural: String,
    singular: String,
    #[serde(default)]
    short_names: Vec<String>,
    #[serde(default)]
    categories: Vec<String>,
    namespaced: bool,
    verbs: Vec<Verb>,
    #[serde(default)]
    subresources: Vec<Subresource>,
    #[serde(default)]
    columns: Vec<Column>,
}

static KINDS: LazyLock<Vec<Arc<Kind>>> = LazyLock::new(|| {
    let document = builtin_document();
    // The document is part of the program and the tests read it: a parse error cannot reach a user.
    let defaults =
        Vec::<Column>::deserialize(&document["defaultColumns"]).expect("default columns are valid");
    let entries = Vec::<Entry>::deserialize(&document["resources"]).expect("built-in resources are valid");
    entries
        .into_iter()
        // Needs a real conversion to v2, which is the version that clients use.
        .filter(|entry| !(entry.group == "autoscaling" && entry.version == "v1"))
        .map(|entry| Arc::new(kind(entry, &defaults)))
        .collect()
});

pub(super) fn kinds() -> Vec<Arc<Kind>> {
    KINDS.clone()
}

fn kind(entry: Entry, defaults: &[Column]) -> Kind {
    let reset_fields = reset_fields(&entry);
    let selectable = selectable(&entry.group, &entry.plural);
    let types = ObjectType::builtin(&entry.definition)
        .map(|ty| (super::api_version(&entry.group, &entry.version), ty))
        .into_iter()
        .collect();
    Kind {
        list_kind: format!("{}List", entry.kind),
        storage_version: entry.version.clone(),
        group: entry.group,
        version: entry.version,
        kind: entry.kind,
        plural: entry.plural,
        singular: entry.singular,
        short_names: entry.short_names,
        categories: entry.categories,
        namespaced: entry.namespaced,
        verbs: entry.verbs,
        subresources: entry.subresources,
        columns: if entry.columns.is_empty() {
            defaults.to_vec()
        } else {
            entry.columns
        },
        schema: Schema::Builtin(entry.definition),
        reset_fields,
        selectable,
        deprecated: None,
        types,
    }
}

fn reset_fields(entry: &Entry) -> Vec<(String, Vec<String>)> {
    if !entry
        .subresources
        .iter()
        .any(|subresource| subresource.name == "status")
    {
        return Vec::new();
    }
    let of_status: &[&str] = match (entry.group.as_str(), entry.plural.as_str()) {
        ("apps", "deployments") => &["spec", "metadata.labels"],
        ("", "pods") => &["spec", "metadata.deletionTimestamp", "metadata.ownerReferences"],
        ("apiextensions.k8s.io", _) => &["spec", "metadata"],
        _ => &["spec"],
    };
    let of_status = of_status.iter().map(|&path| path.to_owned()).collect();
    vec![
        (String::new(), vec!["status".to_owned()]),
        ("status".to_owned(), of_status),
    ]
}

fn selectable(group: &str, plural: &str) -> Vec<String> {
    let paths: &[&str] = match (group, plural) {
        ("", "pods") => &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ],
        ("", "nodes") => &["spec.unschedulable"],
        ("", "namespaces") => &["status.phase"],
        ("", "secrets") => &["type"],
        ("", "services") => &["spec.clusterIP", "spec.type"],
        ("", "replicationcontrollers") => &["status.replicas"],
        ("" | "events.k8s.io", "events") => &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "regarding.kind",
            "regarding.namespace",
            "regarding.name",
            "regarding.uid",
            "reason",
            "reportingComponent",
            "reportingController",
            "source",
            "type",
        ],
        ("apps", "replicasets") => &["status.replicas"],
        ("batch", "jobs") => &["status.successful"],
        ("certificates.k8s.io", _) => &["spec.signerName"],
        _ => &[],
    };
    paths.iter().map(|&path| path.to_owned()).collect()
}
