//! Who owns whom. Only objects that are owned or on their way out are kept.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt,
};

use serde::Deserialize;

use crate::store::{Collection, ObjectKey, Stored};

use super::{FOREGROUND, ORPHAN};

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Id {
    pub collection: Collection,
    pub key: ObjectKey,
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.collection, self.key.namespace, self.key.name)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Node {
    pub uid: String,
    pub revision: u64,
    pub owners: Vec<Owner>,
    pub deleting: bool,
    pub foreground: bool,
    pub orphan: bool,
}

impl Node {
    /// Whether it keeps its owner with this uid from going.
    pub(super) fn blocks(&self, owner: &str) -> bool {
        self.owners
            .iter()
            .any(|o| o.uid == owner && o.block_owner_deletion)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Owner {
    pub api_version: String,
    pub kind: String,
    pub name: String,
    pub uid: String,
    pub block_owner_deletion: bool,
}

#[derive(Deserialize)]
struct Object {
    metadata: Metadata,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    uid: String,
    deletion_timestamp: Option<String>,
    finalizers: Option<Vec<String>>,
    owner_references: Option<Vec<Owner>>,
}

/// Reads what matters of an object; `None` if it cannot be read.
pub(super) fn read(stored: &Stored) -> Option<Node> {
    let object: Object = serde_json::from_slice(&stored.bytes).ok()?;
    let metadata = object.metadata;
    let finalizers = metadata.finalizers.unwrap_or_default();
    let has = |name: &str| finalizers.iter().any(|finalizer| finalizer == name);
    Some(Node {
        uid: metadata.uid,
        revision: stored.revision,
        owners: metadata.owner_references.unwrap_or_default(),
        deleting: metadata.deletion_timestamp.is_some(),
        foreground: has(FOREGROUND),
        orphan: has(ORPHAN),
    })
}

#[derive(Default)]
pub(super) struct Graph {
    nodes: BTreeMap<Id, Node>,
    by_uid: HashMap<String, Id>,
    /// By the uid of the owner.
    dependents: HashMap<String, BTreeSet<Id>>,
}

impl Graph {
    pub(super) fn get(&self, id: &Id) -> Option<&Node> {
        self.nodes.get(id)
    }

    pub(super) fn all(&self) -> Vec<Id> {
        self.nodes.keys().cloned().collect()
    }

    pub(super) fn dependents(&self, uid: &str) -> Vec<(&Id, &Node)> {
        let ids = self.dependents.get(uid).into_iter().flatten();
        ids.filter_map(|id| Some((id, self.nodes.get(id)?))).collect()
    }

    /// Takes note of an object; returns those to decide about.
    pub(super) fn put(&mut self, collection: &Collection, stored: &Stored) -> Vec<Id> {
        let id = Id {
            collection: collection.clone(),
            key: stored.key.clone(),
        };
        let Some(node) = read(stored) else {
            return Vec::new();
        };
        let mut affected = match self.take(&id) {
            // Another object of the same name: the one before is gone.
            Some(old) if old.uid != node.uid => self.touched_by(&old),
            Some(old) => self.waiting_owners(&old),
            None => Vec::new(),
        };
        if node.owners.is_empty() && !node.deleting {
            return affected;
        }
        affected.extend(self.waiting_owners(&node));
        if node.deleting && node.foreground {
            affected.extend(self.dependent_ids(&node.uid));
        }
        for owner in &node.owners {
            self.dependents
                .entry(owner.uid.clone())
                .or_default()
                .insert(id.clone());
        }
        self.by_uid.insert(node.uid.clone(), id.clone());
        self.nodes.insert(id.clone(), node);
        affected.push(id);
        affected
    }

    /// Forgets an object that is gone; returns those to decide about.
    pub(super) fn remove(&mut self, collection: &Collection, stored: &Stored) -> Vec<Id> {
        let id = Id {
            collection: collection.clone(),
            key: stored.key.clone(),
        };
        self.take(&id);
        read(stored).map_or_else(Vec::new, |node| self.touched_by(&node))
    }

    /// Forgets a collection; returns those to decide about.
    pub(super) fn forget(&mut self, collection: &Collection) -> Vec<Id> {
        let ids: Vec<Id> = self
            .nodes
            .keys()
            .filter(|id| id.collection == *collection)
            .cloned()
            .collect();
        let gone: Vec<Node> = ids.iter().filter_map(|id| self.take(id)).collect();
        gone.iter().flat_map(|node| self.touched_by(node)).collect()
    }

    fn take(&mut self, id: &Id) -> Option<Node> {
        let node = self.nodes.remove(id)?;
        self.by_uid.remove(&node.uid);
        for owner in &node.owners {
            if let Some(ids) = self.dependents.get_mut(&owner.uid) {
                ids.remove(id);
                if ids.is_empty() {
                    self.dependents.remove(&owner.uid);
                }
            }
        }
        Some(node)
    }

    /// Whom the end of an object concerns: those that it owned and those that waited for it.
    fn touched_by(&self, node: &Node) -> Vec<Id> {
        let mut ids = self.dependent_ids(&node.uid);
        ids.extend(self.waiting_owners(node));
        ids
    }

    fn dependent_ids(&self, uid: &str) -> Vec<Id> {
        self.dependents.get(uid).into_iter().flatten().cloned().collect()
    }

    fn waiting_owners(&self, node: &Node) -> Vec<Id> {
        let owners = node.owners.iter().filter_map(|owner| self.by_uid.get(&owner.uid));
        owners
            .filter(|id| self.nodes.get(*id).is_some_and(|node| node.deleting))
            .cloned()
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn stored(name: &str, metadata: Value) -> std::sync::Arc<Stored> {
        let mut object = json!({"metadata": metadata});
        object["metadata"]["uid"] = json!(format!("uid-{name}"));
        Stored::new(
            ObjectKey::new("a", name),
            1,
            object.to_string().into_bytes().into(),
        )
    }

    #[test]
    fn only_what_can_become_garbage_is_kept() {
        let things = Collection::new("c", "", "things");
        let mut graph = Graph::default();
        let owner = stored("owner", json!({}));
        let owned = json!({"ownerReferences": [{"kind": "Thing", "name": "owner", "uid": "uid-owner"}]});
        assert_eq!(graph.put(&things, &owner), []);
        let affected = graph.put(&things, &stored("owned", owned));
        assert_eq!(affected.len(), 1);
        assert_eq!(graph.all().len(), 1);
        // The owner goes: the one that it owned is to be looked at.
        assert_eq!(graph.remove(&things, &owner), affected);
        // Without owners it is of no interest.
        graph.put(&things, &stored("owned", json!({})));
        assert!(graph.all().is_empty() && graph.dependents.is_empty() && graph.by_uid.is_empty());
    }

    #[test]
    fn an_owner_that_waits_hears_of_its_dependents() {
        let things = Collection::new("c", "", "things");
        let mut graph = Graph::default();
        let owned = json!({"ownerReferences": [{"uid": "uid-owner", "blockOwnerDeletion": true}]});
        let owned = stored("owned", owned);
        graph.put(&things, &owned);
        let waits =
            json!({"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["foregroundDeletion"]});
        let affected = graph.put(&things, &stored("owner", waits));
        assert_eq!(affected.len(), 2, "the dependent and the owner itself");
        let affected = graph.remove(&things, &owned);
        assert_eq!(affected.len(), 1);
        assert_eq!(&*affected[0].key.name, "owner");
    }
}
