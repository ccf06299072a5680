//! The hypervisors and their agents.

use super::*;

/// A Node that is Ready, or not.
fn is(mut node: Node, ready: &str) -> Node {
    node.status = Some(object(
        json!({"conditions": [{"type": "Ready", "status": ready}]}),
    ));
    node
}

fn covered(facts: &mut Facts, ready: i32, updated: i32) {
    for set in facts.daemon_sets.values_mut() {
        let status = set.status.as_mut().expect("a status");
        status.number_ready = ready;
        status.updated_number_scheduled = Some(updated);
    }
}

#[test]
fn a_dead_hypervisor_is_named_and_takes_nobody_else_down() {
    let fresh = cluster(1);
    let mut served = cluster(1);
    served.status = Some(object(
        json!({"conditions": [{"type": CONTROLLERS_READY, "status": "True",
        "reason": "Ready", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}),
    ));
    let told =
        |cluster: &OvnCluster, facts: &Facts| said(&report::report(cluster, facts, now()), CONTROLLERS_READY);
    let mut facts = running(&fresh, 1);
    facts.nodes = vec![
        is(node("node-2", "10.193.0.2"), "True"),
        is(node("node-3", "10.193.0.3"), "True"),
    ];
    covered(&mut facts, 1, 2);
    assert!(
        told(&fresh, &facts).starts_with("False Progressing: ovs: 1 of 2"),
        "it comes up"
    );
    assert!(
        told(&served, &facts).starts_with("True Degraded: ovs: 1 of 2"),
        "one of two broke"
    );
    covered(&mut facts, 1, 1);
    assert!(
        told(&served, &facts).starts_with("False Progressing"),
        "a new template is on its way"
    );

    facts.nodes[1] = is(node("node-3", "10.193.0.3"), "Unknown");
    for cluster in [&fresh, &served] {
        assert_eq!(
            told(cluster, &facts),
            "True Degraded: ovs: 1 of 2 pods are ready: node-3 does not answer; the others serve"
        );
    }
    covered(&mut facts, 0, 2);
    assert!(
        told(&served, &facts).starts_with("False Progressing"),
        "nobody serves"
    );
}

fn seen(chassis: &[&str]) -> View {
    let one = |name: &&str| {
        (
            (*name).to_owned(),
            Registered {
                answered: Some(now()),
            },
        )
    };
    View {
        roles: [("ovn-nb-0".to_owned(), RaftRole::Leader)].into(),
        chassis: Some(chassis.iter().map(one).collect()),
        trouble: None,
        untrusted: BTreeMap::new(),
        asked: Some(Some(now())),
    }
}

#[test]
fn a_chassis_without_node_goes_from_the_database_before_its_object() {
    let cluster = cluster(1);
    let mut facts = running(&cluster, 1);
    facts.chassis = vec!["node-2".into(), "node-9".into()];
    let kept = |decision: &Decision<Action>| -> Vec<String> {
        decision.kept().iter().map(ToString::to_string).collect()
    };
    let nine = Kind::of::<OvnChassis>()
        .named(Some("ovn-system"), "node-9")
        .to_string();

    // Not reached: it is not known whether it is there.
    assert_eq!(kept(&decide(&cluster, &facts).expect("decides")), [nine.as_str()]);
    facts.view = seen(&["node-2", "node-3", "node-9"]);
    let decision = decide(&cluster, &facts).expect("decides");
    assert_eq!(kept(&decision), [nine.as_str()]);
    let remove = Action::Remove {
        cluster: c5c3_kit::Key::new(Some("ovn-system"), "ovn"),
        chassis: "node-9".into(),
    };
    assert_eq!(decision.actions(), [remove]);
    // Its pod is still there, and would bring it back.
    facts.pods.push(object(
        json!({"metadata": {"name": "p", "labels": {"app.kubernetes.io/component": "controller"}},
        "spec": {"nodeName": "node-9", "containers": []}}),
    ));
    let decision = decide(&cluster, &facts).expect("decides");
    assert_eq!((kept(&decision), decision.actions()), (vec![nine], &[][..]));
    facts.view = seen(&["node-2", "node-3"]);
    let decision = decide(&cluster, &facts).expect("decides");
    assert!(kept(&decision).is_empty() && decision.actions().is_empty());
}

#[test]
fn chassis_are_asked_to_answer_when_nobody_did() {
    let cluster = cluster(1);
    let mut facts = running(&cluster, 1);
    let asks = |facts: &Facts| {
        let decision = decide(&cluster, facts).expect("decides");
        decision
            .actions()
            .iter()
            .any(|action| matches!(action, Action::Ask { .. }))
    };
    facts.view = seen(&["node-2"]);
    assert!(!asks(&facts));
    facts.view.asked = Some(None);
    assert!(asks(&facts));
    facts.view.asked = Some(Some(now() - crate::view::ASK));
    assert!(asks(&facts));
    facts.view.asked = None;
    assert!(!asks(&facts), "not reached");
    facts.view = seen(&[]);
    facts.view.asked = Some(None);
    assert!(!asks(&facts), "nobody to answer");
}

#[test]
fn the_status_counts_what_the_database_has() {
    let cluster = cluster(1);
    let mut facts = running(&cluster, 1);
    facts.view = seen(&["node-2", "node-3"]);
    if let Some(one) = facts.view.chassis.as_mut().and_then(|all| all.get_mut("node-3")) {
        one.answered = Some(now() - crate::view::SILENT);
    }
    let status: OvnClusterStatus = object(report::report(&cluster, &facts, now()).status_fields().clone());
    assert_eq!(
        (status.chassis_count, status.active_controllers),
        (Some(2), Some(1))
    );
    assert_eq!(status.northbound_members[0].role, RaftRole::Leader);
    assert_eq!(status.southbound_members[0].role, RaftRole::Unknown);
}

#[test]
fn a_cluster_of_hypervisors_that_is_away_stays_as_it_is() {
    let mut cluster = cluster(1);
    cluster.spec.compute_ref = Some(c5c3_api::common::LocalRef::new("hypervisor"));
    let mut facts = running(&cluster, 1);
    facts.nodes.clear();
    facts.chassis = vec!["node-2".into()];
    facts.view = seen(&["node-2"]);
    facts.away = Some("cluster hypervisor does not answer within 10 s".into());
    let sets = Kind::of::<DaemonSet>().in_cluster("hypervisor");
    facts.elsewhere = vec![sets.named(Some("ovn-system"), "ovn-ovs")];
    let decision = decide(&cluster, &facts).expect("decides");
    assert!(names(&decision).contains(&"Deployment ovn-northd".to_owned()));
    assert!(decision.wanted().iter().all(|one| one.cluster() == HOME));
    let kept: Vec<String> = decision.kept().iter().map(ToString::to_string).collect();
    assert_eq!(
        kept,
        [
            "DaemonSet.apps ovn-system/ovn-ovs in cluster hypervisor",
            "OVNChassis.ovn.c5c3.io ovn-system/node-2"
        ]
    );
    assert!(decision.actions().is_empty());
    let told = said(&report::report(&cluster, &facts, now()), CONTROLLERS_READY);
    assert_eq!(
        told,
        "False Unreachable: cluster hypervisor does not answer within 10 s"
    );
}

#[test]
fn routers_are_never_on_exactly_two() {
    for (nodes, expected) in [
        (1, &["node-1"][..]),
        (2, &["node-1"]),
        (3, &["node-1", "node-2", "node-3"]),
    ] {
        let facts = Facts {
            nodes: (1..=nodes)
                .map(|n| node(&format!("node-{n}"), &format!("10.193.0.{n}")))
                .collect(),
            ..Facts::default()
        };
        let (fit, _) = plan::hypervisors(&facts);
        assert_eq!(plan::gateways(&fit), expected);
    }
}
