//! What a controller's objects own, known from a metadata-only watch of the objects with its label.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Mutex;

use jiff::Timestamp;
use kube::api::ObjectMeta;
use kube::runtime::watcher::Event;
use serde_json::Value;
use tokio::sync::watch;

use crate::kinds::{Kind, Reference};
use crate::lock;
use crate::ownership::owner_of;
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

    /// Waits until every owned kind was listed once: before that, pruning would be guessing.
    pub(crate) async fn known(&self) {
        // The sender lives as long as `self`, so the wait cannot fail.
        let _ = self.missing.subscribe().wait_for(BTreeSet::is_empty).await;
    }

    /// Kinds that have not been listed yet, each with its cluster.
    pub(crate) fn unlisted(&self) -> Vec<String> {
        let named = |place: &usize| {
            let kind = &self.kinds[*place];
            match kind.cluster == crate::HOME {
                true => kind.resource.kind.clone(),
                false => format!("{} in cluster {}", kind.resource.kind, kind.cluster),
            }
        };
        self.missing.borrow().iter().map(named).collect()
    }

    /// What was just written: the watch may be slow to say so.
    pub(crate) fn wrote(&self, kind: &Kind, live: &Value) {
        let meta = live.get("metadata").cloned().unwrap_or_default();
        if let Ok(meta) = serde_json::from_value(meta) {
            insert(&mut lock(&self.inner), kind, &meta);
        }
    }

    /// Deletion was asked for: the watch says when the object is gone. `gone`: it was not there.
    pub(crate) fn deleted(&self, reference: &Reference, gone: bool) {
        let mut inner = lock(&self.inner);
        if gone {
            inner.remove(reference);
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

    /// One kind less to wait for: it was listed, or the cluster lacks it.
    pub(crate) fn settle(&self, index: usize) {
        self.missing.send_if_modified(|missing| missing.remove(&index));
    }

    /// Takes in what the watch of the kind with this index says.
    pub(crate) fn take_in(&self, index: usize, event: &Event<Metadata>) {
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
                let gone: Vec<_> = inner
                    .owner_of
                    .keys()
                    .filter(|r| kind.is_of(r) && !seen.contains(*r))
                    .cloned()
                    .collect();
                for reference in gone {
                    inner.remove(&reference);
                }
                self.settle(index);
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
    let reference = kind.named(meta.namespace.as_deref(), name(meta));
    let Some(owner) = owner_of(meta, kind.cluster == crate::HOME) else {
        inner.remove(&reference);
        return None;
    };
    inner.insert(reference.clone(), owner, Owned::of(meta));
    Some(reference)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ownership::OWNER_UID;
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
        let feed = |event| owned.take_in(0, &event);
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
        feed(Event::InitApply(object("b", "u2")));
        feed(Event::InitDone);
        assert_eq!(names(&owned, "u1"), Vec::<String>::new());
        feed(Event::Delete(object("b", "u2")));
        assert_eq!(names(&owned, "u2"), Vec::<String>::new());
        assert!(lock(&owned.inner).by_owner.is_empty());
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
}
