//! Pure: a host that failed. Its servers start elsewhere once it is certain that it writes no more.
//!
//! One witness is not enough to call a host failed: Node and nova-compute must both be silent, and the node agent must
//! not be heard, or the Node and its power, while other hosts of the cloud are heard. And failed is not off: a host that
//! is cut off from everybody may still run its servers, and a second copy would destroy their disks. So nothing starts
//! before the fence is confirmed.
//!
//! The chassis of OVN is no witness: its heartbeat is written each five minutes, so it says nothing of the last one.

use std::cmp::Reverse;

use c5c3_api::common::Time;
use c5c3_api::conditions::hypervisor::{EVICTING, HOST_FAILED};
use c5c3_api::conditions::reason;
use c5c3_api::hypervisor::{FailoverStatus, HypervisorSpec, Maintenance};
use openstack_client::{Guest, Move, Service};

use super::transition::WAITING;
use super::view::{Action, NodeView, Step, View};
use super::{onboarding, upkeep};
use crate::names;
use crate::power::PowerView;
use crate::pulse::AgentView;

/// Most servers of one host that start at a time.
const PARALLEL: usize = 10;
/// A server that could not be started so often is left to a person.
const TRIES: usize = 3;

/// What the witnesses say together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Well,
    /// One witness misses the host.
    Doubtful(String),
    /// Too many hosts are silent: the fault is with who listens.
    Blind(String),
    /// Nobody hears the host, and it may still write.
    Unfenced,
    /// It is silent, and has no power.
    Off(String),
    /// It was failed over, and is back.
    Returning,
}

/// Does high availability look after the host? A person who works on it is in charge.
pub(crate) fn applies(spec: &HypervisorSpec) -> bool {
    spec.high_availability && matches!(spec.maintenance, Maintenance::None | Maintenance::Ha)
}

pub(crate) fn judge(view: &View, service: &Service) -> Verdict {
    let node_silent = match view.node {
        NodeView::There { ready, .. } => !ready,
        // Whoever removed the Node knows why.
        NodeView::Missing => return Verdict::Doubtful(format!("there is no Node {}", view.name)),
    };
    let failed_over = view.before.failover.is_some();
    let (heard, hosts) = (view.nova.heard, view.nova.hosts);
    let others = heard.saturating_sub(usize::from(service.up()));
    match (node_silent, service.up(), &view.fence) {
        (false, true, _) => Verdict::Well,
        (false, false, None) if failed_over && service.forced_down => Verdict::Returning,
        (false, false, Some(mark)) if failed_over && service.forced_down => Verdict::Doubtful(format!(
            "the Node is ready again but still has the {mark}: remove it to return the host to service"
        )),
        (false, false, _) => {
            Verdict::Doubtful("Nova reports nova-compute down, but the Node is ready".into())
        }
        (true, _, _) if others == 0 => Verdict::Blind(
            "Nova has no contact with any other host: servers could not start elsewhere".into(),
        ),
        // Nova takes a minute to notice; a host without power need not wait for it.
        (true, _, Some(how)) => Verdict::Off(how.clone()),
        (true, true, None) => {
            Verdict::Doubtful("the Node is not ready, but Nova reports nova-compute up".into())
        }
        (true, false, None) if failed_over && service.forced_down => {
            Verdict::Doubtful("the host is coming back: its Node is not ready yet".into())
        }
        (true, false, None) if heard * 2 < hosts => Verdict::Blind(format!(
            "Nova has contact with only {heard} of {hosts} hosts: no failover until it is at least half of them"
        )),
        (true, false, None) if view.agent == AgentView::Heard => Verdict::Doubtful(
            "Node and nova-compute are down, but the node agent still sends heartbeats".into(),
        ),
        (true, false, None) => Verdict::Unfenced,
    }
}

/// `true`: the host failed, and this is all that is done about it.
pub(crate) fn handle(view: &View, service: &Service, step: &mut Step) -> bool {
    if !applies(&view.spec) {
        step.status.failover = None;
        return false;
    }
    let states = std::mem::take(&mut step.states);
    match judge(view, service) {
        Verdict::Well => {
            step.status.failover = None;
            step.states = states.unmet(HOST_FAILED, reason::IN_SERVICE, "");
            false
        }
        Verdict::Doubtful(why) => {
            step.again = step.again.min(WAITING);
            step.states = states.unmet(HOST_FAILED, reason::DOUBTFUL, why);
            false
        }
        Verdict::Blind(why) => {
            step.again = step.again.min(WAITING);
            step.states = states.unknown(HOST_FAILED, reason::UNREACHABLE, why);
            false
        }
        Verdict::Unfenced => {
            let (reason, why) = unfenced(view, step);
            step.states = states
                .met(HOST_FAILED, reason, why.clone())
                .blocked_by(reason, why);
            rest(view, service, step);
            true
        }
        Verdict::Off(how) => {
            step.states = states;
            restart(view, service, &how, step);
            rest(view, service, step);
            true
        }
        Verdict::Returning => {
            let why = "the host is back: nova-compute is no longer forced down in Nova";
            step.actions.push(Action::ForceDown {
                service: service.id.clone(),
                down: false,
            });
            step.states = states
                .unmet(HOST_FAILED, reason::RETURNING, why)
                .blocked_by(reason::RETURNING, why);
            rest(view, service, step);
            true
        }
    }
}

/// Who cuts the power of a host that nobody hears: its management controller, or else a person.
fn unfenced(view: &View, step: &mut Step) -> (&'static str, String) {
    let silent = "Node and nova-compute are down, but the host may still be running its servers";
    let by_hand = format!(
        "power it off, then run `kubectl taint node {} {}=nodeshutdown:NoExecute`; its servers start elsewhere",
        view.name,
        names::OUT_OF_SERVICE
    );
    match &view.power {
        Some(PowerView::NotOff(state)) => {
            step.actions.push(Action::PowerOff {
                host: view.name.clone(),
            });
            let why = format!(
                "{silent}: its power is {state} and is being cut through Redfish; its servers start elsewhere once it is Off"
            );
            (reason::FENCING, why)
        }
        Some(PowerView::Unknown(problem)) => {
            let why = format!("{silent}, and Redfish does not answer ({problem}): {by_hand}");
            (reason::FENCE_NEEDED, why)
        }
        Some(PowerView::Off) | None => (reason::FENCE_NEEDED, format!("{silent}: {by_hand}")),
    }
}

/// What is reported about a failed host beside its failure.
fn rest(view: &View, service: &Service, step: &mut Step) {
    step.again = WAITING;
    upkeep::keep(view, service, step, upkeep::Membership::Wanted);
    let phase = step.status.onboarding.clone().unwrap_or_default();
    let states = std::mem::take(&mut step.states).unmet(EVICTING, reason::NOT_REQUIRED, "");
    step.states = onboarding::report(states, &phase);
}

/// By the priority that their owners gave them, running servers first; then by name, so that every pass takes the same.
fn turn(guest: &Guest) -> (Reverse<i64>, Reverse<bool>, &str, &str) {
    let runs = guest.status == "ACTIVE";
    (Reverse(guest.priority), Reverse(runs), &guest.name, &guest.id)
}

fn restart(view: &View, service: &Service, how: &str, step: &mut Step) {
    let newest = view.moves.iter().map(|one| one.id).max().unwrap_or_default();
    let failover = step.status.failover.get_or_insert_with(|| FailoverStatus {
        since: Some(Time(view.now)),
        fence: Some(how.to_owned()),
        migrations_before: newest,
    });
    let before = failover.migrations_before;
    if !service.forced_down {
        step.actions.push(Action::ForceDown {
            service: service.id.clone(),
            down: true,
        });
    }
    let evacuations = |guest: &Guest| {
        let own = view.moves.iter().filter(|one| one.server == guest.id);
        own.filter(|one| one.id > before && one.kind == "evacuation")
            .collect::<Vec<_>>()
    };
    let has_failed = |one: &&&Move| matches!(one.status.as_str(), "failed" | "error");
    let tries = |guest: &Guest| evacuations(guest).iter().filter(has_failed).count();
    // Nova clears the task of a server that runs elsewhere just before it writes its new host down. Whoever
    // evacuates it again in between leaves it in error.
    let moves = |guest: &Guest| guest.task.is_some() || evacuations(guest).len() > tries(guest);
    let mut guests: Vec<&Guest> = view.guests.iter().flatten().collect();
    guests.sort_by(|a, b| turn(a).cmp(&turn(b)));
    let (moving, still): (Vec<&Guest>, Vec<&Guest>) = guests.into_iter().partition(|guest| moves(guest));
    // A server that was in error before has no disk that could be trusted.
    let fits = |guest: &&Guest| match guest.status.as_str() {
        "ACTIVE" | "SHUTOFF" => true,
        "ERROR" => tries(guest) > 0,
        _ => false,
    };
    let (waiting, stuck): (Vec<&Guest>, Vec<&Guest>) = still
        .into_iter()
        .partition(|guest| fits(guest) && tries(guest) < TRIES);
    // Nova would set a server to ERROR for which it finds no host.
    let (cramped, ready): (Vec<&Guest>, Vec<&Guest>) = waiting
        .iter()
        .copied()
        .partition(|guest| view.no_room.contains_key(&guest.id));
    if service.forced_down {
        let free = PARALLEL.saturating_sub(moving.len());
        let next = ready.iter().take(free).map(|guest| Action::Evacuate {
            server: guest.id.clone(),
        });
        step.actions.extend(next);
    }
    let (why, said) = told(view, how, (&moving, &cramped, &ready, &stuck));
    let states = std::mem::take(&mut step.states);
    step.states = states.met(HOST_FAILED, why, said.clone()).blocked_by(why, said);
}

/// Servers that are started elsewhere, lack room, are next, and cannot be started.
type Sorted<'a> = (&'a [&'a Guest], &'a [&'a Guest], &'a [&'a Guest], &'a [&'a Guest]);

/// Reason and words of `HostFailed`.
fn told(view: &View, how: &str, (moving, cramped, ready, stuck): Sorted<'_>) -> (&'static str, String) {
    let off = format!("the host is powered off ({how})");
    let named = |guests: &[&Guest], of: &dyn Fn(&Guest) -> Option<String>| {
        let all = guests
            .iter()
            .filter_map(|guest| Some(format!("{} ({})", guest.name, of(guest)?)));
        all.collect::<Vec<_>>().join(", ")
    };
    let lost = named(stuck, &|guest| Some(guest.status.clone()));
    let lacking = named(cramped, &|guest| view.no_room.get(&guest.id).cloned());
    let refused = named(ready, &|guest| view.refused.get(&guest.id).cloned());
    let left = moving.len() + cramped.len() + ready.len();
    let (why, mut said) = if !cramped.is_empty() && moving.is_empty() && ready.is_empty() {
        (reason::WAITING_FOR_CAPACITY, off)
    } else if left > 0 {
        let said = format!("{off}; servers still to be started elsewhere: {left}");
        (reason::RECOVERING, said)
    } else if stuck.is_empty() {
        (
            reason::RECOVERED,
            format!("{off}; none of its servers is left on it"),
        )
    } else {
        let said = format!("{off}; these servers could not be started elsewhere: {lost}");
        return (reason::FAILED, said);
    };
    for (words, servers) in [
        ("no other host has room for", lacking),
        ("Nova refuses", refused),
        ("these cannot be", lost),
    ] {
        if !servers.is_empty() {
            said = format!("{said}; {words}: {servers}");
        }
    }
    (why, said)
}
