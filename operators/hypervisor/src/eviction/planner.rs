//! Pure: which server moves next, which migration is aborted, and when the host is empty.

use c5c3_api::common::Time;
use c5c3_api::conditions::eviction::{HYPERVISOR_RE_ENABLED, MIGRATING_INSTANCE, PREFLIGHT_CHECKS_SUCCEEDED};
use c5c3_api::conditions::hypervisor::{EVICTING, HYPERVISOR_DISABLED};
use c5c3_api::conditions::reason;
use c5c3_api::hypervisor::{EvictionStatus, InstanceEviction, InstanceState};
use c5c3_kit::States;
use jiff::SignedDuration;
use openstack_client::Guest;

use super::report::{HELPLESS, report};
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
            moved_ram_mb: view.before.moved_ram_mb,
            started_at: view.before.started_at.clone(),
            ..EvictionStatus::default()
        },
        ..Step::default()
    };
    let closed = close(view, host, &mut step);
    let mut instances = sort_out(view, host, closed, &mut step);
    for server in host.unconfirmed() {
        instances.push(confirming(view, &server));
        step.actions.push(Action::Confirm { server });
    }
    instances.sort_by(|a, b| a.server.cmp(&b.server));
    report(view, host, closed, instances, &mut step);
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

/// A stopped server that has arrived: the host it left holds its place until that is confirmed.
fn confirming(view: &View, server: &str) -> InstanceEviction {
    let before = view.before.instances.iter().find(|one| one.server == server);
    let mut one = before.cloned().unwrap_or_default();
    server.clone_into(&mut one.server);
    if one.name.is_empty() {
        server.clone_into(&mut one.name);
    }
    one.state = InstanceState::Confirming;
    one.progress = None;
    one.message = None;
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
        "VERIFY_RESIZE" => Some("is waiting for its owner to confirm or revert a resize".to_owned()),
        other => Some(format!("is in status {other}, in which Nova cannot move it")),
    }
}

/// Of a live migration that failed the server may keep no more than the status ERROR.
fn with_last_move(why: String, host: &HostView, guest: &Guest) -> String {
    match host.last(&guest.id) {
        Some(last) if guest.status == "ERROR" => {
            format!(
                "{why}; its last migration, {}, ended as {:?}",
                last.id, last.status
            )
        }
        _ => why,
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
                in_progress(view, host, deadline, &mut one, step);
            }
            Some(task) => wait(&mut one, &format!("Nova is busy with it: {task}")),
            None => {
                ended(view, host, &mut one);
                if guest.status == "BUILD" {
                    wait(&mut one, "is being built");
                } else if let Some(why) = unmovable(guest) {
                    stays(&mut one, &with_last_move(why, host, guest));
                } else if down {
                    stays(
                        &mut one,
                        "nova-compute of the host is down: it can only be evacuated, after the host was fenced",
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
        one.forced = None;
        one.message = None;
        let server = guest.id.clone();
        step.actions.push(match guest.status.as_str() {
            "SHUTOFF" => Action::Cold { server },
            _ => Action::Live { server },
        });
    }
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

fn in_progress(
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
    // Asked once: what Nova cannot complete is aborted in the end.
    if let Some(live) = progress.filter(|_| one.forced.is_none() && one.state == InstanceState::Migrating)
        && elapsed * 2 > deadline
        && elapsed <= deadline
    {
        step.actions.push(Action::Force {
            server: one.server.clone(),
            migration: live.id,
        });
        one.forced = Some(true);
        one.message = Some(format!(
            "did not finish within {} s; Nova was asked to complete it, and may pause the server for that",
            (deadline / 2).as_secs()
        ));
    }
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
                "did not finish within {} s; its migration is being aborted",
                deadline.as_secs()
            ));
        }
        None => {
            one.message = Some(format!(
                "is taking longer than {} s; Nova cannot abort this migration",
                deadline.as_secs()
            ));
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
        (None, None) => "Nova started no migration".to_owned(),
    };
    one.message = Some(format!("try {}: {why}", one.attempts));
    one.progress = None;
    one.forced = None;
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
            wait(one, "can be moved again");
            true
        }
        _ => {
            one.state = InstanceState::Waiting;
            waited.is_none_or(|waited| waited >= PAUSE * one.attempts)
        }
    }
}
