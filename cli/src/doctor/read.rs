//! Reads a cluster once. What the account may not see stays unknown.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::join_all;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Node as KubeNode, Pod};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::ListParams;
use kube::client::Body;
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;

use super::{Class, Facts, Node};
use crate::failure::Failure;

const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";
/// Where the nodes' signs of life are.
const SIGNS: &str = "kube-node-lease";
const PART_OF: &str = "app.kubernetes.io/part-of";
const PATIENCE: Duration = Duration::from_secs(5);

pub(crate) async fn read(
    client: &Client,
    cloud: &str,
    home: &str,
    registry: Option<&str>,
) -> Result<Facts, Failure> {
    let version = client.apiserver_version().await?;
    let now = server_time(client).await?;
    let (kinds, classes, namespaces, nodes, signs, operators, reachable) = tokio::join!(
        kinds(client),
        list::<StorageClass>(Api::all(client.clone())),
        list::<Namespace>(Api::all(client.clone())),
        list::<KubeNode>(Api::all(client.clone())),
        list::<Lease>(Api::namespaced(client.clone(), SIGNS)),
        operators(client),
        async {
            match registry {
                Some(name) => Some((name.to_owned(), reach(name).await)),
                None => None,
            }
        },
    );
    let signs = signs?.unwrap_or_default();
    let mut pulls = Vec::new();
    for namespace in BTreeSet::from([cloud, home]) {
        let pods = list::<Pod>(Api::namespaced(client.clone(), namespace)).await?;
        pulls.extend(pods.iter().flatten().filter_map(without_image));
    }
    Ok(Facts {
        version: version.git_version,
        kinds: kinds?,
        classes: classes?.map(|all| all.iter().map(class).collect()),
        namespaces: namespaces?.map(|all| {
            all.iter()
                .map(|one| (one.name_any(), one.labels().clone()))
                .collect()
        }),
        cloud: cloud.to_owned(),
        home: home.to_owned(),
        nodes: nodes?.map(|all| all.iter().map(|one| node(one, &signs, now)).collect()),
        operators: operators?.map(|all| all.iter().map(|one| (one.name_any(), serves(one))).collect()),
        pulls,
        skew: now.map(|now| now.as_second() - Timestamp::now().as_second()),
        registry: reachable,
    })
}

/// Our own are labelled, wherever they were installed.
async fn operators(client: &Client) -> Result<Option<Vec<Deployment>>, Failure> {
    let found = list::<Deployment>(Api::all(client.clone())).await?;
    let ours = |one: &Deployment| one.labels().get(PART_OF).is_some_and(|part| part == "c5c3");
    Ok(found.map(|all| all.into_iter().filter(ours).collect()))
}

/// `None` where we may not look, or the server does not have the kind.
async fn list<K>(api: Api<K>) -> Result<Option<Vec<K>>, Failure>
where
    K: Resource + Clone + std::fmt::Debug + DeserializeOwned,
{
    match api.list(&ListParams::default()).await {
        Ok(found) => Ok(Some(found.items)),
        Err(kube::Error::Api(status)) if [403, 404].contains(&status.code) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// `Kind.group` of every group in its served versions.
async fn kinds(client: &Client) -> Result<BTreeSet<String>, Failure> {
    let groups = client.list_api_groups().await?;
    let mut versions = Vec::new();
    for group in &groups.groups {
        versions.extend(
            group
                .versions
                .iter()
                .map(|version| (&group.name, &version.group_version)),
        );
    }
    let asked = versions.into_iter().map(async |(group, version)| {
        // A group whose server is away hides no other.
        let found = client.list_api_group_resources(version).await;
        let resources = found.map(|list| list.resources).unwrap_or_default();
        let kinds = resources
            .into_iter()
            .map(move |resource| format!("{}.{group}", resource.kind));
        kinds.collect::<Vec<_>>()
    });
    Ok(join_all(asked).await.into_iter().flatten().collect())
}

/// By the header `Date`.
async fn server_time(client: &Client) -> Result<Option<Timestamp>, Failure> {
    let request = http::Request::get("/version").body(Body::empty())?;
    let answer = client.send(request).await?;
    let date = answer.headers().get(http::header::DATE);
    Ok(date.and_then(|date| date.to_str().ok()).and_then(timestamp))
}

/// `Wed, 18 Nov 2026 02:16:18 GMT`
fn timestamp(text: &str) -> Option<Timestamp> {
    let zoned = jiff::fmt::rfc2822::parse(text).ok()?;
    Some(zoned.timestamp())
}

fn class(class: &StorageClass) -> Class {
    let marked = class.annotations().get(DEFAULT_CLASS);
    Class {
        name: class.name_any(),
        is_default: marked.is_some_and(|value| value == "true"),
    }
}

fn node(node: &KubeNode, signs: &[Lease], now: Option<Timestamp>) -> Node {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    let ready = conditions.into_iter().flatten().find(|one| one.type_ == "Ready");
    let sign = signs.iter().find(|lease| lease.name_any() == node.name_any());
    let sign = sign.and_then(|lease| lease.spec.as_ref()?.renew_time.clone());
    Node {
        name: node.name_any(),
        labels: node.labels().clone(),
        ready: ready.is_some_and(|one| one.status == "True"),
        ahead: sign
            .zip(now)
            .map(|(sign, now)| sign.0.as_second() - now.as_second()),
    }
}

fn serves(deployment: &Deployment) -> bool {
    let status = deployment.status.as_ref();
    status
        .and_then(|status| status.available_replicas)
        .is_some_and(|up| up > 0)
}

/// The pod's name, when one of its containers waits for an image that is not to be had.
fn without_image(pod: &Pod) -> Option<String> {
    let status = pod.status.as_ref()?;
    let containers = status
        .init_container_statuses
        .iter()
        .chain(&status.container_statuses);
    let mut waiting = containers
        .flatten()
        .filter_map(|container| container.state.as_ref()?.waiting.as_ref()?.reason.as_deref());
    let lacks = waiting.any(|reason| reason.contains("ImagePull") || reason == "ErrImageNeverPull");
    lacks.then(|| pod.name_any())
}

/// Whether somebody listens there.
async fn reach(registry: &str) -> Result<(), String> {
    let host = registry.split('/').next().unwrap_or(registry);
    let address = match host.rsplit_once(':') {
        Some(_) => host.to_owned(),
        None => format!("{host}:443"),
    };
    match tokio::time::timeout(PATIENCE, tokio::net::TcpStream::connect(&address)).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("no answer within {} s", PATIENCE.as_secs())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn signs_of_life_are_compared_with_the_servers_clock() {
        let now = timestamp("Wed, 18 Nov 2026 02:16:18 GMT").expect("a time");
        let object = json!({"metadata": {"name": "n1"},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        let lease = json!({"metadata": {"name": "n1"}, "spec": {"renewTime": "2026-11-18T02:17:18.000000Z"}});
        let object: KubeNode = serde_json::from_value(object).expect("a node");
        let lease: Lease = serde_json::from_value(lease).expect("a lease");
        let seen = node(&object, &[lease], Some(now));
        assert_eq!((seen.ready, seen.ahead), (true, Some(60)));
    }

    #[test]
    fn a_pod_without_its_image_is_found() {
        let pod = |reason: &str| -> Pod {
            serde_json::from_value(
                json!({"metadata": {"name": "p"}, "status": {"containerStatuses": [
                {"name": "c", "ready": false, "restartCount": 0, "image": "i", "imageID": "",
                 "state": {"waiting": {"reason": reason}}}]}}),
            )
            .expect("a pod")
        };
        assert_eq!(without_image(&pod("ImagePullBackOff")).as_deref(), Some("p"));
        assert_eq!(without_image(&pod("ContainerCreating")), None);
    }

    #[tokio::test]
    async fn nobody_listens_and_somebody_does() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
            .await
            .expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        assert_eq!(reach(&format!("{address}/path")).await, Ok(()));
        drop(listener);
        assert!(reach(&address).await.is_err());
    }

    #[test]
    fn operators_without_a_replica_do_not_serve() {
        let deployment = |up: i32| -> Deployment {
            serde_json::from_value(
                json!({"metadata": {"name": "d"}, "status": {"availableReplicas": up},
                "spec": {"selector": {}, "template": {}}}),
            )
            .expect("a Deployment")
        };
        assert!(serves(&deployment(1)) && !serves(&deployment(0)));
    }
}
