use super::*;
use crate::testing::{Sim, now};
use serde_json::{Value, json};

fn node(name: &str) -> Value {
    json!({"kind": "Node", "apiVersion": "v1", "metadata": {"name": name, "uid": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}, "conditions": [{"type": "Ready", "status": "True"}]}})
}

fn pod(name: &str, spec: Value) -> Value {
    let mut pod = json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"namespace": "n", "name": name, "uid": name, "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c"}]}});
    for (key, value) in spec.as_object().expect("an object") {
        pod["spec"][key] = value.clone();
    }
    pod
}

fn nodes(sim: &Sim) -> Vec<Option<String>> {
    sim.world
        .pods
        .iter()
        .map(|pod| node_of(pod).map(str::to_owned))
        .collect()
}

#[test]
fn pods_without_wishes_spread_over_the_nodes() {
    let mut sim = Sim::default();
    sim.learn(node("a"));
    sim.learn(node("b"));
    for name in ["p1", "p2", "p3", "p4"] {
        sim.learn(pod(name, json!({})));
    }
    sim.settle();
    let on_a = nodes(&sim)
        .into_iter()
        .filter(|node| node.as_deref() == Some("a"))
        .count();
    assert_eq!(on_a, 2);
}

#[test]
fn required_anti_affinity_keeps_pods_apart_and_preferred_only_tries() {
    let term =
        json!({"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "kubernetes.io/hostname"});
    let required =
        json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}});
    let preferred = json!({"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term}]}}});
    for (wish, placed) in [(required, 2), (preferred, 3)] {
        let mut sim = Sim::default();
        sim.learn(node("a"));
        sim.learn(node("b"));
        for name in ["p1", "p2", "p3"] {
            sim.learn(pod(name, wish.clone()));
        }
        sim.settle();
        assert_eq!(nodes(&sim).iter().flatten().count(), placed);
        let different: std::collections::BTreeSet<_> = nodes(&sim).into_iter().flatten().collect();
        assert_eq!(different.len(), 2);
    }
}

#[test]
fn a_wish_to_spread_counts_more_than_load_and_keeps_no_pod_waiting() {
    let wish = json!({"topologySpreadConstraints": [{
        "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }]});
    let mut sim = Sim::default();
    for name in ["a", "b", "c"] {
        sim.learn(node(name));
    }
    for name in ["x1", "x2", "x3"] {
        let mut other = pod(
            name,
            json!({"nodeName": "c", "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}),
        );
        other["metadata"]["labels"] = json!({"app": "other"});
        sim.learn(other);
    }
    let placed = |sim: &Sim| {
        let web = sim.world.pods.iter().filter(|pod| pod.labels()["app"] == "web");
        web.filter_map(|pod| node_of(pod).map(str::to_owned))
            .collect::<Vec<_>>()
    };
    for name in ["p1", "p2", "p3"] {
        sim.learn(pod(name, wish.clone()));
    }
    sim.settle();
    let mut three = placed(&sim);
    three.sort();
    assert_eq!(three, ["a", "b", "c"]);
    sim.learn(pod("p4", wish));
    sim.settle();
    assert_eq!(placed(&sim).len(), 4);
}

#[test]
fn a_pod_that_fits_nowhere_says_why_once_and_goes_when_it_can() {
    let mut sim = Sim::default();
    sim.learn(node("a"));
    sim.learn(pod(
        "big",
        json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": "9"}}}]}),
    ));
    sim.settle();
    let condition = sim
        .world
        .pods
        .iter()
        .next()
        .unwrap()
        .status
        .clone()
        .unwrap()
        .conditions
        .unwrap()
        .remove(0);
    assert_eq!(
        condition.message.as_deref(),
        Some("0/1 nodes are available: 1 Insufficient cpu.")
    );
    assert_eq!(decide(&sim.world, now()), Decision::default());
    let mut large = node("b");
    large["status"]["allocatable"]["cpu"] = "16".into();
    sim.learn(large);
    sim.settle();
    assert_eq!(nodes(&sim), [Some("b".to_owned())]);
}

#[test]
fn a_pod_waits_for_its_volume() {
    let mut sim = Sim::default();
    sim.learn(node("a"));
    sim.learn(pod(
        "p",
        json!({"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]}),
    ));
    sim.settle();
    assert_eq!(nodes(&sim), [None]);
    sim.learn(json!({"kind": "PersistentVolumeClaim", "apiVersion": "v1", "metadata": {"namespace": "n", "name": "data", "uid": "d"},
        "spec": {}, "status": {"phase": "Bound"}}));
    sim.settle();
    assert_eq!(nodes(&sim), [Some("a".to_owned())]);
}

/// Where four pods go, of which `there` are on node a already.
fn spread(constraint: Value, spec: Value, there: usize) -> Vec<Option<String>> {
    let mut sim = Sim::default();
    for (name, disk) in [("a", "ssd"), ("b", "ssd"), ("c", "none")] {
        let mut node = node(name);
        node["metadata"]["labels"]["disk"] = disk.into();
        sim.learn(node);
    }
    let mut rule = json!({"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}}});
    for (key, value) in constraint.as_object().expect("an object") {
        rule[key] = value.clone();
    }
    for index in 0..4 {
        let mut spec = spec.clone();
        spec["topologySpreadConstraints"] = json!([rule]);
        let mut pod = pod(&format!("p{index}"), spec);
        pod["metadata"]["labels"]["version"] = if index < there { "old" } else { "new" }.into();
        if index < there {
            pod["spec"]["nodeName"] = "a".into();
        }
        sim.learn(pod);
    }
    sim.settle();
    let mut all = nodes(&sim);
    all.sort();
    all
}

#[test]
fn the_spread_is_over_nodes_that_the_pod_may_use() {
    let on = |names: &[&str]| {
        let mut all: Vec<_> = names.iter().map(|name| Some((*name).to_owned())).collect();
        all.resize_with(4, || None);
        all.sort();
        all
    };
    let ssd = json!({"nodeSelector": {"disk": "ssd"}});
    assert_eq!(spread(json!({}), ssd.clone(), 0), on(&["a", "a", "b", "b"]));
    assert_eq!(
        spread(json!({"nodeAffinityPolicy": "Ignore"}), ssd, 0),
        on(&["a", "b"]),
        "the empty third node holds the others back"
    );
    assert_eq!(spread(json!({}), json!({}), 2), on(&["a", "a", "b", "c"]));
    let per_version = json!({"matchLabelKeys": ["version"]});
    assert_eq!(spread(per_version, json!({}), 3), on(&["a", "a", "a", "b"]));
    assert_eq!(
        spread(json!({"minDomains": 4}), json!({}), 0),
        on(&["a", "b", "c"]),
        "too few domains count as an empty one"
    );
    let others = json!({"labelSelector": {"matchLabels": {"app": "db"}}});
    assert_eq!(
        spread(others, json!({}), 2).iter().flatten().count(),
        4,
        "a pod that does not count itself makes nothing uneven"
    );
}

#[test]
fn a_pod_follows_one_that_is_placed_after_it() {
    let mut sim = Sim::default();
    sim.learn(node("a"));
    let near = json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"labelSelector": {"matchLabels": {"app": "leader"}}, "topologyKey": "kubernetes.io/hostname"}]}}});
    sim.learn(pod("a-follower", near));
    sim.settle();
    assert_eq!(nodes(&sim), [None]);
    // Older by name only: it is looked at last.
    let mut leader = pod("b-leader", json!({}));
    leader["metadata"]["labels"] = json!({"app": "leader"});
    sim.learn(leader);
    sim.settle();
    assert_eq!(nodes(&sim), [Some("a".to_owned()), Some("a".to_owned())]);
}
