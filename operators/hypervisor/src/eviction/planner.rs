//! Pure: which server moves next, which is called back, and when the host is empty.

use std::collections::BTreeMap;
use std::time::Duration;

use c5c3_api::common::Time;
use c5c3_api::conditions::eviction::{HYPERVISOR_RE_ENABLED, MIGRATING_INSTANCE, PREFLIGHT_CHECKS_SUCCEEDED};
use c5c3_api::conditions::hypervisor::{EVICTING, HYPERVISOR_DISABLED};
use c5c3_api::conditions::reason;
use c5c3_api::hypervisor::{EvictionStatus, InstanceEviction, InstanceState};
use c5c3_kit::States;
use jiff::SignedDuration;
use openstack_client::{Guest, Service};

use super::view::{Action, HostView, Step, View};
use crate::names;

/// Migrations at a time, when the spec does not say.
const PARALLEL: usize = 4;
/// Longest that one may take, when the spec does not say.
const DEADLINE: SignedDuration = SignedDuration::from_mins(30);
/// Tries before a server is left for later.
const TRIES: i32 = 3;
/// Between tries, times the tries so far.
const PAUSE: SignedDuration = SignedDuration::from_secs(10);
/// A server whose tries all failed is tried again after this long.
const LATER: SignedDuration = SignedDuration::from_mins(10);
/// An abort that did nothing is repeated after this long.
const ABORT_AGAIN: SignedDuration = SignedDuration::from_secs(60);
/// A host is empty when it has been for so long: a server that Nova had already sent is there by then.
const EMPTY: SignedDuration = SignedDuration::from_secs(10);

/// While migrations run; after all is done; while only a person can help.
const BUSY: Duration = Duration::from_secs(5);
const DONE: Duration = Duration::from_secs(300);
const HELPLESS: Duration = Duration::from_secs(60);

/// The next step of an eviction.
pub fn plan(view: &View) -> Step {
    let host = match &view.host {
        Ok(host) => host,
        Err(why) => return nowhere(view, why),
    };
    let mut step = Step {
        status: EvictionStatus {
            hypervisor_service_id: host.service.as_ref().map(|one| one.id.clone()),
            moved: view.before.moved,
            ..EvictionStatus::default()
        },
        ..Step::default()
    };
    let closed = close(view, host, &mut step);
    let instances = sort_out(view, host, closed, &mut step);
    for server in host.unconfirmed() {
        step.actions.push(Action::Confirm { server });
    }
    told(view, host, closed, instances, &mut step);
    step
}

/// No Hypervisor, or one that Nova does not know: nothing can be on it.
fn nowhere(view: &View, why: &str) -> Step {
    let states = States::default()
        .unknown(PREFLIGHT_CHECKS_SUCCEEDED, reason::NOT_IN_NOVA, why)
        .unknown(HYPERVISOR_DISABLED, reason::NOT_IN_NOVA, why)
        .unmet(MIGRATING_INSTANCE, reason::NOT_REQUIRED, "")
        .unmet(HYPERVISOR_RE_ENABLED, reason::NOT_REQUIRED, "")
        .unmet(EVICTING, reason::FAILED, why)
        .blocked_by(reason::NOT_IN_NOVA, why);
    Step {
        states,
        status: view.before.clone(),
        again: HELPLESS,
        ..Step::default()
    }
}

/// `true`: Nova sends no further servers.
fn close(view: &View, host: &HostView, step: &mut Step) -> bool {
    let Some(service) = &host.service else {
        return true;
    };
    let own = names::eviction(&view.name);
    let disabled_by_us = !service.enabled() && service.disabled_reason.as_deref() == Some(own.as_str());
    let states = std::mem::take(&mut step.states);
    if view.deleting {
        // Whoever else disabled it has reasons of their own.
        let (truth, said) = if disabled_by_us {
            let service = service.id.clone();
            step.actions.push(Action::Enable { service });
            (false, "the compute service is enabled again")
        } else {
            (true, "")
        };
        step.states = if truth {
            states.unmet(
                HYPERVISOR_RE_ENABLED,
                reason::NOT_REQUIRED,
                "this Eviction did not disable it",
            )
        } else {
            states.met(HYPERVISOR_RE_ENABLED, reason::SUCCEEDED, said)
        };
        return false;
    }
    step.states = states.unmet(
        HYPERVISOR_RE_ENABLED,
        reason::WAITING,
        "when this Eviction is deleted",
    );
    if service.enabled() {
        step.actions.push(Action::Disable {
            service: service.id.clone(),
            reason: own,
        });
        return false;
    }
    true
}

fn known(view: &View, guest: &Guest) -> InstanceEviction {
    let before = view.before.instances.iter().find(|one| one.server == guest.id);
    let mut one = before.cloned().unwrap_or_default();
    one.server.clone_from(&guest.id);
    one.name.clone_from(&guest.name);
    one
}

/// Is Nova moving it, by our wish or by that of others?
fn on_its_way(task: &str) -> bool {
    task == "migrating" || task.starts_with("resize_")
}

/// Why a server in this status stays where it is; `None`: it can move.
fn unmovable(guest: &Guest) -> Option<String> {
    match guest.status.as_str() {
        "ACTIVE" | "PAUSED" | "SHUTOFF" => None,
        "ERROR" => {
            let fault = guest
                .fault
                .clone()
                .unwrap_or_else(|| "without a reason".to_owned());
            Some(format!(
                "is in status ERROR ({fault}): reset its state or delete it"
            ))
        }
        "SUSPENDED" => Some("is suspended: resume or delete it".to_owned()),
        "RESCUE" => Some("is in rescue mode: unrescue it".to_owned()),
        "VERIFY_RESIZE" => Some("waits for its owner to confirm or revert a resize".to_owned()),
        other => Some(format!("is in status {other}, in which Nova moves nothing")),
    }
}

/// Every server on the host with its state; starts and aborts go into the step.
fn sort_out(view: &View, host: &HostView, closed: bool, step: &mut Step) -> Vec<InstanceEviction> {
    let deadline = view
        .spec
        .deadline_seconds
        .map(|s| SignedDuration::from_secs(s.into()));
    let deadline = deadline.unwrap_or(DEADLINE);
    let down = host.service.as_ref().is_none_or(|service| !service.up());
    let mut all = Vec::with_capacity(host.guests.len());
    let mut ready: Vec<(i64, usize)> = Vec::new();
    let mut running = 0;
    for guest in &host.guests {
        let mut one = known(view, guest);
        match guest.task.as_deref() {
            Some(task) if on_its_way(task) => {
                running += 1;
                under_way(view, host, deadline, &mut one, step);
            }
            Some(task) => wait(&mut one, &format!("Nova is busy with it: {task}")),
            None => {
                ended(view, host, &mut one);
                if guest.status == "BUILD" {
                    wait(&mut one, "is being built");
                } else if let Some(why) = unmovable(guest) {
                    stays(&mut one, &why);
                } else if down {
                    stays(
                        &mut one,
                        "nova-compute of the host is down: only evacuation after a fence can move it",
                    );
                } else if let Some(needs) = host.no_room.get(&guest.id) {
                    stays(&mut one, &format!("no other enabled host has room for {needs}"));
                } else if due(view, &mut one) {
                    ready.push((-guest.ram_mb, all.len()));
                }
            }
        }
        all.push(one);
    }
    let most = view
        .spec
        .parallel
        .and_then(|n| usize::try_from(n).ok())
        .unwrap_or(PARALLEL);
    let free = if closed && !view.deleting && view.spec.paused != Some(true) {
        most.saturating_sub(running)
    } else {
        0
    };
    // The largest first: what takes longest must not begin last.
    ready.sort_unstable();
    for (_, place) in ready.into_iter().take(free) {
        let (one, guest) = (&mut all[place], &host.guests[place]);
        one.state = InstanceState::Migrating;
        one.attempts += 1;
        one.since = Some(Time(view.now));
        one.progress = None;
        one.message = None;
        let server = guest.id.clone();
        step.actions.push(match guest.status.as_str() {
            "SHUTOFF" => Action::Cold { server },
            _ => Action::Live { server },
        });
    }
    all.sort_by(|a, b| a.server.cmp(&b.server));
    all
}

fn wait(one: &mut InstanceEviction, why: &str) {
    one.state = InstanceState::Waiting;
    one.progress = None;
    one.message = Some(why.to_owned());
}

fn stays(one: &mut InstanceEviction, why: &str) {
    one.state = InstanceState::Unmovable;
    one.since = None;
    one.attempts = 0;
    one.progress = None;
    one.message = Some(why.to_owned());
}

fn under_way(
    view: &View,
    host: &HostView,
    deadline: SignedDuration,
    one: &mut InstanceEviction,
    step: &mut Step,
) {
    let ours = matches!(one.state, InstanceState::Migrating | InstanceState::Aborting);
    if !ours || one.since.is_none() {
        one.state = InstanceState::Migrating;
        one.since = Some(Time(view.now));
    }
    let progress = host.progress.get(&one.server);
    one.progress = progress.and_then(|one| {
        let (total, left) = (one.total?, one.remaining?);
        let done = total
            .saturating_sub(left)
            .saturating_mul(100)
            .checked_div(total)?;
        i32::try_from(done).ok()
    });
    let since = one.since.as_ref().map_or(view.now, |since| since.0);
    let elapsed = view.now.duration_since(since);
    let limit = if one.state == InstanceState::Aborting {
        ABORT_AGAIN
    } else {
        deadline
    };
    if elapsed <= limit {
        return;
    }
    match progress {
        Some(live) => {
            step.actions.push(Action::Abort {
                server: one.server.clone(),
                migration: live.id,
            });
            one.state = InstanceState::Aborting;
            one.since = Some(Time(view.now));
            one.message = Some(format!(
                "did not arrive within {} s and is called back",
                deadline.as_secs()
            ));
        }
        None => {
            one.message = Some(format!(
                "takes longer than {} s; Nova cannot call it back",
                deadline.as_secs()
            ))
        }
    }
}

/// It was on its way and is still here: that try is over.
fn ended(view: &View, host: &HostView, one: &mut InstanceEviction) {
    if !matches!(one.state, InstanceState::Migrating | InstanceState::Aborting) {
        return;
    }
    let last = host.last(&one.server).map(|last| last.status.as_str());
    let why = match (host.refused.get(&one.server), last) {
        (Some(words), _) => words.clone(),
        (None, Some(status)) => format!("its migration ended as {status:?}"),
        (None, None) => "Nova began no migration".to_owned(),
    };
    one.message = Some(format!("try {}: {why}", one.attempts));
    one.progress = None;
    one.since = Some(Time(view.now));
    one.state = if one.attempts >= TRIES {
        InstanceState::Failed
    } else {
        InstanceState::Waiting
    };
}

/// May it be tried now?
fn due(view: &View, one: &mut InstanceEviction) -> bool {
    let waited = one.since.as_ref().map(|since| view.now.duration_since(since.0));
    match one.state {
        InstanceState::Failed if waited.is_some_and(|waited| waited < LATER) => false,
        InstanceState::Failed => {
            one.state = InstanceState::Waiting;
            one.attempts = 0;
            true
        }
        InstanceState::Unmovable => {
            wait(one, "can move again");
            true
        }
        _ => {
            one.state = InstanceState::Waiting;
            waited.is_none_or(|waited| waited >= PAUSE * one.attempts)
        }
    }
}

fn told(view: &View, host: &HostView, closed: bool, instances: Vec<InstanceEviction>, step: &mut Step) {
    let unconfirmed = host.unconfirmed();
    let counts = instances
        .iter()
        .fold(BTreeMap::<_, usize>::new(), |mut counts, one| {
            *counts.entry(one.state as u8).or_default() += 1;
            counts
        });
    let count = |state: InstanceState| counts.get(&(state as u8)).copied().unwrap_or(0);
    let moving = count(InstanceState::Migrating) + count(InstanceState::Aborting) + unconfirmed.len();
    let stuck: Vec<&InstanceEviction> = instances
        .iter()
        .filter(|one| matches!(one.state, InstanceState::Failed | InstanceState::Unmovable))
        .collect();
    let waiting = instances.len() - stuck.len();
    let here = |id: &String| host.guests.iter().any(|guest| guest.id == *id);
    let went = view
        .before
        .outstanding_instances
        .iter()
        .filter(|id| !here(id))
        .count();
    let moved = view.before.moved.unwrap_or(0) + i32::try_from(went).unwrap_or(0);
    let status = &mut step.status;
    status.moved = Some(moved);
    status.outstanding_ram_mb = Some(host.guests.iter().map(|guest| guest.ram_mb).sum());
    status.outstanding_instances = host.guests.iter().map(|guest| guest.id.clone()).collect();
    status.outstanding_instances.sort();

    let empty = instances.is_empty() && unconfirmed.is_empty() && closed;
    status.empty_since = empty.then(|| view.before.empty_since.clone().unwrap_or(Time(view.now)));
    let since = status
        .empty_since
        .as_ref()
        .map(|since| view.now.duration_since(since.0));
    let succeeded = since.is_some_and(|since| since >= EMPTY);

    let names: Vec<String> = stuck
        .iter()
        .map(|one| {
            format!(
                "{} ({}): {}",
                one.name,
                one.server,
                one.message.as_deref().unwrap_or("")
            )
        })
        .collect();
    let named = names.join("; ");
    let states = std::mem::take(&mut step.states);
    let states = match &host.service {
        Some(service) if service.enabled() => states.unmet(
            HYPERVISOR_DISABLED,
            reason::PROGRESSING,
            "the compute service is disabled",
        ),
        Some(service) => states.met(HYPERVISOR_DISABLED, reason::SUCCEEDED, why_disabled(service)),
        None => states.met(
            HYPERVISOR_DISABLED,
            reason::NOT_IN_NOVA,
            "Nova has no compute service of the host",
        ),
    };
    let states = match count(InstanceState::Unmovable) {
        0 => states.met(PREFLIGHT_CHECKS_SUCCEEDED, reason::SUCCEEDED, ""),
        _ => states.unmet(PREFLIGHT_CHECKS_SUCCEEDED, reason::UNMOVABLE, named.clone()),
    };
    let states = match moving {
        0 => states.unmet(MIGRATING_INSTANCE, reason::NOT_REQUIRED, ""),
        n => states.met(MIGRATING_INSTANCE, reason::RUNNING, format!("{n} under way")),
    };
    let progress = format!(
        "{moved} moved, {moving} under way, {} wait, {} cannot move",
        waiting.saturating_sub(moving),
        stuck.len()
    );
    step.again = BUSY;
    if view.deleting {
        let under_way = instances
            .iter()
            .filter(|one| matches!(one.state, InstanceState::Migrating | InstanceState::Aborting));
        step.left = under_way
            .map(|one| format!("migration of {}", one.name))
            .collect();
        step.left
            .extend(unconfirmed.iter().map(|id| format!("confirmation of {id}")));
        if step
            .actions
            .iter()
            .any(|action| matches!(action, Action::Enable { .. }))
        {
            step.left.push("the disabled compute service".to_owned());
        }
        step.states = states.unmet(EVICTING, reason::DELETING, progress);
    } else if succeeded {
        step.again = DONE;
        step.states = states.unmet(
            EVICTING,
            reason::SUCCEEDED,
            format!("the host is empty; {moved} moved"),
        );
    } else if view.spec.paused == Some(true) {
        step.states = states
            .met(EVICTING, reason::PAUSED, progress.clone())
            .blocked_by(reason::PAUSED, progress);
        step.again = if moving > 0 { BUSY } else { HELPLESS };
    } else if !stuck.is_empty() && waiting == 0 && unconfirmed.is_empty() {
        let said = format!("{moved} moved, {} cannot move: {named}", stuck.len());
        step.again = HELPLESS;
        step.states = states
            .unmet(EVICTING, reason::FAILED, said.clone())
            .blocked_by(reason::FAILED, said);
    } else {
        let said = if stuck.is_empty() {
            progress
        } else {
            format!("{progress}: {named}")
        };
        step.states = states
            .met(EVICTING, reason::RUNNING, said.clone())
            .blocked_by(reason::RUNNING, said);
    }
    step.status.instances = instances;
}

fn why_disabled(service: &Service) -> String {
    service.disabled_reason.clone().unwrap_or_default()
}
