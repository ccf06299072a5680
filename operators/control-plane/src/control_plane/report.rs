//! Conditions and status of a ControlPlane, read off its plan.

use std::time::Duration;

use c5c3_api::c5c3::{ControlPlane, ControlPlaneStatus, UpdatePhase};
use c5c3_api::conditions::control_plane as part;
use c5c3_api::conditions::reason;
use c5c3_kit::{Applied, Controller, Note, Report, States};

use super::{ControlPlanes, Facts};
use crate::plan::{self, Plan, State, Step};

/// Between looks at volumes on their way out: their deletion is not watched.
const VOLUMES_LOOK: Duration = Duration::from_secs(1);

/// Between two attempts to verify an update.
const ASK: Duration = Duration::from_secs(10);

pub(super) fn of(plan: &Plan, applied: &Applied<ControlPlanes>) -> Report {
    let mut states = States::default();
    for part in ControlPlanes::PARTS {
        if part.name != part::CROSS_CLUSTER_SYNC_READY {
            states = of_part(states, plan, part.name);
        }
    }
    if let Some(step) = plan.blocker() {
        states = states.blocked_by(step.reason(), step.text());
    }
    let report = Report::new(states).status(&ControlPlaneStatus {
        update_phase: Some(plan.update),
        installed_release: plan.installed.clone(),
        services: plan.services.clone(),
        ..ControlPlaneStatus::default()
    });
    // Nobody tells when a service answers again.
    let refused = applied.outcomes().iter().any(|outcome| outcome.result.is_err());
    let report = match plan.awaits_verification() || refused {
        true => report.again_in(ASK),
        false => report,
    };
    if applied.pruned().is_empty() {
        return report;
    }
    let gone: Vec<String> = applied.pruned().iter().map(ToString::to_string).collect();
    report.note(Note::normal("Removed", gone.join(", ")))
}

fn of_part(states: States, plan: &Plan, part: &'static str) -> States {
    let steps: Vec<&Step> = plan.steps.iter().filter(|step| step.part == part).collect();
    let first = |wanted: fn(&State) -> bool| steps.iter().find(|step| wanted(&step.state));
    let worst = first(|state| matches!(state, State::Failed { .. }))
        .or_else(|| first(|state| matches!(state, State::Running(_))))
        .or_else(|| first(|state| matches!(state, State::Waiting(_))));
    if let Some(step) = worst {
        return states.unmet(part, step.reason(), step.text());
    }
    // The release is a step of every plan and nothing that could be left out.
    let required = |step: &&&Step| matches!(step.state, State::Done) && step.name != "release";
    if steps.iter().any(|step| required(&step)) {
        let why = if part == part::SERVICES_READY {
            reason::ALL_SERVICES_READY
        } else {
            reason::READY
        };
        let done = steps.iter().filter(|step| matches!(step.state, State::Done));
        let titles: Vec<&str> = done.map(|step| step.title.as_str()).collect();
        return states.met(part, why, format!("{}: done", titles.join(", ")));
    }
    let texts: Vec<String> = steps
        .iter()
        .map(|step| step.text())
        .filter(|text| !text.is_empty())
        .collect();
    states.not_required(part, texts.join("; "))
}

/// What is still there of a cloud on its way out.
pub(super) fn teardown(object: &ControlPlane, facts: &Facts, applied: &Applied<ControlPlanes>) -> Report {
    let removal = plan::teardown(&facts.seen);
    let objects = removal.now.iter().chain(&removal.later).map(ToString::to_string);
    let volumes = plan::volumes_go(&facts.volumes, &object.spec);
    let volumes = volumes
        .iter()
        .map(|volume| format!("PersistentVolumeClaim {}", volume.name));
    let left: Vec<String> = objects.chain(volumes).collect();
    // That it had the namespace is not forgotten: its volumes depend on it. It may have been deleted
    // before it was said.
    let status = object.status.as_ref();
    let phase = status.and_then(|status| status.update_phase);
    let had = !facts.seen.owned.is_empty();
    let report = Report::default().left(left).status(&ControlPlaneStatus {
        update_phase: phase.or(had.then(UpdatePhase::default)),
        installed_release: status.and_then(|status| status.installed_release.clone()),
        ..ControlPlaneStatus::default()
    });
    if applied.outcomes().is_empty() {
        report
    } else {
        report.again_in(VOLUMES_LOOK)
    }
}
