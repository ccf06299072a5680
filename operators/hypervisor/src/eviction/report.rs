//! Pure: what is reported about an eviction, and when it is over.

use std::time::Duration;

use c5c3_api::common::Time;
use c5c3_api::conditions::eviction::{MIGRATING_INSTANCE, PREFLIGHT_CHECKS_SUCCEEDED};
use c5c3_api::conditions::hypervisor::{EVICTING, HYPERVISOR_DISABLED};
use c5c3_api::conditions::reason;
use c5c3_api::hypervisor::{InstanceEviction, InstanceState};
use c5c3_kit::States;
use jiff::SignedDuration;
use openstack_client::Service;

use super::estimate;
use super::view::{Action, HostView, Step, View};

/// A host is empty when it has been for so long: a server that Nova had already sent is there by then.
const EMPTY: SignedDuration = SignedDuration::from_secs(10);

/// While migrations run; after all is done; while only a person can help.
const BUSY: Duration = Duration::from_secs(5);
const DONE: Duration = Duration::from_secs(300);
pub(crate) const HELPLESS: Duration = Duration::from_secs(60);

/// The servers of a host that is being emptied, counted.
struct Tally<'a> {
    moved: i32,
    moved_mib: i64,
    moving: Vec<&'a InstanceEviction>,
    waiting: usize,
    stuck: Vec<&'a InstanceEviction>,
}

impl<'a> Tally<'a> {
    fn of(view: &View, host: &HostView, instances: &'a [InstanceEviction]) -> Self {
        let in_state = |states: &[InstanceState]| -> Vec<&'a InstanceEviction> {
            instances
                .iter()
                .filter(|one| states.contains(&one.state))
                .collect()
        };
        let moving = in_state(&[
            InstanceState::Migrating,
            InstanceState::Aborting,
            InstanceState::Confirming,
        ]);
        let stuck = in_state(&[InstanceState::Failed, InstanceState::Unmovable]);
        let here = |id: &String| host.guests.iter().any(|guest| guest.id == *id);
        let known = &view.before.outstanding_instances;
        let gone = known.iter().filter(|id| !here(id)).count();
        // What was there and is not here any more.
        let stayed = host.guests.iter().filter(|guest| known.contains(&guest.id));
        let stayed: i64 = stayed.map(|guest| guest.ram_mb).sum();
        let left = view.before.outstanding_ram_mb.unwrap_or(0).saturating_sub(stayed);
        Tally {
            moved_mib: view.before.moved_ram_mb.unwrap_or(0) + left.max(0),
            moved: view.before.moved.unwrap_or(0) + i32::try_from(gone).unwrap_or(0),
            moving,
            waiting: instances.len() - stuck.len(),
            stuck,
        }
    }

    fn progress(&self) -> String {
        format!(
            "{} moved, {} in progress, {} waiting, {} cannot move",
            self.moved,
            self.moving.len(),
            self.waiting.saturating_sub(self.moving.len()),
            self.stuck.len()
        )
    }

    /// The servers that only a person can help, with the reasons.
    fn named(&self) -> String {
        let name = |one: &&InstanceEviction| {
            let why = one.message.as_deref().unwrap_or("");
            format!("{} ({}): {why}", one.name, one.server)
        };
        self.stuck.iter().map(name).collect::<Vec<_>>().join("; ")
    }
}

pub(crate) fn report(
    view: &View,
    host: &HostView,
    closed: bool,
    instances: Vec<InstanceEviction>,
    step: &mut Step,
) {
    let tally = Tally::of(view, host, &instances);
    let status = &mut step.status;
    status.moved = Some(tally.moved);
    status.moved_ram_mb = Some(tally.moved_mib);
    if status.started_at.is_none() && !tally.moving.is_empty() {
        status.started_at = Some(Time(view.now));
    }
    let started = status.started_at.as_ref();
    let counts = (tally.moved, tally.moved_mib);
    status.estimated_completion = estimate::completion(view, host, &instances, started, counts);
    status.outstanding_ram_mb = Some(host.guests.iter().map(|guest| guest.ram_mb).sum());
    status.outstanding_instances = host.guests.iter().map(|guest| guest.id.clone()).collect();
    status.outstanding_instances.sort();

    let empty = instances.is_empty() && closed;
    status.empty_since = empty.then(|| view.before.empty_since.clone().unwrap_or(Time(view.now)));
    let since = status
        .empty_since
        .as_ref()
        .map(|since| view.now.duration_since(since.0));
    let succeeded = since.is_some_and(|since| since >= EMPTY);

    let states = std::mem::take(&mut step.states);
    let states = parts(states, host, &tally);
    let (moved, progress) = (tally.moved, tally.progress());
    step.again = BUSY;
    if view.deleting {
        let moving = tally.moving.iter();
        step.left = moving.map(|one| format!("move of {}", one.name)).collect();
        let enables = |action: &Action| matches!(action, Action::Enable { .. });
        if step.actions.iter().any(enables) {
            step.left.push("the disabled compute service".to_owned());
        }
        step.states = states.unmet(EVICTING, reason::DELETING, progress);
    } else if succeeded {
        step.again = DONE;
        let said = format!("the host is empty; {moved} moved");
        step.states = states.unmet(EVICTING, reason::SUCCEEDED, said);
    } else if view.spec.paused == Some(true) {
        step.states = states
            .met(EVICTING, reason::PAUSED, progress.clone())
            .blocked_by(reason::PAUSED, progress);
        step.again = if tally.moving.is_empty() { HELPLESS } else { BUSY };
    } else if !tally.stuck.is_empty() && tally.waiting == 0 {
        let said = format!(
            "{moved} moved, {} cannot move: {}",
            tally.stuck.len(),
            tally.named()
        );
        step.again = HELPLESS;
        step.states = states
            .unmet(EVICTING, reason::FAILED, said.clone())
            .blocked_by(reason::FAILED, said);
    } else {
        let said = if tally.stuck.is_empty() {
            progress
        } else {
            format!("{progress}: {}", tally.named())
        };
        step.states = states
            .met(EVICTING, reason::RUNNING, said.clone())
            .blocked_by(reason::RUNNING, said);
    }
    step.status.instances = instances;
}

/// The conditions beside `Evicting`.
fn parts(states: States, host: &HostView, tally: &Tally<'_>) -> States {
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
    let unmovable = |one: &&InstanceEviction| one.state == InstanceState::Unmovable;
    let states = if tally.stuck.iter().any(unmovable) {
        states.unmet(PREFLIGHT_CHECKS_SUCCEEDED, reason::UNMOVABLE, tally.named())
    } else {
        states.met(PREFLIGHT_CHECKS_SUCCEEDED, reason::SUCCEEDED, "")
    };
    match tally.moving.len() {
        0 => states.unmet(MIGRATING_INSTANCE, reason::NOT_REQUIRED, ""),
        n => states.met(MIGRATING_INSTANCE, reason::RUNNING, format!("{n} in progress")),
    }
}

fn why_disabled(service: &Service) -> String {
    service.disabled_reason.clone().unwrap_or_default()
}
