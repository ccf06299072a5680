//! The shell: watches feed the world, changes call for tasks, decisions are carried out.
//!
//! Answers of the server go into the world at once, so a decision never rests on a world that
//! does not know the last one. That is what keeps a pod from being made twice.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::time::Duration;

use futures::stream::{self, BoxStream, StreamExt};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions};
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::runtime::watcher;
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use crate::action::{Action, Target};
use crate::table::{Key, key_of};
use crate::task::{Task, tasks};
use crate::world::{Cached, Changed, World, for_each_kind, resource};

/// How the controllers run.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where volumes of claims are made; nodes see it under the same path.
    pub volumes: PathBuf,
}

const FIRST_RETRY: Duration = Duration::from_millis(50);
const LONGEST_RETRY: Duration = Duration::from_secs(30);

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
    // The managed fields are the largest part of many objects, and nobody here reads them.
    let slim = |mut object: K| {
        object.managed_fields_mut().clear();
        object
    };
    watcher(api, watcher::Config::default())
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
    pub use k8s_openapi::api::apps::v1::*;
    pub use k8s_openapi::api::batch::v1::*;
    pub use k8s_openapi::api::coordination::v1::*;
    pub use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod, Service};
    pub use k8s_openapi::api::discovery::v1::*;
    pub use k8s_openapi::api::policy::v1::*;
    pub use k8s_openapi::api::storage::v1::*;
}

/// Runs the controllers until `stop` resolves.
pub async fn run(client: Client, config: Config, stop: impl Future<Output = ()>) {
    let (mut inputs, mut unlisted) = watches(&client);
    let mut engine = Engine::new(client, config);
    tokio::pin!(stop);
    loop {
        let wake = engine.next_wake();
        tokio::select! {
            () = &mut stop => return,
            input = inputs.next() => {
                let Some(input) = input else { return };
                engine.take(input, &mut unlisted);
                // What is there already belongs to the same look at the world.
                while let Some(Some(input)) = futures::FutureExt::now_or_never(inputs.next()) {
                    engine.take(input, &mut unlisted);
                }
            }
            () = tokio::time::sleep(wake) => {}
        }
        if unlisted.is_empty() {
            tokio::select! {
                () = &mut stop => return,
                () = engine.work() => {}
            }
        }
    }
}

struct Engine {
    client: Client,
    config: Config,
    events: Recorder,
    world: World,
    queue: BTreeSet<Task>,
    timers: BTreeMap<Timestamp, BTreeSet<Task>>,
    due: HashMap<Task, Timestamp>,
    failures: HashMap<Task, u32>,
    /// Objects known before a list that the list has not named yet.
    stale: HashMap<&'static str, BTreeSet<Key>>,
}

impl Engine {
    fn new(client: Client, config: Config) -> Self {
        let events = Recorder::new(
            client.clone(),
            Reporter {
                controller: "workloads".into(),
                instance: None,
            },
        );
        Self {
            client,
            config,
            events,
            world: World::default(),
            queue: BTreeSet::new(),
            timers: BTreeMap::new(),
            due: HashMap::new(),
            failures: HashMap::new(),
            stale: HashMap::new(),
        }
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
        let idle = Duration::from_secs(3600);
        self.timers.keys().next().map_or(idle, |at| {
            Duration::try_from(at.duration_since(Timestamp::now()))
                .unwrap_or(Duration::ZERO)
                .min(idle)
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

    async fn work(&mut self) {
        let now = Timestamp::now();
        while let Some(entry) = self.timers.first_entry().filter(|entry| *entry.key() <= now) {
            for task in entry.remove() {
                self.due.remove(&task);
                self.queue.insert(task);
            }
        }
        while let Some(task) = self.queue.pop_first() {
            let now = Timestamp::now();
            let decision = task.decide(&self.world, &self.config.volumes, now);
            if let Some(at) = decision.again_at {
                self.again(task.clone(), at);
            }
            if decision.actions.is_empty() {
                self.failures.remove(&task);
                continue;
            }
            let done = futures::future::join_all(
                decision
                    .actions
                    .into_iter()
                    .map(|action| carry_out(&self.client, &self.events, action)),
            )
            .await;
            let mut failed = false;
            for outcome in done {
                match outcome {
                    Ok(Learned::Object(object)) => {
                        let changed = self.world.learn(object);
                        self.enqueue(changed);
                    }
                    Ok(Learned::Gone(target)) => {
                        let changed = self.world.forget(&target.kind, &target.key);
                        self.enqueue(changed);
                    }
                    Ok(Learned::Nothing) => {}
                    Err(error) => {
                        tracing::warn!(?task, %error, "not carried out, trying again");
                        failed = true;
                    }
                }
            }
            if failed {
                let tries = self.failures.entry(task.clone()).or_default();
                *tries = tries.saturating_add(1);
                let wait = LONGEST_RETRY.min(FIRST_RETRY.saturating_mul(1 << (*tries).min(10)));
                let wait = SignedDuration::try_from(wait).unwrap_or(SignedDuration::from_secs(30));
                self.again(task, now.checked_add(wait).unwrap_or(now));
            } else {
                self.failures.remove(&task);
            }
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

enum Learned {
    Object(Value),
    Gone(Target),
    Nothing,
}

fn api(client: &Client, kind: &str, namespace: &str) -> Result<Api<DynamicObject>, kube::Error> {
    // Actions name only kinds of the table.
    let resource = resource(kind).ok_or(kube::Error::LinesCodecMaxLineLengthExceeded)?;
    Ok(match namespace {
        "" => Api::all_with(client.clone(), &resource),
        _ => Api::namespaced_with(client.clone(), namespace, &resource),
    })
}

async fn carry_out(client: &Client, events: &Recorder, action: Action) -> Result<Learned, kube::Error> {
    let gone = |error: &kube::Error| matches!(error, kube::Error::Api(status) if status.code == 404);
    match action {
        Action::Create(object) => {
            let text = |pointer: &str| {
                object
                    .pointer(pointer)
                    .and_then(Value::as_str)
                    .unwrap_or_default()
                    .to_owned()
            };
            let api = api(client, &text("/kind"), &text("/metadata/namespace"))?;
            let object: DynamicObject = serde_json::from_value(object).map_err(kube::Error::SerdeError)?;
            match api.create(&PostParams::default(), &object).await {
                Ok(made) => Ok(learned(made)),
                // Named objects are made once: somebody was faster, and the watch will tell.
                Err(kube::Error::Api(status)) if status.code == 409 && object.metadata.name.is_some() => {
                    Ok(Learned::Nothing)
                }
                Err(error) => Err(error),
            }
        }
        Action::Patch {
            target,
            subresource,
            body,
        } => {
            let api = api(client, &target.kind, &target.key.0)?;
            let (params, patch) = (PatchParams::default(), Patch::Merge(&body));
            let answer = match subresource {
                Some(sub) => api.patch_subresource(sub, &target.key.1, &params, &patch).await,
                None => api.patch(&target.key.1, &params, &patch).await,
            };
            match answer {
                Ok(object) => Ok(learned(object)),
                Err(error) if gone(&error) => Ok(Learned::Nothing),
                Err(error) => Err(error),
            }
        }
        Action::Delete { target, grace } => {
            let api = api(client, &target.kind, &target.key.0)?;
            let params = DeleteParams {
                grace_period_seconds: grace,
                propagation_policy: Some(kube::api::PropagationPolicy::Background),
                preconditions: Some(Preconditions {
                    uid: Some(target.uid.clone()).filter(|uid| !uid.is_empty()),
                    resource_version: None,
                }),
                ..DeleteParams::default()
            };
            match api.delete(&target.key.1, &params).await {
                Ok(answer) => Ok(
                    match answer
                        .left()
                        .filter(|object| object.metadata.deletion_timestamp.is_some())
                    {
                        Some(object) => learned(object),
                        None => Learned::Gone(target),
                    },
                ),
                Err(error) if gone(&error) => Ok(Learned::Gone(target)),
                // Another object has the name by now.
                Err(kube::Error::Api(status)) if status.code == 409 => Ok(Learned::Nothing),
                Err(error) => Err(error),
            }
        }
        Action::Bind { target, node } => {
            let api = api(client, "Pod", &target.key.0)?;
            let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": target.key.1, "namespace": target.key.0, "uid": target.uid},
                "target": {"apiVersion": "v1", "kind": "Node", "name": node}});
            let _: Value = match api
                .create_subresource("binding", &target.key.1, &PostParams::default(), &binding)
                .await
            {
                Ok(answer) => answer,
                Err(error) if gone(&error) => return Ok(Learned::Nothing),
                Err(error) => return Err(error),
            };
            // Read back, so that the next pod is placed with this one in sight.
            Ok(api
                .get_opt(&target.key.1)
                .await?
                .map_or(Learned::Nothing, learned))
        }
        Action::Event {
            target,
            warning,
            reason,
            message,
        } => {
            let event = Event {
                type_: if warning {
                    EventType::Warning
                } else {
                    EventType::Normal
                },
                reason: reason.into(),
                note: Some(message),
                action: reason.into(),
                secondary: None,
            };
            let about = ObjectReference {
                api_version: resource(&target.kind).map(|resource| resource.api_version),
                kind: Some(target.kind.clone()),
                namespace: Some(target.key.0.clone()).filter(|namespace| !namespace.is_empty()),
                name: Some(target.key.1.clone()),
                uid: Some(target.uid.clone()),
                ..Default::default()
            };
            // An event that is lost harms nobody.
            if let Err(error) = events.publish(&event, &about).await {
                tracing::debug!(%error, "event not written");
            }
            Ok(Learned::Nothing)
        }
        Action::RemoveDirectory(path) => {
            if let Err(error) = tokio::fs::remove_dir_all(&path).await
                && error.kind() != std::io::ErrorKind::NotFound
            {
                tracing::warn!(path = %path.display(), %error, "volume directory not removed");
            }
            Ok(Learned::Nothing)
        }
    }
}

fn learned(mut object: DynamicObject) -> Learned {
    object.managed_fields_mut().clear();
    serde_json::to_value(object).map_or(Learned::Nothing, Learned::Object)
}
