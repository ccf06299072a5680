//! The shell: watches feed the world, changes call for tasks, decisions are carried out.
//!
//! Answers of the server go into the world at once, so a decision never rests on a world that
//! does not know the last one. That is what keeps a pod from being made twice.

mod act;
mod events;
pub(crate) mod task;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::pin::Pin;
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::stream::{self, BoxStream, StreamExt};
use jiff::{SignedDuration, Timestamp};
use kube::Client;
use kube::api::Api;
use kube::runtime::{WatchStreamExt, watcher};
use tokio::sync::mpsc;

use crate::action::Action;
use crate::engine::act::{Failure, Learned, carry_out};
use crate::engine::events::{OwnerEvent, Writer, source};
use crate::engine::task::{Task, tasks};
use crate::table::{Key, key_of};
use crate::world::{Cached, Changed, World, for_each_kind};

/// Each acts under the name, and with the rights, that it has in Kubernetes.
#[derive(Clone)]
pub struct Clients {
    pub controllers: Client,
    /// Binds pods to nodes.
    pub scheduler: Client,
}

/// How the controllers run.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where volumes of claims are made; nodes see it under the same path.
    pub volumes: PathBuf,
    /// Of the storage classes whose claims get a directory there.
    pub provisioner: String,
    /// Who manages the EndpointSlices of Services.
    pub slices: String,
}

const FIRST_RETRY: Duration = Duration::from_millis(50);
const LONGEST_RETRY: Duration = Duration::from_secs(30);
const AFTER_PANIC: Duration = Duration::from_secs(1);
/// So far the clock may run ahead of the time that passed: more means that the machine slept, or
/// that somebody set the clock.
const DRIFT: Duration = Duration::from_secs(5);
/// The longest pause between two looks.
const IDLE: Duration = Duration::from_secs(3600);

/// Puts an object of some kind into its table.
type Put = Box<dyn FnOnce(&mut World) -> Option<Changed> + Send>;

/// What a watch says, whatever the kind.
enum Input {
    Put(Put),
    /// A list begins: what it does not name is gone.
    Listing(&'static str),
    Listed(&'static str),
    Seen(&'static str, Key, Put),
    Trouble(&'static str, String),
}

fn watch<K: Cached>(client: &Client, kind: &'static str) -> BoxStream<'static, Input> {
    let api: Api<K> = Api::all(client.clone());
    // The managed fields are the largest part of many objects, and nothing here reads them.
    let slim = |mut object: K| {
        object.managed_fields_mut().clear();
        object
    };
    // An object that cannot be read would else be listed again without a pause.
    watcher(api, watcher::Config::default())
        .default_backoff()
        .map(move |event| match event {
            Ok(watcher::Event::Apply(object)) => {
                let object = slim(object);
                Input::Put(Box::new(move |world| world.put(object)))
            }
            Ok(watcher::Event::Delete(object)) => {
                let key = key_of(&object);
                Input::Put(Box::new(move |world| world.forget(kind, &key)))
            }
            Ok(watcher::Event::Init) => Input::Listing(kind),
            Ok(watcher::Event::InitApply(object)) => {
                let object = slim(object);
                Input::Seen(kind, key_of(&object), Box::new(move |world| world.put(object)))
            }
            Ok(watcher::Event::InitDone) => Input::Listed(kind),
            Err(error) => Input::Trouble(kind, error.to_string()),
        })
        .boxed()
}

fn watches(client: &Client) -> (BoxStream<'static, Input>, BTreeSet<&'static str>) {
    let mut streams = Vec::new();
    let mut kinds = BTreeSet::new();
    macro_rules! each {
        ($kind:ident) => {
            streams.push(watch::<k8s::$kind>(client, stringify!($kind)));
            kinds.insert(stringify!($kind));
        };
    }
    for_each_kind!(each);
    (stream::select_all(streams).boxed(), kinds)
}

/// All kinds under one roof, for the macro above.
mod k8s {
    pub(super) use k8s_openapi::api::apps::v1::*;
    pub(super) use k8s_openapi::api::batch::v1::*;
    pub(super) use k8s_openapi::api::coordination::v1::*;
    pub(super) use k8s_openapi::api::core::v1::{
        Endpoints, Node, PersistentVolume, PersistentVolumeClaim, Pod, Service,
    };
    pub(super) use k8s_openapi::api::discovery::v1::*;
    pub(super) use k8s_openapi::api::policy::v1::*;
    pub(super) use k8s_openapi::api::storage::v1::*;
}

/// Runs the controllers until `stop` resolves. All they know is in the API, so after a fault they
/// start over.
pub async fn run(clients: Clients, config: Config, stop: impl Future<Output = ()>) {
    tokio::pin!(stop);
    loop {
        let turn = AssertUnwindSafe(watch_and_work(&clients, &config, stop.as_mut()));
        if turn.catch_unwind().await.is_ok() {
            return;
        }
        tracing::error!("the workload controllers panicked and restart");
        tokio::select! {
            () = &mut stop => return,
            () = tokio::time::sleep(AFTER_PANIC) => {}
        }
    }
}

async fn watch_and_work(clients: &Clients, config: &Config, mut stop: Pin<&mut impl Future<Output = ()>>) {
    let (mut inputs, mut unlisted) = watches(&clients.controllers);
    let mut engine = Engine::new(clients.clone(), config.clone());
    loop {
        // Before everything is listed nothing is decided, so there is nothing to wake for.
        let wake = if unlisted.is_empty() {
            engine.next_wake()
        } else {
            IDLE
        };
        if !wake.is_zero() {
            tokio::select! {
                () = &mut stop => return,
                input = inputs.next() => {
                    let Some(input) = input else { return };
                    engine.take(input, &mut unlisted);
                }
                Some(removal) = engine.removed.recv() => engine.finish_removal(removal),
                () = tokio::time::sleep(wake) => {}
            }
        }
        // Changes that have arrived already are taken in together.
        while let Some(Some(input)) = inputs.next().now_or_never() {
            engine.take(input, &mut unlisted);
        }
        if unlisted.is_empty() {
            tokio::select! {
                () = &mut stop => return,
                () = engine.work() => {}
            }
        }
    }
}

/// A directory whose removal was started, and how that went.
struct Removal {
    task: Task,
    path: PathBuf,
    outcome: std::io::Result<()>,
}

struct Engine {
    clients: Clients,
    config: Config,
    events: Writer,
    world: World,
    queue: BTreeSet<Task>,
    timers: BTreeMap<Timestamp, BTreeSet<Task>>,
    due: HashMap<Task, Timestamp>,
    failures: HashMap<Task, u32>,
    /// Objects known before a list that the list has not named yet.
    stale: HashMap<&'static str, BTreeSet<Key>>,
    /// Directories that are being removed, in the background because it may take long.
    removing: BTreeMap<PathBuf, Task>,
    removed: mpsc::UnboundedReceiver<Removal>,
    done: mpsc::UnboundedSender<Removal>,
    /// The same moment on both clocks.
    clock: (Instant, Timestamp),
}

impl Engine {
    fn new(clients: Clients, config: Config) -> Self {
        let (done, removed) = mpsc::unbounded_channel();
        Self {
            events: Writer::start(clients.controllers.clone()),
            clients,
            config,
            world: World {
                started: Timestamp::now(),
                ..World::default()
            },
            queue: BTreeSet::new(),
            timers: BTreeMap::new(),
            due: HashMap::new(),
            failures: HashMap::new(),
            stale: HashMap::new(),
            removing: BTreeMap::new(),
            removed,
            done,
            clock: (Instant::now(), Timestamp::now()),
        }
    }

    /// While the machine slept nobody could tell that it lives: silence counts from now on.
    fn read_clock(&mut self) -> Timestamp {
        let now = Timestamp::now();
        let (instant, wall) = std::mem::replace(&mut self.clock, (Instant::now(), now));
        if ran_ahead(now.duration_since(wall), instant.elapsed()) {
            tracing::info!("the clock ran ahead: the nodes get time to answer");
            self.world.started = now;
        }
        now
    }

    /// Whether the directory is gone. If not, its removal is started, and the task runs again afterwards.
    fn is_removed(&mut self, task: &Task, path: PathBuf) -> bool {
        if self.removing.contains_key(&path) {
            return false;
        }
        let missing = |error: &std::io::Error| error.kind() == std::io::ErrorKind::NotFound;
        if std::fs::symlink_metadata(&path).is_err_and(|error| missing(&error)) {
            return true;
        }
        self.removing.insert(path.clone(), task.clone());
        let (done, task) = (self.done.clone(), task.clone());
        tokio::spawn(async move {
            let outcome = match tokio::fs::remove_dir_all(&path).await {
                Err(error) if missing(&error) => Ok(()),
                other => other,
            };
            // The engine may have ended: the next one finds what is left.
            let _ = done.send(Removal { task, path, outcome });
        });
        false
    }

    fn finish_removal(&mut self, removal: Removal) {
        self.removing.remove(&removal.path);
        match removal.outcome {
            Ok(()) => {
                self.queue.insert(removal.task);
            }
            Err(error) => {
                let path = removal.path.display();
                tracing::warn!(%path, %error, "cannot remove a volume, trying again");
                self.retry(removal.task, Timestamp::now());
            }
        }
    }

    fn retry(&mut self, task: Task, now: Timestamp) {
        let tries = self.failures.entry(task.clone()).or_default();
        *tries = tries.saturating_add(1);
        let wait = LONGEST_RETRY.min(FIRST_RETRY.saturating_mul(1 << (*tries).min(10)));
        let wait = SignedDuration::try_from(wait).unwrap_or(SignedDuration::from_secs(30));
        self.again(task, now.checked_add(wait).unwrap_or(now));
    }

    fn take(&mut self, input: Input, unlisted: &mut BTreeSet<&'static str>) {
        match input {
            Input::Put(put) => {
                let changed = put(&mut self.world);
                self.enqueue(changed);
            }
            Input::Listing(kind) => {
                self.stale.insert(kind, keys(&self.world, kind));
            }
            Input::Seen(kind, key, put) => {
                if let Some(stale) = self.stale.get_mut(kind) {
                    stale.remove(&key);
                }
                let changed = put(&mut self.world);
                self.enqueue(changed);
            }
            Input::Listed(kind) => {
                for key in self.stale.remove(kind).unwrap_or_default() {
                    let changed = self.world.forget(kind, &key);
                    self.enqueue(changed);
                }
                unlisted.remove(kind);
            }
            Input::Trouble(kind, error) => tracing::warn!(kind, error, "watch failed, trying again"),
        }
    }

    fn enqueue(&mut self, changed: Option<Changed>) {
        if let Some(changed) = changed {
            self.queue.extend(tasks(&self.world, &changed));
        }
    }

    fn next_wake(&self) -> Duration {
        if !self.queue.is_empty() {
            return Duration::ZERO;
        }
        self.timers.keys().next().map_or(IDLE, |at| {
            Duration::try_from(at.duration_since(Timestamp::now()))
                .unwrap_or(Duration::ZERO)
                .min(IDLE)
        })
    }

    fn again(&mut self, task: Task, at: Timestamp) {
        if let Some(old) = self.due.insert(task.clone(), at)
            && let Some(tasks) = self.timers.get_mut(&old)
        {
            tasks.remove(&task);
            if tasks.is_empty() {
                self.timers.remove(&old);
            }
        }
        self.timers.entry(at).or_default().insert(task);
    }

    /// Does what is called for now. What that calls for comes with the next turn, after the
    /// watches were heard.
    async fn work(&mut self) {
        let now = Timestamp::now();
        while let Some(entry) = self.timers.first_entry().filter(|entry| *entry.key() <= now) {
            for task in entry.remove() {
                self.due.remove(&task);
                self.queue.insert(task);
            }
        }
        let mut todo = std::mem::take(&mut self.queue);
        while let Some(task) = todo.pop_first() {
            // Called for again meanwhile: this look sees that too.
            self.queue.remove(&task);
            let now = self.read_clock();
            let decision = task.decide(&self.world, &self.config, now);
            if let Some(at) = decision.again_at {
                self.again(task.clone(), at);
            }
            if decision.actions.is_empty() {
                self.failures.remove(&task);
                continue;
            }
            let failed = self.carry_out_all(&task, decision.actions).await;
            if failed {
                // Its own writes are no reason to try again before it is due.
                self.queue.remove(&task);
                self.retry(task, now);
            } else if !self.removing.values().any(|other| *other == task) {
                self.failures.remove(&task);
            }
        }
    }

    /// Does what a task decided, takes in what the server answered, and reports it. True: something failed.
    async fn carry_out_all(&mut self, task: &Task, actions: Vec<Action>) -> bool {
        let mut todo = Vec::new();
        for action in actions {
            match action {
                Action::Event {
                    target,
                    warning,
                    reason,
                    message,
                } => self.events.write(target, source(task), warning, reason, message),
                Action::RemoveDirectory { path, then } => {
                    if self.is_removed(task, path) {
                        todo.push((OwnerEvent::of(&self.world, task, &then), *then));
                    }
                }
                action => todo.push((OwnerEvent::of(&self.world, task, &action), action)),
            }
        }
        let done = todo
            .into_iter()
            .map(|(event, action)| carry_out(&self.clients, action).map(|outcome| (event, outcome)));
        let mut failed = false;
        for (event, outcome) in futures::future::join_all(done).await {
            if let Some(event) = &event {
                self.tell(task, event, &outcome);
            }
            match outcome {
                Ok(Learned::Object(object)) => {
                    let changed = self.world.learn(object);
                    self.enqueue(changed);
                }
                Ok(Learned::Gone(target)) => {
                    let changed = self.world.forget(&target.kind, &target.key);
                    self.enqueue(changed);
                }
                Ok(Learned::Taken) => {
                    tracing::debug!(?task, "the name is taken, trying again");
                    failed = true;
                }
                Ok(Learned::Nothing) => {}
                Err(error) => {
                    // What is known is outdated: the watch will tell, and then it is decided again.
                    if error.is_conflict() {
                        tracing::debug!(?task, %error, "another writer was faster, retrying");
                    } else {
                        tracing::warn!(?task, %error, "not carried out, trying again");
                    }
                    failed = true;
                }
            }
        }
        failed
    }

    fn tell(&mut self, task: &Task, event: &OwnerEvent, outcome: &Result<Learned, Failure>) {
        let told = match outcome {
            Ok(Learned::Nothing | Learned::Taken) => None,
            Ok(Learned::Object(object)) => {
                self.world.refused.remove(event.owner());
                event.done(object.pointer("/metadata/name").and_then(|name| name.as_str()))
            }
            Ok(Learned::Gone(_)) => event.done(None),
            Err(error) => {
                let why = error.message();
                if event.is_creation() {
                    self.world.refused.insert(event.owner().to_owned(), why.clone());
                }
                event.failed(&why)
            }
        };
        if let Some((warning, reason, message)) = told {
            self.events
                .write(event.about().clone(), source(task), warning, reason, message);
        }
    }
}

fn keys(world: &World, kind: &str) -> BTreeSet<Key> {
    macro_rules! each {
        ($kind:ident) => {
            if kind == stringify!($kind) {
                return <k8s::$kind as Cached>::table(world)
                    .keys()
                    .cloned()
                    .collect();
            }
        };
    }
    for_each_kind!(each);
    BTreeSet::new()
}

fn ran_ahead(wall: SignedDuration, passed: Duration) -> bool {
    Duration::try_from(wall).is_ok_and(|wall| wall > passed.saturating_add(DRIFT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_runs_ahead_is_noticed() {
        let minute = Duration::from_secs(60);
        assert!(!ran_ahead(SignedDuration::from_secs(60), minute));
        assert!(!ran_ahead(SignedDuration::from_secs(64), minute));
        assert!(ran_ahead(SignedDuration::from_secs(66), minute));
        assert!(!ran_ahead(SignedDuration::from_secs(-3600), minute), "set back");
    }
}
