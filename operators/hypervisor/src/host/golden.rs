//! The table of all transitions: worlds and what follows from each, in one snapshot to read.

use std::fmt::Write;
use std::sync::Arc;

use c5c3_api::common::Time;
use c5c3_api::hypervisor::{
    AggregateStatus, HypervisorSpec, HypervisorStatus, Maintenance, OnboardingPhase, OnboardingStatus,
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use openstack_client::{Guest, Inventory, Service, TestBed};

use super::transition;
use super::view::{EvictionView, NodeView, PlacementView, Step, View};
use crate::names;
use crate::nova::{Found, Group, Host};

fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).expect("a time")
}

fn ago(seconds: i64) -> Option<Time> {
    Some(Time(now() - SignedDuration::from_secs(seconds)))
}

fn service(status: &str, reason: Option<&str>) -> Service {
    Service {
        id: "s1".into(),
        host: "node1".into(),
        status: status.into(),
        state: "up".into(),
        disabled_reason: reason.map(str::to_owned),
        forced_down: false,
    }
}

fn group(id: i64, name: &str) -> Group {
    Group {
        id,
        uuid: format!("u{id}"),
        name: name.into(),
    }
}

fn guest(id: &str, name: &str, status: &str) -> Guest {
    Guest {
        id: id.into(),
        name: name.into(),
        status: status.into(),
        host: "node1".into(),
        ram_mb: 512,
        ..Guest::default()
    }
}

/// A host whose phase is this, with everything in order.
fn world(phase: OnboardingPhase) -> View {
    View {
        name: "node1".into(),
        uid: "0123-4567-89ab-cdef".into(),
        spec: HypervisorSpec {
            aggregates: vec!["zone-a".into()],
            ..HypervisorSpec::default()
        },
        before: HypervisorStatus {
            service_id: Some("s1".into()),
            hypervisor_id: Some("p1".into()),
            host: Some("node1".into()),
            aggregates: vec![AggregateStatus {
                name: "zone-a".into(),
                uuid: "u1".into(),
            }],
            onboarding: Some(OnboardingStatus {
                phase,
                since: ago(30),
                attempt: 1,
                ..OnboardingStatus::default()
            }),
            ..HypervisorStatus::default()
        },
        deleting: false,
        retry: None,
        node: NodeView::There {
            ready: true,
            terminating: false,
        },
        nova: Host {
            service: Found::One(service("enabled", None)),
            provider: Some("p1".into()),
            groups: Arc::new(vec![group(1, "zone-a"), group(2, "hana")]),
            member_of: [1].into(),
        },
        placement: PlacementView {
            provider: Some("p1".into()),
            traits: Some((7, ["HW_CPU_X86_AVX".to_owned()].into())),
            inventories: Some((7, [("VCPU".to_owned(), Inventory::of(8))].into())),
            consumers: Vec::new(),
        },
        tests: Vec::new(),
        console: String::new(),
        bed: Some(TestBed {
            image: Some("i".into()),
            flavour: Some("f".into()),
            network: Some("n".into()),
        }),
        guests: Some(Vec::new()),
        eviction: None,
        now: now(),
    }
}

fn fresh() -> View {
    let mut view = world(OnboardingPhase::Initial);
    view.before = HypervisorStatus::default();
    view.nova.member_of.clear();
    view
}

fn with(mut view: View, change: impl FnOnce(&mut View)) -> View {
    change(&mut view);
    view
}

fn set(view: &mut View, service: Service) {
    view.nova.service = Found::One(service);
}

fn evicted() -> Option<EvictionView> {
    Some(EvictionView {
        succeeded: true,
        reason: "Succeeded".into(),
        message: "the host is empty; 3 moved".into(),
    })
}

fn maintained(kind: Maintenance) -> View {
    with(world(OnboardingPhase::Succeeded), |view| {
        view.spec.maintenance = kind;
        view.spec.maintenance_reason = Some("DIMM".into());
        set(
            view,
            service("disabled", Some("c5c3: maintenance (manual): DIMM")),
        );
    })
}

fn agent(view: &mut View, status: &str) {
    view.before.conditions.push(Condition {
        type_: "LibVirtConnection".into(),
        status: status.into(),
        reason: "Seen".into(),
        message: String::new(),
        last_transition_time: Time(now()),
        observed_generation: None,
    });
}

fn worlds() -> Vec<(&'static str, View)> {
    use OnboardingPhase::{Aborted, Handover, Initial, Succeeded, Testing};
    let test = || guest("t1", &names::test_server("0123-4567-89ab-cdef"), "BUILD");
    vec![
        (
            "new: Nova does not know it",
            with(fresh(), |v| v.nova = Host::default()),
        ),
        (
            "new: two hosts could be meant",
            with(fresh(), |v| {
                v.nova.service = Found::Several(vec!["node1.a".into(), "node1.b".into()]);
            }),
        ),
        (
            "new: disabled by Nova's own setting",
            with(fresh(), |v| {
                set(
                    v,
                    service(
                        "disabled",
                        Some("New compute service disabled due to config option."),
                    ),
                );
            }),
        ),
        (
            "new: disabled by a person",
            with(fresh(), |v| set(v, service("disabled", Some("rack 7")))),
        ),
        (
            "new: Node not ready",
            with(fresh(), |v| {
                v.node = NodeView::There {
                    ready: false,
                    terminating: false,
                }
            }),
        ),
        (
            "new: nova-compute down",
            with(fresh(), |v| {
                set(
                    v,
                    Service {
                        state: "down".into(),
                        ..service("enabled", None)
                    },
                )
            }),
        ),
        (
            "new: forced down",
            with(fresh(), |v| {
                set(
                    v,
                    Service {
                        forced_down: true,
                        ..service("enabled", None)
                    },
                )
            }),
        ),
        ("new: no resources yet", with(fresh(), |v| v.nova.provider = None)),
        ("new: enabled", fresh()),
        (
            "new: enabled, skipTests",
            with(fresh(), |v| v.spec.skip_tests = true),
        ),
        (
            "initial again: a test server of before is there",
            with(world(Initial), |v| v.tests = vec![test()]),
        ),
        ("testing: begins", world(Testing)),
        (
            "testing: aggregate of tests",
            with(world(Testing), |v| {
                v.nova.groups = Arc::new(vec![group(1, "zone-a"), group(9, names::TEST)])
            }),
        ),
        (
            "testing: nothing to test with",
            with(world(Testing), |v| v.bed = Some(TestBed::default())),
        ),
        (
            "testing: no flavour",
            with(world(Testing), |v| {
                v.bed = Some(TestBed {
                    image: Some("i".into()),
                    ..TestBed::default()
                })
            }),
        ),
        ("testing: boots", with(world(Testing), |v| v.tests = vec![test()])),
        (
            "testing: two, for an answer was lost",
            with(world(Testing), |v| {
                v.tests = vec![
                    test(),
                    Guest {
                        id: "t2".into(),
                        ..test()
                    },
                ]
            }),
        ),
        (
            "testing: runs, console silent",
            with(world(Testing), |v| {
                v.tests = vec![Guest {
                    status: "ACTIVE".into(),
                    ..test()
                }]
            }),
        ),
        (
            "testing: runs, console shows another name",
            with(world(Testing), |v| {
                v.tests = vec![Guest {
                    status: "ACTIVE".into(),
                    ..test()
                }];
                v.console = "login of somebody".into();
            }),
        ),
        (
            "testing: console shows its name",
            with(world(Testing), |v| {
                v.tests = vec![Guest {
                    status: "ACTIVE".into(),
                    ..test()
                }];
                v.console = format!("login of {}", test().name);
            }),
        ),
        (
            "testing: failed",
            with(world(Testing), |v| {
                v.tests = vec![Guest {
                    status: "ERROR".into(),
                    fault: Some("no bridge".into()),
                    ..test()
                }];
            }),
        ),
        (
            "testing: too late",
            with(world(Testing), |v| {
                v.tests = vec![test()];
                v.before.onboarding.as_mut().expect("set").since = ago(301);
            }),
        ),
        (
            "testing: disabled meanwhile",
            with(world(Testing), |v| set(v, service("disabled", Some("rack 7")))),
        ),
        (
            "aborted",
            with(world(Aborted), |v| {
                v.tests = vec![test()];
                v.before.onboarding.as_mut().expect("set").message = Some("no bridge".into());
            }),
        ),
        (
            "aborted: retry asked, test server still there",
            with(world(Aborted), |v| {
                v.retry = Some("2".into());
                v.tests = vec![test()];
            }),
        ),
        (
            "aborted: retry asked",
            with(world(Aborted), |v| v.retry = Some("2".into())),
        ),
        (
            "aborted: that retry was heeded",
            with(world(Aborted), |v| {
                v.retry = Some("2".into());
                v.before.onboarding.as_mut().expect("set").retried = Some("2".into());
                set(
                    v,
                    service("disabled", Some("c5c3: onboarding aborted: no bridge")),
                );
            }),
        ),
        (
            "handover: test server still there",
            with(world(Handover), |v| {
                v.tests = vec![Guest {
                    status: "ACTIVE".into(),
                    ..test()
                }]
            }),
        ),
        (
            "handover: aggregates, traits and ratios to be set",
            with(world(Handover), |v| {
                v.before.aggregates.clear();
                v.nova.member_of.clear();
                v.spec.custom_traits = vec!["CUSTOM_A".into()];
                v.spec.overcommit = [("cpu".to_owned(), 4.0)].into();
            }),
        ),
        (
            "handover: ratios to be set",
            with(world(Handover), |v| {
                v.spec.overcommit = [("cpu".to_owned(), 4.0)].into()
            }),
        ),
        ("handover: all in order", world(Handover)),
        ("in service", world(Succeeded)),
        (
            "in service: a test server came late",
            with(world(Succeeded), |v| v.tests = vec![test()]),
        ),
        (
            "in service, agent reports",
            with(world(Succeeded), |v| agent(v, "True")),
        ),
        (
            "in service, agent without libvirt",
            with(world(Succeeded), |v| agent(v, "False")),
        ),
        (
            "in service: aggregate lost",
            with(world(Succeeded), |v| v.nova.member_of.clear()),
        ),
        (
            "in service: aggregate not in the spec any more, another of others",
            with(world(Succeeded), |v| {
                v.spec.aggregates.clear();
                v.nova.member_of = [1, 2].into();
            }),
        ),
        (
            "in service: aggregate that Nova does not have",
            with(world(Succeeded), |v| v.spec.aggregates.push("gpu".into())),
        ),
        (
            "in service: trait lost and another of ours to go",
            with(world(Succeeded), |v| {
                v.spec.custom_traits = vec!["CUSTOM_A".into()];
                v.before.traits = vec!["CUSTOM_A".into(), "CUSTOM_OLD".into()];
                let there = ["HW_CPU_X86_AVX", "CUSTOM_OLD", "CUSTOM_THEIRS"].map(str::to_owned);
                v.placement.traits = Some((9, there.into()));
            }),
        ),
        (
            "in service: ratio of something unknown",
            with(world(Succeeded), |v| {
                v.spec.overcommit = [("luck".to_owned(), 2.0)].into()
            }),
        ),
        (
            "in service: provider gone",
            with(world(Succeeded), |v| v.placement.traits = None),
        ),
        (
            "in service: disabled by us",
            with(world(Succeeded), |v| {
                set(v, service("disabled", Some("c5c3: maintenance (manual): DIMM")))
            }),
        ),
        (
            "in service: disabled by a person",
            with(world(Succeeded), |v| set(v, service("disabled", Some("rack 7")))),
        ),
        (
            "in service: disabled by an Eviction",
            with(world(Succeeded), |v| {
                set(v, service("disabled", Some("c5c3: eviction other")))
            }),
        ),
        (
            "in service: registered anew under another id",
            with(world(Succeeded), |v| {
                set(
                    v,
                    Service {
                        id: "s2".into(),
                        ..service("enabled", None)
                    },
                )
            }),
        ),
        (
            "in service: gone from Nova",
            with(world(Succeeded), |v| v.nova = Host::default()),
        ),
        (
            "in service: Node gone",
            with(world(Succeeded), |v| v.node = NodeView::Missing),
        ),
        (
            "in service: nova-compute down",
            with(world(Succeeded), |v| {
                set(
                    v,
                    Service {
                        state: "down".into(),
                        ..service("enabled", None)
                    },
                )
            }),
        ),
        (
            "unmanaged",
            with(world(Initial), |v| v.spec.lifecycle_enabled = false),
        ),
        (
            "maintenance manual: begins",
            with(maintained(Maintenance::Manual), |v| {
                set(v, service("enabled", None))
            }),
        ),
        (
            "maintenance manual: evicting",
            with(maintained(Maintenance::Manual), |v| {
                v.guests = Some(vec![guest("g1", "a", "ACTIVE")]);
                v.eviction = Some(EvictionView {
                    succeeded: false,
                    reason: "Running".into(),
                    message: "1 moved".into(),
                });
            }),
        ),
        (
            "maintenance manual: empty",
            with(maintained(Maintenance::Manual), |v| v.eviction = evicted()),
        ),
        (
            "maintenance manual: a late arrival after the eviction",
            with(maintained(Maintenance::Manual), |v| {
                v.eviction = evicted();
                v.guests = Some(vec![guest("g1", "a", "ACTIVE")]);
            }),
        ),
        (
            "maintenance manual: somebody enabled it",
            with(maintained(Maintenance::Manual), |v| {
                set(v, service("enabled", None));
                v.eviction = evicted();
            }),
        ),
        (
            "maintenance auto: while testing",
            with(world(Testing), |v| {
                v.spec.maintenance = Maintenance::Auto;
                v.tests = vec![test()];
            }),
        ),
        (
            "maintenance ha",
            with(maintained(Maintenance::Ha), |v| {
                v.guests = Some(vec![guest("g1", "a", "ACTIVE")])
            }),
        ),
        (
            "termination: servers there",
            with(maintained(Maintenance::Termination), |v| {
                v.guests = Some(vec![guest("g1", "a", "ACTIVE")])
            }),
        ),
        (
            "termination: a failed eviction is no success",
            with(maintained(Maintenance::Termination), |v| {
                v.guests = Some(vec![guest("g1", "a", "ERROR")]);
                v.eviction = Some(EvictionView {
                    succeeded: false,
                    reason: "Failed".into(),
                    message: "1 cannot move".into(),
                });
            }),
        ),
        (
            "termination: empty, service there",
            with(maintained(Maintenance::Termination), |v| v.eviction = evicted()),
        ),
        (
            "termination: service gone, provider with an allocation",
            with(maintained(Maintenance::Termination), |v| {
                v.eviction = evicted();
                v.nova = Host::default();
                v.placement.consumers = vec![("c1".into(), [("VCPU".to_owned(), 1)].into())];
            }),
        ),
        (
            "termination: nothing left",
            with(maintained(Maintenance::Termination), |v| {
                v.eviction = evicted();
                v.nova = Host::default();
                v.placement.traits = None;
            }),
        ),
        (
            "Node terminates: test server and service there",
            with(world(Testing), |v| {
                v.node = NodeView::There {
                    ready: true,
                    terminating: true,
                };
                v.tests = vec![test()];
            }),
        ),
        (
            "deleted: never known to Nova",
            with(fresh(), |v| {
                v.deleting = true;
                v.nova = Host::default();
                v.placement = PlacementView::default();
            }),
        ),
        (
            "deleted, unmanaged: nothing is touched",
            with(world(Succeeded), |v| {
                v.deleting = true;
                v.spec.lifecycle_enabled = false;
            }),
        ),
    ]
}

fn described(view: &View, step: &Step) -> String {
    let mut text = String::new();
    let phase = step.status.onboarding.as_ref();
    if let Some(one) = phase {
        let from = view
            .before
            .onboarding
            .as_ref()
            .map(|before| before.phase)
            .unwrap_or_default();
        let _ = writeln!(
            text,
            "  phase       {from:?} -> {:?}, try {}",
            one.phase, one.attempt
        );
    }
    for action in &step.actions {
        let _ = writeln!(text, "  do          {action:?}");
    }
    if let Some(why) = &step.evict {
        let _ = writeln!(text, "  evict       {why}");
    }
    for part in super::Hosts::parts() {
        if let Some(state) = step.states.get(part) {
            let _ = writeln!(
                text,
                "  {part:<19} {:<7} {} {}",
                state.truth.as_str(),
                state.reason,
                state.message
            );
        }
    }
    if let Some(blocker) = step.states.blocker() {
        let _ = writeln!(text, "  not ready   {} {}", blocker.reason, blocker.message);
    }
    if !step.left.is_empty() {
        let _ = writeln!(text, "  left        {}", step.left.join(", "));
    }
    let _ = writeln!(text, "  again       {:?}", step.again);
    text
}

#[test]
fn every_transition() {
    let mut text = String::new();
    for (name, view) in worlds() {
        let step = transition(&view);
        let _ = writeln!(text, "{name}\n{}", described(&view, &step));
    }
    insta::assert_snapshot!(text);
}

#[test]
fn every_world_is_told_in_full_and_looked_at_again() {
    for (name, view) in worlds() {
        let step = transition(&view);
        for part in super::Hosts::parts() {
            assert!(
                step.states.get(part).is_some(),
                "{name}: nothing is said of {part}"
            );
        }
        assert!(!step.again.is_zero(), "{name}: never looked at again");
        assert_eq!(transition(&view), step, "{name}");
    }
}
