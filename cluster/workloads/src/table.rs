//! One kind's objects, by name and by controlling owner.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube::{Resource, ResourceExt};

/// Namespace (empty for cluster-scoped objects) and name.
pub(crate) type Key = (String, String);

pub(crate) fn key_of<K: ResourceExt>(object: &K) -> Key {
    (object.namespace().unwrap_or_default(), object.name_any())
}

/// What became of an object that was put into a table.
#[derive(Debug)]
pub struct Change<K> {
    pub before: Option<Arc<K>>,
    pub after: Option<Arc<K>>,
}

#[derive(Debug)]
pub struct Table<K> {
    objects: BTreeMap<Key, Arc<K>>,
    owned: BTreeMap<String, BTreeSet<Key>>,
}

impl<K> Default for Table<K> {
    fn default() -> Self {
        Self {
            objects: BTreeMap::new(),
            owned: BTreeMap::new(),
        }
    }
}

impl<K: ResourceExt + Resource> Table<K> {
    pub fn get(&self, key: &Key) -> Option<&Arc<K>> {
        self.objects.get(key)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Arc<K>> {
        self.objects.values()
    }

    pub fn keys(&self) -> impl Iterator<Item = &Key> {
        self.objects.keys()
    }

    pub fn in_namespace<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = &'a Arc<K>> + 'a {
        self.objects
            .range((namespace.to_owned(), String::new())..)
            .take_while(move |((ns, _), _)| ns == namespace)
            .map(|(_, object)| object)
    }

    /// Objects whose controlling owner has this uid, in name order.
    pub fn owned_by<'a>(&'a self, uid: &str) -> impl Iterator<Item = &'a Arc<K>> + 'a {
        self.owned
            .get(uid)
            .into_iter()
            .flatten()
            .filter_map(|key| self.objects.get(key))
    }

    /// Keeps the newer of the two. A watch may tell what a write has told already.
    pub fn put(&mut self, object: K) -> Option<Change<K>> {
        let key = key_of(&object);
        let before = self.objects.get(&key).cloned();
        if let Some(old) = &before
            && !is_newer(&object, old)
        {
            return None;
        }
        if let Some(old) = &before {
            self.forget_owner(old, &key);
        }
        if let Some(owner) = controller_uid(&object) {
            self.owned.entry(owner).or_default().insert(key.clone());
        }
        let after = Arc::new(object);
        self.objects.insert(key, after.clone());
        Some(Change {
            before,
            after: Some(after),
        })
    }

    pub fn remove(&mut self, key: &Key) -> Option<Change<K>> {
        let old = self.objects.remove(key)?;
        self.forget_owner(&old, key);
        Some(Change {
            before: Some(old),
            after: None,
        })
    }

    fn forget_owner(&mut self, object: &K, key: &Key) {
        if let Some(owner) = controller_uid(object)
            && let Some(keys) = self.owned.get_mut(&owner)
        {
            keys.remove(key);
            if keys.is_empty() {
                self.owned.remove(&owner);
            }
        }
    }
}

/// Resource versions of the embedded server are numbers of one sequence.
fn is_newer<K: ResourceExt>(new: &K, old: &K) -> bool {
    let number = |object: &K| object.resource_version().and_then(|v| v.parse::<u64>().ok());
    match (number(new), number(old)) {
        (Some(new), Some(old)) => new > old,
        _ => true,
    }
}

pub(crate) fn controller_uid<K: ResourceExt>(object: &K) -> Option<String> {
    object
        .owner_references()
        .iter()
        .find(|owner| owner.controller == Some(true))
        .map(|owner| owner.uid.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::Pod;

    fn pod(name: &str, version: u64, owner: Option<&str>) -> Pod {
        let owners: Vec<_> = owner
            .map(|uid| serde_json::json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": uid, "controller": true}))
            .into_iter()
            .collect();
        serde_json::from_value(serde_json::json!({
            "metadata": {"namespace": "n", "name": name, "resourceVersion": version.to_string(), "ownerReferences": owners}
        }))
        .expect("a pod")
    }

    #[test]
    fn an_older_event_does_not_undo_a_newer_write() {
        let mut table = Table::default();
        assert!(table.put(pod("a", 7, Some("u"))).is_some());
        assert!(table.put(pod("a", 6, None)).is_none());
        assert!(table.put(pod("a", 7, None)).is_none());
        assert_eq!(table.owned_by("u").count(), 1);
    }

    #[test]
    fn the_owner_index_follows_changes_and_removal() {
        let mut table = Table::default();
        table.put(pod("a", 1, Some("u")));
        table.put(pod("b", 2, Some("u")));
        table.put(pod("a", 3, Some("v")));
        assert_eq!(
            table.owned_by("u").map(|p| p.name_any()).collect::<Vec<_>>(),
            ["b"]
        );
        assert_eq!(table.owned_by("v").count(), 1);
        table.remove(&("n".into(), "a".into()));
        assert_eq!(table.owned_by("v").count(), 0);
        assert_eq!(table.in_namespace("n").count(), 1);
    }
}
