//! The state of a plan after it was applied: an object that was just written is judged as it is now,
//! not by what was read before.

use std::collections::{BTreeMap, BTreeSet};

use c5c3_api::c5c3::{ServiceReadiness, UpdatePhase};
use c5c3_kit::Reference;
use serde_json::Value;

use super::rollout::version;
use super::{Child, Object, Plan, State, Step, VERIFICATION, blocker, has_state, reference, state_of};

/// What a status reports about a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// Without their objects.
    pub steps: Vec<Step>,
    pub update: UpdatePhase,
    pub installed: Option<String>,
    pub services: BTreeMap<String, ServiceReadiness>,
}

impl Progress {
    pub fn blocker(&self) -> Option<&Step> {
        blocker(self.steps.iter())
    }

    pub fn awaits_verification(&self) -> bool {
        self.steps.iter().any(|step| step.name == VERIFICATION)
    }

    /// The services answered: the update to this release is complete.
    pub fn verified(mut self, release: &str) -> Self {
        if self.awaits_verification() {
            self.steps.retain(|step| step.name != VERIFICATION);
            self.update = UpdatePhase::Complete;
            self.installed = Some(release.to_owned());
        }
        self
    }
}

impl Plan {
    /// `live`: the objects as they are after they were applied. `written`: those that changed by it.
    pub fn progress(&self, live: &BTreeMap<Reference, Child>, written: &BTreeSet<Reference>) -> Progress {
        let mut steps: Vec<Step> = Vec::with_capacity(self.steps.len());
        for step in &self.steps {
            let (state, blocker) = self.standing(step, &steps, live, written);
            steps.push(Step {
                name: step.name.clone(),
                title: step.title.clone(),
                part: step.part,
                needs: step.needs.clone(),
                state,
                blocker,
                note: step.note.clone(),
                objects: Vec::new(),
            });
        }
        // What was changed a moment ago is not what the services are asked for.
        let open = |step: &Step| step.name != VERIFICATION && !step.state.is_done();
        if steps.iter().any(open) {
            steps.retain(|step| step.name != VERIFICATION);
        }
        Progress {
            services: self.services_now(&steps, live),
            steps,
            update: self.update,
            installed: self.installed.clone(),
        }
    }

    fn standing(
        &self,
        step: &Step,
        before: &[Step],
        live: &BTreeMap<Reference, Child>,
        written: &BTreeSet<Reference>,
    ) -> (State, Option<Reference>) {
        let as_planned = || (step.state.clone(), step.blocker.clone());
        let objects: Vec<&Value> = (step.objects.iter())
            .filter_map(|object| match object {
                Object::Apply(value) => Some(value),
                Object::Keep(_) => None,
            })
            .filter(|object| has_state(object))
            .collect();
        // A failure that is about no object of the step is as true as before.
        let elsewhere = matches!(step.state, State::Failed { .. }) && step.blocker.is_none();
        if elsewhere || !objects.iter().any(|object| written.contains(&reference(object))) {
            return as_planned();
        }
        let open: Vec<String> = (step.needs.iter())
            .filter(|need| {
                before
                    .iter()
                    .any(|step| step.name == **need && !step.state.is_done())
            })
            .cloned()
            .collect();
        match state_of(objects, &open, |object| live.get(&reference(object))) {
            // What the plan knows beyond its objects, such as an update to come, still holds.
            (State::Done, _) => as_planned(),
            now => now,
        }
    }

    fn services_now(
        &self,
        steps: &[Step],
        live: &BTreeMap<Reference, Child>,
    ) -> BTreeMap<String, ServiceReadiness> {
        let mut services = self.services.clone();
        for (planned, now) in self.steps.iter().zip(steps) {
            let Some(readiness) = services.get_mut(&planned.name) else {
                continue;
            };
            readiness.ready = now.state.is_done();
            let note = self.notes.get(&planned.name);
            readiness.message = super::services::joined(&now.text(), note);
            let child = planned.objects.iter().find_map(|object| match object {
                Object::Apply(value) => live.get(&reference(value)),
                Object::Keep(_) => None,
            });
            if let Some(image) = child.and_then(|child| child.image.as_ref()) {
                readiness.image = version(image).map(str::to_owned);
            }
        }
        services
    }
}
