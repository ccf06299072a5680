//! PodDisruptionBudget: how many pods may be evicted now. The eviction itself is the API server's.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::ResourceExt;

use crate::action::Decision;
use crate::pods;
use crate::table::Key;
use crate::world::World;

/// An eviction that the node did not act on for so long no longer counts.
const EVICTION_TIMEOUT: i64 = 120;

pub fn decide(world: &World, key: &Key, now: Timestamp) -> Decision {
    let mut decision = Decision::default();
    let Some(budget) = world.budgets.get(key) else {
        return decision;
    };
    let Some(spec) = &budget.spec else { return decision };
    let selected: Vec<&Pod> = world
        .pods
        .in_namespace(&key.0)
        .map(AsRef::as_ref)
        .filter(|pod| {
            spec.selector
                .as_ref()
                .is_some_and(|selector| pods::selects(selector, pod.labels()))
        })
        .filter(|pod| !pods::is_finished(pod))
        .collect();
    let present = number(selected.len());
    let expected = if spec.max_unavailable.is_some() || is_share(budget) {
        expected_pods(world, &selected)
    } else {
        present
    };
    let wanted = match (&spec.min_available, &spec.max_unavailable) {
        (Some(least), _) => pods::scaled(least, expected, true),
        (None, Some(most)) => expected - pods::scaled(most, expected, true),
        (None, None) => expected,
    }
    .max(0);

    let evicted = budget
        .status
        .as_ref()
        .and_then(|status| status.disrupted_pods.clone())
        .unwrap_or_default();
    let waiting: std::collections::BTreeMap<_, _> = evicted
        .into_iter()
        .filter(|(name, at)| {
            let until = pods::later(at.0, EVICTION_TIMEOUT);
            let there = selected
                .iter()
                .any(|pod| pod.name_any() == *name && !pods::is_terminating(*pod));
            if there && until > now {
                decision.again(until);
            }
            there && until > now
        })
        .collect();
    let healthy = selected.iter().filter(|pod| {
        pods::is_ready(pod) && !pods::is_terminating(**pod) && !waiting.contains_key(&pod.name_any())
    });
    let healthy = number(healthy.count());
    let allowed = if expected > 0 {
        (healthy - wanted).max(0)
    } else {
        0
    };
    let status = PodDisruptionBudgetStatus {
        current_healthy: Some(healthy),
        desired_healthy: Some(wanted),
        disrupted_pods: (!waiting.is_empty()).then_some(waiting),
        disruptions_allowed: Some(allowed),
        expected_pods: Some(expected),
        observed_generation: budget.metadata.generation,
        conditions: Some(vec![condition(budget, allowed > 0, now)]),
    };
    decision.status(budget.as_ref(), budget.status.as_ref(), &status);
    decision
}

fn is_share(budget: &PodDisruptionBudget) -> bool {
    use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
    let least = budget.spec.as_ref().and_then(|spec| spec.min_available.as_ref());
    matches!(least, Some(IntOrString::String(_)))
}

/// What the pods' controllers want in all: a share must not shrink while pods are down.
fn expected_pods(world: &World, selected: &[&Pod]) -> i32 {
    let mut owners = std::collections::BTreeMap::new();
    let mut lone = 0;
    for pod in selected {
        match pods::controller_of(*pod) {
            Some(owner) => {
                owners.insert(
                    owner.uid.clone(),
                    (
                        owner.kind.clone(),
                        (pod.namespace().unwrap_or_default(), owner.name.clone()),
                    ),
                );
            }
            None => lone += 1,
        }
    }
    owners.into_values().fold(lone, |sum, (kind, key)| {
        let wanted = match kind.as_str() {
            "ReplicaSet" => world.replica_sets.get(&key).and_then(|set| set.spec.replicas),
            "StatefulSet" => world.stateful_sets.get(&key).and_then(|set| set.spec.replicas),
            _ => None,
        };
        sum + wanted.unwrap_or(1)
    })
}

fn condition(budget: &PodDisruptionBudget, allowed: bool, now: Timestamp) -> Condition {
    let status = if allowed { "True" } else { "False" };
    let old = budget
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_ref())
        .and_then(|all| all.first().cloned());
    let since = old
        .filter(|old| old.status == status)
        .map_or(Time(now), |old| old.last_transition_time);
    Condition {
        type_: "DisruptionAllowed".into(),
        status: status.into(),
        reason: if allowed {
            "SufficientPods"
        } else {
            "InsufficientPods"
        }
        .into(),
        message: String::new(),
        observed_generation: budget.metadata.generation,
        last_transition_time: since,
    }
}

fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}
