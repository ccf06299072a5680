//! Conditions and status of a ControlPlane, read off its plan.

use std::collections::BTreeSet;
use std::time::Duration;

use c5c3_api::c5c3::{ControlPlane, ControlPlaneStatus, UpdatePhase};
use c5c3_api::conditions::control_plane as part;
use c5c3_api::conditions::reason;
use c5c3_kit::controller::Outcome;
use c5c3_kit::{Applied, Controller, Note, Reference, Report, States};

use super::{Action, ControlPlanes, Facts};
use crate::plan::{self, Child, Plan, Progress, Removal, Seen, State, Step, reference};

/// Between looks at volumes on their way out: their deletion is not watched.
const VOLUMES_LOOK: Duration = Duration::from_secs(1);

/// Between two attempts to verify an update.
const ASK: Duration = Duration::from_secs(10);

pub(super) fn of(
    object: &ControlPlane,
    seen: &Seen,
    plan: &Plan,
    applied: &Applied<ControlPlanes>,
) -> Report {
    let progress = progress(object, seen, plan, applied);
    let mut states = States::default();
    for part in ControlPlanes::PARTS {
        if part.name != part::CROSS_CLUSTER_SYNC_READY {
            states = of_part(states, &progress.steps, part.name);
        }
    }
    if let Some(step) = progress.blocker() {
        let blocker = blocker_of(&progress.steps, step);
        states = states.blocked_by(step.reason(), step.text()).blocking(blocker);
    }
    // Nobody tells when a service answers again.
    let again = progress.awaits_verification().then_some(ASK);
    let report = Report::new(states).status(&ControlPlaneStatus {
        update_phase: Some(progress.update),
        installed_release: progress.installed,
        services: progress.services,
        ..ControlPlaneStatus::default()
    });
    let report = again.into_iter().fold(report, Report::again_in);
    if applied.pruned().is_empty() {
        return report;
    }
    let gone: Vec<String> = applied.pruned().iter().map(ToString::to_string).collect();
    report.note(Note::normal("Removed", gone.join(", ")))
}

/// How far the plan is, with what was written as it is now.
fn progress(object: &ControlPlane, seen: &Seen, plan: &Plan, applied: &Applied<ControlPlanes>) -> Progress {
    let mut live = seen.children.clone();
    let mut written = BTreeSet::new();
    for object in applied.objects() {
        if plan::has_state(&object.live) {
            let own = reference(&object.live);
            live.insert(own.clone(), Child::of(&object.live));
            written.extend(object.written.then_some(own));
        }
    }
    let progress = plan.progress(&live, &written);
    let verified = |outcome: &Outcome<ControlPlanes>| {
        matches!(outcome.action, Action::Verify { .. }) && outcome.result.is_ok()
    };
    if applied.outcomes().iter().any(verified) {
        return progress.verified(&object.spec.open_stack_release);
    }
    progress
}

/// The object that a step waits for: one of its own, or that of the step before it.
fn blocker_of(steps: &[Step], step: &Step) -> Option<Reference> {
    let State::Waiting(before) = &step.state else {
        return step.blocker.clone();
    };
    let before = before
        .iter()
        .filter_map(|name| steps.iter().find(|step| step.name == *name));
    // Steps wait for earlier ones only, so this ends.
    before.clone().find_map(|step| blocker_of(steps, step))
}

fn of_part(states: States, all: &[Step], part: &'static str) -> States {
    let steps: Vec<&Step> = all.iter().filter(|step| step.part == part).collect();
    let first = |wanted: fn(&State) -> bool| steps.iter().find(|step| wanted(&step.state));
    let worst = first(|state| matches!(state, State::Failed { .. }))
        .or_else(|| first(|state| matches!(state, State::Running(_))))
        .or_else(|| first(|state| matches!(state, State::Waiting(_))));
    if let Some(step) = worst {
        let blocker = blocker_of(all, step);
        return states
            .unmet(part, step.reason(), step.text())
            .because_of(part, blocker);
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
        let mut text = format!("{}: done", titles.join(", "));
        for note in steps.iter().filter_map(|step| step.note.as_deref()) {
            text.push_str("; ");
            text.push_str(note);
        }
        return states.met(part, why, text);
    }
    let texts: Vec<String> = steps
        .iter()
        .map(|step| step.text())
        .filter(|text| !text.is_empty())
        .collect();
    states.not_required(part, texts.join("; "))
}

/// What is still there of a cloud on its way out.
pub(super) fn teardown(
    object: &ControlPlane,
    facts: &Facts,
    removal: &Removal,
    applied: &Applied<ControlPlanes>,
) -> Report {
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
