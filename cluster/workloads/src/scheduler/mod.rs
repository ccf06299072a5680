//! The scheduler: a node for each pod that has none.

pub(crate) mod filter;
mod neighbours;
mod resources;

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod, PodCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use serde_json::json;

use crate::action::{Action, Decision, Target, to_value};
use crate::pods;
use crate::volume;
use crate::world::World;
use resources::Amounts;

/// A node with what runs on it.
pub(crate) struct Candidate<'a> {
    node: &'a Node,
    pods: Vec<&'a Pod>,
    used: Amounts,
}

impl<'a> Candidate<'a> {
    fn add(&mut self, pod: &'a Pod) {
        resources::add(&mut self.used, &resources::asked_by(pod));
        self.pods.push(pod);
    }
}

pub(crate) struct Cluster<'a> {
    places: Vec<Candidate<'a>>,
}

impl<'a> Cluster<'a> {
    fn of(world: &'a World) -> Self {
        let mut places: BTreeMap<String, Candidate<'a>> = world
            .nodes
            .iter()
            .map(|node| {
                (
                    node.name_any(),
                    Candidate {
                        node,
                        pods: Vec::new(),
                        used: Amounts::new(),
                    },
                )
            })
            .collect();
        for pod in world.pods.iter().filter(|pod| !pods::is_finished(pod)) {
            if let Some(place) = node_of(pod).and_then(|node| places.get_mut(node)) {
                place.add(pod);
            }
        }
        Self {
            places: places.into_values().collect(),
        }
    }
}

pub(crate) fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec
        .as_ref()?
        .node_name
        .as_deref()
        .filter(|name| !name.is_empty())
}

/// All waiting pods at once: each sees where those before it went.
pub(crate) fn decide(world: &World, now: Timestamp) -> Decision {
    let mut decision = Decision::default();
    let mut waiting: Vec<&Pod> = world
        .pods
        .iter()
        .map(AsRef::as_ref)
        .filter(|pod| waits(pod))
        .collect();
    if waiting.is_empty() {
        return decision;
    }
    let priority = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or(0);
    waiting.sort_by_key(|pod| {
        (
            std::cmp::Reverse(priority(pod)),
            pod.creation_timestamp().map(|time| time.0),
            pod.name_any(),
        )
    });
    let mut cluster = Cluster::of(world);
    for pod in waiting {
        match place(world, &cluster, pod) {
            Ok(index) => {
                let place = &mut cluster.places[index];
                place.add(pod);
                decision.push(Action::Bind {
                    target: Target::of(pod),
                    node: place.node.name_any(),
                });
            }
            Err(why) => report(pod, why, now, &mut decision),
        }
    }
    decision
}

pub(crate) fn waits(pod: &Pod) -> bool {
    let scheduler = pod
        .spec
        .as_ref()
        .and_then(|spec| spec.scheduler_name.as_deref())
        .unwrap_or("default-scheduler");
    let gated = pod.spec.as_ref().is_some_and(|spec| {
        spec.scheduling_gates
            .as_ref()
            .is_some_and(|gates| !gates.is_empty())
    });
    node_of(pod).is_none() && pods::is_active(pod) && scheduler == "default-scheduler" && !gated
}

/// The index of the best place, or why there is none.
fn place(world: &World, cluster: &Cluster<'_>, pod: &Pod) -> Result<usize, String> {
    let namespace = pod.namespace().unwrap_or_default();
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    for claim in volumes.filter_map(|volume| volume.persistent_volume_claim.as_ref()) {
        let key = (namespace.clone(), claim.claim_name.clone());
        if world.claims.get(&key).is_none() {
            return Err(format!(
                "persistentvolumeclaim \"{}\" not found",
                claim.claim_name
            ));
        }
        if !volume::is_bound(world, &key) {
            return Err("pod has unbound immediate PersistentVolumeClaims".into());
        }
    }
    let asked = resources::asked_by(pod);
    let ports = filter::host_ports(pod);
    let mut refused: BTreeMap<String, usize> = BTreeMap::new();
    let mut best: Option<(i64, usize)> = None;
    for (index, place) in cluster.places.iter().enumerate() {
        let taken = || {
            place
                .pods
                .iter()
                .flat_map(|other| filter::host_ports(other))
                .any(|port| ports.contains(&port))
        };
        let verdict = filter::node_suits(pod, place.node)
            .and_then(|()| filter::resources_fit(&asked, place.node, &place.used))
            .and_then(|()| neighbours::allowed(cluster, pod, place.node).map_err(str::to_owned))
            .and_then(|()| {
                if ports.is_empty() || !taken() {
                    Ok(())
                } else {
                    Err("node(s) didn't have free ports for the requested pod ports".into())
                }
            });
        match verdict {
            Ok(()) => {
                let score = score(cluster, pod, place, &asked);
                if best.is_none_or(|(top, _)| score > top) {
                    best = Some((score, index));
                }
            }
            Err(why) => *refused.entry(why).or_default() += 1,
        }
    }
    best.map(|(_, index)| index).ok_or_else(|| {
        let reasons: Vec<_> = refused
            .iter()
            .map(|(why, count)| format!("{count} {why}"))
            .collect();
        let total = cluster.places.len();
        if reasons.is_empty() {
            "no nodes available to schedule pods".into()
        } else {
            format!("0/{total} nodes are available: {}.", reasons.join(", "))
        }
    })
}

/// Wishes first, then the emptier node, then the node with fewer pods.
fn score(cluster: &Cluster<'_>, pod: &Pod, place: &Candidate<'_>, asked: &Amounts) -> i64 {
    let affinity = pod
        .spec
        .as_ref()
        .and_then(|spec| spec.affinity.as_ref())
        .and_then(|affinity| affinity.node_affinity.as_ref());
    let wishes = affinity.and_then(|affinity| {
        affinity
            .preferred_during_scheduling_ignored_during_execution
            .as_ref()
    });
    let wished: i64 = wishes
        .into_iter()
        .flatten()
        .filter(|wish| filter::term_matches(&wish.preference, place.node))
        .map(|wish| i64::from(wish.weight))
        .sum();
    let avoided = place
        .node
        .spec
        .as_ref()
        .and_then(|spec| spec.taints.as_ref())
        .into_iter()
        .flatten()
        .filter(|t| t.effect == "PreferNoSchedule")
        .count();
    let offered = resources::offered_by(place.node);
    let free: i64 = ["cpu", "memory"]
        .iter()
        .filter_map(|name| {
            let total = *offered.get(*name).filter(|total| **total > 0)?;
            let used = place
                .used
                .get(*name)
                .copied()
                .unwrap_or(0)
                .saturating_add(asked.get(*name).copied().unwrap_or(0));
            Some((total - used).max(0).saturating_mul(50) / total)
        })
        .sum();
    let pods = i64::try_from(place.pods.len()).unwrap_or(i64::MAX).min(1000);
    (wished + neighbours::preference(cluster, pod, place.node)) * 10_000
        - i64::try_from(avoided).unwrap_or(0) * 5_000
        + free * 10
        - pods
}

/// Says why once; the same words are not written again.
fn report(pod: &Pod, why: String, now: Timestamp, decision: &mut Decision) {
    let mut conditions = pod
        .status
        .as_ref()
        .and_then(|status| status.conditions.clone())
        .unwrap_or_default();
    let known = conditions
        .iter()
        .any(|condition| condition.type_ == "PodScheduled" && condition.message.as_deref() == Some(&why));
    if known {
        return;
    }
    conditions.retain(|condition| condition.type_ != "PodScheduled");
    conditions.push(PodCondition {
        type_: "PodScheduled".into(),
        status: "False".into(),
        reason: Some("Unschedulable".into()),
        message: Some(why.clone()),
        last_transition_time: Some(Time(now)),
        ..Default::default()
    });
    let body = json!({"status": {"conditions": to_value(&conditions)}});
    decision.push(Action::Patch {
        target: Target::of(pod),
        subresource: Some("status"),
        body,
    });
    decision.push(Action::Event {
        target: Target::of(pod),
        warning: true,
        reason: "FailedScheduling",
        message: why,
    });
}

#[cfg(test)]
mod tests;
