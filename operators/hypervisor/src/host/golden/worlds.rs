//! Worlds that a host can be in.

use std::sync::Arc;

use c5c3_api::hypervisor::{Maintenance, OnboardingPhase};
use openstack_client::{Guest, Service, TestBed};

use super::base::{agent, ago, evicted, fresh, group, guest, maintained, service, set, with, world};
use crate::host::view::{EvictionView, NodeView, PlacementView, View};
use crate::names;
use crate::nova::{Found, Host};

pub(crate) fn worlds() -> Vec<(&'static str, View)> {
    [
        new(),
        testing(),
        handed_over(),
        in_service(),
        lost(),
        in_maintenance(),
        leaving(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Before the first test.
fn new() -> Vec<(&'static str, View)> {
    use OnboardingPhase::Initial;
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
                };
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
                );
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
                );
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
    ]
}

/// While it is tested.
fn testing() -> Vec<(&'static str, View)> {
    use OnboardingPhase::Testing;
    let test = || guest("t1", &names::test_server("0123-4567-89ab-cdef"), "BUILD");
    vec![
        ("testing: begins", world(Testing)),
        (
            "testing: aggregate of tests",
            with(world(Testing), |v| {
                v.nova.groups = Arc::new(vec![group(1, "zone-a"), group(9, names::TEST)]);
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
                });
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
                ];
            }),
        ),
        (
            "testing: runs, console silent",
            with(world(Testing), |v| {
                v.tests = vec![Guest {
                    status: "ACTIVE".into(),
                    ..test()
                }];
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
    ]
}

/// After the test, passed or not.
fn handed_over() -> Vec<(&'static str, View)> {
    use OnboardingPhase::{Aborted, Handover};
    let test = || guest("t1", &names::test_server("0123-4567-89ab-cdef"), "BUILD");
    vec![
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
                }];
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
                v.spec.overcommit = [("cpu".to_owned(), 4.0)].into();
            }),
        ),
        ("handover: all in order", world(Handover)),
    ]
}

/// In service, and small things go wrong.
fn in_service() -> Vec<(&'static str, View)> {
    use OnboardingPhase::Succeeded;
    let test = || guest("t1", &names::test_server("0123-4567-89ab-cdef"), "BUILD");
    vec![
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
                v.spec.overcommit = [("luck".to_owned(), 2.0)].into();
            }),
        ),
        (
            "in service: provider gone",
            with(world(Succeeded), |v| v.placement.traits = None),
        ),
    ]
}

/// In service, and it is taken out of it by others.
fn lost() -> Vec<(&'static str, View)> {
    use OnboardingPhase::Succeeded;
    vec![
        (
            "in service: disabled by us",
            with(world(Succeeded), |v| {
                set(v, service("disabled", Some("c5c3: maintenance (manual): DIMM")));
            }),
        ),
        (
            "in service: disabled by a person",
            with(world(Succeeded), |v| set(v, service("disabled", Some("rack 7")))),
        ),
        (
            "in service: disabled by an Eviction",
            with(world(Succeeded), |v| {
                set(v, service("disabled", Some("c5c3: eviction other")));
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
                );
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
                );
            }),
        ),
    ]
}

/// In maintenance.
fn in_maintenance() -> Vec<(&'static str, View)> {
    use OnboardingPhase::{Initial, Testing};
    let test = || guest("t1", &names::test_server("0123-4567-89ab-cdef"), "BUILD");
    vec![
        (
            "unmanaged",
            with(world(Initial), |v| v.spec.lifecycle_enabled = false),
        ),
        (
            "maintenance manual: begins",
            with(maintained(Maintenance::Manual), |v| {
                set(v, service("enabled", None));
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
                v.guests = Some(vec![guest("g1", "a", "ACTIVE")]);
            }),
        ),
    ]
}

/// On its way out.
fn leaving() -> Vec<(&'static str, View)> {
    use OnboardingPhase::{Succeeded, Testing};
    let test = || guest("t1", &names::test_server("0123-4567-89ab-cdef"), "BUILD");
    vec![
        (
            "termination: servers there",
            with(maintained(Maintenance::Termination), |v| {
                v.guests = Some(vec![guest("g1", "a", "ACTIVE")]);
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
