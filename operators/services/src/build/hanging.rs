//! Pods that are scheduled but do not start: a volume is missing, say, or the node is down.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::ResourceExt;

use super::job::statuses;
use crate::facts::Facts;

/// So long it is merely on its way: an image may be large.
const PATIENCE: SignedDuration = SignedDuration::from_mins(1);

/// Why a pod hangs, as far as it says.
pub fn hanging(pod: &Pod, now: Timestamp) -> Option<String> {
    let since = on_its_way(pod)?;
    if named_from(since) > now {
        return None;
    }
    let mut waiting = statuses(pod).filter_map(|container| container.state.as_ref()?.waiting.as_ref());
    let why = waiting.find_map(|waiting| waiting.message.as_deref());
    let why = why.unwrap_or("see its events");
    let name = pod.name_any();
    Some(format!(
        "pod {name} was scheduled at {since} but has not started: {why}"
    ))
}

/// When the next pod will have hung for long enough to be named, which no watch reports.
pub fn next_hanging(facts: &Facts, now: Timestamp) -> Option<Timestamp> {
    let pods = facts.pods.iter().filter_map(on_its_way).map(named_from);
    pods.filter(|from| *from > now).min()
}

fn named_from(since: Timestamp) -> Timestamp {
    since.checked_add(PATIENCE).unwrap_or(Timestamp::MAX)
}

/// Since when it has had a node, while none of its containers is made.
fn on_its_way(pod: &Pod) -> Option<Timestamp> {
    let status = pod.status.as_ref()?;
    let stays = pod.metadata.deletion_timestamp.is_none() && status.phase.as_deref() == Some("Pending");
    if !stays || !statuses(pod).all(is_being_made) {
        return None;
    }
    let mut conditions = status.conditions.iter().flatten();
    let placed = conditions.find(|c| c.type_ == "PodScheduled" && c.status == "True")?;
    placed.last_transition_time.as_ref().map(|time| time.0)
}

fn is_being_made(container: &ContainerStatus) -> bool {
    let waiting = container.state.as_ref().and_then(|state| state.waiting.as_ref());
    let reason = waiting.and_then(|waiting| waiting.reason.as_deref());
    matches!(reason, Some("ContainerCreating" | "PodInitializing"))
}
