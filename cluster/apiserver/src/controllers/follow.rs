//! Following a collection: what is there, then what changes.

use std::sync::Arc;

use tokio::sync::watch;

use crate::store::{Collection, Event, EventKind, Store, Stored};

const BATCH: usize = 1024;

/// A place in the history of a collection.
pub(super) struct Follow {
    store: Store,
    collection: Collection,
    revision: Option<u64>,
    changes: watch::Receiver<u64>,
}

/// What has happened since the last look.
pub(super) enum News {
    /// All objects: the first look, or the history was too short.
    All(Vec<Arc<Stored>>),
    Changes(Vec<Arc<Event>>),
}

impl News {
    /// The objects that are there or were touched, gone ones included.
    pub(super) fn objects(self) -> Vec<Arc<Stored>> {
        match self {
            Self::All(objects) => objects,
            Self::Changes(events) => events.iter().map(|event| event.object.clone()).collect(),
        }
    }

    /// The objects that are there, gone ones left out.
    pub(super) fn present(self) -> Vec<Arc<Stored>> {
        match self {
            Self::All(objects) => objects,
            Self::Changes(events) => events
                .iter()
                .filter(|event| event.kind == EventKind::Put)
                .map(|event| event.object.clone())
                .collect(),
        }
    }
}

impl Follow {
    pub(super) fn new(store: &Store, collection: Collection) -> Self {
        Self {
            changes: store.changes(&collection),
            store: store.clone(),
            collection,
            revision: None,
        }
    }

    pub(super) fn collection(&self) -> &Collection {
        &self.collection
    }

    /// The news since the last call; all of it may take several calls.
    pub(super) fn news(&mut self) -> News {
        self.changes.borrow_and_update();
        if let Some(revision) = self.revision
            && let Ok((events, complete)) = self.store.events_after(&self.collection, revision, BATCH)
        {
            if events.len() == BATCH {
                self.changes.mark_changed();
            }
            self.revision = Some(events.last().map_or(complete, |event| event.object.revision));
            return News::Changes(events);
        }
        let listing = self.store.list(&self.collection, None);
        self.revision = Some(listing.revision);
        News::All(listing.objects)
    }

    /// Resolves when there may be news.
    pub(super) async fn changed(&mut self) {
        if self.changes.changed().await.is_err() {
            // The store is closed: nothing comes any more.
            std::future::pending::<()>().await;
        }
    }
}

/// Resolves when one of them may have news.
pub(super) async fn any_changed(follows: &mut [Follow]) {
    if follows.is_empty() {
        return std::future::pending().await;
    }
    let waits = follows.iter_mut().map(|follow| Box::pin(follow.changed()));
    futures::future::select_all(waits).await;
}
