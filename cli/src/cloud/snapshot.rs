//! The objects of a namespace that make up a cloud, read once.

use c5c3_api::registry;
use futures::future::try_join_all;
use kube::Api;
use kube::api::{DynamicObject, ListParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::Value;

use super::sight::Sight;
use crate::failure::Failure;

/// Kinds of Kubernetes itself that a cloud consists of.
const BUILT_IN: [(&str, &str, &str, &str); 9] = [
    ("apps", "v1", "Deployment", "deployments"),
    ("apps", "v1", "DaemonSet", "daemonsets"),
    ("apps", "v1", "StatefulSet", "statefulsets"),
    ("apps", "v1", "ReplicaSet", "replicasets"),
    ("batch", "v1", "Job", "jobs"),
    ("", "v1", "Pod", "pods"),
    ("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims"),
    ("", "v1", "Service", "services"),
    ("", "v1", "Event", "events"),
];

#[derive(Clone, Debug, Default)]
pub(crate) struct Snapshot {
    pub objects: Vec<Value>,
}

impl Snapshot {
    pub(crate) fn of_kind<'a>(&'a self, group: &'a str, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        self.objects
            .iter()
            .filter(move |object| object["kind"] == kind && crate::cloud::health::group(object) == group)
    }
}

/// Field of an object that is in another cluster than the cloud: the name of that.
pub(crate) const CLUSTER: &str = "cluster";

/// Reads all of them at once; kinds that a cluster does not have are passed over. Of the clusters of
/// hypervisors only what Kubernetes itself has is read: kinds of ours are at home.
pub(crate) async fn read(sight: &Sight, namespace: &str) -> Result<Snapshot, Failure> {
    let built_in = || {
        BUILT_IN
            .iter()
            .map(|(group, version, kind, plural)| resource(group, version, kind, plural))
    };
    let ours = registry()
        .iter()
        .filter(|kind| kind.namespaced)
        .map(|kind| resource(&kind.group, &kind.version, &kind.kind, &kind.plural));
    let home = &sight.home.client;
    let lists = built_in()
        .chain(ours)
        .map(|resource| list(Api::namespaced_with(home.clone(), namespace, &resource), resource));
    let mut objects: Vec<Value> = try_join_all(lists).await?.into_iter().flatten().collect();
    for other in &sight.others {
        let client = &other.client;
        let lists = built_in().map(|resource| {
            list(
                Api::namespaced_with(client.clone(), namespace, &resource),
                resource,
            )
        });
        let mut there: Vec<Value> = try_join_all(lists).await?.into_iter().flatten().collect();
        for object in &mut there {
            object[CLUSTER] = other.name.clone().into();
        }
        objects.extend(there);
    }
    Ok(Snapshot { objects })
}

/// The nodes of every cluster, under its name.
pub(crate) async fn nodes(sight: &Sight) -> Result<Vec<Value>, Failure> {
    let mut all = Vec::new();
    for cluster in sight.clusters() {
        let resource = resource("", "v1", "Node", "nodes");
        let api = Api::all_with(cluster.client.clone(), &resource);
        for mut node in list(api, resource).await? {
            node[CLUSTER] = cluster.name.clone().into();
            all.push(node);
        }
    }
    Ok(all)
}

/// What agents report about the hypervisors of every cluster, under its name.
pub(crate) async fn hosts(sight: &Sight) -> Result<Vec<Value>, Failure> {
    let told = ["Hypervisor", "OVSNode"];
    let kinds = || {
        registry()
            .iter()
            .filter(|kind| told.contains(&kind.kind.as_str()))
    };
    let mut all = Vec::new();
    for cluster in sight.clusters() {
        for kind in kinds() {
            let resource = resource(&kind.group, &kind.version, &kind.kind, &kind.plural);
            let api = Api::all_with(cluster.client.clone(), &resource);
            for mut object in list(api, resource).await? {
                object[CLUSTER] = cluster.name.clone().into();
                all.push(object);
            }
        }
    }
    Ok(all)
}

fn resource(group: &str, version: &str, kind: &str, plural: &str) -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural)
}

async fn list(api: Api<DynamicObject>, resource: ApiResource) -> Result<Vec<Value>, Failure> {
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
