//! Garbage collection: what is owned goes when its last owner has gone.

mod decide;
mod graph;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use serde_json::{Value, json};

use super::{
    follow::{Follow, News, any_changed},
    requests::{Refused, Requests, path},
};
use crate::{
    cluster::Cluster,
    registry::Kind,
    store::{Collection, EventKind},
    verb::Verb,
};

use decide::{Decision, Dependent, Item, OwnerState, decide};
use graph::{Graph, Id, Node, Owner};

const FOREGROUND: &str = "foregroundDeletion";
const ORPHAN: &str = "orphan";
/// How long a decision waits that could not be carried out.
const RETRY: Duration = Duration::from_secs(1);

pub(super) async fn run(requests: Requests) {
    let cluster = requests.cluster.clone();
    let mut collector = Collector {
        graph: Graph::default(),
        follows: Vec::new(),
        kinds: Vec::new(),
        generation: None,
        requests: requests.clone(),
        open: BTreeSet::new(),
    };
    let stopping = requests.stopping();
    loop {
        collector.follow_kinds(&cluster);
        collector.read_news();
        collector.work().await;
        tokio::select! {
            () = stopping.cancelled() => return,
            () = any_changed(&mut collector.follows) => {}
            () = tokio::time::sleep(RETRY), if !collector.open.is_empty() => {}
        }
    }
}

struct Collector {
    graph: Graph,
    /// One for each of `kinds`.
    follows: Vec<Follow>,
    kinds: Vec<Arc<Kind>>,
    generation: Option<u64>,
    requests: Requests,
    /// Objects to decide about.
    open: BTreeSet<Id>,
}

impl Collector {
    /// Follows every resource that is served; CRDs come and go. Changes of CRDs are among the news.
    fn follow_kinds(&mut self, cluster: &Cluster) {
        let registry = cluster.registry();
        if self.generation == Some(registry.generation) {
            return;
        }
        self.generation = Some(registry.generation);
        let mut known: Vec<(Collection, Follow)> = std::mem::take(&mut self.follows)
            .into_iter()
            .map(|follow| (follow.collection().clone(), follow))
            .collect();
        self.kinds = registry
            .resources()
            .filter(|kind| kind.allows(&Verb::Delete))
            .cloned()
            .collect();
        self.follows = self
            .kinds
            .iter()
            .map(|kind| {
                let collection = cluster.collection_of(kind);
                match known.iter().position(|(other, _)| *other == collection) {
                    Some(at) => known.swap_remove(at).1,
                    None => Follow::new(&cluster.store, collection),
                }
            })
            .collect();
        for (collection, _) in known {
            self.graph.forget(&collection);
        }
        // Owners of kinds that were not served before can be judged now.
        self.open.extend(self.graph.all());
    }

    fn read_news(&mut self) {
        for follow in &mut self.follows {
            let collection = follow.collection().clone();
            match follow.news() {
                News::All(objects) => {
                    self.open.extend(self.graph.forget(&collection));
                    for object in objects {
                        self.open.extend(self.graph.put(&collection, &object));
                    }
                }
                News::Changes(events) => {
                    for event in events {
                        self.open.extend(match event.kind {
                            EventKind::Put => self.graph.put(&collection, &event.object),
                            EventKind::Delete => self.graph.remove(&collection, &event.object),
                        });
                    }
                }
            }
        }
    }

    /// Decides about all open objects. What fails stays open.
    async fn work(&mut self) {
        for id in std::mem::take(&mut self.open) {
            let Some(node) = self.graph.get(&id).cloned() else {
                continue;
            };
            let Some(kind) = self.kind_of(&id.collection) else {
                continue;
            };
            match self.carry_out(&id, &node, &kind).await {
                Ok(()) => {}
                Err(error) if error.is_outdated() => {}
                Err(error) => {
                    tracing::warn!(%error, object = %id, "cannot collect an object; trying again");
                    self.open.insert(id);
                }
            }
        }
    }

    fn kind_of(&self, collection: &Collection) -> Option<Arc<Kind>> {
        let cluster = &self.requests.cluster;
        self.kinds
            .iter()
            .find(|kind| cluster.collection_of(kind) == *collection)
            .cloned()
    }

    async fn carry_out(&self, id: &Id, node: &Node, kind: &Kind) -> Result<(), Refused> {
        let states: Vec<OwnerState> = node
            .owners
            .iter()
            .map(|owner| owner_state(&self.requests.cluster, kind, id, owner))
            .collect();
        let dependents = self.graph.dependents(&node.uid);
        let facts: Vec<Dependent> = dependents
            .iter()
            .map(|(_, dependent)| Dependent {
                blocks: dependent.blocks(&node.uid),
                waits: dependent.deleting && dependent.foreground,
            })
            .collect();
        let item = Item {
            owners: &states,
            deleting: node.deleting,
            foreground: node.foreground,
            orphan: node.orphan,
            dependents: &facts,
        };
        let path = path(kind, &id.key.namespace, &id.key.name);
        match decide(&item) {
            Decision::Nothing => Ok(()),
            Decision::Delete { propagation, unblock } => {
                let mut revision = node.revision.to_string();
                if unblock {
                    let owners =
                        self.references(id, |owner| owner["blockOwnerDeletion"] = json!(false), |_| true);
                    let patched = self
                        .patch(&path, node, &json!({"ownerReferences": owners}))
                        .await?;
                    revision = patched["metadata"]["resourceVersion"]
                        .as_str()
                        .unwrap_or_default()
                        .to_owned();
                }
                let options = json!({
                    "apiVersion": "v1",
                    "kind": "DeleteOptions",
                    "propagationPolicy": propagation.name(),
                    "preconditions": {"uid": node.uid, "resourceVersion": revision},
                });
                self.requests.delete(&path, Some(&options)).await.map(drop)
            }
            Decision::DropOwners => {
                let solid: BTreeSet<&str> = node
                    .owners
                    .iter()
                    .zip(&states)
                    .filter(|(_, state)| **state == OwnerState::Solid)
                    .map(|(owner, _)| owner.uid.as_str())
                    .collect();
                let owners = self.references(id, |_| {}, |uid| solid.contains(uid));
                self.patch(&path, node, &json!({"ownerReferences": owners}))
                    .await
                    .map(drop)
            }
            Decision::Orphan => {
                for (dependent, facts) in dependents {
                    let owners = self.references(dependent, |_| {}, |uid| uid != node.uid);
                    let Some(kind) = self.kind_of(&dependent.collection) else {
                        continue;
                    };
                    let path = super::requests::path(&kind, &dependent.key.namespace, &dependent.key.name);
                    self.patch(&path, facts, &json!({"ownerReferences": owners}))
                        .await?;
                }
                self.drop_finalizer(id, &path, node, ORPHAN).await
            }
            Decision::Release => self.drop_finalizer(id, &path, node, FOREGROUND).await,
        }
    }

    /// The live owner references that `keep` keeps, each changed by `change`.
    fn references(&self, id: &Id, change: impl Fn(&mut Value), keep: impl Fn(&str) -> bool) -> Vec<Value> {
        let live = self.requests.cluster.store.get(&id.collection, &id.key);
        let object = live.map(|stored| stored.value()).unwrap_or_default();
        let references = object["metadata"]["ownerReferences"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        references
            .into_iter()
            .filter(|owner| keep(owner["uid"].as_str().unwrap_or_default()))
            .map(|mut owner| {
                change(&mut owner);
                owner
            })
            .collect()
    }

    async fn drop_finalizer(&self, id: &Id, path: &str, node: &Node, name: &str) -> Result<(), Refused> {
        let live = self.requests.cluster.store.get(&id.collection, &id.key);
        let object = live.map(|stored| stored.value()).unwrap_or_default();
        let finalizers = object["metadata"]["finalizers"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let rest: Vec<Value> = finalizers
            .into_iter()
            .filter(|finalizer| finalizer != name)
            .collect();
        self.patch(path, node, &json!({"finalizers": rest}))
            .await
            .map(drop)
    }

    /// Changes metadata of the object as it was looked at.
    async fn patch(&self, path: &str, node: &Node, metadata: &Value) -> Result<Value, Refused> {
        let mut patch = json!({"metadata": metadata});
        patch["metadata"]["uid"] = json!(node.uid);
        patch["metadata"]["resourceVersion"] = json!(node.revision.to_string());
        self.requests.merge(path, &patch).await
    }
}

/// Looks for the owner now, in the store itself.
fn owner_state(cluster: &Cluster, kind: &Kind, id: &Id, owner: &Owner) -> OwnerState {
    let registry = cluster.registry();
    let (group, version) = owner
        .api_version
        .split_once('/')
        .unwrap_or(("", &owner.api_version));
    let by_version = registry.by_kind(group, version, &owner.kind);
    let any = || {
        registry
            .kinds()
            .iter()
            .find(|k| k.group == group && k.kind == owner.kind)
    };
    // An owner of a kind that is not served cannot be looked for: it may still be there.
    let Some(owner_kind) = by_version.or_else(any) else {
        return OwnerState::Solid;
    };
    // A namespaced owner of a cluster-scoped object is nowhere: such references say nothing.
    if owner_kind.namespaced && !kind.namespaced {
        return OwnerState::Solid;
    }
    let namespace = if owner_kind.namespaced {
        &*id.key.namespace
    } else {
        ""
    };
    let collection = cluster.collection_of(owner_kind);
    let key = crate::store::ObjectKey::new(namespace, &owner.name);
    let Some(stored) = cluster.store.get(&collection, &key) else {
        return OwnerState::Absent;
    };
    match graph::read(&stored) {
        Some(live) if live.uid == owner.uid && live.deleting && live.foreground => OwnerState::Waiting,
        Some(live) if live.uid == owner.uid => OwnerState::Solid,
        _ => OwnerState::Absent,
    }
}
