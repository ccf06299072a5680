//! Every weigher against the facts, and the sum of their opinions.

use std::borrow::Cow;

use serde_json::json;

use super::testing::*;
use super::{Explanation, PipelineDraft, StepDraft, defaults};
use crate::fleet::{Amount, Contention, Draft, Host, Noise, Reservation, ReservationKind};
use crate::request::{Group, Intent, Spec};

fn weighed(name: &str, params: serde_json::Value, draft: &Draft, spec: &Spec) -> (Vec<String>, Explanation) {
    let hosts: Vec<&str> = draft.hosts.keys().map(String::as_str).collect();
    decide(
        &only_weigher(step(name, params)),
        draft.clone(),
        &question(&hosts, spec),
    )
}

/// What the only weigher said about a host.
fn opinion(explanation: &Explanation, host: &str) -> f64 {
    explanation.steps[0].activations[host]
}

fn with_memory(gib: i64) -> Host {
    Host {
        capacity: Some(Amount::new(16, gib * 1024)),
        ..host()
    }
}

#[test]
fn binpack_is_the_utilisation_after_the_placement() {
    let mut draft = world(&[("a", with_memory(64)), ("b", with_memory(64))]);
    draft.servers.insert("s".into(), server("b", "p", 8, 31 * 1024));
    let (order, explanation) = weighed("kvm_binpack", json!({}), &draft, &spec());
    assert_eq!(order, ["b", "a"]);
    assert!((opinion(&explanation, "b") - 0.5).abs() < 1e-9);
    assert!((opinion(&explanation, "a") - 1.0 / 64.0).abs() < 1e-9);
    let both = json!({"resourceWeights": {"cpu": 1, "memory": 3}});
    let (_, explanation) = weighed("kvm_binpack", both, &draft, &spec());
    assert!((opinion(&explanation, "b") - (0.5 * 3.0 + 9.0 / 16.0) / 4.0).abs() < 1e-9);
    // A multiplier below nothing balances.
    let mut balance = only_weigher(StepDraft::named("kvm_binpack"));
    balance.weighers[0].multiplier = Some(-1.0);
    assert_eq!(
        decide(&balance, draft, &question(&["a", "b"], &spec())).0,
        ["a", "b"]
    );
}

#[test]
fn smaller_hosts_go_first_and_equal_ones_do_not_count() {
    let draft = world(&[
        ("big", with_memory(128)),
        ("mid", with_memory(96)),
        ("small", with_memory(64)),
    ]);
    let (order, explanation) = weighed("kvm_prefer_smaller_hosts", json!({}), &draft, &spec());
    assert_eq!(order, ["small", "mid", "big"]);
    assert_eq!(
        (opinion(&explanation, "small"), opinion(&explanation, "mid")),
        (1.0, 0.5)
    );
    let alike = world(&[("a", host()), ("b", host())]);
    assert!(
        weighed("kvm_prefer_smaller_hosts", json!({}), &alike, &spec())
            .1
            .steps
            .is_empty()
    );
}

#[test]
fn soft_groups_count_their_members() {
    let mut draft = world(&[("a", host()), ("b", host()), ("c", host())]);
    for (id, on) in [("m1", "b"), ("m2", "b"), ("m3", "c")] {
        draft.servers.insert(id.into(), server(on, "p", 1, 1));
    }
    let of = |policy: &str| Spec {
        group: Some(Group {
            policy: policy.into(),
            members: ["m1", "m2", "m3"].map(str::to_owned).into(),
            ..Group::default()
        }),
        ..spec()
    };
    let name = "kvm_instance_group_soft_affinity";
    assert_eq!(
        weighed(name, json!({}), &draft, &of("soft-affinity")).0,
        ["b", "c", "a"]
    );
    let (order, explanation) = weighed(name, json!({}), &draft, &of("soft-anti-affinity"));
    assert_eq!(
        (order, opinion(&explanation, "b")),
        (["a", "c", "b"].map(str::to_owned).into(), -2.0)
    );
    assert!(
        weighed(name, json!({}), &draft, &of("anti-affinity"))
            .1
            .steps
            .is_empty()
    );
}

fn reserved(kind: ReservationKind, on: &[&str]) -> Draft {
    let mut draft = world(&[("a", host()), ("b", host()), ("c", host())]);
    for (number, on) in on.iter().enumerate() {
        let reservation = Reservation {
            kind,
            size: Amount::new(1, 2048),
            hosts: [(*on).to_owned()].into(),
            active: true,
            project: Some("p".into()),
            group: Some("v2".into()),
            zone: None,
            servers: ["vm".to_owned()].into(),
        };
        draft.reservations.insert(format!("r{number}"), reservation);
    }
    draft
}

#[test]
fn evacuations_prefer_the_host_that_was_kept_for_them() {
    let draft = reserved(ReservationKind::Failover, &["b"]);
    let of = |instance: &str, intent| Spec {
        instance: instance.into(),
        intent,
        ..spec()
    };
    let name = "kvm_failover_evacuation";
    let (order, explanation) = weighed(name, json!({}), &draft, &of("vm", Intent::Evacuate));
    assert_eq!(
        (
            order[0].as_str(),
            opinion(&explanation, "b"),
            opinion(&explanation, "a")
        ),
        ("b", 1.0, 0.1)
    );
    assert_eq!(
        weighed(name, json!({}), &draft, &of("other", Intent::Evacuate)).0,
        ["a", "b", "c"]
    );
    assert!(
        weighed(name, json!({}), &draft, &of("vm", Intent::Create))
            .1
            .steps
            .is_empty()
    );
}

#[test]
fn commitments_draw_the_servers_they_are_for() {
    let draft = reserved(ReservationKind::CommittedResource, &["c"]);
    let of = |project: &str, memory| {
        let mut spec = Spec {
            project: project.into(),
            resource_group: Some("v2".into()),
            ..spec()
        };
        spec.flavor.memory_mb = memory;
        spec
    };
    let name = "kvm_committed_resource_reservation";
    assert_eq!(
        weighed(name, json!({}), &draft, &of("p", 2048)).0,
        ["c", "a", "b"]
    );
    assert_eq!(
        weighed(name, json!({}), &draft, &of("p", 2049)).0,
        ["a", "b", "c"],
        "too small"
    );
    assert_eq!(weighed(name, json!({}), &draft, &of("q", 1)).0, ["a", "b", "c"]);
}

#[test]
fn failovers_gather_and_those_of_a_group_a_little_less() {
    let draft = reserved(ReservationKind::Failover, &["b", "b", "c"]);
    let spec = Spec {
        intent: Intent::ReserveForFailover,
        resource_group: Some("v2".into()),
        ..spec()
    };
    let (order, explanation) = weighed("kvm_failover_reservation_consolidation", json!({}), &draft, &spec);
    assert_eq!(order, ["b", "c", "a"]);
    assert!((opinion(&explanation, "b") - (2.0 - 0.2) / 3.0).abs() < 1e-9);
}

#[test]
fn contended_hosts_and_noisy_projects_are_avoided() {
    let mut draft = world(&[("a", host()), ("b", host())]);
    for name in [
        "avoid_long_term_contended_hosts",
        "avoid_short_term_contended_hosts",
        "anti_affinity_noisy_projects",
    ] {
        let (_, explanation) = weighed(name, json!({}), &draft, &spec());
        assert!(
            explanation
                .text
                .contains(&format!("{name} was skipped: no knowledge")),
            "{}",
            explanation.text
        );
    }
    let contended = Contention { avg: 5.0, max: 40.0 };
    draft.features.long_term = Some([("a".to_owned(), contended)].into());
    let (order, explanation) = weighed("avoid_long_term_contended_hosts", json!({}), &draft, &spec());
    assert_eq!(
        (order[0].as_str(), opinion(&explanation, "a")),
        ("b", -0.375 - 0.25)
    );
    draft.features.noise = Some(vec![Noise {
        project: "p".into(),
        host: "a".into(),
        avg_cpu: 60.0,
    }]);
    let (order, explanation) = weighed("anti_affinity_noisy_projects", json!({}), &draft, &spec());
    assert_eq!((order[0].as_str(), opinion(&explanation, "a")), ("b", -0.25));
}

#[test]
fn without_weighers_the_callers_order_survives() {
    let mut request = question(&[], &spec());
    request.hosts = vec![
        (Cow::Borrowed("a"), 50.0),
        (Cow::Borrowed("b"), 60.0),
        (Cow::Borrowed("c"), 55.0),
    ];
    assert_eq!(
        decide(&defaults::plain("x"), Draft::default(), &request).0,
        ["b", "c", "a"]
    );
    // With one, tanh makes 50 and 60 equal, and the weigher decides.
    let mut draft = world(&[("a", host()), ("b", host()), ("c", host())]);
    draft.servers.insert("s".into(), server("a", "p", 1, 1024));
    let (order, explanation) = decide(&only_weigher(StepDraft::named("kvm_binpack")), draft, &request);
    assert_eq!(order, ["a", "b", "c"]);
    assert_eq!(
        explanation.text,
        "a is the best of 3 hosts. It leads b by 0.016: kvm_binpack +0.016"
    );
}

#[test]
fn candidates_are_cut_to_what_was_asked_for() {
    let mut request = question(&["a", "b", "c"], &spec());
    request.options.max_candidates = 2;
    assert_eq!(
        decide(&PipelineDraft::default(), Draft::default(), &request).0,
        ["a", "b"]
    );
}
