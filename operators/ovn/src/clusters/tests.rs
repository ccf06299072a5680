//! Decisions and reports, without a cluster.

use std::collections::BTreeMap;

use c5c3_api::conditions::ovn::{CONTROLLERS_READY, NORTHBOUND_READY, SOUTHBOUND_READY};
use c5c3_api::ovn::{OvnCluster, OvnClusterStatus, RaftRole};
use c5c3_kit::{HOME, Kind, Report, Wanted};
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{Node, Pod, Service};
use serde_json::{Value, json};

use super::*;
use crate::build::database::Reach;
use crate::names::Side;
use crate::view::{Registered, View};

mod agents;
mod fields;
mod tls;

fn cluster(members: i32) -> OvnCluster {
    let storage = json!({"size": "1Gi"});
    serde_json::from_value(json!({
        "apiVersion": "ovn.c5c3.io/v1alpha1", "kind": "OVNCluster",
        "metadata": {"name": "ovn", "namespace": "ovn-system", "uid": "u"},
        "spec": {
            "ovnImage": {"repository": "ghcr.io/c5c3/ovn", "tag": "25.03"},
            "ovsImage": {"repository": "ghcr.io/c5c3/ovs", "tag": "3.5"},
            "northbound": {"replicas": members, "storage": storage},
            "southbound": {"replicas": members, "storage": storage},
            "controller": {"nodeSelector": {"role": "hypervisor"}},
            "ovs": {"nodeSelector": {"role": "hypervisor"}},
        },
    }))
    .expect("an OVNCluster")
}

fn object<K: serde::de::DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).expect("an object")
}

fn node(name: &str, address: &str) -> Node {
    object(json!({
        "metadata": {"name": name, "labels": {"role": "hypervisor", "ovn.c5c3.io/uplink": "eth1",
            "ovn.c5c3.io/tunnel-address": address}},
    }))
}

fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).expect("a time")
}

/// Every Service has an address.
fn addressed(cluster: &OvnCluster) -> Facts {
    let mut facts = Facts::default();
    for side in Side::BOTH {
        let services = crate::build::database::services(cluster, side, Reach::Inside);
        for (n, mut service) in services.into_iter().enumerate() {
            let spec = service.spec.as_mut().expect("a spec");
            if spec.cluster_ip.is_none() {
                spec.cluster_ip = Some(format!("10.192.{}.{n}", side.port() - 6640));
            }
            facts.services.insert(service.name_any(), service);
        }
    }
    facts
}

fn running(cluster: &OvnCluster, ready: i32) -> Facts {
    let mut facts = addressed(cluster);
    for side in Side::BOTH {
        let replicas = side.spec(cluster).replicas;
        let name = format!("ovn-{}", side.short());
        let set: StatefulSet = object(
            json!({"metadata": {"name": name}, "spec": {"replicas": replicas, "selector": {}, "template": {}},
            "status": {"replicas": replicas, "readyReplicas": ready}}),
        );
        facts.sets.insert(name, set);
    }
    let northd: Deployment = object(
        json!({"metadata": {"name": "ovn-northd"}, "spec": {"selector": {}, "template": {}}, "status": {"readyReplicas": 1}}),
    );
    facts.deployments.insert("ovn-northd".into(), northd);
    facts.nodes = vec![node("node-2", "10.193.0.2"), node("node-3", "10.193.0.3")];
    for name in ["ovn-ovs", "ovn-controller"] {
        let set: DaemonSet = object(
            json!({"metadata": {"name": name, "generation": 1}, "spec": {"selector": {}, "template": {}},
            "status": {"currentNumberScheduled": 2, "desiredNumberScheduled": 2, "numberMisscheduled": 0, "numberReady": 2, "observedGeneration": 1}}),
        );
        facts.daemon_sets.insert(name.into(), set);
    }
    facts
}

fn decide(cluster: &OvnCluster, facts: &Facts) -> Result<Decision<Action>, Error> {
    plan::decide(cluster, facts, now())
}

fn said(report: &Report, part: &str) -> String {
    let state = report.states().get(part).expect("told");
    format!("{} {}: {}", state.truth.as_str(), state.reason, state.message)
}

/// The object that a part waits for.
fn blocker(report: &Report, part: &str) -> String {
    let state = report.states().get(part).expect("said");
    state
        .blocker
        .as_ref()
        .map(ToString::to_string)
        .unwrap_or_default()
}

fn names(decision: &Decision<Action>) -> Vec<String> {
    let name = |object: &Value| {
        let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
        format!("{} {}", text("/kind"), text("/metadata/name"))
    };
    decision
        .wanted()
        .iter()
        .map(|wanted| name(wanted.object()))
        .collect()
}

#[test]
fn one_member_and_two_hypervisors_as_rendered() {
    let cluster = cluster(1);
    let decision = decide(&cluster, &running(&cluster, 1)).expect("decides");
    let objects: Vec<&Value> = decision.wanted().iter().map(Wanted::object).collect();
    insta::assert_yaml_snapshot!("one-member", objects);
}

#[test]
fn three_members_have_addresses_of_their_own_and_a_budget() {
    let cluster = cluster(3);
    let facts = running(&cluster, 3);
    let decision = decide(&cluster, &facts).expect("decides");
    let names = names(&decision);
    for expected in [
        "Service ovn-nb-0",
        "Service ovn-nb-2",
        "PodDisruptionBudget ovn-sb",
        "Deployment ovn-northd",
        "OVNChassis node-2",
    ] {
        assert!(names.iter().any(|name| name == expected), "{expected}: {names:?}");
    }
    let status: OvnClusterStatus = object(report::report(&cluster, &facts, now()).status_fields().clone());
    let endpoints = status.endpoints.expect("endpoints");
    assert_eq!(
        endpoints.northbound.as_deref(),
        Some("tcp:10.192.1.2:6641,tcp:10.192.1.3:6641,tcp:10.192.1.4:6641")
    );
    let northd = decision
        .wanted()
        .iter()
        .find(|wanted| wanted.object()["kind"] == "Deployment")
        .expect("northd");
    assert_eq!(northd.object()["spec"]["replicas"], 2);
}

#[test]
fn without_addresses_nobody_is_told_and_what_runs_stays() {
    let cluster = cluster(1);
    let decision = decide(&cluster, &Facts::default()).expect("decides");
    let names = names(&decision);
    assert!(names.contains(&"StatefulSet ovn-sb".to_owned()));
    assert!(
        !names
            .iter()
            .any(|name| name.starts_with("DaemonSet") || name.starts_with("Deployment")),
        "{names:?}"
    );
    let report = report::report(&cluster, &Facts::default(), now());
    assert!(said(&report, NORTHBOUND_READY).starts_with("False Progressing: 0 of 1"));
}

#[test]
fn a_cluster_was_formed_when_a_member_was_ready_once() {
    let cluster = cluster(3);
    let formed = |facts: &Facts| {
        let decision = decide(&cluster, facts).expect("decides");
        let state = decision
            .wanted()
            .iter()
            .find(|one| one.object()["metadata"]["name"] == "ovn-nb-state")
            .expect("a state");
        state.object()["data"]["formed"] == "yes"
    };
    assert!(!formed(&running(&cluster, 0)));
    assert!(formed(&running(&cluster, 1)));
    let mut before = running(&cluster, 0);
    before.formed.push(Side::Northbound);
    assert!(formed(&before));
}

#[test]
fn a_larger_size_leaves_the_volumes_of_a_set_as_they_are() {
    let mut cluster = cluster(1);
    let mut facts = running(&cluster, 1);
    for side in Side::BOTH {
        let set = crate::build::database::members(&cluster, side, &crate::build::Tls::default());
        facts.sets.insert(set.name_any(), set);
    }
    cluster.spec.northbound.storage.as_mut().expect("storage").size = "5Gi".into();
    let decision = decide(&cluster, &facts).expect("decides");
    let set = decision
        .wanted()
        .iter()
        .find(|one| one.object()["metadata"]["name"] == "ovn-nb" && one.object()["kind"] == "StatefulSet");
    let claim = &set.expect("a set").object()["spec"]["volumeClaimTemplates"][0];
    assert_eq!(claim["spec"]["resources"]["requests"]["storage"], "1Gi");
}

#[test]
fn what_cannot_be_is_refused_with_the_way_out() {
    let three = cluster(3);
    let shrunk = decide(&cluster(1), &running(&three, 3))
        .expect_err("refused")
        .to_string();
    assert_eq!(
        shrunk,
        "northbound.replicas: 1 is fewer than the 3 members that the raft cluster has, and members cannot be taken away: set it to 3"
    );
    let mut taken = cluster(1);
    taken.spec.neutron_integration = object(json!({"sbConnection": {"service": {"name": "ovn-nb"}}}));
    assert!(
        decide(&taken, &Facts::default())
            .expect_err("refused")
            .to_string()
            .contains("choose another")
    );
    let mut dotted = cluster(1);
    dotted.metadata.name = Some("my.ovn".into());
    assert!(
        decide(&dotted, &Facts::default())
            .expect_err("refused")
            .to_string()
            .starts_with("metadata.name: my.ovn")
    );

    let mut secured = cluster(1);
    secured.spec.tls = object(json!({"enabled": true, "certSecretRef": {"name": "certs"}}));
    let mut facts = running(&secured, 1);
    assert!(
        decide(&secured, &facts)
            .expect_err("refused")
            .to_string()
            .contains("Secret certs is missing")
    );
    let pem = |text: &str| ByteString(text.as_bytes().to_vec());
    let mut data: BTreeMap<String, ByteString> =
        [("tls.crt".to_owned(), pem("a")), ("tls.key".to_owned(), pem("b"))].into();
    facts.certificates = Some(data.clone());
    assert!(
        decide(&secured, &facts)
            .expect_err("refused")
            .to_string()
            .contains("no value under ca.crt")
    );
    data.insert("ca.crt".to_owned(), pem("c"));
    facts.certificates = Some(data.clone());
    facts.hypervisors = Some(data);
    let decision = decide(&secured, &facts).expect("decides");
    let text = serde_json::to_string(&decision.wanted().iter().map(Wanted::object).collect::<Vec<_>>())
        .expect("JSON");
    assert!(text.contains("remote=ssl:10.192.2.1:6642") && text.contains("\"secretName\":\"certs\""));
}

#[test]
fn conditions_name_the_blocker() {
    let cluster = cluster(3);
    let told = |facts: &Facts| report::report(&cluster, facts, now());
    let mut facts = running(&cluster, 3);
    let all = told(&facts);
    for part in [NORTHBOUND_READY, SOUTHBOUND_READY, CONTROLLERS_READY] {
        assert!(said(&all, part).starts_with("True Ready"), "{}", said(&all, part));
    }
    let degraded = told(&running(&cluster, 2));
    assert!(said(&degraded, NORTHBOUND_READY).starts_with("True Degraded: 2 of 3 members"));

    let pod: Pod = object(
        json!({"metadata": {"name": "ovn-nb-1", "labels": {"app.kubernetes.io/component": "nb"}},
        "status": {"containerStatuses": [{"name": "ovsdb", "image": "", "imageID": "", "ready": false, "restartCount": 1,
            "state": {"waiting": {"reason": "ErrImagePull", "message": "not found"}}}]}}),
    );
    let mut broken = running(&cluster, 1);
    broken.pods.push(pod);
    assert_eq!(
        said(&told(&broken), NORTHBOUND_READY),
        "False Progressing: 1 of 3 members are ready: pod ovn-nb-1: ErrImagePull: not found"
    );
    assert_eq!(
        blocker(&told(&broken), NORTHBOUND_READY),
        "StatefulSet.apps ovn-nb"
    );
    facts.deployments.clear();
    assert!(said(&told(&facts), SOUTHBOUND_READY).starts_with("False Progressing: ovn-northd is not ready"));
    assert_eq!(
        blocker(&told(&facts), SOUTHBOUND_READY),
        "Deployment.apps ovn-northd"
    );
    let mut short = running(&cluster, 3);
    short.daemon_sets.clear();
    assert_eq!(
        blocker(&told(&short), CONTROLLERS_READY),
        "DaemonSet.apps ovn-ovs"
    );
    facts.nodes.push(node("node-4", "nonsense"));
    assert!(
        said(&told(&facts), CONTROLLERS_READY)
            .starts_with("False Invalid: Node node-4: ovn.c5c3.io/tunnel-address")
    );
    facts.nodes.clear();
    assert!(said(&told(&facts), CONTROLLERS_READY).contains("no node has the labels role=hypervisor"));
}
