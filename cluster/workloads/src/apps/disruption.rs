//! PodDisruptionBudget: how many pods may be evicted now. The eviction itself is the API server's.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::ResourceExt;

use crate::action::Decision;
use crate::pods;
use crate::table::Key;
use crate::world::World;

/// How long an eviction counts on which the node has not acted.
const EVICTION_TIMEOUT: i64 = 120;

pub(crate) fn decide(world: &World, key: &Key, now: Timestamp) -> Decision {
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
    let waiting: BTreeMap<_, _> = evicted
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
    // Evictions write it too.
    decision.shared_status(budget.as_ref(), budget.status.as_ref(), &status);
    decision
}

fn is_share(budget: &PodDisruptionBudget) -> bool {
    use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
    let least = budget.spec.as_ref().and_then(|spec| spec.min_available.as_ref());
    matches!(least, Some(IntOrString::String(_)))
}

/// What the pods' controllers want in all: a share must not shrink while pods are down.
fn expected_pods(world: &World, selected: &[&Pod]) -> i32 {
    let mut wanted = BTreeMap::new();
    let mut lone = 0;
    for pod in selected {
        match controller(world, pod) {
            Some((uid, replicas)) => {
                wanted.insert(uid, replicas);
            }
            None => lone += 1,
        }
    }
    wanted.into_values().fold(lone, i32::saturating_add)
}

/// The uid of what decides how many pods there are, and how many that is.
fn controller(world: &World, pod: &Pod) -> Option<(String, i32)> {
    let owner = pods::controller_of(pod)?;
    let namespace = pod.namespace().unwrap_or_default();
    let key = (namespace.clone(), owner.name.clone());
    let replicas = match owner.kind.as_str() {
        "ReplicaSet" => {
            let set = world.replica_sets.get(&key)?;
            // During a rollout the Deployment has two sets, and wants one number.
            if let Some(above) = pods::controller_of(set.as_ref())
                && let Some(deployment) = world.deployments.get(&(namespace, above.name.clone()))
            {
                return Some((above.uid.clone(), deployment.spec.replicas.unwrap_or(1)));
            }
            set.spec.replicas.unwrap_or(1)
        }
        "StatefulSet" => world.stateful_sets.get(&key)?.spec.replicas.unwrap_or(1),
        "DaemonSet" => {
            let set = world.daemon_sets.get(&key)?;
            set.status
                .as_ref()
                .map_or(0, |status| status.desired_number_scheduled)
        }
        _ => return None,
    };
    Some((owner.uid.clone(), replicas))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Sim, now};
    use serde_json::{Value, json};

    fn pod(name: &str, ready: bool, owner: Option<(&str, &str)>) -> Value {
        let owners: Vec<_> = owner
            .map(|(kind, name)| json!({"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": name, "controller": true}))
            .into_iter()
            .collect();
        json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"namespace": "n", "name": name, "uid": name, "labels": {"app": "web"}, "ownerReferences": owners},
            "spec": {"nodeName": "a", "containers": []},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}]}})
    }

    fn budget(spec: Value) -> Value {
        let mut budget = json!({"kind": "PodDisruptionBudget", "apiVersion": "policy/v1", "metadata": {"namespace": "n", "name": "b", "uid": "b", "generation": 1},
            "spec": {"selector": {"matchLabels": {"app": "web"}}}});
        for (key, value) in spec.as_object().expect("an object") {
            budget["spec"][key] = value.clone();
        }
        budget
    }

    /// Healthy, desired, expected, allowed.
    fn numbers(world: &World, at: Timestamp) -> (i32, i32, i32, i32) {
        let key = ("n".to_owned(), "b".to_owned());
        let before = world.budgets.get(&key).and_then(|budget| budget.status.clone());
        let before = crate::action::to_value(&before.unwrap_or_default());
        let mut status = before;
        for action in decide(world, &key, at).actions {
            if let crate::action::Action::Patch { body, .. } = action {
                for (name, value) in body["status"].as_object().expect("a status") {
                    status[name] = value.clone();
                }
            }
        }
        let number = |name: &str| {
            status[name]
                .as_i64()
                .and_then(|n| i32::try_from(n).ok())
                .unwrap_or(-1)
        };
        (
            number("currentHealthy"),
            number("desiredHealthy"),
            number("expectedPods"),
            number("disruptionsAllowed"),
        )
    }

    #[test]
    fn numbers_and_shares_of_what_there_is() {
        let cases = [
            (json!({"minAvailable": 2}), (3, 2, 4, 1)),
            (json!({"minAvailable": "50%"}), (3, 2, 4, 1)),
            (json!({"maxUnavailable": 1}), (3, 3, 4, 0)),
            (json!({"maxUnavailable": "50%"}), (3, 2, 4, 1)),
            (json!({"minAvailable": 9}), (3, 9, 4, 0)),
        ];
        for (spec, expected) in cases {
            let mut sim = Sim::default();
            for (name, ready) in [("p1", true), ("p2", true), ("p3", true), ("p4", false)] {
                sim.learn(pod(name, ready, None));
            }
            sim.learn(budget(spec.clone()));
            assert_eq!(numbers(&sim.world, now()), expected, "{spec}");
        }
    }

    #[test]
    fn what_an_eviction_wrote_meanwhile_is_not_overwritten() {
        let mut sim = Sim::default();
        sim.learn(pod("p1", true, None));
        sim.learn(budget(json!({"minAvailable": 0})));
        let key = ("n".to_owned(), "b".to_owned());
        let seen = sim
            .world
            .budgets
            .get(&key)
            .and_then(|budget| budget.resource_version());
        let decision = decide(&sim.world, &key, now());
        let [crate::action::Action::Patch { body, .. }] = &decision.actions[..] else {
            panic!("one write: {decision:?}");
        };
        assert!(seen.is_some() && body["metadata"]["resourceVersion"].as_str() == seen.as_deref());
    }

    #[test]
    fn a_share_is_of_what_the_controllers_want() {
        let daemons = json!({"kind": "DaemonSet", "apiVersion": "apps/v1", "metadata": {"namespace": "n", "name": "agent", "uid": "agent"},
            "spec": {"selector": {}, "template": {}},
            "status": {"currentNumberScheduled": 1, "desiredNumberScheduled": 4, "numberMisscheduled": 0, "numberReady": 1}});
        let mut sim = Sim::default();
        sim.learn(daemons);
        sim.learn(pod("p1", true, Some(("DaemonSet", "agent"))));
        sim.learn(budget(json!({"maxUnavailable": 1})));
        assert_eq!(numbers(&sim.world, now()), (1, 3, 4, 0));

        let mut sim = Sim::default();
        sim.learn(json!({"kind": "Deployment", "apiVersion": "apps/v1", "metadata": {"namespace": "n", "name": "web", "uid": "web"},
            "spec": {"replicas": 3, "selector": {}, "template": {}}}));
        for (set, replicas) in [("old", 2), ("new", 2)] {
            sim.learn(json!({"kind": "ReplicaSet", "apiVersion": "apps/v1",
                "metadata": {"namespace": "n", "name": set, "uid": set,
                    "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "web", "controller": true}]},
                "spec": {"replicas": replicas, "selector": {}}}));
            for index in 0..2 {
                sim.learn(pod(&format!("{set}-{index}"), true, Some(("ReplicaSet", set))));
            }
        }
        sim.learn(budget(json!({"maxUnavailable": 1})));
        assert_eq!(
            numbers(&sim.world, now()),
            (4, 2, 3, 2),
            "two sets of one Deployment"
        );
    }

    #[test]
    fn an_evicted_pod_counts_as_gone_until_it_is_or_was_forgotten() {
        let mut sim = Sim::default();
        for name in ["p1", "p2"] {
            sim.learn(pod(name, true, None));
        }
        let mut spent = budget(json!({"minAvailable": 1}));
        spent["status"] = json!({"currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2, "disruptionsAllowed": 0,
            "disruptedPods": {"p1": now().to_string()}});
        sim.learn(spent);
        assert_eq!(numbers(&sim.world, now()), (1, 1, 2, 0));
        assert_eq!(
            numbers(&sim.world, pods::later(now(), EVICTION_TIMEOUT)),
            (2, 1, 2, 1)
        );
    }
}
