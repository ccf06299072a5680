//! The objects of a namespace that make up a cloud, read once.

use c5c3_api::registry;
use futures::future::try_join_all;
use kube::api::{DynamicObject, ListParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use serde_json::Value;

use crate::failure::Failure;

/// Kinds of Kubernetes itself that a cloud consists of.
const BUILT_IN: [(&str, &str, &str, &str); 8] = [
    ("apps", "v1", "Deployment", "deployments"),
    ("apps", "v1", "StatefulSet", "statefulsets"),
    ("apps", "v1", "ReplicaSet", "replicasets"),
    ("batch", "v1", "Job", "jobs"),
    ("", "v1", "Pod", "pods"),
    ("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims"),
    ("", "v1", "Service", "services"),
    ("", "v1", "Event", "events"),
];

#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    pub objects: Vec<Value>,
}

impl Snapshot {
    pub fn of_kind<'a>(&'a self, group: &'a str, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        self.objects
            .iter()
            .filter(move |object| object["kind"] == kind && crate::cloud::health::group(object) == group)
    }
}

/// Reads all of them at once; kinds that the cluster does not have are passed over.
pub async fn read(client: &Client, namespace: &str) -> Result<Snapshot, Failure> {
    let built_in = BUILT_IN
        .iter()
        .map(|(group, version, kind, plural)| resource(group, version, kind, plural));
    let ours = registry()
        .iter()
        .filter(|kind| kind.namespaced)
        .map(|kind| resource(&kind.group, &kind.version, &kind.kind, &kind.plural));
    let lists = built_in
        .chain(ours)
        .map(|resource| list(client, namespace, resource));
    let objects = try_join_all(lists).await?.into_iter().flatten().collect();
    Ok(Snapshot { objects })
}

fn resource(group: &str, version: &str, kind: &str, plural: &str) -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural)
}

async fn list(client: &Client, namespace: &str, resource: ApiResource) -> Result<Vec<Value>, Failure> {
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
    let found = match api.list(&ListParams::default()).await {
        Ok(found) => found,
        Err(kube::Error::Api(status)) if status.code == 404 => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    found
        .items
        .into_iter()
        .map(|object| {
            let mut value = serde_json::to_value(object)?;
            // Lists leave these out of their items.
            value["apiVersion"] = resource.api_version.clone().into();
            value["kind"] = resource.kind.clone().into();
            Ok(value)
        })
        .collect()
}
