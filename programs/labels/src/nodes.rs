//! The labels of all nodes, as their pods are to have them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use c5c3_kit::watching;
use futures::StreamExt;
use k8s_openapi::api::core::v1::Node;
use kube::api::Api;
use kube::core::{ApiResource, PartialObjectMeta};
use kube::runtime::watcher::{Config, Event};
use kube::{Client, ResourceExt};
use tokio::sync::{broadcast, watch};

use crate::change::{Labels, of_node};

/// Names of changed nodes that may wait; whoever falls further behind looks at all pods.
const WAITING: usize = 4096;

/// Cheap to clone; every clone is the same picture.
#[derive(Clone)]
pub(crate) struct Nodes {
    pub keys: Arc<Vec<String>>,
    known: Arc<Mutex<BTreeMap<String, Labels>>>,
    changed: broadcast::Sender<String>,
    complete: watch::Sender<bool>,
}

impl Nodes {
    pub(crate) fn new(keys: Vec<String>) -> Self {
        Nodes {
            keys: Arc::new(keys),
            known: Arc::default(),
            changed: broadcast::Sender::new(WAITING),
            complete: watch::Sender::new(false),
        }
    }

    /// `None`: there is no such node.
    pub(crate) fn labels(&self, node: &str) -> Option<Labels> {
        self.known().get(node).cloned()
    }

    /// Names of nodes whose labels are others than before.
    pub(crate) fn changes(&self) -> broadcast::Receiver<String> {
        self.changed.subscribe()
    }

    /// Resolves once every node is known.
    pub(crate) async fn complete(&self) {
        // The sender lives as long as this.
        let _ = self.complete.subscribe().wait_for(|complete| *complete).await;
    }

    fn known(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Labels>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, node: &PartialObjectMeta<Node>) {
        let labels = of_node(&self.keys, node.metadata.labels.as_ref());
        let before = self.known().insert(node.name_any(), labels.clone());
        // Nobody listening is fine: who comes later looks at all pods.
        if before.as_ref() != Some(&labels) {
            let _ = self.changed.send(node.name_any());
        }
    }

    /// For ever.
    pub(crate) async fn follow(&self, client: Client) {
        let api: Api<PartialObjectMeta<Node>> = Api::all(client);
        let mut events = watching(api, &ApiResource::erase::<Node>(&()), Config::default());
        let mut listed: Option<BTreeSet<String>> = None;
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => listed = Some(BTreeSet::new()),
                Ok(Event::InitApply(node)) => {
                    self.put(&node);
                    listed.get_or_insert_default().insert(node.name_any());
                }
                Ok(Event::InitDone) => {
                    if let Some(listed) = listed.take() {
                        self.known().retain(|name, _| listed.contains(name));
                    }
                    self.complete.send_replace(true);
                }
                Ok(Event::Apply(node)) => self.put(&node),
                Ok(Event::Delete(node)) => _ = self.known().remove(&node.name_any()),
                Err(error) => tracing::warn!("cannot watch nodes: {error}"),
            }
        }
    }
}
