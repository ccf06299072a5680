//! Watches, and the queue that they fill.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use futures::channel::mpsc;
use futures::stream::StreamExt;
use kube::api::{Api, ObjectMeta};
use kube::core::{DynamicObject, PartialObjectMeta, PartialObjectMetaExt};
use kube::runtime::reflector::store::Writer;
use kube::runtime::watcher::{self, Event};

use crate::kinds::{self, Key, Kind, Reference};
use crate::lock;
use crate::reconcile::pass::Context;
use crate::reconcile::watch::{events, is_unknown};
use crate::write::owned::maker;

/// All that a watch of a dependency or of an owned object asks for.
pub(crate) type Metadata = PartialObjectMeta<DynamicObject>;

fn configured(kind: &Kind) -> watcher::Config {
    watcher::Config {
        label_selector: kind.labels.clone(),
        field_selector: kind.fields.clone(),
        ..watcher::Config::default()
    }
}

/// The keys that wait for a pass, each at most once.
pub(crate) struct Queue {
    ctx: Arc<Context>,
    pending: Mutex<HashSet<Key>>,
    sender: mpsc::UnboundedSender<Key>,
}

impl Queue {
    pub(crate) fn new(ctx: Arc<Context>, sender: mpsc::UnboundedSender<Key>) -> Self {
        Queue {
            ctx,
            pending: Mutex::default(),
            sender,
        }
    }

    pub(crate) fn push(&self, key: Key) {
        let mut pending = lock(&self.pending);
        if pending.insert(key.clone()) {
            self.ctx.metrics.queue(self.ctx.declared.name, pending.len());
            // The receiver is gone only when the loop stops.
            let _ = self.sender.unbounded_send(key);
        }
    }

    pub(crate) fn start(&self, key: &Key) {
        let mut pending = lock(&self.pending);
        pending.remove(key);
        self.ctx.metrics.queue(self.ctx.declared.name, pending.len());
    }

    fn watch_failed(&self, kind: &str, error: &watcher::Error) {
        self.ctx.metrics.watch_failed(self.ctx.declared.name, kind);
        // A cluster may do without a kind.
        if is_unknown(error) {
            tracing::debug!(controller = self.ctx.declared.name, kind, "not in this cluster");
        } else {
            tracing::warn!(
                controller = self.ctx.declared.name,
                kind,
                "watch starts again: {error}"
            );
        }
    }

    /// The objects themselves. Only their names are kept, and what they refer to.
    pub(crate) async fn follow_objects(
        self: Arc<Self>,
        mut writer: Writer<Metadata>,
        kind: Kind,
        namespace: Option<String>,
    ) {
        let client = self.ctx.clusters.home();
        let api = kinds::api(client, &kind.resource, namespace.as_deref());
        let mut events = events(api, &kind.resource, configured(&kind));
        let mut listed = Vec::new();
        while let Some(event) = events.next().await {
            let event = match event {
                Ok(event) => event,
                Err(error) => {
                    self.watch_failed(&kind.resource.kind, &error);
                    continue;
                }
            };
            writer.apply_watcher_event(&slim(&event));
            match event {
                Event::Init => listed.clear(),
                Event::InitApply(object) => listed.push(self.refer(&object)),
                // Only now does the store know the listed objects.
                Event::InitDone => {
                    self.forget_all_but(&listed);
                    listed.drain(..).for_each(|key| self.push(key));
                }
                Event::Apply(object) => {
                    let key = self.refer(&object);
                    let reference = kind.named(key.namespace.as_deref(), &key.name);
                    let version = object.metadata.resource_version.as_deref();
                    if !self.ctx.own_writes.is_own(&reference, version) {
                        self.push(key);
                    }
                }
                Event::Delete(object) => {
                    let key = Key::of(&object);
                    lock(&self.ctx.index).remove(&key);
                    self.ctx.forget(&key);
                }
            }
        }
    }

    fn refer(&self, object: &DynamicObject) -> Key {
        let key = Key::of(object);
        let references = self.ctx.controller.references(object);
        lock(&self.ctx.index).set(&key, references);
        key
    }

    fn forget_all_but(&self, listed: &[Key]) {
        let listed: HashSet<&Key> = listed.iter().collect();
        let mut index = lock(&self.ctx.index);
        let gone: Vec<Key> = index
            .keys()
            .filter(|key| !listed.contains(key))
            .cloned()
            .collect();
        for key in gone {
            index.remove(&key);
            self.ctx.forget(&key);
        }
    }

    pub(crate) async fn follow_owned(self: Arc<Self>, api: Api<Metadata>, position: usize, kind: Kind) {
        let mut events = events(api, &kind.resource, configured(&kind));
        let mut missing = false;
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => {
                    let news = self.ctx.owned.take_in(position, &event);
                    if matches!(event, Event::InitDone) && std::mem::take(&mut missing) {
                        self.push_all();
                    }
                    for reference in &news.gone {
                        self.ctx.own_writes.forget(reference);
                        self.ctx.rewritten.forget(reference);
                    }
                    let seen = match &event {
                        Event::Apply(object) | Event::InitApply(object) => Some(&object.metadata),
                        _ => None,
                    };
                    if !seen.is_some_and(|meta| self.is_own(&kind, meta)) {
                        news.owners.into_iter().for_each(|owner| self.push(owner));
                    }
                }
                Err(error) => {
                    if is_unknown(&error) {
                        missing = true;
                        self.ctx.owned.lacks(position);
                    }
                    self.watch_failed(&kind.resource.kind, &error);
                }
            }
        }
    }

    pub(crate) async fn follow_references(self: Arc<Self>, api: Api<Metadata>, kind: Kind) {
        let mut events = events(api, &kind.resource, configured(&kind));
        let mut first = true;
        let mut missing = false;
        let mut listed = HashSet::new();
        while let Some(event) = events.next().await {
            if let Ok(Event::InitApply(object)) = &event
                && first
            {
                listed.insert(reference(&kind, &object.metadata));
            }
            match event {
                Ok(Event::Apply(object) | Event::InitApply(object)) => {
                    // What we wrote for one object is no news to that one, but to others it is.
                    let echo = self.is_own(&kind, &object.metadata);
                    let writer = echo.then(|| maker(&object.metadata)).flatten();
                    self.push_dependents(&kind, &object.metadata, writer.as_ref());
                }
                Ok(Event::Delete(object)) => self.push_dependents(&kind, &object.metadata, None),
                // Those who could do nothing without the kind.
                Ok(Event::InitDone) if std::mem::take(&mut missing) => {
                    first = false;
                    self.push_all();
                }
                // Passes began before the first list: what they saw may have gone before it.
                Ok(Event::InitDone) if std::mem::take(&mut first) => {
                    let seen = std::mem::take(&mut listed);
                    let gone = |to: &Reference| kind.is_of(to) && !seen.contains(to);
                    let keys = lock(&self.ctx.index).keys_with(gone);
                    keys.into_iter().for_each(|key| self.push(key));
                }
                // What vanished while the watch was down is in no list: everybody looks again.
                Ok(Event::InitDone) => self.push_all(),
                Ok(Event::Init) => listed.clear(),
                Err(error) => {
                    missing |= is_unknown(&error);
                    self.watch_failed(&kind.resource.kind, &error);
                }
            }
        }
    }

    fn push_all(&self) {
        let keys: Vec<Key> = lock(&self.ctx.index).keys().cloned().collect();
        keys.into_iter().for_each(|key| self.push(key));
    }

    fn push_dependents(&self, kind: &Kind, meta: &ObjectMeta, except: Option<&Key>) {
        let reference = reference(kind, meta);
        let index = lock(&self.ctx.index);
        let any = kind.any_in(meta.namespace.as_deref());
        let keys: Vec<Key> = index
            .dependents(&reference)
            .chain(index.dependents(&any))
            .filter(|key| Some(*key) != except)
            .cloned()
            .collect();
        drop(index);
        keys.into_iter().for_each(|key| self.push(key));
    }

    fn is_own(&self, kind: &Kind, meta: &ObjectMeta) -> bool {
        let reference = reference(kind, meta);
        let version = meta.resource_version.as_deref();
        self.ctx.own_writes.is_own(&reference, version)
    }
}

fn reference(kind: &Kind, meta: &ObjectMeta) -> Reference {
    kind.named(
        meta.namespace.as_deref(),
        meta.name.as_deref().unwrap_or_default(),
    )
}

/// The event with no more of the object than its name.
fn slim(event: &Event<DynamicObject>) -> Event<Metadata> {
    let name = |object: &DynamicObject| {
        ObjectMeta {
            name: object.metadata.name.clone(),
            namespace: object.metadata.namespace.clone(),
            ..ObjectMeta::default()
        }
        .into_response_partial()
    };
    match event {
        Event::Apply(object) => Event::Apply(name(object)),
        Event::Delete(object) => Event::Delete(name(object)),
        Event::Init => Event::Init,
        Event::InitApply(object) => Event::InitApply(name(object)),
        Event::InitDone => Event::InitDone,
    }
}
