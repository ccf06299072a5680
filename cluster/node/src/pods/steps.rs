//! What one container needs next.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Container as Wanted;

use crate::pods::backoff;
use crate::pods::decide::{Action, Plan};
use crate::pods::memory::{Memory, Task};
use crate::pods::observe::observed::{Container, Sandbox, State};
use crate::pods::observe::view::{self, Policy};

/// What one container needs.
#[derive(Debug, PartialEq)]
pub(super) enum Step {
    /// Work on it runs, or its time has not come.
    Wait,
    Start {
        attempt: u32,
    },
    Later {
        at: Timestamp,
    },
    Runs {
        started: bool,
    },
    Stop {
        why: String,
    },
    Discard,
    Done {
        ok: bool,
    },
}

impl Plan<'_> {
    pub(super) fn step(&mut self, wanted: &Wanted, sandbox: &Sandbox, policy: Policy) -> Step {
        let name = &wanted.name;
        if self.memory().is_running(&Task::Start(name.clone())) {
            return Step::Wait;
        }
        let Some(instance) = self.observed().latest(&sandbox.id, name) else {
            // Init containers run again in a new sandbox, but what is complete stays so.
            let main = self.spec.containers.iter().any(|c| c.name == *name);
            return if main && policy == Policy::OnFailure && self.ended_well(name) {
                Step::Done { ok: true }
            } else {
                self.first_start(name)
            };
        };
        if self.memory().is_running(&Task::End(instance.id.clone())) {
            return Step::Wait;
        }
        match instance.state {
            // Made but not started when this program ended.
            State::Created => Step::Discard,
            State::Unknown => Step::Stop {
                why: "Container is in an unknown state".into(),
            },
            State::Running => {
                let probed = self.memory().probes.get(&instance.id);
                if let Some(why) = probed.and_then(|p| p.unhealthy.clone()) {
                    return Step::Stop { why };
                }
                let started = wanted.startup_probe.is_none() || probed.is_some_and(|p| p.started);
                Step::Runs { started }
            }
            State::Exited if !policy.restarts(instance.exit_code) => Step::Done {
                ok: instance.exit_code == 0,
            },
            State::Exited => {
                let at = restart_at(instance, self.memory());
                match self.failure_until(name) {
                    Some(until) => Step::Later { at: until },
                    None if at > self.input.now => Step::Later { at },
                    None => Step::Start {
                        attempt: instance.attempt + 1,
                    },
                }
            }
        }
    }

    fn first_start(&self, name: &str) -> Step {
        if let Some(at) = self.failure_until(name) {
            return Step::Later { at };
        }
        let seen = self.observed().last(name).map(|c| c.attempt + 1);
        let reported = self
            .reported(name)
            .and_then(|s| u32::try_from(s.restart_count).ok())
            .map(|n| n + 1);
        Step::Start {
            attempt: seen.max(reported).unwrap_or(0),
        }
    }

    fn failure_until(&self, name: &str) -> Option<Timestamp> {
        let failure = self.memory().failures.get(name)?;
        (failure.retry_at > self.input.now).then_some(failure.retry_at)
    }

    /// Turns a step into an action; the step that remains to be judged comes back.
    pub(super) fn act(&mut self, wanted: &Wanted, sandbox: &Sandbox, policy: Policy) -> Step {
        let step = self.step(wanted, sandbox, policy);
        let instance = self.observed().latest(&sandbox.id, &wanted.name);
        match &step {
            Step::Start { attempt } => self.actions.push(Action::Start {
                name: wanted.name.clone(),
                attempt: *attempt,
                sandbox: sandbox.id.clone(),
            }),
            Step::Later { at } => self.wake_at(*at),
            Step::Stop { why } => {
                if let Some(instance) = instance {
                    // Until the startup probe is content no other runs.
                    let failed = self.memory().probes.get(&instance.id);
                    let probe = match failed.filter(|p| p.unhealthy.is_some()) {
                        Some(p) if !p.started && wanted.startup_probe.is_some() => &wanted.startup_probe,
                        Some(_) => &wanted.liveness_probe,
                        None => &None,
                    };
                    let grace = probe
                        .as_ref()
                        .and_then(|p| p.termination_grace_period_seconds)
                        .unwrap_or_else(|| view::grace(self.input.pod));
                    self.actions.push(Action::Stop {
                        id: instance.id.clone(),
                        name: wanted.name.clone(),
                        grace,
                        why: why.clone(),
                    });
                }
            }
            Step::Discard => {
                if let Some(instance) = instance {
                    self.actions.push(Action::Remove {
                        id: instance.id.clone(),
                    });
                }
            }
            Step::Wait | Step::Runs { .. } | Step::Done { .. } => {}
        }
        step
    }
}

/// When an ended container may start again.
pub(super) fn restart_at(instance: &Container, memory: &Memory) -> Timestamp {
    let finished = instance.finished.unwrap_or(instance.created);
    finished + restart_delay(instance, memory)
}

pub(super) fn restart_delay(instance: &Container, memory: &Memory) -> SignedDuration {
    // After a restart of this program the number of attempts stands for the streak.
    let before = memory
        .streaks
        .get(&instance.name)
        .copied()
        .unwrap_or(instance.attempt);
    backoff::delay(backoff::streak(before, instance.started, instance.finished))
}

/// The streak to remember when the instance after `ended` starts.
pub(super) fn next_streak(ended: &Container, memory: &Memory) -> u32 {
    let before = memory.streaks.get(&ended.name).copied().unwrap_or(ended.attempt);
    backoff::streak(before, ended.started, ended.finished).saturating_add(1)
}
