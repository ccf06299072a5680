//! Runs a controller: its watches, its queue, its passes.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt;
use futures::channel::mpsc;
use futures::future::BoxFuture;
use futures::stream::{BoxStream, FuturesUnordered, StreamExt};
use kube::Client;
use kube::api::Api;
use kube::core::ApiResource;
use kube::runtime::controller::{self, Action, Config, ReconcileRequest, applier};
use kube::runtime::reflector::{ObjectRef, store::Writer};
use tokio::task::JoinSet;

use crate::clusters::{ClusterError, Clusters};
use crate::kinds::{Key, Kind};
use crate::process::metrics::Metrics;
use crate::process::stop::Stop;
use crate::reconcile::controller::Controller;
use crate::reconcile::erased::{Declared, Typed};
use crate::reconcile::follow::{Metadata, Queue};
use crate::reconcile::in_flight::InFlight;
use crate::reconcile::pass::{self, Context};
use crate::write::own_writes::OwnWrites;
use crate::write::owned::OwnedObjects;
use crate::write::ownership::CONTROLLER;
use crate::write::rewritten::Rewritten;

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

    /// Runs a pass for each object that the stream names: for changes that no Kubernetes watch reports.
    pub fn triggered_by(mut self, keys: impl futures::Stream<Item = Key> + Send + 'static) -> Self {
        self.triggers.push(keys.boxed());
        self
    }

    /// Runs until the stop; passes under way are finished.
    pub async fn run(self, stop: Stop) -> Result<(), ClusterError> {
        let owned = self.clusters.spread(C::owns());
        let watched = self.clusters.spread(C::watches());
        let ctx = Context {
            controller: Box::new(Typed(self.controller)),
            declared: Declared::of::<C>(),
            clusters: self.clusters,
            metrics: self.metrics,
            owned: Arc::new(OwnedObjects::new(owned.clone())),
            kind: self.kind,
            timeout: self.timeout,
            rewritten: Rewritten::default(),
            own_writes: OwnWrites::default(),
            events: crate::report::events::Events::default(),
            failures: Mutex::default(),
            index: Mutex::default(),
        };
        let running = Running {
            ctx: Arc::new(ctx),
            owned,
            watched,
            namespace: self.namespace,
            concurrency: self.concurrency,
            triggers: self.triggers,
        };
        running.until(stop).await
    }
}

/// A loop without the types of its controller.
struct Running {
    ctx: Arc<Context>,
    owned: Vec<Kind>,
    watched: Vec<Kind>,
    namespace: Option<String>,
    concurrency: u16,
    triggers: Vec<BoxStream<'static, Key>>,
}

impl Running {
    async fn until(self, stop: Stop) -> Result<(), ClusterError> {
        let ctx = self.ctx;
        let name = ctx.declared.name;
        let (sender, receiver) = mpsc::unbounded();
        let queue = Arc::new(Queue::new(ctx.clone(), sender));

        let mut watches = JoinSet::new();
        let writer = Writer::new(ctx.kind.resource.clone());
        let store = writer.as_reader();
        let namespace = self.namespace.as_deref();
        watches.spawn(
            queue
                .clone()
                .follow_objects(writer, ctx.kind.clone(), self.namespace.clone()),
        );
        for (position, kind) in self.owned.into_iter().enumerate() {
            let client = ctx.clusters.get(&kind.cluster)?;
            let labelled = format!("{CONTROLLER}={name}");
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
        for kind in self.watched {
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

        tracing::info!(controller = name, "started");
        let (halt, halted) = Stop::channel();
        let resource = ctx.kind.resource.clone();
        let requests = receiver
            .map(move |key| Ok::<_, Infallible>(request(&key, &resource)))
            .take_until(async move { halted.requested().await });
        let starter = queue.clone();
        let in_flight = InFlight::default();
        let counter = in_flight.clone();
        let reconcile = move |object: Arc<Metadata>, ctx: Arc<Context>| {
            let key = Key::of(&*object);
            starter.start(&key);
            let one = counter.begin();
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
        let drained = async {
            let ended = tokio::select! {
                () = stop.requested() => Ok(()),
                () = broken(&mut watches) => Err(ClusterError::Watch { controller: name }),
            };
            halt.stop();
            in_flight.drained().await;
            ended
        };
        // Before the first list of its objects the applier never ends by itself.
        let passes = passes.then(|()| std::future::pending::<Infallible>());
        let ended = tokio::select! {
            ended = drained => ended,
            never = passes => match never {},
        };
        watches.shutdown().await;
        tracing::info!(controller = name, "stopped");
        ended
    }
}

/// Runs the loops of one operator. When one ends with an error, the others end in order too: a lease
/// is given up after the last pass of all.
pub async fn together<'a>(
    stop: Stop,
    loops: impl FnOnce(Stop) -> Vec<BoxFuture<'a, Result<(), ClusterError>>>,
) -> Result<(), ClusterError> {
    let (stopper, stopped) = Stop::channel();
    let mut running: FuturesUnordered<_> = loops(stopped).into_iter().collect();
    let mut outcome = Ok(());
    let stopping = async {
        stop.requested().await;
        stopper.stop();
        std::future::pending::<Infallible>().await
    };
    tokio::pin!(stopping);
    loop {
        let ended = tokio::select! {
            ended = running.next() => ended,
            never = &mut stopping => match never {},
        };
        match ended {
            None => return outcome,
            Some(Ok(())) => {}
            Some(Err(error)) => {
                stopper.stop();
                outcome = outcome.and(Err(error));
            }
        }
    }
}

/// Ends when a watch panicked: without it the controller is blind. A stream of news may just end.
async fn broken(watches: &mut JoinSet<()>) {
    loop {
        match watches.join_next().await {
            Some(Ok(())) => {}
            Some(Err(_)) => return,
            None => std::future::pending().await,
        }
    }
}

type Passing = Pin<Box<dyn Future<Output = Result<Action, Infallible>> + Send>>;

fn request(key: &Key, resource: &ApiResource) -> ReconcileRequest<Metadata> {
    let object = ObjectRef::new_with(&key.name, resource.clone());
    match &key.namespace {
        Some(namespace) => object.within(namespace).into(),
        None => object.into(),
    }
}

/// A task of its own: passes run in parallel, and one that panics harms no other.
async fn spawned(ctx: Arc<Context>, key: Key) -> Action {
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[tokio::test]
    async fn one_that_fails_ends_the_others_in_order() {
        let (_stopper, stop) = Stop::channel();
        let finished = &AtomicBool::new(false);
        let outcome = together(stop, |stop| {
            let last_pass = async move {
                stop.requested().await;
                tokio::task::yield_now().await;
                finished.store(true, Ordering::Relaxed);
                Ok(())
            };
            let broken = async { Err(ClusterError::Watch { controller: "broken" }) };
            vec![last_pass.boxed(), broken.boxed()]
        });
        let error = outcome.await.expect_err("one failed");
        assert!(error.to_string().contains("broken"), "{error}");
        assert!(finished.load(Ordering::Relaxed));
    }
}
