//! Worlds of single servers in trouble, on a host that is healthy.

use c5c3_api::hypervisor::{
    Instance, InstanceTrouble, Maintenance, OnboardingPhase, Reaction, ReactionState, Trouble,
};
use openstack_client::Guest;

use super::base::{agent, ago, guest, with, world};
use crate::host::view::{NodeView, View};
use crate::pulse::AgentView;

fn calm() -> View {
    with(world(OnboardingPhase::Succeeded), |view| agent(view, "True"))
}

/// The agent sees the server in trouble for so many seconds, or well.
fn seen(view: &mut View, trouble: Option<(Trouble, i64)>) {
    view.before.instances = vec![Instance {
        id: "g1".into(),
        name: "instance-1".into(),
        active: trouble.is_none(),
        trouble: trouble.map(|(kind, seconds)| InstanceTrouble {
            kind,
            since: ago(seconds),
        }),
    }];
}

fn crashed(status: &str) -> View {
    with(calm(), |view| {
        seen(view, Some((Trouble::Crashed, 2)));
        view.troubled = vec![guest("g1", "web", status)];
    })
}

/// What was done so far, so many seconds ago.
fn done(state: ReactionState, attempts: i32, seconds: i64) -> Reaction {
    Reaction {
        server: "g1".into(),
        name: "web".into(),
        trouble: Trouble::Crashed,
        state,
        attempts,
        refusals: 0,
        since: ago(seconds + 2),
        changed: ago(seconds),
        message: Some("as it was".into()),
    }
}

fn after(status: &str, state: ReactionState, attempts: i32, seconds: i64) -> View {
    with(crashed(status), |view| {
        view.before.reactions = vec![done(state, attempts, seconds)];
    })
}

fn well(reaction: Reaction, now: Guest) -> View {
    with(calm(), |view| {
        seen(view, None);
        view.before.reactions = vec![reaction];
        view.troubled = vec![now];
    })
}

fn elsewhere(status: &str) -> Guest {
    Guest {
        host: "node2".into(),
        ..guest("g1", "web", status)
    }
}

fn busy(status: &str) -> Guest {
    Guest {
        task: Some("reboot_started_hard".into()),
        ..guest("g1", "web", status)
    }
}

pub(crate) fn worlds() -> Vec<(&'static str, View)> {
    [crashed_ones(), restarted(), refused(), moved()]
        .into_iter()
        .flatten()
        .collect()
}

/// Crashed, and what is known of it.
fn crashed_ones() -> Vec<(&'static str, View)> {
    vec![
        ("server: all are well", calm()),
        ("server: crashed, Nova has not noticed", crashed("ACTIVE")),
        ("server: crashed, Nova has stopped it", crashed("SHUTOFF")),
        (
            "server: crashed long ago and stopped, seen only now",
            with(crashed("SHUTOFF"), |v| seen(v, Some((Trouble::Crashed, 301)))),
        ),
        (
            "server: crashed, Nova is busy with it",
            with(crashed("ACTIVE"), |v| v.troubled = vec![busy("ACTIVE")]),
        ),
        (
            "server: crashed, of a domain that Nova does not know",
            with(crashed("ACTIVE"), |v| v.troubled.clear()),
        ),
        (
            "server: crashed, left of one that is on another host",
            with(crashed("ACTIVE"), |v| v.troubled = vec![elsewhere("ACTIVE")]),
        ),
        ("server: crashed while it is rescued", crashed("RESCUE")),
        (
            "server: crashed, and the test server of the host",
            with(crashed("ACTIVE"), |v| v.tests = v.troubled.clone()),
        ),
        (
            "server: crashed, highAvailability is false",
            with(crashed("ACTIVE"), |v| v.spec.high_availability = false),
        ),
        (
            "server: crashed, a person works on the host",
            with(crashed("ACTIVE"), |v| v.spec.maintenance = Maintenance::Manual),
        ),
        (
            "server: crashed, the Node is silent",
            with(crashed("ACTIVE"), |v| {
                v.node = NodeView::There {
                    ready: false,
                    terminating: false,
                };
            }),
        ),
        (
            "server: crashed, the agent cannot reach libvirt",
            with(crashed("ACTIVE"), |v| {
                v.before.conditions.clear();
                agent(v, "False");
            }),
        ),
        (
            "server: crashed, and the agent has been silent since",
            with(crashed("ACTIVE"), |v| {
                v.agent = AgentView::Silent(v.now - jiff::SignedDuration::from_secs(60));
            }),
        ),
        (
            "server: crashed, and heartbeats cannot be read",
            with(crashed("ACTIVE"), |v| v.agent = AgentView::Unknown),
        ),
        (
            "server: crashed, and the agent has never sent a heartbeat",
            with(crashed("ACTIVE"), |v| v.agent = AgentView::Missing),
        ),
        (
            "server: a disk does not answer for a moment",
            with(crashed("ACTIVE"), |v| seen(v, Some((Trouble::IoError, 20)))),
        ),
        (
            "server: a disk does not answer for a minute",
            with(crashed("ACTIVE"), |v| seen(v, Some((Trouble::IoError, 60)))),
        ),
        (
            "server: paused by its watchdog",
            with(crashed("ACTIVE"), |v| seen(v, Some((Trouble::Watchdog, 1)))),
        ),
    ]
}

/// Restarted, with and without success.
fn restarted() -> Vec<(&'static str, View)> {
    use ReactionState::{Recovered, Restarting, Waiting};
    vec![
        (
            "server: restarted, Nova is at it",
            with(after("ACTIVE", Restarting, 1, 5), |v| {
                v.troubled = vec![busy("ACTIVE")];
            }),
        ),
        (
            "server: a restart did not help, too soon",
            after("ACTIVE", Restarting, 1, 10),
        ),
        (
            "server: a restart did not help",
            after("ACTIVE", Restarting, 1, 30),
        ),
        (
            "server: two restarts did not help",
            after("ERROR", Restarting, 2, 120),
        ),
        (
            "server: runs again",
            well(done(Restarting, 1, 20), guest("g1", "web", "ACTIVE")),
        ),
        (
            "server: stopped by its owner meanwhile",
            with(
                well(done(Restarting, 1, 20), guest("g1", "web", "SHUTOFF")),
                |v| {
                    v.before.instances[0].active = false;
                },
            ),
        ),
        (
            "server: the disk answers again",
            well(
                Reaction {
                    trouble: Trouble::IoError,
                    ..done(Waiting, 0, 20)
                },
                guest("g1", "web", "ACTIVE"),
            ),
        ),
        (
            "server: crashed again soon after",
            after("ACTIVE", Recovered, 1, 10),
        ),
        (
            "server: crashed again after minutes",
            after("ACTIVE", Recovered, 2, 600),
        ),
        (
            "server: crashed again after hours",
            after("ACTIVE", Recovered, 3, 3601),
        ),
    ]
}

/// Asked for, and not taken by Nova: no restart is counted.
fn refused() -> Vec<(&'static str, View)> {
    use ReactionState::{Moving, Restarting, Waiting};
    let words =
        "restart server g1: 409 (Conflict): Cannot 'reboot' instance g1 while it is in vm_state building";
    let refused = |state, attempts, refusals| {
        with(after("ACTIVE", state, attempts, 2), |v| {
            v.before.reactions[0].refusals = refusals;
            v.refused.insert("g1".into(), words.into());
        })
    };
    let pleaded = |refusals, seconds| {
        with(after("ACTIVE", Waiting, 1, seconds), |v| {
            v.before.reactions[0].refusals = refusals;
        })
    };
    vec![
        (
            "server: Nova refuses the first restart",
            refused(Restarting, 1, 0),
        ),
        (
            "server: Nova refuses the third restart",
            refused(Restarting, 3, 1),
        ),
        (
            "server: Nova refuses the tenth request",
            refused(Restarting, 1, 9),
        ),
        ("server: Nova refuses to move it", refused(Moving, 3, 0)),
        ("server: Nova refused twice, too soon", pleaded(2, 19)),
        ("server: Nova refused twice", pleaded(2, 20)),
        (
            "server: Nova refused twice, and has taken it now",
            with(pleaded(2, 20), |v| v.troubled = vec![busy("ACTIVE")]),
        ),
    ]
}

/// Sent to another host.
fn moved() -> Vec<(&'static str, View)> {
    use ReactionState::{GivenUp, Moving, Recovered, Restarting};
    let moving = |now: Guest| with(well(done(Moving, 3, 10), now), |v| v.before.instances.clear());
    vec![
        (
            "server: three restarts did not help, too soon",
            after("SHUTOFF", Restarting, 3, 60),
        ),
        (
            "server: three restarts did not help",
            after("SHUTOFF", Restarting, 3, 120),
        ),
        (
            "server: three restarts did not help, no other host",
            with(after("SHUTOFF", Restarting, 3, 120), |v| {
                (v.nova.hosts, v.nova.heard) = (1, 1);
            }),
        ),
        (
            "server: three restarts did not help, in error",
            with(after("ERROR", Restarting, 3, 120), |v| {
                v.troubled[0].fault = Some("no such disk".into());
            }),
        ),
        (
            "server: moves",
            moving(Guest {
                task: Some("resize_migrating".into()),
                ..guest("g1", "web", "SHUTOFF")
            }),
        ),
        (
            "server: moved, to be confirmed",
            moving(elsewhere("VERIFY_RESIZE")),
        ),
        ("server: moved, down as it left", moving(elsewhere("SHUTOFF"))),
        ("server: moved, runs", moving(elsewhere("ACTIVE"))),
        (
            "server: does not move",
            with(moving(guest("g1", "web", "SHUTOFF")), |v| {
                v.before.reactions[0].changed = ago(121);
            }),
        ),
        ("server: given up", after("ERROR", GivenUp, 3, 600)),
        (
            "server: given up, mended by somebody",
            well(done(GivenUp, 3, 600), guest("g1", "web", "ACTIVE")),
        ),
        (
            "server: recovered a day ago",
            with(
                well(done(Recovered, 1, 24 * 3600 + 1), guest("g1", "web", "ACTIVE")),
                |v| v.troubled.clear(),
            ),
        ),
        (
            "server: deleted while it was restarted",
            with(well(done(Restarting, 1, 5), guest("g1", "web", "ACTIVE")), |v| {
                v.troubled.clear();
                v.before.instances.clear();
            }),
        ),
    ]
}
