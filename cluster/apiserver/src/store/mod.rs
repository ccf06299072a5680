//! Where objects live: everything in memory as compact JSON shared by reference, every change durable
//! on disk before it is answered or seen by anyone.
//!
//! One revision counts over all clusters. A collection (one resource of one cluster) keeps a bounded
//! history of its changes: watches are cursors into it, so that a slow reader costs nothing and is told
//! that its place [`Expired`] once the history has moved on.

mod commit;
mod disk;
mod file;
mod object;
mod state;

pub use disk::{Change, Disk, DiskError, Redb};
pub use object::{Draft, Stored, draft, untyped};
pub use state::{Event, EventKind, Expired, History, Listing};

use std::{
    fmt,
    sync::{Arc, RwLock},
};

use tokio::sync::{oneshot, watch};

use commit::Request;
use state::State;

/// The objects of one resource in one logical cluster, whatever API version they are read through.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Collection {
    pub cluster: Arc<str>,
    pub group: Arc<str>,
    pub resource: Arc<str>,
}

impl Collection {
    pub fn new(cluster: &str, group: &str, resource: &str) -> Self {
        Self {
            cluster: cluster.into(),
            group: group.into(),
            resource: resource.into(),
        }
    }
}

impl fmt::Display for Collection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.cluster, self.group, self.resource)
    }
}

/// Name of an object in its collection; `namespace` is empty for cluster-scoped ones.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    pub namespace: Box<str>,
    pub name: Box<str>,
}

impl ObjectKey {
    pub fn new(namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

/// What must hold of the object at the moment of the write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    Absent,
    Revision(u64),
}

#[derive(Debug)]
pub enum Action {
    Put(Draft),
    /// The draft is the last state, as watchers see it in the DELETED event.
    Delete(Draft),
}

#[derive(Debug)]
pub struct Write {
    pub collection: Collection,
    pub key: ObjectKey,
    pub expect: Expect,
    pub action: Action,
}

#[derive(Debug, thiserror::Error, Clone, PartialEq, Eq)]
pub enum WriteError {
    #[error("the object exists already")]
    Exists,
    #[error("the object does not exist")]
    NotFound,
    #[error("the object has been modified")]
    Conflict,
    #[error("the store is stopped")]
    Stopped,
    #[error("the object nests deeper than {limit} levels", limit = object::NESTING)]
    TooDeep,
    #[error("the store could not write: {0}")]
    Disk(String),
}

/// Handle to the store; cheap to clone.
#[derive(Clone)]
pub struct Store {
    state: Arc<RwLock<State>>,
    writer: Arc<commit::Writer>,
}

impl Store {
    /// Loads everything from `disk` and starts the writer.
    pub fn open(disk: Box<dyn Disk>, history: History) -> Result<Self, DiskError> {
        let state = Arc::new(RwLock::new(State::load(&*disk, history)?));
        let writer = Arc::new(commit::Writer::start(disk, state.clone()));
        Ok(Self { state, writer })
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, State> {
        // A poisoned lock means that a publication panicked; the state is replaced entry by entry and
        // stays readable.
        self.state
            .read()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// The newest revision that readers can see.
    pub fn revision(&self) -> u64 {
        self.read().revision()
    }

    pub fn get(&self, collection: &Collection, key: &ObjectKey) -> Option<Arc<Stored>> {
        self.read().get(collection, key)
    }

    /// Objects in key order as they are now; `namespace` `None` means all.
    pub fn list(&self, collection: &Collection, namespace: Option<&str>) -> Listing {
        self.read().list(collection, namespace)
    }

    /// Objects as they were at `revision`.
    pub fn list_at(
        &self,
        collection: &Collection,
        namespace: Option<&str>,
        revision: u64,
    ) -> Result<Listing, Expired> {
        self.read().list_at(collection, namespace, revision)
    }

    /// Number of objects, for metrics.
    pub fn count(&self, collection: &Collection) -> usize {
        self.read().count(collection)
    }

    /// Every collection that holds objects.
    pub fn collections(&self) -> Vec<Collection> {
        self.read().collections()
    }

    /// Changes after `revision`, oldest first, and the revision up to which they are complete.
    pub fn events_after(
        &self,
        collection: &Collection,
        revision: u64,
        limit: usize,
    ) -> Result<(Vec<Arc<Event>>, u64), Expired> {
        self.read().events_after(collection, revision, limit)
    }

    /// Wakes when the collection changes.
    pub fn changes(&self, collection: &Collection) -> watch::Receiver<u64> {
        if let Some(receiver) = self.read().changes(collection) {
            return receiver;
        }
        self.state
            .write()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .open(collection)
    }

    /// Resolves once the write is durable and visible, with its revision and the object as stored.
    pub async fn write(&self, write: Write) -> Result<Arc<Stored>, WriteError> {
        let (Action::Put(draft) | Action::Delete(draft)) = &write.action;
        if draft.nesting() > object::NESTING {
            return Err(WriteError::TooDeep);
        }
        let (answer, answered) = oneshot::channel();
        self.writer.send(Request { write, answer })?;
        answered.await.map_err(|_| WriteError::Stopped)?
    }

    /// Whether a write would be taken now.
    pub fn ready(&self) -> Result<(), WriteError> {
        self.writer.ready()
    }

    /// Finishes the writes under way and closes the file; later writes are refused.
    pub fn close(&self) {
        self.writer.stop();
    }
}

#[cfg(test)]
mod crashes;
#[cfg(test)]
mod tests;
