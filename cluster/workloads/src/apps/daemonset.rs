//! DaemonSet: a pod on every node that suits.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{DaemonSet, DaemonSetStatus};
use k8s_openapi::api::core::v1::{Node, Pod, PodSpec, PodTemplateSpec, Toleration};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt;

use crate::action::{Action, Decision, Target};
use crate::apps::revision::{self, REVISION_HASH};
use crate::pods::{self, PodName};
use crate::scheduler::filter;
use crate::table::Key;
use crate::world::World;

/// A daemon stays on a node that has trouble: it may be the one to cure it.
const TOLERATED: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];

pub(crate) fn decide(world: &World, key: &Key, now: Timestamp) -> Decision {
    let mut decision = Decision::default();
    let Some(set) = world.daemon_sets.get(key) else {
        return decision;
    };
    let (spec, Some(uid)) = (&set.spec, set.uid()) else {
        return decision;
    };
    let known = match revision::prepare(world, set.as_ref(), &spec.selector, &spec.template, |_| true) {
        Ok(known) => known,
        Err(first) => {
            decision.actions = first;
            return decision;
        }
    };
    let Some(update) = known.last().map(|revision| revision.name_any()) else {
        return decision;
    };
    // Kubernetes labels these pods with the hash alone: a name may be too long for a label.
    let hash = revision::hash(&set.name_any(), &update).to_owned();
    let template = daemon_template(&spec.template, &hash);

    let mut by_node: BTreeMap<&str, Vec<&Pod>> = BTreeMap::new();
    for pod in world.pods.owned_by(&uid) {
        if let Some(node) = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) {
            by_node.entry(node).or_default().push(pod);
        }
    }
    let pod_spec = template.spec.clone().unwrap_or_default();
    let min_ready = spec.min_ready_seconds.unwrap_or(0);
    let mut status = DaemonSetStatus {
        observed_generation: set.metadata.generation,
        ..Default::default()
    };
    let mut outdated = Vec::new();
    for node in world.nodes.iter() {
        let name = node.name_any();
        let there = by_node.remove(name.as_str()).unwrap_or_default();
        let mut active = there.iter().copied().filter(|pod| pods::is_active(pod));
        let kept = active.next();
        let extra = active.chain(
            there
                .iter()
                .copied()
                .filter(|pod| pods::is_finished(pod) && !pods::is_terminating(*pod)),
        );
        decision.actions.extend(extra.map(|pod| Action::Delete {
            target: Target::of(pod),
            grace: None,
        }));
        let (starts, stays) = verdict(&pod_spec, node);
        status.desired_number_scheduled += i32::from(starts);
        let Some(pod) = kept else {
            // The last pod still ends: two at once on one node would fight.
            if starts && there.iter().all(|pod| pods::is_finished(pod)) {
                decision.push(Action::create(&pod_on(set, &template, &name)));
            }
            continue;
        };
        if starts {
            count(&mut status, pod, &hash, min_ready, now, &mut decision);
        } else {
            status.number_misscheduled += 1;
        }
        if !stays {
            decision.push(Action::Delete {
                target: Target::of(pod),
                grace: None,
            });
        } else if starts && pod.labels().get(REVISION_HASH) != Some(&hash) {
            outdated.push(pod);
        }
    }
    for pod in by_node
        .into_values()
        .flatten()
        .filter(|pod| !pods::is_terminating(*pod))
    {
        decision.push(Action::Delete {
            target: Target::of(pod),
            grace: None,
        });
    }
    let available = status.number_available.unwrap_or(0);
    status.number_available = Some(available);
    status.updated_number_scheduled = Some(status.updated_number_scheduled.unwrap_or(0));
    status.number_unavailable = Some(status.desired_number_scheduled - available).filter(|n| *n > 0);
    roll(set, &mut outdated, &status, now, &mut decision);
    decision
        .actions
        .extend(revision::surplus(&known, spec.revision_history_limit, &[&update]));
    decision.status(set.as_ref(), set.status.as_ref(), &status);
    decision
}

/// Whether a pod starts on the node, and whether one that runs there stays.
fn verdict(spec: &PodSpec, node: &Node) -> (bool, bool) {
    if !filter::selects_node(spec, node) {
        return (false, false);
    }
    let stays = filter::untolerated(spec, node, &["NoExecute"]).is_none();
    let starts = stays && filter::untolerated(spec, node, &["NoSchedule"]).is_none();
    (starts, stays)
}

fn count(
    status: &mut DaemonSetStatus,
    pod: &Pod,
    hash: &String,
    min_ready: i32,
    now: Timestamp,
    decision: &mut Decision,
) {
    status.current_number_scheduled += 1;
    status.number_ready += i32::from(pods::is_ready(pod));
    let available = pods::is_available(pod, min_ready, now);
    *status.number_available.get_or_insert(0) += i32::from(available);
    *status.updated_number_scheduled.get_or_insert(0) +=
        i32::from(pod.labels().get(REVISION_HASH) == Some(hash));
    if let Some(at) = pods::available_at(pod, min_ready).filter(|at| *at > now) {
        decision.again(at);
    }
}

/// Replaces outdated pods within the budget; those that do not serve cost nothing.
fn roll(
    set: &DaemonSet,
    outdated: &mut [&Pod],
    status: &DaemonSetStatus,
    now: Timestamp,
    decision: &mut Decision,
) {
    let spec = &set.spec;
    let strategy = spec.update_strategy.as_ref();
    if strategy.and_then(|strategy| strategy.type_.as_deref()) == Some("OnDelete") {
        return;
    }
    let one = IntOrString::Int(1);
    let most = strategy
        .and_then(|s| s.rolling_update.as_ref())
        .and_then(|rolling| rolling.max_unavailable.as_ref())
        .unwrap_or(&one);
    let most = pods::scaled(most, status.desired_number_scheduled, true).max(1);
    let mut budget = most - status.number_unavailable.unwrap_or(0);
    let min_ready = spec.min_ready_seconds.unwrap_or(0);
    for pod in outdated {
        let serves = pods::is_available(pod, min_ready, now);
        if serves && budget <= 0 {
            continue;
        }
        budget -= i32::from(serves);
        decision.push(Action::Delete {
            target: Target::of(*pod),
            grace: None,
        });
    }
}

fn daemon_template(template: &PodTemplateSpec, hash: &str) -> PodTemplateSpec {
    let mut template = template.clone();
    let labels = template
        .metadata
        .get_or_insert_default()
        .labels
        .get_or_insert_default();
    labels.insert(REVISION_HASH.into(), hash.into());
    let spec = template.spec.get_or_insert_default();
    let network = spec
        .host_network
        .unwrap_or(false)
        .then_some(("node.kubernetes.io/network-unavailable", "NoSchedule"));
    let tolerations = spec.tolerations.get_or_insert_default();
    for (key, effect) in TOLERATED.into_iter().chain(network) {
        tolerations.push(Toleration {
            key: Some(key.into()),
            operator: Some("Exists".into()),
            effect: Some(effect.into()),
            ..Default::default()
        });
    }
    template
}

fn pod_on(set: &DaemonSet, template: &PodTemplateSpec, node: &str) -> Pod {
    let mut pod = pods::from_template(set, template, PodName::Generated(format!("{}-", set.name_any())));
    pod.spec.get_or_insert_default().node_name = Some(node.to_owned());
    pod
}

#[cfg(test)]
#[path = "daemonset_tests.rs"]
mod tests;
