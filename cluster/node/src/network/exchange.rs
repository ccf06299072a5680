//! What the clusters of one fabric know of each other: the ports of their balancers.

use std::collections::BTreeMap;

use tokio::sync::watch;

use super::frontends::Frontend;

/// By cluster.
type Shown = BTreeMap<String, Vec<Frontend>>;

#[derive(Default)]
pub struct Exchange {
    shown: watch::Sender<Shown>,
}

impl Exchange {
    /// Tells the others, when there is something new.
    pub(super) fn publish(&self, cluster: &str, balanced: Vec<Frontend>) {
        self.shown.send_if_modified(|shown| {
            let news = shown.get(cluster) != Some(&balanced);
            if news {
                shown.insert(cluster.into(), balanced);
            }
            news
        });
    }

    /// Balancers of every cluster.
    pub(super) fn all(&self) -> Vec<Frontend> {
        self.shown.borrow().values().flatten().cloned().collect()
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<Shown> {
        self.shown.subscribe()
    }
}
