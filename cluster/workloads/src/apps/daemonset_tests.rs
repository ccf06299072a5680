use super::*;
use crate::testing::Sim;
use serde_json::{Value, json};

fn set(strategy: Value) -> Value {
    json!({"kind": "DaemonSet", "apiVersion": "apps/v1", "metadata": {"namespace": "n", "name": "agent", "uid": "ds"},
        "spec": {"updateStrategy": strategy, "selector": {"matchLabels": {"app": "agent"}},
            "template": {"metadata": {"labels": {"app": "agent"}}, "spec": {"containers": [{"name": "c", "image": "one"}]}}}})
}

fn node(name: &str) -> Value {
    json!({"kind": "Node", "apiVersion": "v1", "metadata": {"name": name, "uid": name},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]}})
}

fn on(count: usize, strategy: Value) -> Sim {
    let mut sim = Sim::default();
    for index in 0..count {
        sim.learn(node(&format!("node-{index}")));
    }
    sim.learn(set(strategy));
    sim.run_all();
    sim
}

fn nodes(sim: &Sim) -> Vec<String> {
    let mut all: Vec<_> = sim
        .world
        .pods
        .iter()
        .filter(|pod| pods::is_active(pod))
        .filter_map(|pod| pod.spec.as_ref()?.node_name.clone())
        .collect();
    all.sort();
    all
}

fn images(sim: &Sim) -> Vec<String> {
    let mut all: Vec<_> = sim
        .world
        .pods
        .iter()
        .filter_map(|pod| pod.spec.as_ref()?.containers[0].image.clone())
        .collect();
    all.sort();
    all
}

fn taint(sim: &mut Sim, node: &str, taints: Value) {
    sim.change::<Node>(node, |node| {
        node.spec = serde_json::from_value(json!({"taints": taints})).expect("a spec");
    });
    sim.settle();
}

fn set_image(sim: &mut Sim, image: &str) {
    sim.change::<DaemonSet>("agent", |set| {
        set.spec.template.spec.as_mut().expect("a spec").containers[0].image = Some(image.into());
    });
    sim.settle();
}

fn status(sim: &Sim) -> DaemonSetStatus {
    let set = sim.world.daemon_sets.iter().next().expect("the set");
    set.status.clone().unwrap_or_default()
}

#[test]
fn one_on_each_node_and_on_those_that_come() {
    let mut sim = on(2, json!({}));
    assert_eq!(nodes(&sim), ["node-0", "node-1"]);
    sim.learn(node("node-2"));
    sim.run_all();
    assert_eq!(nodes(&sim), ["node-0", "node-1", "node-2"]);
    let status = status(&sim);
    assert_eq!((status.desired_number_scheduled, status.number_ready), (3, 3));
    let idle = decide(&sim.world, &("n".into(), "agent".into()), crate::testing::now());
    assert_eq!(idle.actions, []);
}

#[test]
fn a_cordon_or_a_taint_against_new_pods_moves_none() {
    for taints in [
        json!([{"key": "gpu", "effect": "NoSchedule"}]),
        json!([{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]),
        json!([{"key": "node.kubernetes.io/disk-pressure", "effect": "NoSchedule"}]),
        json!([{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}, {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]),
    ] {
        let mut sim = on(2, json!({}));
        let before: Vec<_> = sim.world.pods.keys().cloned().collect();
        taint(&mut sim, "node-1", taints.clone());
        assert_eq!(
            sim.world.pods.keys().cloned().collect::<Vec<_>>(),
            before,
            "{taints}"
        );
    }
    let mut sim = on(1, json!({}));
    taint(
        &mut sim,
        "node-0",
        json!([{"key": "gpu", "effect": "NoSchedule"}]),
    );
    let status = status(&sim);
    assert_eq!(
        (status.desired_number_scheduled, status.number_misscheduled),
        (0, 1)
    );
    let name = sim
        .world
        .pods
        .iter()
        .next()
        .map(|pod| pod.name_any())
        .expect("a pod");
    sim.remove("Pod", &name);
    sim.settle();
    assert_eq!(nodes(&sim).len(), 0, "no new one starts there");
}

#[test]
fn a_taint_that_evicts_removes_the_pod_and_a_tolerated_one_does_not() {
    let mut sim = on(2, json!({}));
    taint(&mut sim, "node-1", json!([{"key": "gpu", "effect": "NoExecute"}]));
    assert_eq!(nodes(&sim), ["node-0"]);
    taint(&mut sim, "node-1", json!([]));
    assert_eq!(nodes(&sim), ["node-0", "node-1"]);
    sim.change::<DaemonSet>("agent", |set| {
        set.spec.template.spec.as_mut().expect("a spec").tolerations =
            serde_json::from_value(json!([{"operator": "Exists"}])).expect("tolerations");
    });
    sim.run_all();
    taint(&mut sim, "node-1", json!([{"key": "gpu", "effect": "NoExecute"}]));
    assert_eq!(nodes(&sim), ["node-0", "node-1"]);
}

#[test]
fn only_daemons_of_the_host_network_bear_its_absence() {
    let lost = json!([{"key": "node.kubernetes.io/network-unavailable", "effect": "NoSchedule"}]);
    for (host, count) in [(true, 1), (false, 0)] {
        let mut sim = Sim::default();
        let mut cut_off = node("node-0");
        cut_off["spec"]["taints"] = lost.clone();
        sim.learn(cut_off);
        let mut set = set(json!({}));
        set["spec"]["template"]["spec"]["hostNetwork"] = host.into();
        sim.learn(set);
        sim.settle();
        assert_eq!(nodes(&sim).len(), count, "hostNetwork {host}");
    }
}

#[test]
fn an_update_goes_node_by_node_within_its_budget() {
    for (most, at_once) in [(json!(1), 1), (json!("50%"), 2)] {
        let mut sim = on(
            4,
            json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": most}}),
        );
        set_image(&mut sim, "two");
        for _ in 0..4 {
            let down = sim.world.pods.iter().filter(|pod| !pods::is_ready(pod)).count();
            assert!(down <= at_once, "{most}: {down} down");
            sim.run_pods(1);
            sim.settle();
        }
        sim.run_all();
        assert_eq!(images(&sim), ["two"; 4]);
        assert_eq!(status(&sim).updated_number_scheduled, Some(4));
    }
}

#[test]
fn on_delete_waits_for_a_person() {
    let mut sim = on(2, json!({"type": "OnDelete"}));
    set_image(&mut sim, "two");
    assert_eq!(images(&sim), ["one", "one"]);
    let name = sim
        .world
        .pods
        .iter()
        .next()
        .map(|pod| pod.name_any())
        .expect("a pod");
    sim.remove("Pod", &name);
    sim.run_all();
    assert_eq!(images(&sim), ["one", "two"]);
}

#[test]
fn a_pod_that_leaves_the_selector_is_let_go_and_replaced() {
    let mut sim = on(1, json!({}));
    let name = sim
        .world
        .pods
        .iter()
        .next()
        .map(|pod| pod.name_any())
        .expect("a pod");
    sim.change::<Pod>(&name, |pod| {
        pod.labels_mut().remove("app");
    });
    sim.settle();
    assert_eq!(nodes(&sim), ["node-0", "node-0"]);
    let lone = sim
        .world
        .pods
        .iter()
        .filter(|pod| pods::controller_of(pod.as_ref()).is_none());
    assert_eq!(lone.count(), 1);
}

#[test]
fn the_longest_name_fits_into_the_labels() {
    let mut sim = Sim::default();
    sim.learn(node("node-0"));
    let mut long = set(json!({}));
    long["metadata"]["name"] = "a".repeat(63).into();
    sim.learn(long);
    sim.run_all();
    let pod = sim.world.pods.iter().next().expect("a pod");
    let hash = pod.labels().get(REVISION_HASH).expect("a hash");
    let revision = sim.world.revisions.iter().next().expect("a revision");
    assert_eq!(
        revision.labels().get(REVISION_HASH),
        Some(hash),
        "as in Kubernetes"
    );
    assert!(revision.name_any().ends_with(&format!("-{hash}")) && hash.len() <= 63);
    assert_eq!(status(&sim).updated_number_scheduled, Some(1));
}
