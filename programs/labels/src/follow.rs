//! Pods that lack labels of their node: those that the API server did not ask about, and those of nodes whose
//! labels changed.

use std::collections::{BTreeMap, BTreeSet};

use c5c3_kit::fault::{pause, plain};
use c5c3_kit::{Metrics, watching};
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt, TryStreamExt};
use futures::{FutureExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams, Patch, PatchParams};
use kube::core::{ApiResource, Object};
use kube::runtime::watcher::{Config, Event};
use kube::{Client, ResourceExt};
use tokio::sync::broadcast::error::RecvError;

use crate::NAME;
use crate::change::{Change, MARK, change};
use crate::nodes::Nodes;

/// Writes at a time.
const AT_ONCE: usize = 8;
/// Pods in an answer.
const PAGE: u32 = 500;

/// Of a pod only what is needed: a cluster has many.
pub(crate) type Lean = Object<Where, Phase>;

#[derive(Clone, Debug, Default, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Where {
    pub node_name: Option<String>,
}

#[derive(Clone, Debug, Default, serde::Deserialize, serde::Serialize)]
#[serde(default)]
pub(crate) struct Phase {
    pub phase: Option<String>,
}

/// What is left to do for a node after a failure; `None`: for all of them.
type Place = Option<String>;
type Job = BoxFuture<'static, (Place, Result<(), kube::Error>)>;

#[derive(Clone)]
struct Follower {
    client: Client,
    resource: ApiResource,
    nodes: Nodes,
    metrics: Metrics,
}

/// For ever.
pub(crate) async fn pods(client: Client, nodes: Nodes, metrics: Metrics) {
    nodes.complete().await;
    // Before the first list, so that no change falls between the two.
    let mut changes = nodes.changes();
    let follower = Follower {
        resource: ApiResource::erase::<Pod>(&()),
        client,
        nodes,
        metrics,
    };
    let all: Api<Lean> = Api::all_with(follower.client.clone(), &follower.resource);
    let mut events = watching(all, &follower.resource, Config::default());
    let mut jobs: FuturesUnordered<Job> = FuturesUnordered::new();
    let mut later: FuturesUnordered<BoxFuture<'static, Place>> = FuturesUnordered::new();
    let mut waiting: BTreeSet<Place> = BTreeSet::new();
    let mut failures: BTreeMap<Place, u32> = BTreeMap::new();
    loop {
        let free = jobs.len() < AT_ONCE;
        tokio::select! {
            Some((place, done)) = jobs.next(), if !jobs.is_empty() => match done {
                Ok(()) => _ = failures.remove(&place),
                Err(error) => {
                    tracing::warn!(node = place.as_deref(), "cannot write labels: {}", plain(&error));
                    let count = failures.entry(place.clone()).or_default();
                    *count += 1;
                    // One look at the node makes up for all of its pods that failed.
                    if waiting.insert(place.clone()) {
                        let wait = tokio::time::sleep(pause(*count, rand::random()));
                        later.push(wait.map(move |()| place).boxed());
                    }
                }
            },
            Some(place) = later.next(), if free && !later.is_empty() => {
                waiting.remove(&place);
                jobs.push(follower.look(place));
            }
            change = changes.recv(), if free => match change {
                Ok(node) => jobs.push(follower.look(Some(node))),
                // Too many at once: all pods, then.
                Err(RecvError::Lagged(_)) => jobs.push(follower.look(None)),
                Err(RecvError::Closed) => return,
            },
            event = events.next(), if free => match event {
                Some(Ok(Event::Apply(pod) | Event::InitApply(pod))) => {
                    if let Some(change) = follower.lacks(&pod) {
                        jobs.push(follower.clone().mend(pod, change));
                    }
                }
                Some(Ok(Event::Init | Event::InitDone | Event::Delete(_))) => {}
                Some(Err(error)) => {
                    tracing::warn!("cannot watch pods: {error}");
                    follower.metrics.watch_failed("labels", "Pod");
                }
                None => return,
            },
        }
    }
}

impl Follower {
    fn lacks(&self, pod: &Lean) -> Option<Change> {
        let over = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        if matches!(over, Some("Succeeded" | "Failed")) || pod.metadata.deletion_timestamp.is_some() {
            return None;
        }
        let node = self.nodes.labels(pod.spec.node_name.as_deref()?)?;
        let mark = pod.annotations().get(MARK).map(String::as_str);
        let change = change(&self.nodes.keys, &node, pod.metadata.labels.as_ref(), mark);
        (!change.is_nothing()).then_some(change)
    }

    fn mend(self, pod: Lean, change: Change) -> Job {
        let place = pod.spec.node_name.clone();
        async move { (place, self.write(&pod, &change).await) }.boxed()
    }

    async fn write(&self, pod: &Lean, change: &Change) -> Result<(), kube::Error> {
        let namespace = pod.namespace().unwrap_or_default();
        let api: Api<Lean> = Api::namespaced_with(self.client.clone(), &namespace, &self.resource);
        let patch = Patch::Merge(change.merge_patch(pod.metadata.uid.as_deref()));
        let params = PatchParams {
            field_manager: Some(NAME.to_owned()),
            ..PatchParams::default()
        };
        match api.patch_metadata(&pod.name_any(), &params, &patch).await {
            Ok(_) => self.metrics.wrote("labels", "Pod", "patch"),
            // It is gone, or another of its name has come, whose own event follows.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Looks at all pods of a node.
    fn look(&self, place: Place) -> Job {
        let follower = self.clone();
        async move {
            let done = follower.mend_all(place.as_deref()).await;
            (place, done)
        }
        .boxed()
    }

    async fn mend_all(&self, node: Option<&str>) -> Result<(), kube::Error> {
        let api: Api<Lean> = Api::all_with(self.client.clone(), &self.resource);
        let mut params = ListParams::default().limit(PAGE);
        if let Some(node) = node {
            params = params.fields(&format!("spec.nodeName={node}"));
        }
        loop {
            let page = api.list(&params).await?;
            let lacking = page
                .items
                .iter()
                .filter_map(|pod| Some(Ok::<_, kube::Error>((pod, self.lacks(pod)?))));
            stream::iter(lacking)
                .try_for_each_concurrent(
                    AT_ONCE,
                    |(pod, change)| async move { self.write(pod, &change).await },
                )
                .await?;
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(()),
            }
        }
    }
}
