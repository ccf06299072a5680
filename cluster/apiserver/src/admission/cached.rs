//! Configurations as they are used; each is read once for every revision.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use serde_json::Value;

use super::GROUP;
use crate::cluster::Cluster;

/// By name, with the revision that was read.
pub(super) struct Cached<T>(Mutex<BTreeMap<String, (u64, Arc<T>)>>);

impl<T> Default for Cached<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Cached<T> {
    /// All of this resource, in the order of their names.
    pub(super) fn all(&self, cluster: &Cluster, resource: &str, read: impl Fn(&Value) -> T) -> Vec<Arc<T>> {
        let collection = cluster.collection(GROUP, resource);
        if cluster.store.count(&collection) == 0 {
            return Vec::new();
        }
        let listing = cluster.store.list(&collection, None);
        // Only whole values are stored.
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|name, _| listing.objects.iter().any(|object| *object.key.name == **name));
        let read = listing.objects.iter().map(|object| {
            let name = object.key.name.to_string();
            match known.get(&name) {
                Some((revision, one)) if *revision == object.revision => one.clone(),
                _ => {
                    let one = Arc::new(read(&object.value()));
                    known.insert(name, (object.revision, one.clone()));
                    one
                }
            }
        });
        read.collect()
    }
}
