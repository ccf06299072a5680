//! Nodes that stopped answering: tainted, their pods marked and, in time, given up.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod, Taint, Toleration};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;

use crate::action::{Action, Decision, Target, to_value};
use crate::pods;
use crate::scheduler::filter::tolerates;
use crate::table::Key;
use crate::world::World;

/// A lease that was not renewed for so long means that the node is gone.
pub const LEASE_GRACE: i64 = 40;
/// Pods stay so long on a node that does not answer, unless they say otherwise.
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
        decision.actions.extend(on_it().map(|pod| Action::Delete {
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
        let until = pods::later(renewed, LEASE_GRACE);
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
    taint(node, wanted, now, &mut decision);
    if wanted.is_none() {
        return decision;
    }
    for pod in on_it() {
        mark_not_ready(pod, now, &mut decision);
        evict(node, pod, now, &mut decision);
    }
    decision
}

fn ready(node: &Node) -> &str {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions
        .and_then(|all| all.iter().find(|c| c.type_ == "Ready"))
        .map_or("Unknown", |condition| condition.status.as_str())
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
    decision.push(Action::Patch {
        target: Target::of(node),
        subresource: Some("status"),
        body,
    });
}

fn taint(node: &Node, wanted: Option<&str>, now: Timestamp, decision: &mut Decision) {
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
    if taints != old {
        let body = json!({"spec": {"taints": to_value(&taints)}});
        decision.push(Action::Patch {
            target: Target::of(node),
            subresource: None,
            body,
        });
    }
}

/// Takes the pod out of its Services at once.
fn mark_not_ready(pod: &Pod, now: Timestamp, decision: &mut Decision) {
    if !pods::is_ready(pod) {
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
    decision.push(Action::Patch {
        target: Target::of(pod),
        subresource: Some("status"),
        body,
    });
}

fn evict(node: &Node, pod: &Pod, now: Timestamp, decision: &mut Decision) {
    let taints = node
        .spec
        .as_ref()
        .and_then(|spec| spec.taints.clone())
        .unwrap_or_default();
    let tolerations: Vec<Toleration> = pod
        .spec
        .as_ref()
        .and_then(|spec| spec.tolerations.clone())
        .unwrap_or_default();
    for taint in taints.iter().filter(|taint| taint.effect == "NoExecute") {
        let tolerating: Vec<_> = tolerations
            .iter()
            .filter(|toleration| tolerates(toleration, taint))
            .collect();
        if taint.key == OUT_OF_SERVICE {
            if tolerating.is_empty() {
                decision.push(Action::Delete {
                    target: Target::of(pod),
                    grace: Some(0),
                });
                return;
            }
            continue;
        }
        if pods::is_terminating(pod) {
            continue;
        }
        let health = taint.key == NOT_READY || taint.key == UNREACHABLE;
        let stays = match tolerating
            .iter()
            .map(|toleration| toleration.toleration_seconds)
            .min()
        {
            // A toleration without seconds holds for ever.
            Some(None) => continue,
            Some(Some(seconds)) => seconds,
            None if health => DEFAULT_TOLERATION,
            None => 0,
        };
        let until = pods::later(taint.time_added.as_ref().map_or(now, |time| time.0), stays);
        if until <= now {
            decision.push(Action::Delete {
                target: Target::of(pod),
                grace: None,
            });
            return;
        }
        decision.again(until);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Sim, now};

    fn node(name: &str, ready: &str) -> serde_json::Value {
        json!({"kind": "Node", "apiVersion": "v1", "metadata": {"name": name, "uid": name},
            "status": {"conditions": [{"type": "Ready", "status": ready}]}})
    }

    fn pod(name: &str, node: &str) -> serde_json::Value {
        json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"namespace": "n", "name": name, "uid": name},
            "spec": {"nodeName": node, "containers": []},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}})
    }

    #[test]
    fn a_silent_node_is_tainted_its_pods_leave_services_and_later_the_node() {
        let mut sim = Sim::default();
        sim.learn(node("a", "True"));
        sim.learn(pod("p", "a"));
        sim.learn(json!({"kind": "Lease", "apiVersion": "coordination.k8s.io/v1", "metadata": {"namespace": LEASES, "name": "a"},
            "spec": {"renewTime": format!("{:.6}", now())}}));
        sim.settle();
        assert!(sim.world.pods.iter().all(|pod| pods::is_ready(pod)));
        sim.pass(LEASE_GRACE);
        let node = sim.world.nodes.iter().next().unwrap();
        assert!(
            node.spec
                .as_ref()
                .unwrap()
                .taints
                .iter()
                .flatten()
                .any(|t| t.key == UNREACHABLE && t.effect == "NoExecute")
        );
        assert!(
            !sim.world.pods.iter().any(|pod| pods::is_ready(pod)),
            "out of the endpoints at once"
        );
        assert_eq!(sim.world.pods.iter().count(), 1);
        sim.pass(DEFAULT_TOLERATION);
        assert_eq!(sim.world.pods.iter().count(), 0);
    }

    #[test]
    fn a_node_known_to_be_off_loses_its_pods_at_once_and_gets_its_health_back() {
        let mut sim = Sim::default();
        let mut off = node("a", "Unknown");
        off["spec"] = json!({"taints": [{"key": OUT_OF_SERVICE, "effect": "NoExecute"}]});
        sim.learn(off);
        sim.learn(pod("p", "a"));
        sim.settle();
        assert_eq!(sim.world.pods.iter().count(), 0);
        sim.change::<Node>("a", |node| {
            node.status.as_mut().unwrap().conditions.as_mut().unwrap()[0].status = "True".into();
        });
        sim.settle();
        let taints = sim
            .world
            .nodes
            .iter()
            .next()
            .unwrap()
            .spec
            .clone()
            .unwrap()
            .taints
            .unwrap();
        assert!(
            taints.iter().all(|taint| taint.key == OUT_OF_SERVICE),
            "who set it takes it away"
        );
    }
}
