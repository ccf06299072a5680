//! Pure: what is reported about an eviction, and when it is over.

use std::time::Duration;

use c5c3_api::common::Time;
use c5c3_api::conditions::eviction::{MIGRATING_INSTANCE, PREFLIGHT_CHECKS_SUCCEEDED};
use c5c3_api::conditions::hypervisor::{EVICTING, HYPERVISOR_DISABLED};
use c5c3_api::conditions::reason;
use c5c3_api::hypervisor::{InstanceEviction, InstanceState};
use jiff::SignedDuration;
use openstack_client::Service;

use super::view::{Action, HostView, Step, View};

/// A host is empty when it has been for so long: a server that Nova had already sent is there by then.
const EMPTY: SignedDuration = SignedDuration::from_secs(10);

/// While migrations run; after all is done; while only a person can help.
const BUSY: Duration = Duration::from_secs(5);
const DONE: Duration = Duration::from_secs(300);
pub const HELPLESS: Duration = Duration::from_secs(60);

pub fn tell(view: &View, host: &HostView, closed: bool, instances: Vec<InstanceEviction>, step: &mut Step) {
    let count = |state: InstanceState| instances.iter().filter(|one| one.state == state).count();
    let on_the_way = |one: &InstanceEviction| {
        matches!(
            one.state,
            InstanceState::Migrating | InstanceState::Aborting | InstanceState::Confirming
        )
    };
    let moving = instances.iter().filter(|one| on_the_way(one)).count();
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

    let empty = instances.is_empty() && closed;
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
        let under_way = instances.iter().filter(|one| on_the_way(one));
        step.left = under_way.map(|one| format!("move of {}", one.name)).collect();
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
    } else if !stuck.is_empty() && waiting == 0 {
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
