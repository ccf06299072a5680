//! ReplicaSet: a number of pods of one template.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetCondition, ReplicaSetStatus};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;

use crate::action::{Action, Decision, Target};
use crate::pods::{self, PodName};
use crate::table::Key;
use crate::world::World;

/// The most pods that are created or removed at once; the rest follows when these have been seen.
const BURST: usize = 500;
/// The condition that says why pods cannot be made.
pub(crate) const FAILURE: &str = "ReplicaFailure";

pub(crate) fn decide(world: &World, key: &Key, now: Timestamp) -> Decision {
    let mut decision = Decision::default();
    let Some(set) = world.replica_sets.get(key) else {
        return decision;
    };
    let (spec, Some(uid)) = (&set.spec, set.uid()) else {
        return decision;
    };
    if pods::is_terminating(set.as_ref()) {
        return decision;
    }
    decision.actions = pods::claims::<Pod, _>(world, set.as_ref(), &spec.selector, |_| true);
    if !decision.actions.is_empty() {
        return decision;
    }

    let owned: Vec<&Pod> = world.pods.owned_by(&uid).map(AsRef::as_ref).collect();
    let mut active: Vec<&Pod> = owned.iter().copied().filter(|pod| pods::is_active(pod)).collect();
    let wanted = usize::try_from(spec.replicas.unwrap_or(1)).unwrap_or(0);
    if active.len() < wanted {
        let Some(template) = &spec.template else {
            return decision;
        };
        for _ in active.len()..wanted.min(active.len() + BURST) {
            let name = PodName::Generated(format!("{}-", set.name_any()));
            decision.push(Action::create(&pods::from_template(set.as_ref(), template, name)));
        }
    } else if active.len() > wanted {
        let surplus = active.len() - wanted;
        pods::by_deletion_rank(&mut active, now);
        for pod in active.drain(..surplus.min(BURST)) {
            decision.push(Action::Delete {
                target: Target::of(pod),
                grace: None,
            });
        }
    }
    let refused = world.refused.get(&uid).filter(|_| active.len() < wanted);
    status(set, &active, refused, now, &mut decision);
    decision
}

/// Why pods are missing, for as long as they are.
fn conditions(
    set: &ReplicaSet,
    refused: Option<&String>,
    now: Timestamp,
) -> Option<Vec<ReplicaSetCondition>> {
    let old = set.status.as_ref().and_then(|status| status.conditions.clone());
    let mut all = old.unwrap_or_default();
    let known = all
        .iter()
        .position(|condition| condition.type_.as_deref() == Some(FAILURE));
    match (refused, known) {
        // It says the same still: a message that differs with each try would be a write with each.
        (Some(_), Some(_)) | (None, None) => {}
        (Some(message), None) => all.push(ReplicaSetCondition {
            type_: Some(FAILURE.into()),
            status: Some("True".into()),
            reason: Some("FailedCreate".into()),
            message: Some(message.clone()),
            last_transition_time: Some(Time(now)),
        }),
        (None, Some(index)) => {
            all.remove(index);
        }
    }
    (!all.is_empty()).then_some(all)
}

fn status(
    set: &ReplicaSet,
    active: &[&Pod],
    refused: Option<&String>,
    now: Timestamp,
    decision: &mut Decision,
) {
    let spec = set.spec.clone();
    let min_ready = spec.min_ready_seconds.unwrap_or(0);
    let template_labels: BTreeMap<_, _> = spec
        .template
        .and_then(|template| template.metadata)
        .and_then(|meta| meta.labels)
        .unwrap_or_default();
    let count = |keep: &dyn Fn(&Pod) -> bool| {
        Some(i32::try_from(active.iter().filter(|pod| keep(pod)).count()).unwrap_or(i32::MAX))
    };
    // A ready pod counts as available only later: look again then.
    for at in active
        .iter()
        .filter_map(|pod| pods::available_at(pod, min_ready))
        .filter(|at| *at > now)
    {
        decision.again(at);
    }
    let wanted = ReplicaSetStatus {
        replicas: count(&|_| true).unwrap_or(0),
        fully_labeled_replicas: count(&|pod| {
            template_labels
                .iter()
                .all(|(k, v)| pod.labels().get(k) == Some(v))
        }),
        ready_replicas: count(&pods::is_ready),
        available_replicas: count(&|pod| pods::is_available(pod, min_ready, now)),
        observed_generation: set.metadata.generation,
        conditions: conditions(set, refused, now),
        terminating_replicas: None,
    };
    decision.status(set, set.status.as_ref(), &wanted);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Sim, now};
    use serde_json::json;

    fn set(replicas: i32) -> serde_json::Value {
        json!({"kind": "ReplicaSet", "apiVersion": "apps/v1", "metadata": {"namespace": "n", "name": "web", "uid": "rs"},
            "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
                "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}})
    }

    #[test]
    fn it_makes_what_is_missing_and_removes_the_least_useful() {
        let mut sim = Sim::default();
        sim.learn(set(3));
        sim.settle();
        assert_eq!(sim.world.pods.iter().count(), 3);
        sim.run_pods(2);
        sim.settle();
        let ready: Vec<_> = sim
            .world
            .pods
            .iter()
            .filter(|pod| pods::is_ready(pod))
            .map(|pod| pod.name_any())
            .collect();
        sim.change::<ReplicaSet>("web", |set| set.spec.replicas = Some(2));
        sim.settle();
        let left: Vec<_> = sim
            .world
            .pods
            .iter()
            .filter(|pod| pods::is_active(pod))
            .map(|pod| pod.name_any())
            .collect();
        assert_eq!(left, ready, "the pod that never got ready goes first");
        let status = sim
            .world
            .replica_sets
            .get(&("n".into(), "web".into()))
            .unwrap()
            .status
            .clone()
            .unwrap();
        assert_eq!(
            (status.replicas, status.ready_replicas, status.available_replicas),
            (2, Some(2), Some(2))
        );
    }

    #[test]
    fn an_orphan_of_the_selector_is_adopted_and_counts() {
        let mut sim = Sim::default();
        sim.learn(json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"namespace": "n", "name": "lone", "uid": "p", "labels": {"app": "web"}},
            "spec": {"containers": []}}));
        sim.learn(set(1));
        let first = decide(&sim.world, &("n".into(), "web".into()), now());
        assert!(
            first
                .actions
                .iter()
                .any(|a| matches!(a, Action::Patch { target, .. } if target.key.1 == "lone"))
        );
        sim.settle();
        assert!(
            sim.world
                .pods
                .iter()
                .any(|pod| pods::controller_of(pod.as_ref()).is_some() && pod.name_any() == "lone")
        );
    }

    #[test]
    fn a_pod_that_leaves_the_selector_is_let_go_and_replaced() {
        let mut sim = Sim::default();
        sim.learn(set(2));
        sim.run_all();
        let name = sim.world.pods.iter().next().map(|pod| pod.name_any()).unwrap();
        sim.change::<Pod>(&name, |pod| {
            pod.labels_mut().remove("app");
        });
        sim.settle();
        assert_eq!(sim.world.pods.owned_by("rs").count(), 2);
        let free = sim.world.pods.get(&("n".into(), name.clone())).unwrap();
        assert!(pods::controller_of(free.as_ref()).is_none());
        sim.change::<Pod>(&name, |pod| {
            pod.labels_mut().insert("app".into(), "web".into());
        });
        sim.settle();
        assert_eq!(
            sim.world.pods.owned_by("rs").count(),
            2,
            "taken back, and one too many goes"
        );
    }

    #[test]
    fn a_refused_pod_is_a_condition_until_pods_are_there() {
        let mut sim = Sim::default();
        sim.world.refused.insert("rs".into(), "no such account".into());
        sim.learn(set(1));
        let first = decide(&sim.world, &("n".into(), "web".into()), now());
        let said = |action: &Action| matches!(action, Action::Patch { body, .. } if body["status"]["conditions"][0]["message"] == "no such account");
        assert!(first.actions.iter().any(said), "{first:?}");
        let mut told = set(1);
        told["status"] = json!({"replicas": 0, "fullyLabeledReplicas": 0, "readyReplicas": 0, "availableReplicas": 0,
            "conditions": [{"type": FAILURE, "status": "True", "reason": "FailedCreate", "message": "no such account"}]});
        sim.learn(told);
        sim.world
            .refused
            .insert("rs".into(), "another name, the same fault".into());
        let second = decide(&sim.world, &("n".into(), "web".into()), now());
        let writes = |action: &Action| matches!(action, Action::Patch { .. });
        assert!(!second.actions.iter().any(writes), "{second:?}");
        sim.world.refused.clear();
        sim.settle();
        let status = sim
            .world
            .replica_sets
            .iter()
            .next()
            .unwrap()
            .status
            .clone()
            .unwrap();
        assert_eq!(status.conditions, None);
    }

    #[test]
    fn nothing_is_said_twice() {
        let mut sim = Sim::default();
        sim.learn(set(2));
        sim.settle();
        assert_eq!(
            decide(&sim.world, &("n".into(), "web".into()), now()),
            Decision::default()
        );
    }
}
