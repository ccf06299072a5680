//! What a controller's objects own, known from a metadata-only watch of the objects with its label.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Mutex;

use jiff::Timestamp;
use kube::api::ObjectMeta;
use kube::runtime::watcher::Event;
use serde_json::Value;
use tokio::sync::watch;

use crate::kinds::{Key, Kind, Reference};
use crate::lock;
use crate::reconcile::follow::Metadata;
use crate::write::ownership::{OWNER, owner_of};

/// What is remembered of an owned object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owned {
    pub uid: String,
    pub created: Option<Timestamp>,
    pub deleting: bool,
}

impl Owned {
    fn of(meta: &ObjectMeta) -> Self {
        Owned {
            uid: meta.uid.clone().unwrap_or_default(),
            created: meta.creation_timestamp.as_ref().map(|t| t.0),
            deleting: meta.deletion_timestamp.is_some(),
        }
    }
}

/// What a watch event says, beyond the object that it is about.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct News {
    /// Those to whom it matters.
    pub owners: BTreeSet<Key>,
    /// Objects that are no more.
    pub gone: Vec<Reference>,
}

#[derive(Default)]
struct Inner {
    by_owner: HashMap<String, BTreeMap<Reference, Owned>>,
    owner_of: HashMap<Reference, String>,
    /// Who made each object, as last seen: somebody may take the mark off, and an object that
    /// vanishes between two lists says nothing any more. What lasts is among them too.
    makers: HashMap<Reference, Key>,
    /// Per kind: what a fresh list has shown so far.
    listing: HashMap<usize, HashSet<Reference>>,
    /// Kinds that a cluster does not have, by their place in `kinds`.
    absent: BTreeSet<usize>,
}

impl Inner {
    fn insert(&mut self, reference: Reference, owner: &str, owned: Owned) {
        self.remove(&reference);
        self.owner_of.insert(reference.clone(), owner.to_owned());
        self.by_owner
            .entry(owner.to_owned())
            .or_default()
            .insert(reference, owned);
    }

    fn remove(&mut self, reference: &Reference) {
        let Some(owner) = self.owner_of.remove(reference) else {
            return;
        };
        if let Some(objects) = self.by_owner.get_mut(&owner) {
            objects.remove(reference);
            if objects.is_empty() {
                self.by_owner.remove(&owner);
            }
        }
    }

    /// Takes note of an object; the answer is its makers, the former one too when it changed.
    fn see(&mut self, kind: &Kind, meta: &ObjectMeta) -> (Reference, BTreeSet<Key>) {
        let reference = kind.named(meta.namespace.as_deref(), name(meta));
        match owner_of(meta, kind.cluster == crate::HOME) {
            Some(owner) => self.insert(reference.clone(), owner, Owned::of(meta)),
            None => self.remove(&reference),
        }
        let marked = maker(meta);
        let former = match &marked {
            Some(key) => self.makers.insert(reference.clone(), key.clone()),
            None => self.makers.get(&reference).cloned(),
        };
        (reference, marked.into_iter().chain(former).collect())
    }

    /// The object is gone; the answer is who made it.
    fn lose(&mut self, reference: &Reference) -> Option<Key> {
        self.remove(reference);
        self.makers.remove(reference)
    }
}

/// The owner that the object itself names.
pub(crate) fn maker(meta: &ObjectMeta) -> Option<Key> {
    let text = meta.annotations.as_ref()?.get(OWNER)?;
    Some(Key::parse(text))
}

pub struct OwnedObjects {
    kinds: Vec<Kind>,
    inner: Mutex<Inner>,
    /// Kinds that have not been listed yet, by their place in `kinds`.
    missing: watch::Sender<BTreeSet<usize>>,
}

impl OwnedObjects {
    pub(crate) fn new(kinds: Vec<Kind>) -> Self {
        OwnedObjects {
            inner: Mutex::default(),
            missing: watch::Sender::new((0..kinds.len()).collect()),
            kinds,
        }
    }

    pub(crate) fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    /// Waits until every owned kind was listed once, of the home or of all clusters: before that,
    /// pruning would be guessing.
    pub(crate) async fn known(&self, everywhere: bool) {
        let counts = |place: &usize| everywhere || self.kinds[*place].cluster == crate::HOME;
        let mut missing = self.missing.subscribe();
        // The sender lives as long as `self`, so the wait cannot fail.
        let _ = missing.wait_for(|missing| !missing.iter().any(counts)).await;
    }

    /// Kinds that have not been listed yet, each with its cluster.
    pub(crate) fn unlisted(&self) -> Vec<String> {
        let named = |place: &usize| {
            let kind = &self.kinds[*place];
            if kind.cluster == crate::HOME {
                kind.resource.kind.clone()
            } else {
                format!("{} in cluster {}", kind.resource.kind, kind.cluster)
            }
        };
        self.missing.borrow().iter().map(named).collect()
    }

    /// What was just written: the watch may be slow to say so.
    pub(crate) fn wrote(&self, kind: &Kind, live: &Value) {
        let meta = live.get("metadata").cloned().unwrap_or_default();
        if let Ok(meta) = serde_json::from_value(meta) {
            lock(&self.inner).see(kind, &meta);
        }
    }

    /// Deletion was asked for: the watch says when the object is gone. `gone`: it was not there.
    pub(crate) fn deleted(&self, reference: &Reference, gone: bool) {
        let mut inner = lock(&self.inner);
        if gone {
            inner.lose(reference);
        } else if let Some(owner) = inner.owner_of.get(reference).cloned()
            && let Some(owned) = inner
                .by_owner
                .get_mut(&owner)
                .and_then(|all| all.get_mut(reference))
        {
            owned.deleting = true;
        }
    }

    pub(crate) fn of(&self, uid: &str) -> Vec<(Reference, Owned)> {
        let inner = lock(&self.inner);
        let objects = inner.by_owner.get(uid).into_iter().flatten();
        objects
            .map(|(reference, owned)| (reference.clone(), owned.clone()))
            .collect()
    }

    /// One kind less to wait for.
    fn settle(&self, index: usize) {
        self.missing.send_if_modified(|missing| missing.remove(&index));
    }

    /// The cluster does not have the kind with this index: there is no list to wait for.
    pub(crate) fn lacks(&self, index: usize) {
        lock(&self.inner).absent.insert(index);
        self.settle(index);
    }

    /// The kinds that the home cluster does not have, as [`Reference::kind`] names them.
    pub(crate) fn absent(&self) -> BTreeSet<String> {
        let inner = lock(&self.inner);
        let kinds = inner.absent.iter().map(|index| &self.kinds[*index]);
        let at_home = kinds.filter(|kind| kind.cluster == crate::HOME);
        at_home.map(|kind| kind.named(None, "").kind).collect()
    }

    /// Takes in what the watch of the kind with this index says.
    pub(crate) fn take_in(&self, index: usize, event: &Event<Metadata>) -> News {
        let kind = &self.kinds[index];
        let mut inner = lock(&self.inner);
        let mut news = News::default();
        match event {
            Event::Init => {
                inner.listing.insert(index, HashSet::new());
            }
            Event::InitApply(object) => {
                let (reference, owners) = inner.see(kind, &object.metadata);
                inner.listing.entry(index).or_default().insert(reference);
                news.owners = owners;
            }
            // What vanished while the watch was down is in no list, and nobody else reports it.
            Event::InitDone => {
                inner.absent.remove(&index);
                let seen = inner.listing.remove(&index).unwrap_or_default();
                let known = inner.owner_of.keys().chain(inner.makers.keys());
                let gone: BTreeSet<Reference> = known
                    .filter(|r| kind.is_of(r) && !seen.contains(*r))
                    .cloned()
                    .collect();
                news.owners = gone.iter().filter_map(|r| inner.lose(r)).collect();
                news.gone = gone.into_iter().collect();
                self.settle(index);
            }
            Event::Apply(object) => news.owners = inner.see(kind, &object.metadata).1,
            Event::Delete(object) => {
                let meta = &object.metadata;
                let reference = kind.named(meta.namespace.as_deref(), name(meta));
                news.owners = maker(meta).into_iter().chain(inner.lose(&reference)).collect();
                news.gone = vec![reference];
            }
        }
        news
    }
}

fn name(meta: &ObjectMeta) -> &str {
    meta.name.as_deref().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::write::ownership::OWNER_UID;
    use k8s_openapi::api::core::v1::Secret;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
    use kube::core::PartialObjectMetaExt;

    fn object(name: &str, owner: &str) -> Metadata {
        ObjectMeta {
            name: Some(name.into()),
            namespace: Some("ns".into()),
            uid: Some(format!("uid-{name}")),
            labels: Some([(OWNER_UID.to_owned(), owner.to_owned())].into()),
            owner_references: Some(vec![OwnerReference {
                uid: owner.into(),
                controller: Some(true),
                ..OwnerReference::default()
            }]),
            ..ObjectMeta::default()
        }
        .into_response_partial()
    }

    fn names(owned: &OwnedObjects, uid: &str) -> Vec<String> {
        owned.of(uid).into_iter().map(|(r, _)| r.key.name).collect()
    }

    #[test]
    fn follows_the_watch_and_forgets_what_a_new_list_lacks() {
        let owned = OwnedObjects::new(vec![Kind::of::<Secret>()]);
        let feed = |event| drop(owned.take_in(0, &event));
        feed(Event::Init);
        feed(Event::InitApply(object("a", "u1")));
        feed(Event::InitApply(object("b", "u1")));
        assert_eq!(owned.unlisted(), ["Secret"]);
        feed(Event::InitDone);
        assert_eq!(owned.unlisted(), Vec::<String>::new());
        assert_eq!(names(&owned, "u1"), ["a", "b"]);
        feed(Event::Apply(object("b", "u2")));
        assert_eq!(
            (names(&owned, "u1"), names(&owned, "u2")),
            (vec!["a".into()], vec!["b".into()])
        );
        feed(Event::Init);
        owned.lacks(0);
        assert_eq!(owned.absent(), ["Secret".to_owned()].into());
        feed(Event::InitApply(object("b", "u2")));
        feed(Event::InitDone);
        assert_eq!(owned.absent(), BTreeSet::new());
        assert_eq!(names(&owned, "u1"), Vec::<String>::new());
        feed(Event::Delete(object("b", "u2")));
        assert_eq!(names(&owned, "u2"), Vec::<String>::new());
        assert!(lock(&owned.inner).by_owner.is_empty());
    }

    #[tokio::test]
    async fn another_cluster_that_is_away_is_waited_for_only_at_the_end() {
        let secrets = Kind::of::<Secret>();
        let owned = OwnedObjects::new(vec![secrets.clone(), secrets.in_cluster("far")]);
        let moment = std::time::Duration::from_millis(10);
        let knows = async |all| tokio::time::timeout(moment, owned.known(all)).await.is_ok();
        assert!(!knows(false).await);
        owned.settle(0);
        assert!(knows(false).await && !knows(true).await);
        assert_eq!(owned.unlisted(), ["Secret in cluster far"]);
        owned.settle(1);
        assert!(knows(true).await);
    }

    #[test]
    fn what_was_written_is_known_before_the_watch_tells() {
        let secrets = Kind::of::<Secret>();
        let owned = OwnedObjects::new(vec![secrets.clone()]);
        let made = serde_json::to_value(object("a", "u1")).expect("JSON");
        owned.wrote(&secrets, &made);
        assert_eq!(names(&owned, "u1"), ["a"]);
        let reference = secrets.named(Some("ns"), "a");
        owned.deleted(&reference, false);
        assert!(owned.of("u1").iter().all(|(_, owned)| owned.deleting));
        owned.deleted(&reference, true);
        assert_eq!(names(&owned, "u1"), Vec::<String>::new());
    }

    fn marked(name: &str, maker: Option<&str>, lasting: bool) -> Metadata {
        let mut object = object(name, "u1");
        if lasting {
            object.metadata.labels = None;
            object.metadata.owner_references = None;
        }
        object.metadata.annotations = maker.map(|maker| [(OWNER.to_owned(), format!("ns/{maker}"))].into());
        object
    }

    fn keys(names: &[&str]) -> BTreeSet<Key> {
        names.iter().map(|name| Key::new(Some("ns"), name)).collect()
    }

    #[test]
    fn the_owner_of_what_vanished_between_two_lists_is_told() {
        let secrets = Kind::of::<Secret>();
        let owned = OwnedObjects::new(vec![secrets.clone()]);
        let feed = |event| owned.take_in(0, &event);
        feed(Event::Init);
        for (name, maker, lasting) in [("a", "x", false), ("b", "y", true), ("c", "z", false)] {
            feed(Event::InitApply(marked(name, Some(maker), lasting)));
        }
        assert_eq!(feed(Event::InitDone), News::default(), "nothing is gone at first");
        feed(Event::Init);
        feed(Event::InitApply(marked("c", Some("z"), false)));
        let news = feed(Event::InitDone);
        assert_eq!(news.owners, keys(&["x", "y"]));
        assert_eq!(news.gone, ["a", "b"].map(|name| secrets.named(Some("ns"), name)));
        feed(Event::Init);
        assert_eq!(feed(Event::InitDone).owners, keys(&["z"]));
        let inner = lock(&owned.inner);
        assert!(inner.makers.is_empty() && inner.owner_of.is_empty());
    }

    #[test]
    fn the_owner_is_told_though_its_mark_was_taken_off() {
        let owned = OwnedObjects::new(vec![Kind::of::<Secret>()]);
        let feed = |event| owned.take_in(0, &event).owners;
        assert_eq!(feed(Event::Apply(marked("a", Some("x"), false))), keys(&["x"]));
        for _ in 0..2 {
            assert_eq!(feed(Event::Apply(marked("a", None, false))), keys(&["x"]));
        }
        let other = feed(Event::Apply(marked("a", Some("y"), false)));
        assert_eq!(other, keys(&["x", "y"]), "both have to look");
        assert_eq!(feed(Event::Delete(marked("a", None, false))), keys(&["y"]));
        assert_eq!(feed(Event::Delete(marked("a", None, false))), keys(&[]));
    }
}
