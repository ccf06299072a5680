//! How many requests, watches and streams there may be, and whose.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::identity::{Identity, MASTERS};

/// Part of all places that one identity may have, for requests whose bodies still arrive too.
const SHARE: usize = 4;
/// Lane of the cluster's own parts, beside the one for all.
const RESERVED: usize = 4;

/// Places for what goes on at the same time: requests, watches, or streams of pods.
pub struct Lanes {
    share: usize,
    under_way: Arc<Mutex<HashMap<String, usize>>>,
    everyone: Arc<Semaphore>,
    reserved: Arc<Semaphore>,
}

impl Lanes {
    pub fn new(requests: usize) -> Self {
        Self {
            share: (requests / SHARE).max(1),
            under_way: Arc::default(),
            everyone: Arc::new(Semaphore::new(requests)),
            reserved: Arc::new(Semaphore::new((requests / RESERVED).max(1))),
        }
    }

    /// A place in the share of the one who asks; taken before the body is read. The cluster's own
    /// parts have no bound but that of their lane.
    pub fn enter(&self, identity: &Identity, in_process: bool) -> Option<Entry> {
        let own = in_process || is_of_the_cluster(identity);
        let mut under_way = lock(&self.under_way);
        let count = under_way.entry(identity.user.clone()).or_default();
        if !own && *count >= self.share {
            return None;
        }
        *count += 1;
        Some(Entry {
            user: identity.user.clone(),
            own,
            under_way: self.under_way.clone(),
        })
    }

    /// A place for something that begins at once and may last: a watch, or a stream.
    pub fn place(&self, identity: &Identity, in_process: bool) -> Option<Place> {
        let entry = self.enter(identity, in_process)?;
        let permit = self.serve(&entry)?;
        Some(Place {
            _entry: entry,
            _permit: permit,
        })
    }

    /// The right to be served; taken when the body is there.
    pub fn serve(&self, entry: &Entry) -> Option<OwnedSemaphorePermit> {
        let everyone = self.everyone.clone().try_acquire_owned();
        match everyone {
            Err(_) if entry.own => self.reserved.clone().try_acquire_owned().ok(),
            permit => permit.ok(),
        }
    }
}

/// Kubelets, controllers and administrators: without them nothing gets better.
fn is_of_the_cluster(identity: &Identity) -> bool {
    identity.groups.iter().any(|group| {
        group == MASTERS || group == "system:nodes" || group == "system:serviceaccounts:kube-system"
    }) || identity.user.starts_with("system:kube-")
}

/// A place that is taken until this is dropped.
pub struct Place {
    _entry: Entry,
    _permit: OwnedSemaphorePermit,
}

/// One request of an identity.
pub struct Entry {
    user: String,
    own: bool,
    under_way: Arc<Mutex<HashMap<String, usize>>>,
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut under_way = lock(&self.under_way);
        if let Some(count) = under_way.get_mut(&self.user) {
            *count -= 1;
            if *count == 0 {
                under_way.remove(&self.user);
            }
        }
    }
}

fn lock(counts: &Mutex<HashMap<String, usize>>) -> std::sync::MutexGuard<'_, HashMap<String, usize>> {
    counts.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_identity_has_a_share_and_the_cluster_a_lane() {
        let lanes = Lanes::new(8);
        let tenant = |name: &str| Identity::new(name, &[]);
        let kubelet = Identity::new("system:node:a", &["system:nodes"]);
        let mut entries: Vec<Entry> = (0..2).filter_map(|_| lanes.enter(&tenant("a"), false)).collect();
        assert_eq!(entries.len(), 2);
        assert!(
            lanes.enter(&tenant("a"), false).is_none(),
            "the share of a is used up"
        );
        entries.pop();
        entries.push(lanes.enter(&tenant("a"), false).expect("a place came back"));
        for name in ["b", "c", "d"] {
            entries.extend((0..2).filter_map(|_| lanes.enter(&tenant(name), false)));
        }
        let permits: Vec<_> = entries.iter().filter_map(|entry| lanes.serve(entry)).collect();
        assert_eq!(permits.len(), 8);
        let other = lanes
            .enter(&tenant("e"), false)
            .expect("e has a share of its own");
        assert!(lanes.serve(&other).is_none(), "all places are taken");
        let own = lanes.enter(&kubelet, false).expect("kubelets have no share");
        let inside = lanes
            .enter(&tenant("operator"), true)
            .expect("nor have parts in the process");
        let lane: Vec<_> = [&own, &inside]
            .into_iter()
            .filter_map(|e| lanes.serve(e))
            .collect();
        assert_eq!(lane.len(), 2);
        assert!(lanes.serve(&own).is_none(), "the lane has an end too");
        drop((entries, other, own, inside));
        assert!(
            lock(&lanes.under_way).is_empty(),
            "nobody is remembered who asks nothing"
        );
    }
}
