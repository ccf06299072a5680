//! Worlds of a host that fails, seen by few and by many, with and without power.

use c5c3_api::hypervisor::{FailoverStatus, Maintenance, OnboardingPhase};
use openstack_client::{Guest, Move, Service};

use super::base::{ago, guest, service, set, with, world};
use crate::host::view::{NodeView, View};
use crate::power::PowerView;
use crate::pulse::AgentView;

const FENCE: &str = "taint node.kubernetes.io/out-of-service";

fn silent_node(view: &mut View) {
    view.node = NodeView::There {
        ready: false,
        terminating: false,
    };
}

fn down(forced_down: bool) -> Service {
    Service {
        state: "down".into(),
        forced_down,
        ..service("enabled", None)
    }
}

fn silent() -> View {
    with(world(OnboardingPhase::Succeeded), |view| {
        silent_node(view);
        set(view, down(false));
        view.nova.heard = 2;
    })
}

fn off(guests: Vec<Guest>) -> View {
    with(silent(), |view| {
        view.fence = Some(FENCE.into());
        set(view, down(true));
        view.guests = Some(guests);
        view.before.failover = Some(FailoverStatus {
            since: ago(5),
            fence: Some(FENCE.into()),
            migrations_before: 7,
        });
    })
}

fn evacuation(id: i64, server: &str, status: &str) -> Move {
    Move {
        id,
        server: server.into(),
        status: status.into(),
        kind: "evacuation".into(),
        source: Some("node1".into()),
        destination: None,
    }
}

pub(crate) fn worlds() -> Vec<(&'static str, View)> {
    [doubtful(), witnesses(), failed(), turns()]
        .into_iter()
        .flatten()
        .collect()
}

/// Is it down at all?
fn doubtful() -> Vec<(&'static str, View)> {
    vec![
        (
            "failed? only the Node is silent",
            with(world(OnboardingPhase::Succeeded), silent_node),
        ),
        (
            "failed? only nova-compute is silent",
            with(world(OnboardingPhase::Succeeded), |v| set(v, down(false))),
        ),
        (
            "failed? most of the fleet is silent",
            with(silent(), |v| (v.nova.hosts, v.nova.heard) = (5, 2)),
        ),
        (
            "failed? the whole fleet is silent, and the host has no power",
            with(silent(), |v| {
                v.nova.heard = 0;
                v.fence = Some(FENCE.into());
            }),
        ),
        ("failed: it may still write", silent()),
        (
            "failed: its power is on",
            with(silent(), |v| v.power = Some(PowerView::NotOff("On".into()))),
        ),
        (
            "failed: its management controller does not answer",
            with(silent(), |v| {
                v.power = Some(PowerView::Unknown(
                    "read the power state: no answer within 20 s".into(),
                ));
            }),
        ),
        (
            "failed? only the Node is silent, and its power is on",
            with(world(OnboardingPhase::Succeeded), |v| {
                silent_node(v);
                v.power = Some(PowerView::NotOff("On".into()));
            }),
        ),
        (
            "failed: a person is in charge",
            with(silent(), |v| {
                v.spec.maintenance = Maintenance::Manual;
                v.fence = Some(FENCE.into());
            }),
        ),
        (
            "failed: highAvailability is false",
            with(silent(), |v| {
                v.spec.high_availability = false;
                v.fence = Some(FENCE.into());
            }),
        ),
    ]
}

/// Of Node, nova-compute and agent, each subset that is silent. Only where the first two are silent and nobody else hears
/// the host is its power cut.
fn witnesses() -> Vec<(&'static str, View)> {
    let of = |node: bool, nova: bool, agent: bool| {
        with(world(OnboardingPhase::Succeeded), |view| {
            if node {
                silent_node(view);
            }
            if nova {
                set(view, down(false));
                view.nova.heard = 2;
            }
            view.agent = if agent {
                AgentView::Silent(view.now - jiff::SignedDuration::from_secs(60))
            } else {
                AgentView::Heard
            };
            view.power = Some(PowerView::NotOff("On".into()));
        })
    };
    vec![
        ("witnesses: none is silent", of(false, false, false)),
        ("witnesses: silent agent", of(false, false, true)),
        ("witnesses: silent nova-compute", of(false, true, false)),
        ("witnesses: silent nova-compute and agent", of(false, true, true)),
        ("witnesses: silent Node", of(true, false, false)),
        ("witnesses: silent Node and agent", of(true, false, true)),
        ("witnesses: silent Node and nova-compute", of(true, true, false)),
        ("witnesses: all are silent", of(true, true, true)),
        (
            "witnesses: silent Node and nova-compute, and heartbeats cannot be read",
            with(of(true, true, true), |view| view.agent = AgentView::Unknown),
        ),
    ]
}

/// Which servers come first, and which must wait.
fn turns() -> Vec<(&'static str, View)> {
    let three = || {
        let mut all = vec![
            guest("g1", "web", "SHUTOFF"),
            guest("g2", "db", "ACTIVE"),
            guest("g3", "dns", "ACTIVE"),
        ];
        all[0].priority = 5;
        all[2].priority = -1;
        all
    };
    let needs = |view: &mut View, server: &str| {
        view.no_room.insert(server.into(), "MEMORY_MB 512, VCPU 1".into());
    };
    vec![
        ("failed: servers have priorities", off(three())),
        (
            "failed: there is no room for one",
            with(off(three()), |v| needs(v, "g2")),
        ),
        (
            "failed: there is no room for any",
            with(off(three()), |v| {
                ["g1", "g2", "g3"].iter().for_each(|server| needs(v, server));
            }),
        ),
        (
            "failed: Nova refuses to start one",
            with(off(three()), |v| {
                let words = "restart server g2 elsewhere: 409 (Conflict): it is locked";
                v.refused.insert("g2".into(), words.into());
            }),
        ),
    ]
}

/// It is: what becomes of its servers.
fn failed() -> Vec<(&'static str, View)> {
    let two = || vec![guest("g1", "web", "SHUTOFF"), guest("g2", "db", "ACTIVE")];
    let error = || guest("g1", "web", "ERROR");
    vec![
        (
            "failed: it has no power",
            with(silent(), |v| {
                v.fence = Some(FENCE.into());
                v.guests = Some(two());
                v.moves = vec![evacuation(7, "g1", "failed")];
            }),
        ),
        (
            "failed: it has no power, and Nova has not noticed",
            with(world(OnboardingPhase::Succeeded), |v| {
                silent_node(v);
                v.fence = Some(FENCE.into());
                v.guests = Some(two());
            }),
        ),
        ("failed: Nova was told", off(two())),
        (
            "failed: one starts elsewhere",
            with(off(two()), |v| {
                v.guests.iter_mut().flatten().for_each(|guest| {
                    if guest.id == "g2" {
                        guest.task = Some("rebuilding".into());
                    }
                });
            }),
        ),
        (
            "failed: one runs elsewhere, and Nova has not noted its host yet",
            with(off(two()), |v| {
                v.moves = vec![evacuation(8, "g2", "pre-migrating")];
            }),
        ),
        (
            "failed: one is done elsewhere since it was listed",
            with(off(two()), |v| {
                v.moves = vec![evacuation(8, "g2", "done")];
            }),
        ),
        ("failed: one was in error before", off(vec![error()])),
        (
            "failed: one failed to start once",
            with(off(vec![error()]), |v| {
                v.moves = vec![evacuation(8, "g1", "failed")];
            }),
        ),
        (
            "failed: one failed to start three times",
            with(off(vec![error()]), |v| {
                v.moves = (7..=10).map(|id| evacuation(id, "g1", "failed")).collect();
            }),
        ),
        ("failed: nothing is left on it", off(Vec::new())),
        (
            "failed: a Node that starts",
            with(off(Vec::new()), |v| v.fence = None),
        ),
        (
            "failed: a Node that is back with its taint",
            with(off(Vec::new()), |v| {
                v.node = world(OnboardingPhase::Succeeded).node;
            }),
        ),
        (
            "failed: a Node that is back",
            with(off(Vec::new()), |v| {
                v.node = world(OnboardingPhase::Succeeded).node;
                v.fence = None;
            }),
        ),
        (
            "failed: back in service",
            with(world(OnboardingPhase::Succeeded), |v| {
                v.before.failover = Some(FailoverStatus::default());
            }),
        ),
    ]
}
