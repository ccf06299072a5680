//! What readers see: objects and recent history of each collection, at one revision.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    ops::Bound,
    sync::Arc,
};

use tokio::sync::watch;

use super::{Collection, Disk, DiskError, ObjectKey, Stored};

/// How much history a collection keeps.
#[derive(Clone, Copy, Debug)]
pub struct History {
    pub events: usize,
    pub bytes: usize,
}

impl Default for History {
    fn default() -> Self {
        Self {
            events: 4096,
            bytes: 8 << 20,
        }
    }
}

/// The history no longer reaches back to the asked revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too old resource version: {asked} ({oldest})")]
pub struct Expired {
    pub asked: u64,
    /// The oldest revision that is still answered.
    pub oldest: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    Put,
    Delete,
}

/// One change of one object.
#[derive(Debug)]
pub struct Event {
    pub kind: EventKind,
    /// After the change; for a deletion the last state, with the revision of the deletion.
    pub object: Arc<Stored>,
    pub previous: Option<Arc<Stored>>,
}

#[derive(Clone, Debug)]
pub struct Listing {
    pub revision: u64,
    pub objects: Vec<Arc<Stored>>,
}

struct Shard {
    objects: BTreeMap<ObjectKey, Arc<Stored>>,
    events: VecDeque<Arc<Event>>,
    bytes: usize,
    /// Revision of the newest change that history has dropped.
    dropped: u64,
    changed: watch::Sender<u64>,
}

impl Shard {
    fn new(dropped: u64) -> Self {
        let changed = watch::Sender::new(0);
        Self {
            objects: BTreeMap::new(),
            events: VecDeque::new(),
            bytes: 0,
            dropped,
            changed,
        }
    }
}

pub(super) struct State {
    revision: u64,
    started: u64,
    history: History,
    shards: HashMap<Collection, Shard>,
}

impl State {
    pub(super) fn load(disk: &dyn Disk, history: History) -> Result<Self, DiskError> {
        let mut shards: HashMap<Collection, Shard> = HashMap::new();
        let revision = disk.load(&mut |collection, stored| {
            let shard = shards.entry(collection).or_insert_with(|| Shard::new(0));
            shard.objects.insert(stored.key.clone(), stored);
        })?;
        for shard in shards.values_mut() {
            shard.dropped = revision;
        }
        Ok(Self {
            revision,
            started: revision,
            history,
            shards,
        })
    }

    pub(super) fn revision(&self) -> u64 {
        self.revision
    }

    /// All objects of all collections at the present revision.
    pub(super) fn everything(&self) -> (u64, Vec<(Collection, Arc<Stored>)>) {
        let of = |(collection, shard): (&Collection, &Shard)| {
            let objects: Vec<_> = shard.objects.values().cloned().collect();
            let collection = collection.clone();
            objects
                .into_iter()
                .map(move |object| (collection.clone(), object))
        };
        (self.revision, self.shards.iter().flat_map(of).collect())
    }

    pub(super) fn get(&self, collection: &Collection, key: &ObjectKey) -> Option<Arc<Stored>> {
        self.shards.get(collection)?.objects.get(key).cloned()
    }

    pub(super) fn count(&self, collection: &Collection) -> usize {
        self.shards.get(collection).map_or(0, |shard| shard.objects.len())
    }

    pub(super) fn collections(&self) -> Vec<Collection> {
        self.shards
            .iter()
            .filter(|(_, s)| !s.objects.is_empty())
            .map(|(c, _)| c.clone())
            .collect()
    }

    pub(super) fn list(&self, collection: &Collection, namespace: Option<&str>) -> Listing {
        let objects = match self.shards.get(collection) {
            None => Vec::new(),
            Some(shard) => within(&shard.objects, namespace),
        };
        Listing {
            revision: self.revision,
            objects,
        }
    }

    /// Undoes the changes after `revision`, newest first.
    pub(super) fn list_at(
        &self,
        collection: &Collection,
        namespace: Option<&str>,
        revision: u64,
    ) -> Result<Listing, Expired> {
        let Some(shard) = self.shards.get(collection) else {
            self.reaches(self.started, revision)?;
            return Ok(Listing {
                revision,
                objects: Vec::new(),
            });
        };
        self.reaches(shard.dropped, revision)?;
        let mut objects: BTreeMap<ObjectKey, Arc<Stored>> = within(&shard.objects, namespace)
            .into_iter()
            .map(|o| (o.key.clone(), o))
            .collect();
        for event in shard
            .events
            .iter()
            .rev()
            .take_while(|e| e.object.revision > revision)
        {
            let key = &event.object.key;
            if namespace.is_some_and(|ns| *ns != *key.namespace) {
                continue;
            }
            match &event.previous {
                Some(previous) => objects.insert(key.clone(), previous.clone()),
                None => objects.remove(key),
            };
        }
        Ok(Listing {
            revision,
            objects: objects.into_values().collect(),
        })
    }

    pub(super) fn events_after(
        &self,
        collection: &Collection,
        revision: u64,
        limit: usize,
    ) -> Result<(Vec<Arc<Event>>, u64), Expired> {
        let Some(shard) = self.shards.get(collection) else {
            self.reaches(self.started, revision)?;
            return Ok((Vec::new(), self.revision));
        };
        self.reaches(shard.dropped, revision)?;
        let start = shard.events.partition_point(|e| e.object.revision <= revision);
        let events: Vec<_> = shard.events.range(start..).take(limit).cloned().collect();
        let complete = match events.last() {
            Some(last) if start + events.len() < shard.events.len() => last.object.revision,
            _ => self.revision,
        };
        Ok((events, complete))
    }

    fn reaches(&self, dropped: u64, asked: u64) -> Result<(), Expired> {
        if asked < dropped {
            Err(Expired {
                asked,
                oldest: dropped,
            })
        } else {
            Ok(())
        }
    }

    pub(super) fn changes(&self, collection: &Collection) -> Option<watch::Receiver<u64>> {
        self.shards.get(collection).map(|shard| shard.changed.subscribe())
    }

    pub(super) fn open(&mut self, collection: &Collection) -> watch::Receiver<u64> {
        let started = self.started;
        let shard = self
            .shards
            .entry(collection.clone())
            .or_insert_with(|| Shard::new(started));
        shard.changed.subscribe()
    }

    /// Makes durable changes visible, all at once.
    pub(super) fn publish(&mut self, revision: u64, events: Vec<(Collection, Event)>) {
        let mut touched: Vec<watch::Sender<u64>> = Vec::new();
        for (collection, event) in events {
            let started = self.started;
            let shard = self
                .shards
                .entry(collection)
                .or_insert_with(|| Shard::new(started));
            match event.kind {
                EventKind::Put => shard
                    .objects
                    .insert(event.object.key.clone(), event.object.clone()),
                EventKind::Delete => shard.objects.remove(&event.object.key),
            };
            shard.bytes += event.object.bytes.len();
            shard.events.push_back(Arc::new(event));
            while shard.events.len() > self.history.events || shard.bytes > self.history.bytes {
                let Some(old) = shard.events.pop_front() else {
                    break;
                };
                shard.bytes = shard.bytes.saturating_sub(old.object.bytes.len());
                shard.dropped = old.object.revision;
            }
            if !touched.iter().any(|sender| sender.same_channel(&shard.changed)) {
                touched.push(shard.changed.clone());
            }
        }
        self.revision = revision;
        for sender in touched {
            sender.send_replace(revision);
        }
    }
}

fn within(objects: &BTreeMap<ObjectKey, Arc<Stored>>, namespace: Option<&str>) -> Vec<Arc<Stored>> {
    match namespace {
        None => objects.values().cloned().collect(),
        Some(namespace) => objects
            .range((Bound::Included(ObjectKey::new(namespace, "")), Bound::Unbounded))
            .take_while(|(key, _)| *key.namespace == *namespace)
            .map(|(_, object)| object.clone())
            .collect(),
    }
}
