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

fn taints(sim: &Sim) -> Vec<Taint> {
    let node = sim.world.nodes.iter().next().expect("a node");
    node.spec
        .as_ref()
        .and_then(|spec| spec.taints.clone())
        .unwrap_or_default()
}

#[test]
fn a_pod_is_marked_once_for_each_time_the_node_fails() {
    let mut sim = Sim::default();
    let mut failed = node("a", "False");
    failed["status"]["conditions"][0]["lastTransitionTime"] = now().to_string().into();
    sim.learn(failed);
    sim.learn(pod("p", "a"));
    sim.settle();
    assert!(!sim.world.pods.iter().any(|pod| pods::is_ready(pod)));
    sim.jump(5);
    sim.run_pods(1);
    sim.settle();
    assert!(
        sim.world.pods.iter().all(|pod| pods::is_ready(pod)),
        "whoever says so has seen it since"
    );
}

#[test]
fn an_old_lease_counts_from_the_first_look() {
    let mut sim = Sim::default();
    sim.world.started = now();
    sim.learn(node("a", "True"));
    sim.learn(json!({"kind": "Lease", "apiVersion": "coordination.k8s.io/v1", "metadata": {"namespace": LEASES, "name": "a"},
        "spec": {"renewTime": "2026-01-01T11:00:00.000000Z"}}));
    sim.settle();
    assert_eq!(taints(&sim), []);
    sim.pass(LEASE_GRACE);
    assert!(!taints(&sim).is_empty(), "it had its time to answer");
}

#[test]
fn a_taint_of_a_well_node_evicts_when_tolerations_are_over() {
    let mut sim = Sim::default();
    sim.learn(node("a", "True"));
    for (name, toleration) in [
        ("none", json!([])),
        (
            "some",
            json!([{"key": "gone", "operator": "Exists", "tolerationSeconds": 30}]),
        ),
        ("ever", json!([{"key": "gone", "operator": "Exists"}])),
    ] {
        let mut pod = pod(name, "a");
        pod["spec"]["tolerations"] = toleration;
        sim.learn(pod);
    }
    sim.settle();
    assert_eq!(sim.world.pods.iter().count(), 3);
    sim.change::<Node>("a", |node| {
        node.spec = serde_json::from_value(json!({"taints": [{"key": "gone", "effect": "NoExecute"}]}))
            .expect("a spec");
    });
    let left = |sim: &Sim| {
        sim.world
            .pods
            .iter()
            .map(|pod| pod.name_any())
            .collect::<Vec<_>>()
    };
    sim.settle();
    assert_eq!(left(&sim), ["ever", "some"]);
    sim.pass(29);
    assert_eq!(left(&sim), ["ever", "some"]);
    sim.pass(1);
    assert_eq!(left(&sim), ["ever"]);
    sim.learn(pod("late", "a"));
    sim.settle();
    assert_eq!(left(&sim), ["ever"], "one that comes later goes as well");
}

#[test]
fn lists_are_replaced_only_in_the_version_that_was_seen() {
    let mut sim = Sim::default();
    sim.learn(node("a", "False"));
    sim.learn(pod("p", "a"));
    let decision = decide(&sim.world, "a", now());
    assert_eq!(decision.actions.len(), 2);
    for action in decision.actions {
        assert!(
            matches!(&action, Action::Patch { body, .. } if body["metadata"]["resourceVersion"].is_string()),
            "{action:?}"
        );
    }
}
