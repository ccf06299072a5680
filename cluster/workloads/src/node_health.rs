//! Nodes that stopped answering: tainted, their pods marked and, in time, given up.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeCondition, Pod, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use serde_json::json;

use crate::action::{Action, Decision, Target, to_value};
use crate::pods;
use crate::scheduler::filter::tolerates;
use crate::table::Key;
use crate::world::World;

/// How long after the last renewal of its lease a node counts as gone.
pub const LEASE_GRACE: i64 = 40;
/// How long pods stay on a node that does not answer, unless they say otherwise.
const DEFAULT_TOLERATION: i64 = 300;
const LEASES: &str = "kube-node-lease";
const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
/// Set by whoever knows that nothing runs on the node any more: pods may start elsewhere at once.
pub const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

pub fn decide(world: &World, name: &str, now: Timestamp) -> Decision {
    let mut decision = Decision::default();
    let key: Key = (String::new(), name.to_owned());
    let on_it = || {
        world.pods.iter().map(AsRef::as_ref).filter(|pod: &&Pod| {
            pod.spec
                .as_ref()
                .is_some_and(|spec| spec.node_name.as_deref() == Some(name))
        })
    };
    let Some(node) = world.nodes.get(&key) else {
        // The node was removed: nobody will ever report on these pods again.
        let left = on_it().filter(|pod| !pods::is_forced(pod));
        decision.actions.extend(left.map(|pod| Action::Delete {
            target: Target::of(pod),
            grace: Some(0),
        }));
        return decision;
    };
    let state = ready(node);
    let renewed = world
        .leases
        .get(&(LEASES.into(), name.to_owned()))
        .and_then(|lease| lease.spec.as_ref()?.renew_time.as_ref().map(|time| time.0));
    if state == "True"
        && let Some(renewed) = renewed
    {
        // While this controller was not running, the node could not report to it.
        let until = pods::later(renewed.max(world.started), LEASE_GRACE);
        if until <= now {
            mark_unknown(node, now, &mut decision);
            return decision;
        }
        decision.again(until);
    }
    let wanted = match state {
        "True" => None,
        "Unknown" => Some(UNREACHABLE),
        _ => Some(NOT_READY),
    };
    let here: Vec<&Pod> = on_it().collect();
    taint(node, wanted, &here, now, &mut decision);
    for pod in here {
        if wanted.is_some() {
            mark_not_ready(node, pod, now, &mut decision);
        }
        evict(node, pod, now, &mut decision);
    }
    decision
}

/// Whether pods may have to leave the node: on such a node every pod counts.
pub fn evicts(node: &Node) -> bool {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    ready(node) != "True"
        || taints
            .into_iter()
            .flatten()
            .any(|taint| taint.effect == "NoExecute")
}

/// Whether the pod bears the taint for some seconds only.
fn counts_seconds(pod: &Pod, taint: &Taint) -> bool {
    let tolerations = pod.spec.as_ref().and_then(|spec| spec.tolerations.as_ref());
    tolerations
        .into_iter()
        .flatten()
        .any(|toleration| toleration.toleration_seconds.is_some() && tolerates(toleration, taint))
}

fn ready_condition(node: &Node) -> Option<&NodeCondition> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == "Ready")
}

fn ready(node: &Node) -> &str {
    ready_condition(node).map_or("Unknown", |condition| condition.status.as_str())
}

fn mark_unknown(node: &Node, now: Timestamp, decision: &mut Decision) {
    let mut conditions = node
        .status
        .as_ref()
        .and_then(|status| status.conditions.clone())
        .unwrap_or_default();
    for condition in &mut conditions {
        condition.status = "Unknown".into();
        condition.reason = Some("NodeStatusUnknown".into());
        condition.message = Some("Kubelet stopped posting node status.".into());
        condition.last_transition_time = Some(Time(now));
    }
    let body = json!({"status": {"conditions": to_value(&conditions)}});
    decision.push(Action::replace(node, Some("status"), body));
}

/// The taints of health and cordon; and since when there is one that a pod bears for seconds.
fn taint(node: &Node, wanted: Option<&str>, here: &[&Pod], now: Timestamp, decision: &mut Decision) {
    let old = node
        .spec
        .as_ref()
        .and_then(|spec| spec.taints.clone())
        .unwrap_or_default();
    let health = |taint: &Taint| taint.key == NOT_READY || taint.key == UNREACHABLE;
    let mut taints: Vec<Taint> = old
        .iter()
        .filter(|taint| !health(taint) || Some(taint.key.as_str()) == wanted)
        .cloned()
        .collect();
    // Cordoned by `kubectl cordon`: said as a taint too, so that tolerations apply.
    let cordoned = node
        .spec
        .as_ref()
        .and_then(|spec| spec.unschedulable)
        .unwrap_or(false);
    const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
    taints.retain(|taint| taint.key != UNSCHEDULABLE || cordoned);
    let mut add = |key: &str, effect: &str| {
        if !taints
            .iter()
            .any(|taint| taint.key == key && taint.effect == effect)
        {
            taints.push(Taint {
                key: key.into(),
                effect: effect.into(),
                value: None,
                time_added: Some(Time(now)),
            });
        }
    };
    if cordoned {
        add(UNSCHEDULABLE, "NoSchedule");
    }
    if let Some(key) = wanted {
        add(key, "NoSchedule");
        add(key, "NoExecute");
    }
    for taint in taints.iter_mut().filter(|taint| taint.effect == "NoExecute") {
        if taint.time_added.is_none() && here.iter().any(|pod| counts_seconds(pod, taint)) {
            taint.time_added = Some(Time(now));
        }
    }
    if taints != old {
        let body = json!({"spec": {"taints": to_value(&taints)}});
        decision.push(Action::replace(node, None, body));
    }
}

/// Takes the pod out of its Services at once, once for each time that the node fails: a pod that got
/// ready since then was seen to be so by somebody who knows.
fn mark_not_ready(node: &Node, pod: &Pod, now: Timestamp, decision: &mut Decision) {
    let failed = ready_condition(node).and_then(|condition| condition.last_transition_time.as_ref());
    let stale = |since: Timestamp| failed.is_none_or(|failed| since <= failed.0);
    if !pods::ready_since(pod).is_some_and(stale) {
        return;
    }
    let mut conditions = pod
        .status
        .as_ref()
        .and_then(|status| status.conditions.clone())
        .unwrap_or_default();
    for condition in conditions
        .iter_mut()
        .filter(|condition| condition.type_ == "Ready")
    {
        condition.status = "False".into();
        condition.reason = Some("NodeNotReady".into());
        condition.message = Some("The node stopped answering.".into());
        condition.last_transition_time = Some(Time(now));
    }
    let body = json!({"status": {"conditions": to_value(&conditions)}});
    decision.push(Action::replace(pod, Some("status"), body));
}

/// A pod leaves when a taint is not tolerated, or when the shortest of its tolerations is over.
fn evict(node: &Node, pod: &Pod, now: Timestamp, decision: &mut Decision) {
    let spec = pod.spec.as_ref();
    let tolerations = spec
        .and_then(|spec| spec.tolerations.as_deref())
        .unwrap_or_default();
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_deref());
    let mut until: Option<Timestamp> = None;
    for taint in taints
        .unwrap_or_default()
        .iter()
        .filter(|taint| taint.effect == "NoExecute")
    {
        let tolerated = tolerations.iter().find(|toleration| tolerates(toleration, taint));
        if taint.key == OUT_OF_SERVICE && tolerated.is_none() {
            if !pods::is_forced(pod) {
                decision.push(Action::Delete {
                    target: Target::of(pod),
                    grace: Some(0),
                });
            }
            return;
        }
        let health = taint.key == NOT_READY || taint.key == UNREACHABLE;
        let stays = match tolerated.map(|toleration| toleration.toleration_seconds) {
            // A toleration without seconds holds forever.
            Some(None) => continue,
            Some(Some(seconds)) => seconds.max(0),
            None if health => DEFAULT_TOLERATION,
            None => 0,
        };
        // A pod that came after the taint has its time from then on.
        let tainted = taint.time_added.as_ref().map_or(now, |time| time.0);
        let since = pod
            .creation_timestamp()
            .map_or(tainted, |made| made.0.max(tainted));
        let end = pods::later(since, stays);
        until = Some(until.map_or(end, |earlier| earlier.min(end)));
    }
    match until.filter(|_| pods::is_active(pod)) {
        Some(end) if end <= now => {
            let (namespace, name) = crate::table::key_of(pod);
            decision.push(Action::Event {
                target: Target::of(pod),
                warning: false,
                reason: "TaintManagerEviction",
                message: format!("Marking for deletion Pod {namespace}/{name}"),
            });
            decision.push(Action::Delete {
                target: Target::of(pod),
                grace: None,
            });
        }
        Some(end) => decision.again(end),
        None => {}
    }
}

#[cfg(test)]
#[path = "node_health_tests.rs"]
mod tests;
