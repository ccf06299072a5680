//! Events as Kubernetes' controllers write them: what was done for an owner, or was refused.
//! The same words again are a count, not another event.

use std::collections::HashMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use tokio::sync::mpsc::{self, error::TrySendError};

use crate::action::{Action, Target};
use crate::engine::task::Task;
use crate::world::{World, resource};

/// Who an event is from.
pub(crate) fn source(task: &Task) -> &'static str {
    match task {
        Task::Claim(_) | Task::Volume(_) => "persistentvolume-controller",
        Task::CronJob(_) => "cronjob-controller",
        Task::Job(_) => "job-controller",
        Task::Deployment(_) => "deployment-controller",
        Task::ReplicaSet(_) => "replicaset-controller",
        Task::StatefulSet(_) => "statefulset-controller",
        Task::DaemonSet(_) => "daemonset-controller",
        Task::Node(_) => "taint-eviction-controller",
        Task::Schedule => "default-scheduler",
        Task::Endpoints(_) => "endpoint-slice-controller",
        Task::Disruption(_) => "controllermanager",
    }
}

/// What happened to an object because of an action on one that it owns.
#[derive(Debug, PartialEq)]
pub(crate) enum OwnerEvent {
    Create {
        owner: Target,
        kind: String,
        name: String,
    },
    Delete {
        owner: Target,
        kind: String,
        name: String,
    },
    Scale {
        owner: Target,
        set: String,
        from: i64,
        to: i64,
    },
    Bind {
        owner: Target,
        node: String,
    },
    Reclaim {
        owner: Target,
    },
}

/// Whether it is a warning, the reason and the message.
type Words = (bool, &'static str, String);

impl OwnerEvent {
    pub(crate) fn of(world: &World, task: &Task, action: &Action) -> Option<Self> {
        let text = |object: &Value, pointer: &str| {
            object
                .pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        match action {
            Action::Create(object) => {
                let (owner, kind) = (owner(world, task)?, text(object, "/kind"));
                let name = text(object, "/metadata/name");
                match kind.as_str() {
                    "Pod" | "Job" | "PersistentVolumeClaim" => Some(Self::Create { owner, kind, name }),
                    "ReplicaSet" => {
                        let to = object.pointer("/spec/replicas").and_then(Value::as_i64)?;
                        (to > 0).then_some(Self::Scale {
                            owner,
                            set: name,
                            from: 0,
                            to,
                        })
                    }
                    _ => None,
                }
            }
            Action::Delete { target, .. } if matches!(target.kind.as_str(), "Pod" | "Job") => {
                let owner = owner(world, task).filter(|owner| owner != target)?;
                let (kind, name) = (target.kind.clone(), target.key.1.clone());
                Some(Self::Delete { owner, kind, name })
            }
            Action::Patch { target, body, .. } if target.kind == "ReplicaSet" => {
                let to = body.pointer("/spec/replicas").and_then(Value::as_i64)?;
                let from = world.replica_sets.get(&target.key)?.spec.replicas.unwrap_or(1);
                let (owner, set) = (owner(world, task)?, target.key.1.clone());
                Some(Self::Scale {
                    owner,
                    set,
                    from: from.into(),
                    to,
                })
            }
            Action::Bind { target, node } => Some(Self::Bind {
                owner: target.clone(),
                node: node.clone(),
            }),
            Action::RemoveDirectory { then, .. } => match then.as_ref() {
                Action::Patch { target, .. } => Some(Self::Reclaim {
                    owner: target.clone(),
                }),
                _ => None,
            },
            _ => None,
        }
    }

    /// What the event is about.
    pub(crate) fn about(&self) -> &Target {
        match self {
            Self::Create { owner, .. }
            | Self::Delete { owner, .. }
            | Self::Scale { owner, .. }
            | Self::Bind { owner, .. }
            | Self::Reclaim { owner } => owner,
        }
    }

    pub(crate) fn owner(&self) -> &str {
        &self.about().uid
    }

    pub(crate) fn is_creation(&self) -> bool {
        matches!(self, Self::Create { .. })
    }

    /// `made` is the name that the server gave.
    pub(crate) fn done(&self, made: Option<&str>) -> Option<Words> {
        let words = match self {
            Self::Create { owner, kind, name } => {
                let name = made.unwrap_or(name);
                let text = match (owner.kind.as_str(), kind.as_str()) {
                    ("StatefulSet", "Pod") => {
                        format!("create Pod {name} in StatefulSet {} successful", owner.key.1)
                    }
                    ("StatefulSet", _) => {
                        format!("create Claim {name} in StatefulSet {} success", owner.key.1)
                    }
                    (_, "Job") => format!("Created job {name}"),
                    _ => format!("Created pod: {name}"),
                };
                ("SuccessfulCreate", text)
            }
            Self::Delete { owner, kind, name } => {
                let text = match (owner.kind.as_str(), kind.as_str()) {
                    ("StatefulSet", _) => {
                        format!("delete Pod {name} in StatefulSet {} successful", owner.key.1)
                    }
                    (_, "Job") => format!("Deleted job {name}"),
                    _ => format!("Deleted pod: {name}"),
                };
                ("SuccessfulDelete", text)
            }
            Self::Scale { set, from, to, .. } => {
                let way = if to > from { "up" } else { "down" };
                let text = format!("Scaled {way} replica set {set} from {from} to {to}");
                ("ScalingReplicaSet", text)
            }
            Self::Bind { owner, node } => {
                let (namespace, name) = &owner.key;
                (
                    "Scheduled",
                    format!("Successfully assigned {namespace}/{name} to {node}"),
                )
            }
            Self::Reclaim { .. } => return None,
        };
        Some((false, words.0, words.1))
    }

    pub(crate) fn failed(&self, why: &str) -> Option<Words> {
        let words = match self {
            Self::Create { owner, kind, name } => {
                let text = match (owner.kind.as_str(), kind.as_str()) {
                    ("StatefulSet", _) => {
                        format!(
                            "create {kind} {name} in StatefulSet {} failed error: {why}",
                            owner.key.1
                        )
                    }
                    (_, "Job") => format!("Error creating job: {why}"),
                    _ => format!("Error creating: {why}"),
                };
                ("FailedCreate", text)
            }
            Self::Delete { .. } => ("FailedDelete", format!("Error deleting: {why}")),
            Self::Reclaim { .. } => ("VolumeFailedDelete", why.to_owned()),
            Self::Scale { .. } | Self::Bind { .. } => return None,
        };
        Some((true, words.0, words.1))
    }
}

/// The workload that a task is for.
fn owner(world: &World, task: &Task) -> Option<Target> {
    match task {
        Task::CronJob(key) => world.cron_jobs.get(key).map(|object| Target::of(object.as_ref())),
        Task::Job(key) => world.jobs.get(key).map(|object| Target::of(object.as_ref())),
        Task::Deployment(key) => world
            .deployments
            .get(key)
            .map(|object| Target::of(object.as_ref())),
        Task::ReplicaSet(key) => world
            .replica_sets
            .get(key)
            .map(|object| Target::of(object.as_ref())),
        Task::StatefulSet(key) => world
            .stateful_sets
            .get(key)
            .map(|object| Target::of(object.as_ref())),
        Task::DaemonSet(key) => world
            .daemon_sets
            .get(key)
            .map(|object| Target::of(object.as_ref())),
        _ => None,
    }
}

struct Notice {
    about: Target,
    source: &'static str,
    warning: bool,
    reason: &'static str,
    message: String,
}

/// Writes events one after the other, so that no decision waits for them.
pub(crate) struct Writer {
    client: Client,
    queue: mpsc::Sender<Notice>,
}

/// Events wait here when the API is slow; more are dropped.
const QUEUE: usize = 1024;
/// How many events are remembered, to count repetitions.
const MEMORY: usize = 4096;

impl Writer {
    pub(crate) fn start(client: Client) -> Self {
        let (queue, notices) = mpsc::channel(QUEUE);
        tokio::spawn(write_all(client.clone(), notices));
        Self { client, queue }
    }

    pub(crate) fn write(
        &mut self,
        about: Target,
        source: &'static str,
        warning: bool,
        reason: &'static str,
        message: String,
    ) {
        let message = message.chars().take(1000).collect();
        let notice = Notice {
            about,
            source,
            warning,
            reason,
            message,
        };
        if let Err(TrySendError::Closed(notice)) = self.queue.try_send(notice) {
            tracing::error!("the writer of events ended and restarts");
            *self = Self::start(self.client.clone());
            let _ = self.queue.try_send(notice);
        }
    }
}

type Known = HashMap<(String, &'static str, String), (String, i32)>;

async fn write_all(client: Client, mut queue: mpsc::Receiver<Notice>) {
    let mut known = Known::new();
    while let Some(notice) = queue.recv().await {
        if known.len() > MEMORY {
            known.clear();
        }
        // A lost event does no harm.
        if let Err(error) = write(&client, &notice, &mut known, Timestamp::now()).await {
            tracing::debug!(%error, reason = notice.reason, "event not written");
        }
    }
}

async fn write(
    client: &Client,
    notice: &Notice,
    known: &mut Known,
    now: Timestamp,
) -> Result<(), kube::Error> {
    let namespace = match notice.about.key.0.as_str() {
        "" => "default",
        namespace => namespace,
    };
    let api: Api<Event> = Api::namespaced(client.clone(), namespace);
    let words = (notice.about.uid.clone(), notice.reason, notice.message.clone());
    if let Some((name, count)) = known.get_mut(&words) {
        *count = count.saturating_add(1);
        let body = json!({"count": *count, "lastTimestamp": Time(now)});
        match api
            .patch(name, &PatchParams::default(), &Patch::Merge(&body))
            .await
        {
            // It is over an hour old, and gone.
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            other => return other.map(drop),
        }
    }
    let made = api
        .create(&PostParams::default(), &event(notice, namespace, now))
        .await?;
    known.insert(words, (made.name_any(), 1));
    Ok(())
}

fn event(notice: &Notice, namespace: &str, now: Timestamp) -> Event {
    let (_, name) = &notice.about.key;
    let short: String = name.chars().take(200).collect();
    Event {
        metadata: ObjectMeta {
            namespace: Some(namespace.to_owned()),
            name: Some(format!("{short}.{:x}", now.as_nanosecond())),
            ..ObjectMeta::default()
        },
        involved_object: ObjectReference {
            api_version: resource(&notice.about.kind).map(|resource| resource.api_version),
            kind: Some(notice.about.kind.clone()),
            name: Some(name.clone()),
            uid: Some(notice.about.uid.clone()),
            namespace: Some(notice.about.key.0.clone()).filter(|namespace| !namespace.is_empty()),
            ..ObjectReference::default()
        },
        type_: Some(if notice.warning { "Warning" } else { "Normal" }.to_owned()),
        reason: Some(notice.reason.to_owned()),
        message: Some(notice.message.clone()),
        count: Some(1),
        source: Some(EventSource {
            component: Some(notice.source.to_owned()),
            ..EventSource::default()
        }),
        reporting_component: Some(notice.source.to_owned()),
        reporting_instance: Some(String::new()),
        first_timestamp: Some(Time(now)),
        last_timestamp: Some(Time(now)),
        ..Event::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::to_value;
    use crate::testing::Sim;

    fn words(event: Option<OwnerEvent>, made: &str) -> String {
        let told = event.and_then(|event| event.done(Some(made)));
        told.map_or_else(String::new, |(_, reason, message)| format!("{reason}: {message}"))
    }

    #[test]
    fn owners_tell_what_was_done_for_them() {
        let mut sim = Sim::default();
        let key = |name: &str| ("n".to_owned(), name.to_owned());
        let template = json!({"selector": {"matchLabels": {"a": "b"}}, "replicas": 2, "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": []}}});
        sim.learn(json!({"kind": "ReplicaSet", "apiVersion": "apps/v1", "metadata": {"namespace": "n", "name": "web-1", "uid": "rs"}, "spec": template}));
        sim.learn(json!({"kind": "Deployment", "apiVersion": "apps/v1", "metadata": {"namespace": "n", "name": "web", "uid": "d"}, "spec": template}));
        let pod =
            Action::Create(json!({"kind": "Pod", "metadata": {"namespace": "n", "generateName": "web-1-"}}));
        let event = OwnerEvent::of(&sim.world, &Task::ReplicaSet(key("web-1")), &pod);
        let refused = event.as_ref().and_then(|event| event.failed("no such account"));
        assert_eq!(
            refused,
            Some((true, "FailedCreate", "Error creating: no such account".into()))
        );
        assert_eq!(words(event, "web-1-x"), "SuccessfulCreate: Created pod: web-1-x");

        let set = Target::of(
            sim.world
                .replica_sets
                .get(&key("web-1"))
                .expect("the set")
                .as_ref(),
        );
        let scale = Action::Patch {
            target: set.clone(),
            subresource: None,
            body: json!({"spec": {"replicas": 5}}),
        };
        let event = OwnerEvent::of(&sim.world, &Task::Deployment(key("web")), &scale);
        assert_eq!(
            words(event, "web-1"),
            "ScalingReplicaSet: Scaled up replica set web-1 from 2 to 5"
        );

        let target = Target {
            kind: "Pod".into(),
            key: key("p"),
            uid: "p".into(),
        };
        let bind = Action::Bind {
            target: target.clone(),
            node: "node-1".into(),
        };
        assert_eq!(
            words(OwnerEvent::of(&sim.world, &Task::Schedule, &bind), "p"),
            "Scheduled: Successfully assigned n/p to node-1"
        );
        let gone = Action::Delete { target, grace: None };
        assert_eq!(
            OwnerEvent::of(&sim.world, &Task::Node("a".into()), &gone),
            None,
            "the owner did not do it"
        );
    }

    #[test]
    fn an_event_looks_as_kubernetes_writes_it() {
        let notice = Notice {
            about: Target {
                kind: "ReplicaSet".into(),
                key: ("n".into(), "web".into()),
                uid: "u".into(),
            },
            source: "replicaset-controller",
            warning: true,
            reason: "FailedCreate",
            message: "no".into(),
        };
        let event = to_value(&event(&notice, "n", crate::testing::now()));
        assert_eq!(event["involvedObject"]["apiVersion"], "apps/v1");
        assert_eq!(
            (&event["count"], &event["lastTimestamp"]),
            (&json!(1), &json!("2026-01-01T12:00:00Z"))
        );
    }
}
