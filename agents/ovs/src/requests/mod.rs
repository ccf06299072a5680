//! Answers traces and captures that are asked of this node: one of each kind at a time, in the order in which they
//! came, and deletes them when their time is over. Who may ask is a matter of rights on the kinds.

mod capture;
mod filter;
mod pcap;
mod queue;
mod socket;
mod trace;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::PathBuf;
use std::pin::pin;
use std::time::Duration;

use c5c3_api::common::{LocalRef, Time};
use c5c3_api::ovs::{OvsCapture, OvsCaptureStatus, OvsTrace, OvsTraceStatus, Phase};
use c5c3_kit::fault::plain;
use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams, Preconditions};
use kube::core::NamespaceResourceScope;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, Resource, ResourceExt};
use ovsdb_client::State;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;

use queue::{Slip, Step};

const MANAGER: &str = "c5c3-ovs-agent-requests";
/// The admission policy of the chart lets agents create these Secrets and no others.
const SECRET: &str = "ovs-capture-";
const SECRET_TYPE: &str = "ovs.c5c3.io/capture";
const FILE: &str = "capture.pcap";
/// Between tries to write.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(30);
/// As long as a message may be.
const MESSAGE: usize = 1024;

/// A kind of request.
trait Request:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + Debug
    + DeserializeOwned
    + Send
    + Sync
    + 'static
{
    type Status: Serialize + Send + 'static;

    fn node(&self) -> &str;
    fn ttl(&self) -> Option<i32>;
    fn phase(&self) -> Option<Phase>;
    fn ended(&self) -> Option<Timestamp>;
}

impl Request for OvsTrace {
    type Status = OvsTraceStatus;

    fn node(&self) -> &str {
        &self.spec.node_ref.name
    }

    fn ttl(&self) -> Option<i32> {
        self.spec.ttl_seconds
    }

    fn phase(&self) -> Option<Phase> {
        self.status.as_ref()?.phase
    }

    fn ended(&self) -> Option<Timestamp> {
        Some(self.status.as_ref()?.completion_time.as_ref()?.0)
    }
}

impl Request for OvsCapture {
    type Status = OvsCaptureStatus;

    fn node(&self) -> &str {
        &self.spec.node_ref.name
    }

    fn ttl(&self) -> Option<i32> {
        self.spec.ttl_seconds
    }

    fn phase(&self) -> Option<Phase> {
        self.status.as_ref()?.phase
    }

    fn ended(&self) -> Option<Timestamp> {
        Some(self.status.as_ref()?.completion_time.as_ref()?.0)
    }
}

/// Where requests lie, and whose are answered.
#[derive(Clone)]
pub(crate) struct Desk {
    pub client: Client,
    pub namespace: String,
    pub node: String,
}

impl Desk {
    /// Until it is dropped.
    pub(crate) async fn traces(self, switch: PathBuf) {
        self.serve(move |asked: OvsTrace| {
            let switch = switch.clone();
            async move { trace::trace(&switch, &asked.spec).await }
        })
        .await;
    }

    /// Until it is dropped. The state is that of the switch's database.
    pub(crate) async fn captures(self, state: watch::Receiver<State>) {
        let desk = self.clone();
        self.serve(move |asked: OvsCapture| {
            let (desk, tables) = (desk.clone(), state.borrow().tables.clone());
            async move {
                let recorded = capture::record(&asked.spec, &tables).await?;
                let secret = desk.keep(&asked, &recorded.file).await?;
                let number = |size: usize| Some(i32::try_from(size).unwrap_or(i32::MAX));
                Ok(OvsCaptureStatus {
                    message: Some(recorded.end),
                    packets: number(recorded.packets),
                    bytes: number(recorded.file.len()),
                    secret_ref: Some(LocalRef::new(secret)),
                    ..OvsCaptureStatus::default()
                })
            }
        })
        .await;
    }

    async fn serve<K, F, W>(self, work: F)
    where
        K: Request,
        F: Fn(K) -> W,
        W: Future<Output = Result<K::Status, String>> + Send + 'static,
    {
        let api: Api<K> = Api::namespaced(self.client.clone(), &self.namespace);
        let mut events = pin!(watcher(api.clone(), watcher::Config::default()).default_backoff());
        let mut known: Known<K> = Known::default();
        let mut at_work: Option<Work<K>> = None;
        let mut told = String::new();
        loop {
            let busy = at_work.as_ref().map(|work| work.name.as_str());
            let wait = match queue::next(&known.slips(), busy, Timestamp::now()) {
                Step::Begin(name) => {
                    let started = Timestamp::now();
                    let status = head(Phase::Running, started, None);
                    let object = tell(&api, &name, status).await;
                    known.put(&name, object.clone());
                    at_work = object.map(|object| Work::begin(object, started, &work));
                    continue;
                }
                Step::Abandon(name) => {
                    let now = Timestamp::now();
                    let mut status = head(Phase::Failed, now, Some(now));
                    status["message"] = json!("the agent was restarted meanwhile; ask again");
                    known.put(&name, tell(&api, &name, status).await);
                    continue;
                }
                Step::Delete(name) => {
                    delete(&api, &name, known.all.get(&name)).await;
                    known.put(&name, None);
                    continue;
                }
                Step::Wait(wait) => wait,
            };
            tokio::select! {
                event = events.next() => match event {
                    Some(Ok(event)) => {
                        told.clear();
                        known.take(event, &self.node);
                        // Who takes a request back wants no more of it.
                        at_work = at_work.filter(|work| known.has(&work.name, &work.uid));
                    }
                    Some(Err(error)) => {
                        let why = format!("{}: {error}", K::plural(&()));
                        if why != told {
                            tracing::warn!("{why}");
                            told = why;
                        }
                    }
                    None => return,
                },
                result = ended(&mut at_work) => {
                    if let Some(work) = at_work.take() {
                        let status = outcome(result, work.started);
                        known.put(&work.name, tell(&api, &work.name, status).await);
                    }
                }
                () = pause(wait) => {}
            }
        }
    }

    /// Packets may hold what guests say: they are kept in a Secret that goes with the request.
    async fn keep(&self, asked: &OvsCapture, file: &[u8]) -> Result<String, String> {
        let name = format!("{SECRET}{}", asked.name_any());
        let secret = Secret {
            metadata: ObjectMeta {
                name: Some(name.clone()),
                owner_references: Some(vec![OwnerReference {
                    api_version: OvsCapture::api_version(&()).into_owned(),
                    kind: OvsCapture::kind(&()).into_owned(),
                    name: asked.name_any(),
                    uid: asked.uid().unwrap_or_default(),
                    ..OwnerReference::default()
                }]),
                ..ObjectMeta::default()
            },
            type_: Some(SECRET_TYPE.to_owned()),
            immutable: Some(true),
            data: Some(BTreeMap::from([(FILE.to_owned(), ByteString(file.to_vec()))])),
            ..Secret::default()
        };
        let api: Api<Secret> = Api::namespaced(self.client.clone(), &self.namespace);
        match api.create(&PostParams::default(), &secret).await {
            Ok(_) => Ok(name),
            Err(kube::Error::Api(refused)) if refused.code == 409 => Err(format!(
                "there is a Secret {name} already, of an earlier capture; ask under another name"
            )),
            Err(error) => Err(format!("cannot make Secret {name}: {}", plain(&error))),
        }
    }
}

/// A request that is worked on; dropped, the work ends.
struct Work<K: Request> {
    name: String,
    uid: Option<String>,
    started: Timestamp,
    task: JoinSet<Result<K::Status, String>>,
}

impl<K: Request> Work<K> {
    fn begin<W>(object: K, started: Timestamp, work: impl Fn(K) -> W) -> Self
    where
        W: Future<Output = Result<K::Status, String>> + Send + 'static,
    {
        let (name, uid) = (object.name_any(), object.uid());
        let mut task = JoinSet::new();
        task.spawn(work(object));
        Work {
            name,
            uid,
            started,
            task,
        }
    }
}

/// Waits for the end of the work; for ever, where there is none.
async fn ended<K: Request>(work: &mut Option<Work<K>>) -> Result<K::Status, String> {
    let Some(work) = work else {
        return std::future::pending().await;
    };
    match work.task.join_next().await {
        Some(Ok(result)) => result,
        Some(Err(error)) => Err(format!("the agent failed: {error}")),
        None => Err("the agent stopped".to_owned()),
    }
}

async fn pause(wait: Option<Duration>) {
    match wait {
        Some(wait) => tokio::time::sleep(wait).await,
        None => std::future::pending().await,
    }
}

/// What every status has.
fn head(phase: Phase, started: Timestamp, ended: Option<Timestamp>) -> Value {
    // Times of objects have no fractions.
    let whole = |time: Timestamp| Time(Timestamp::from_second(time.as_second()).unwrap_or(time));
    let mut status = json!({"phase": phase, "startTime": whole(started)});
    if let Some(ended) = ended {
        status["completionTime"] = json!(whole(ended));
    }
    status
}

fn outcome(result: Result<impl Serialize, String>, started: Timestamp) -> Value {
    let (phase, found) = match result {
        Ok(found) => (Phase::Succeeded, json!(found)),
        Err(why) => (Phase::Failed, json!({"message": why})),
    };
    let mut status = head(phase, started, Some(Timestamp::now()));
    for (field, value) in found.as_object().into_iter().flatten() {
        status[field] = value.clone();
    }
    if let Some(message) = status["message"].as_str() {
        status["message"] = message.chars().take(MESSAGE).collect::<String>().into();
    }
    status
}

/// Writes the status, however long that takes. `None`: the object is gone.
async fn tell<K: Request>(api: &Api<K>, name: &str, status: Value) -> Option<K> {
    let params = PatchParams::apply(MANAGER).force();
    let body = json!({
        "apiVersion": K::api_version(&()), "kind": K::kind(&()),
        "metadata": {"name": name}, "status": status,
    });
    let mut pause = FIRST;
    loop {
        match api.patch_status(name, &params, &Patch::Apply(&body)).await {
            Ok(object) => return Some(object),
            Err(kube::Error::Api(refused)) if refused.code == 404 => return None,
            Err(error) => tracing::warn!("cannot tell of {} {name}: {}", K::kind(&()), plain(&error)),
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST);
    }
}

/// Deletes exactly this object, not another that has its name by now.
async fn delete<K: Request>(api: &Api<K>, name: &str, object: Option<&K>) {
    let params = DeleteParams {
        preconditions: Some(Preconditions {
            uid: object.and_then(ResourceExt::uid),
            resource_version: None,
        }),
        ..DeleteParams::default()
    };
    let mut pause = FIRST;
    loop {
        match api.delete(name, &params).await {
            Ok(_) => return,
            Err(kube::Error::Api(refused)) if matches!(refused.code, 404 | 409) => return,
            Err(error) => tracing::warn!("cannot delete {} {name}: {}", K::kind(&()), plain(&error)),
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST);
    }
}

/// The requests of this node, by name.
struct Known<K> {
    all: BTreeMap<String, K>,
    /// A list that is not complete yet.
    coming: Option<BTreeMap<String, K>>,
}

impl<K> Default for Known<K> {
    fn default() -> Self {
        Known {
            all: BTreeMap::new(),
            coming: None,
        }
    }
}

impl<K: Request> Known<K> {
    fn take(&mut self, event: Event<K>, node: &str) {
        match event {
            Event::Init => self.coming = Some(BTreeMap::new()),
            Event::InitApply(object) => {
                if let Some(coming) = self.coming.as_mut().filter(|_| is_for(&object, node)) {
                    coming.insert(object.name_any(), object);
                }
            }
            Event::InitDone => {
                let before = std::mem::replace(&mut self.all, self.coming.take().unwrap_or_default());
                before
                    .into_values()
                    .for_each(|object| self.keep_newer(object, false));
            }
            Event::Apply(object) if is_for(&object, node) => self.keep_newer(object, true),
            Event::Apply(object) | Event::Delete(object) => self.put(&object.name_any(), None),
        }
    }

    /// A watch tells late: what this agent has written since is newer, and a request never goes back. One that is
    /// not there is `added` or forgotten.
    fn keep_newer(&mut self, object: K, added: bool) {
        let name = object.name_any();
        let newer = match self.all.get(&name) {
            Some(known) => known.uid() != object.uid() || rank(known.phase()) <= rank(object.phase()),
            None => added,
        };
        if newer && (added || self.has(&name, &object.uid())) {
            self.put(&name, Some(object));
        }
    }

    fn put(&mut self, name: &str, object: Option<K>) {
        match object {
            Some(object) => self.all.insert(name.to_owned(), object),
            None => self.all.remove(name),
        };
    }

    fn has(&self, name: &str, uid: &Option<String>) -> bool {
        self.all.get(name).is_some_and(|object| object.uid() == *uid)
    }

    fn slips(&self) -> Vec<Slip> {
        let slip = |(name, object): (&String, &K)| Slip {
            name: name.clone(),
            created: object.creation_timestamp().map(|time| time.0),
            phase: object.phase(),
            ended: object.ended(),
            ttl: object.ttl(),
        };
        self.all.iter().map(slip).collect()
    }
}

fn rank(phase: Option<Phase>) -> u8 {
    match phase {
        None => 0,
        Some(Phase::Running) => 1,
        Some(Phase::Succeeded | Phase::Failed) => 2,
    }
}

/// What is being deleted is nobody's any more.
fn is_for<K: Request>(object: &K, node: &str) -> bool {
    object.node() == node && object.meta().deletion_timestamp.is_none()
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
