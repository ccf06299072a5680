//! Whether an object is healthy, and what blocks it: read from what it says of itself.
//!
//! One vocabulary for the ControlPlane, `c5c3 status` and `c5c3 explain`. Programs decide by the
//! variant, the reason and the blocker; the message is for people.

use serde_json::Value;

use crate::common::Blocker;
use crate::conditions::{READY, korc, reason};

/// How an object is, at its newest generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    Ready,
    /// It is at work, or waits for another.
    Progressing(Trouble),
    /// It will not get better by itself.
    Failed(Trouble),
}

/// Why an object is not ready.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trouble {
    pub reason: String,
    pub message: String,
    /// The object that it waits for.
    pub blocker: Option<Blocker>,
}

impl Health {
    pub fn progressing(message: impl Into<String>) -> Self {
        Self::at_work(reason::PROGRESSING, message)
    }

    pub fn failed(reason: &str, message: impl Into<String>) -> Self {
        Health::Failed(trouble(reason, message))
    }

    fn at_work(reason: &str, message: impl Into<String>) -> Self {
        Health::Progressing(trouble(reason, message))
    }

    pub fn is_ready(&self) -> bool {
        matches!(self, Health::Ready)
    }

    /// Why it is not ready.
    pub fn trouble(&self) -> Option<&Trouble> {
        match self {
            Health::Ready => None,
            Health::Progressing(trouble) | Health::Failed(trouble) => Some(trouble),
        }
    }
}

fn trouble(reason: &str, message: impl Into<String>) -> Trouble {
    Trouble {
        reason: reason.to_owned(),
        message: message.into(),
        blocker: None,
    }
}

/// Reasons of a condition that is false only because something is under way.
const UNDER_WAY: &[&str] = &[
    reason::PROGRESSING,
    reason::WAITING,
    reason::RUNNING,
    reason::ROTATING,
    reason::DELETING,
    reason::DEPENDENCY_NOT_READY,
    reason::NOT_REACHED,
    reason::NOT_REPORTED,
];

/// `None` for kinds that do not tell, such as a Service.
pub fn of(live: &Value) -> Option<Health> {
    Some(match (group(live), kind(live)) {
        ("", "Pod") => pod(live),
        ("", "PersistentVolumeClaim") => match text(live, "/status/phase") {
            Some("Bound") => Health::Ready,
            phase => Health::at_work("NotBound", format!("the claim is {}", phase.unwrap_or("Pending"))),
        },
        ("", _) => return None,
        ("apps", _) => replicas(live),
        ("batch", "Job") => job(live),
        ("batch", _) => return None,
        _ => of_resource(live),
    })
}

/// An object of a kind that is defined by a CustomResourceDefinition.
pub fn of_resource(live: &Value) -> Health {
    if live.pointer("/metadata/deletionTimestamp").is_some() {
        return Health::at_work(reason::DELETING, "is being deleted");
    }
    match (group(live), kind(live)) {
        (_, "Valkey") => valkey(live),
        (_, "RabbitmqCluster") => rabbitmq(live),
        ("openstack.k-orc.cloud", _) => orc(live),
        _ => {
            let told = [READY, "Available"];
            let told = told.into_iter().find(|name| condition(live, name).is_some());
            by_condition(live, told.unwrap_or(READY))
        }
    }
}

fn by_condition(live: &Value, type_: &str) -> Health {
    let Some(condition) = condition(live, type_) else {
        return Health::at_work(reason::NOT_REPORTED, "has not reported yet");
    };
    if stale(live, condition) {
        return not_processed();
    }
    if status(condition) == "True" {
        return Health::Ready;
    }
    let why = text(condition, "/reason").unwrap_or_default();
    let trouble = told(live, condition);
    // Kinds of other projects have reasons of their own: they are taken to be at work.
    if status(condition) == "Unknown" || why.is_empty() || UNDER_WAY.contains(&why) || !is_ours(live) {
        Health::Progressing(trouble)
    } else {
        Health::Failed(trouble)
    }
}

/// What a condition says, with the object that the status names beside it.
fn told(live: &Value, condition: &Value) -> Trouble {
    let blocker = live.pointer("/status/blockedBy").cloned();
    let or = |path: &str, other: &str| text(condition, path).unwrap_or(other).to_owned();
    Trouble {
        reason: or("/reason", reason::FAILED),
        message: or("/message", "not ready"),
        blocker: blocker.and_then(|blocker| serde_json::from_value(blocker).ok()),
    }
}

fn orc(live: &Value) -> Health {
    let progressing = condition(live, korc::PROGRESSING);
    let available = condition(live, korc::AVAILABLE);
    let fresh = |condition: &&Value| !stale(live, condition);
    if available.filter(fresh).is_some_and(|c| status(c) == "True") {
        return Health::Ready;
    }
    match progressing.or(available) {
        None => Health::at_work(reason::NOT_REPORTED, "has not been processed by K-ORC yet"),
        Some(condition) if stale(live, condition) => not_processed(),
        // K-ORC has given up until somebody changes something.
        Some(condition) if progressing.is_some() && status(condition) == "False" => {
            Health::Failed(told(live, condition))
        }
        Some(condition) => Health::Progressing(told(live, condition)),
    }
}

fn valkey(live: &Value) -> Health {
    let observed = live.pointer("/status/observedGeneration").and_then(Value::as_i64);
    if behind(live, observed) {
        return not_processed();
    }
    match text(live, "/status/state") {
        Some("Ready") => Health::Ready,
        Some("Error") => Health::failed(reason::FAILED, first_message(live).unwrap_or("failed")),
        _ => Health::progressing(first_message(live).unwrap_or("is starting")),
    }
}

/// Its operator tells apart how the members are and whether it could do as the spec says. What it
/// refuses it does not count as observed.
fn rabbitmq(live: &Value) -> Health {
    match condition(live, "ReconcileSuccess") {
        Some(condition) if status(condition) == "False" => Health::Failed(told(live, condition)),
        _ => by_condition(live, "AllReplicasReady"),
    }
}

fn not_processed() -> Health {
    Health::at_work(
        reason::OUT_OF_DATE,
        "its latest change has not been processed yet",
    )
}

fn is_ours(live: &Value) -> bool {
    let group = group(live);
    group == "c5c3.io" || group == "ovn.c5c3.io" || group.ends_with(".openstack.c5c3.io")
}

/// A condition of an object.
pub fn condition<'a>(live: &'a Value, type_: &str) -> Option<&'a Value> {
    let list = live.pointer("/status/conditions")?.as_array()?;
    list.iter().find(|condition| condition["type"] == type_)
}

fn status(condition: &Value) -> &str {
    condition["status"].as_str().unwrap_or("Unknown")
}

/// A condition about an older generation says nothing about this one.
fn stale(live: &Value, condition: &Value) -> bool {
    let observed = condition.get("observedGeneration").and_then(Value::as_i64);
    behind(
        live,
        observed.or_else(|| live.pointer("/status/observedGeneration").and_then(Value::as_i64)),
    )
}

/// Our kinds always say which generation they mean; those of others need not.
fn behind(live: &Value, observed: Option<i64>) -> bool {
    let generation = live.pointer("/metadata/generation").and_then(Value::as_i64);
    match (observed, generation) {
        (Some(seen), Some(now)) => seen < now,
        (None, Some(_)) => is_ours(live),
        _ => false,
    }
}

fn first_message(live: &Value) -> Option<&str> {
    let list = live.pointer("/status/conditions")?.as_array()?;
    list.iter().find_map(|condition| text(condition, "/message"))
}

/// Pods of a workload: those that are ready, and how many there should be.
pub fn counts(object: &Value) -> (i64, i64) {
    let count = |path: &str| object.pointer(path).and_then(Value::as_i64);
    if kind(object) == "DaemonSet" {
        let ready = count("/status/numberReady").unwrap_or(0);
        return (ready, count("/status/desiredNumberScheduled").unwrap_or(0));
    }
    let ready = count("/status/readyReplicas").unwrap_or(0);
    (ready, count("/spec/replicas").unwrap_or(1))
}

fn replicas(object: &Value) -> Health {
    let (ready, wanted) = counts(object);
    if ready >= wanted {
        return Health::Ready;
    }
    Health::at_work("NotEnough", format!("{ready} of {wanted} pods are ready"))
}

fn job(object: &Value) -> Health {
    let holds = |kind| condition(object, kind).filter(|condition| status(condition) == "True");
    if holds("Complete").is_some() {
        Health::Ready
    } else if let Some(failed) = holds("Failed") {
        Health::failed(
            reason::FAILED,
            text(failed, "/message").unwrap_or("the Job failed"),
        )
    } else {
        Health::at_work(reason::RUNNING, "the Job is running")
    }
}

fn pod(object: &Value) -> Health {
    let phase = text(object, "/status/phase").unwrap_or_default();
    let ready = condition(object, READY).is_some_and(|c| status(c) == "True");
    if phase == "Succeeded" || (phase == "Running" && ready) {
        return Health::Ready;
    }
    let statuses = ["/status/initContainerStatuses", "/status/containerStatuses"];
    let containers = statuses
        .iter()
        .filter_map(|path| object.pointer(path)?.as_array())
        .flatten();
    for container in containers {
        let state = &container["state"];
        for state in [
            &state["waiting"],
            &state["terminated"],
            &container["lastState"]["terminated"],
        ] {
            let reason = text(state, "/reason").unwrap_or_default();
            if ["", "Completed", "ContainerCreating", "PodInitializing"].contains(&reason) {
                continue;
            }
            let words = match (text(state, "/message"), state["exitCode"].as_i64()) {
                (None, Some(code)) => format!("it exited with code {code}"),
                (words, _) => words.unwrap_or_default().trim().to_owned(),
            };
            let name = text(container, "/name").unwrap_or_default();
            return Health::at_work(reason, format!("container {name}: {words}"));
        }
    }
    match condition(object, "PodScheduled").filter(|c| status(c) == "False") {
        Some(unplaced) => Health::at_work("Unschedulable", text(unplaced, "/message").unwrap_or_default()),
        None if phase == "Running" => {
            Health::at_work("NotReady", "its readiness probe has not succeeded yet")
        }
        None => Health::at_work("Starting", "it is starting"),
    }
}

fn kind(object: &Value) -> &str {
    text(object, "/kind").unwrap_or_default()
}

/// The API group; empty for the core of Kubernetes.
fn group(object: &Value) -> &str {
    let version = text(object, "/apiVersion").unwrap_or_default();
    version.rsplit_once('/').map_or("", |(group, _)| group)
}

/// A text that is there and not empty.
fn text<'a>(value: &'a Value, path: &str) -> Option<&'a str> {
    let text = value.pointer(path).and_then(Value::as_str);
    text.filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests;
