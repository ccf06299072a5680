//! Runs a controller: its watches, its queue, its passes.

use std::collections::HashSet;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::channel::mpsc;
use futures::stream::{BoxStream, StreamExt};
use kube::Client;
use kube::api::{Api, ObjectMeta};
use kube::core::{DynamicObject, PartialObjectMeta, PartialObjectMetaExt};
use kube::runtime::WatchStreamExt;
use kube::runtime::controller::{self, Action, Config, ReconcileRequest, applier};
use kube::runtime::reflector::{ObjectRef, store::Writer};
use kube::runtime::watcher::{self, Event, watcher};
use tokio::task::JoinSet;

use crate::clusters::{ClusterError, Clusters};
use crate::controller::Controller;
use crate::kinds::{self, Key, Kind, Reference};
use crate::lock;
use crate::metrics::Metrics;
use crate::owned::OwnedObjects;
use crate::ownership::{CONTROLLER, OWNER};
use crate::pass::{self, Context};
use crate::stop::Stop;
use crate::under_way::UnderWay;

/// All that a watch of a dependency or of an owned object asks for.
pub(crate) type Metadata = PartialObjectMeta<DynamicObject>;

/// Longest that a pass may take.
const TIMEOUT: Duration = Duration::from_secs(60);
const CONCURRENCY: u16 = 16;

/// A controller, ready to run.
pub struct Loop<C: Controller> {
    controller: C,
    clusters: Clusters,
    metrics: Metrics,
    kind: Kind,
    namespace: Option<String>,
    concurrency: u16,
    timeout: Duration,
    triggers: Vec<BoxStream<'static, Key>>,
}

impl<C: Controller> Loop<C> {
    pub fn new(controller: C, clusters: Clusters, metrics: Metrics) -> Self {
        Loop {
            controller,
            clusters,
            metrics,
            kind: Kind::of::<C::Kind>(),
            namespace: None,
            concurrency: CONCURRENCY,
            timeout: TIMEOUT,
            triggers: Vec::new(),
        }
    }

    /// Looks after the objects of one namespace only, and watches nothing outside of it.
    pub fn in_namespace(mut self, namespace: Option<String>) -> Self {
        self.namespace = namespace;
        self
    }

    /// Looks after objects with these labels only. The API server filters.
    pub fn labelled(mut self, selector: &str) -> Self {
        self.kind = self.kind.labelled(selector);
        self
    }

    /// Looks after objects with these fields only, such as `metadata.name=node-1`.
    pub fn with_fields(mut self, selector: &str) -> Self {
        self.kind = self.kind.with_fields(selector);
        self
    }

    pub fn concurrency(mut self, passes: u16) -> Self {
        self.concurrency = passes;
        self
    }

    pub fn timeout(mut self, pass: Duration) -> Self {
        self.timeout = pass;
        self
    }

    /// A pass for each object that the stream names: for news that no Kubernetes watch brings.
    pub fn triggered_by(mut self, keys: impl futures::Stream<Item = Key> + Send + 'static) -> Self {
        self.triggers.push(keys.boxed());
        self
    }

    /// Runs until the stop; passes under way are finished.
    pub async fn run(self, stop: Stop) -> Result<(), ClusterError> {
        let owned_kinds = C::owns();
        let watched = C::watches();
        let owned = Arc::new(OwnedObjects::new(owned_kinds.clone()));
        let ctx = Arc::new(Context {
            controller: self.controller,
            clusters: self.clusters,
            metrics: self.metrics.clone(),
            owned,
            kind: self.kind.clone(),
            timeout: self.timeout,
            settled: crate::apply::Settled::default(),
            echoes: pass::Echoes::default(),
            events: crate::events::Events::default(),
            failures: Mutex::default(),
            index: Mutex::default(),
        });
        let (sender, receiver) = mpsc::unbounded();
        let queue = Arc::new(Queue::<C> {
            ctx: ctx.clone(),
            pending: Mutex::default(),
            sender,
        });

        let mut watches = JoinSet::new();
        let writer = Writer::<PartialObjectMeta<C::Kind>>::default();
        let store = writer.as_reader();
        let namespace = self.namespace.as_deref();
        watches.spawn(
            queue
                .clone()
                .follow_objects(writer, self.kind, self.namespace.clone()),
        );
        for (position, kind) in owned_kinds.into_iter().enumerate() {
            let client = ctx.clusters.get(&kind.cluster)?;
            let labelled = format!("{CONTROLLER}={}", C::NAME);
            let selector = kind
                .labels
                .as_ref()
                .map_or(labelled.clone(), |l| format!("{labelled},{l}"));
            let api = metadata(client, &kind, namespace);
            watches.spawn(
                queue
                    .clone()
                    .follow_owned(api, position, kind.labelled(&selector)),
            );
        }
        for kind in watched {
            let api = metadata(ctx.clusters.get(&kind.cluster)?, &kind, namespace);
            watches.spawn(queue.clone().follow_references(api, kind));
        }
        for mut keys in self.triggers {
            let queue = queue.clone();
            watches.spawn(async move {
                while let Some(key) = keys.next().await {
                    queue.push(key);
                }
            });
        }

        tracing::info!(controller = C::NAME, "started");
        let stopping = stop.clone();
        let requests = receiver
            .map(|key| Ok::<_, Infallible>(request::<C>(&key)))
            .take_until(async move { stopping.requested().await });
        let starter = queue.clone();
        let under_way = UnderWay::default();
        let counter = under_way.clone();
        let reconcile = move |object: Arc<PartialObjectMeta<C::Kind>>, ctx: Arc<Context<C>>| {
            let key = Key::of(&*object);
            starter.start(&key);
            let one = counter.one();
            Box::pin(async move {
                let action = spawned(ctx, key).await;
                drop(one);
                Ok(action)
            }) as Passing
        };
        let never = |_, error: &Infallible, _| match *error {};
        let config = Config::default().concurrency(self.concurrency);
        let passes = applier(reconcile, never, ctx, store, requests, config);
        let passes = passes.for_each(|done| {
            // An object that is not in the store is gone: nothing to do but to forget the request.
            if let Err(controller::Error::ObjectNotFound(object)) = done {
                let key = Key::new(object.namespace.as_deref(), &object.name);
                queue.start(&key);
            }
            std::future::ready(())
        });
        // Before the first list of its objects the applier never ends by itself.
        let drained = async {
            stop.requested().await;
            under_way.none().await;
        };
        tokio::select! {
            () = passes => {}
            () = drained => {}
        }
        watches.shutdown().await;
        tracing::info!(controller = C::NAME, "stopped");
        Ok(())
    }
}

type Passing = Pin<Box<dyn Future<Output = Result<Action, Infallible>> + Send>>;

fn request<C: Controller>(key: &Key) -> ReconcileRequest<PartialObjectMeta<C::Kind>> {
    let object = ObjectRef::new(&key.name);
    match &key.namespace {
        Some(namespace) => object.within(namespace).into(),
        None => object.into(),
    }
}

/// A task of its own: passes run in parallel, and one that panics harms no other.
async fn spawned<C: Controller>(ctx: Arc<Context<C>>, key: Key) -> Action {
    let task = tokio::spawn({
        let (ctx, key) = (ctx.clone(), key.clone());
        async move { pass::run(&ctx, &key).await }
    });
    let again = task.await.unwrap_or_else(|_| pass::panicked(&ctx, &key));
    again.map_or_else(Action::await_change, Action::requeue)
}

fn metadata(client: &Client, kind: &Kind, namespace: Option<&str>) -> Api<Metadata> {
    match namespace.filter(|_| !kind.everywhere) {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &kind.resource),
        None => Api::all_with(client.clone(), &kind.resource),
    }
}

fn configured(kind: &Kind) -> watcher::Config {
    watcher::Config {
        label_selector: kind.labels.clone(),
        field_selector: kind.fields.clone(),
        ..watcher::Config::default()
    }
}

/// The keys that wait for a pass, each at most once.
struct Queue<C: Controller> {
    ctx: Arc<Context<C>>,
    pending: Mutex<HashSet<Key>>,
    sender: mpsc::UnboundedSender<Key>,
}

impl<C: Controller> Queue<C> {
    fn push(&self, key: Key) {
        let mut pending = lock(&self.pending);
        if pending.insert(key.clone()) {
            self.ctx.metrics.queue(C::NAME, pending.len());
            // The receiver is gone only when the loop stops.
            let _ = self.sender.unbounded_send(key);
        }
    }

    fn start(&self, key: &Key) {
        let mut pending = lock(&self.pending);
        pending.remove(key);
        self.ctx.metrics.queue(C::NAME, pending.len());
    }

    fn watch_failed(&self, kind: &str, error: &watcher::Error) {
        self.ctx.metrics.watch_failed(C::NAME, kind);
        // A cluster may do without a kind; it is looked for again and again, and needs no word each time.
        if is_unknown(error) {
            tracing::debug!(controller = C::NAME, kind, "not in this cluster");
        } else {
            tracing::warn!(controller = C::NAME, kind, "watch starts again: {error}");
        }
    }

    /// The objects themselves. Only their names are kept, and what they refer to.
    async fn follow_objects(
        self: Arc<Self>,
        mut writer: Writer<PartialObjectMeta<C::Kind>>,
        kind: Kind,
        namespace: Option<String>,
    ) {
        let client = self.ctx.clusters.home();
        let api = kinds::api(client, &kind.resource, namespace.as_deref());
        let mut events = watcher(api, configured(&kind)).default_backoff().boxed();
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
                    if !self.ctx.echoes.is_echo(&reference, version) {
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
        // An object that does not parse refers to nothing; its pass will say what is wrong with it.
        let parsed = object.clone().try_parse::<C::Kind>().ok();
        let references = parsed.as_ref().map(C::references).unwrap_or_default();
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

    async fn follow_owned(self: Arc<Self>, api: Api<Metadata>, position: usize, kind: Kind) {
        let mut events = watcher(api, configured(&kind)).default_backoff().boxed();
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => {
                    self.ctx.owned.take_in(position, &event);
                    let (Event::Apply(object) | Event::InitApply(object) | Event::Delete(object)) = &event
                    else {
                        continue;
                    };
                    let echo = self.echo(&kind, &object.metadata, matches!(event, Event::Delete(_)));
                    if let Some(owner) = owner(object).filter(|_| !echo) {
                        self.push(owner);
                    }
                }
                Err(error) => {
                    if is_unknown(&error) {
                        self.ctx.owned.settle(position);
                    }
                    self.watch_failed(&kind.resource.kind, &error);
                }
            }
        }
    }

    async fn follow_references(self: Arc<Self>, api: Api<Metadata>, kind: Kind) {
        let mut events = watcher(api, configured(&kind)).default_backoff().boxed();
        let mut first = true;
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
                    let writer = self
                        .echo(&kind, &object.metadata, false)
                        .then(|| owner(&object))
                        .flatten();
                    self.push_dependents(&kind, &object.metadata, writer.as_ref());
                }
                Ok(Event::Delete(object)) => self.push_dependents(&kind, &object.metadata, None),
                // Passes began before the first list: what they saw may have gone before it.
                Ok(Event::InitDone) if std::mem::take(&mut first) => {
                    let seen = std::mem::take(&mut listed);
                    let gone = |to: &Reference| kind.is_of(to) && !seen.contains(to);
                    let keys = lock(&self.ctx.index).keys_with(gone);
                    keys.into_iter().for_each(|key| self.push(key));
                }
                // What vanished while the watch was down is in no list: everybody looks again.
                Ok(Event::InitDone) => {
                    let keys: Vec<Key> = lock(&self.ctx.index).keys().cloned().collect();
                    keys.into_iter().for_each(|key| self.push(key));
                }
                Ok(Event::Init) => listed.clear(),
                Err(error) => self.watch_failed(&kind.resource.kind, &error),
            }
        }
    }

    fn push_dependents(&self, kind: &Kind, meta: &ObjectMeta, except: Option<&Key>) {
        let reference = reference(kind, meta);
        let index = lock(&self.ctx.index);
        let keys: Vec<Key> = index
            .dependents(&reference)
            .filter(|key| Some(*key) != except)
            .cloned()
            .collect();
        drop(index);
        keys.into_iter().for_each(|key| self.push(key));
    }

    fn echo(&self, kind: &Kind, meta: &ObjectMeta, deleted: bool) -> bool {
        let reference = reference(kind, meta);
        if deleted {
            self.ctx.echoes.forget(&reference);
            return false;
        }
        self.ctx
            .echoes
            .is_echo(&reference, meta.resource_version.as_deref())
    }
}

/// The cluster does not have the kind: nothing of it can be owned.
fn is_unknown(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status)) => status.code == 404,
        _ => false,
    }
}

fn reference(kind: &Kind, meta: &ObjectMeta) -> Reference {
    kind.named(
        meta.namespace.as_deref(),
        meta.name.as_deref().unwrap_or_default(),
    )
}

/// The object for which this one was made.
fn owner(object: &Metadata) -> Option<Key> {
    let text = object.metadata.annotations.as_ref()?.get(OWNER)?;
    Some(Key::parse(text))
}

/// The event with no more of the object than its name.
fn slim<K>(event: &Event<DynamicObject>) -> Event<PartialObjectMeta<K>> {
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
