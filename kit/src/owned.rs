//! What a controller's objects own, known from a metadata-only watch of the objects with its label.

use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;

use jiff::Timestamp;
use kube::api::ObjectMeta;
use kube::runtime::watcher::Event;
use tokio::sync::watch;

use crate::kinds::{Kind, Reference};
use crate::lock;
use crate::ownership::OWNER_UID;
use crate::run::Metadata;

/// The little that is kept of an owned object.
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

#[derive(Default)]
struct Inner {
    by_owner: HashMap<String, BTreeMap<Reference, Owned>>,
    owner_of: HashMap<Reference, String>,
    /// Per kind: what a fresh list has shown so far.
    listing: HashMap<usize, Vec<Reference>>,
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
}

pub struct OwnedObjects {
    kinds: Vec<Kind>,
    inner: Mutex<Inner>,
    /// Kinds that have not been listed yet.
    missing: watch::Sender<usize>,
}

impl OwnedObjects {
    pub(crate) fn new(kinds: Vec<Kind>) -> Self {
        OwnedObjects {
            inner: Mutex::default(),
            missing: watch::Sender::new(kinds.len()),
            kinds,
        }
    }

    pub(crate) fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    /// Waits until every owned kind was listed once: before that, pruning would be guessing.
    pub(crate) async fn known(&self) {
        // The sender lives as long as `self`, so the wait cannot fail.
        let _ = self.missing.subscribe().wait_for(|missing| *missing == 0).await;
    }

    pub(crate) fn of(&self, uid: &str) -> Vec<(Reference, Owned)> {
        let inner = lock(&self.inner);
        let objects = inner.by_owner.get(uid).into_iter().flatten();
        objects
            .map(|(reference, owned)| (reference.clone(), owned.clone()))
            .collect()
    }

    /// One kind less to wait for, at the first call for it: it was listed, or the cluster lacks it.
    pub(crate) fn settle(&self, first: &mut bool) {
        if std::mem::take(first) {
            self.missing
                .send_modify(|missing| *missing = missing.saturating_sub(1));
        }
    }

    /// Takes in what the watch of the kind with this index says. `first` marks its first list.
    pub(crate) fn take_in(&self, index: usize, event: &Event<Metadata>, first: &mut bool) {
        let kind = &self.kinds[index];
        let mut inner = lock(&self.inner);
        match event {
            Event::Init => {
                inner.listing.insert(index, Vec::new());
            }
            Event::InitApply(object) => {
                if let Some(reference) = insert(&mut inner, kind, &object.metadata) {
                    inner.listing.entry(index).or_default().push(reference);
                }
            }
            Event::InitDone => {
                let seen = inner.listing.remove(&index).unwrap_or_default();
                let seen: std::collections::HashSet<_> = seen.into_iter().collect();
                let probe = kind.named(None, "");
                let gone: Vec<_> = inner
                    .owner_of
                    .keys()
                    .filter(|r| r.kind == probe.kind && r.cluster == probe.cluster && !seen.contains(*r))
                    .cloned()
                    .collect();
                for reference in gone {
                    inner.remove(&reference);
                }
                self.settle(first);
            }
            Event::Apply(object) => {
                insert(&mut inner, kind, &object.metadata);
            }
            Event::Delete(object) => {
                let meta = &object.metadata;
                inner.remove(&kind.named(meta.namespace.as_deref(), name(meta)));
            }
        }
    }
}

fn name(meta: &ObjectMeta) -> &str {
    meta.name.as_deref().unwrap_or_default()
}

fn insert(inner: &mut Inner, kind: &Kind, meta: &ObjectMeta) -> Option<Reference> {
    let owner = meta.labels.as_ref()?.get(OWNER_UID)?;
    let reference = kind.named(meta.namespace.as_deref(), name(meta));
    inner.insert(reference.clone(), owner, Owned::of(meta));
    Some(reference)
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::Secret;
    use kube::core::PartialObjectMetaExt;

    fn object(name: &str, owner: &str) -> Metadata {
        ObjectMeta {
            name: Some(name.into()),
            namespace: Some("ns".into()),
            uid: Some(format!("uid-{name}")),
            labels: Some([(OWNER_UID.to_owned(), owner.to_owned())].into()),
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
        let mut first = true;
        let mut feed = |event| owned.take_in(0, &event, &mut first);
        feed(Event::Init);
        feed(Event::InitApply(object("a", "u1")));
        feed(Event::InitApply(object("b", "u1")));
        assert_eq!(*owned.missing.borrow(), 1);
        feed(Event::InitDone);
        assert_eq!(*owned.missing.borrow(), 0);
        assert_eq!(names(&owned, "u1"), ["a", "b"]);
        feed(Event::Apply(object("b", "u2")));
        assert_eq!(
            (names(&owned, "u1"), names(&owned, "u2")),
            (vec!["a".into()], vec!["b".into()])
        );
        feed(Event::Init);
        feed(Event::InitApply(object("b", "u2")));
        feed(Event::InitDone);
        assert_eq!(names(&owned, "u1"), Vec::<String>::new());
        feed(Event::Delete(object("b", "u2")));
        assert_eq!(names(&owned, "u2"), Vec::<String>::new());
        assert!(lock(&owned.inner).by_owner.is_empty());
    }
}
