//! The decision: what to do next for one pod.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Pod, PodSpec, PodStatus};

use crate::pods::memory::{Memory, Task};
use crate::pods::observe::observed::{Container, Observed, Sandbox, State};
use crate::pods::observe::view::{self, Policy};
use crate::pods::status::{self, Facts};
use crate::pods::steps::Step;

/// Seconds that a helper gets when the others used up the time.
const LEAST_GRACE: i64 = 2;

/// Everything a decision depends on.
pub struct Input<'a> {
    pub pod: &'a Pod,
    pub observed: &'a Observed,
    pub memory: &'a Memory,
    /// The node's own address.
    pub node_address: &'a str,
    /// Whether the node counts as ready; pods of one that does not never are.
    pub node_ready: bool,
    pub now: Timestamp,
}

/// Work for the executor. Each names the [`Task`] that it is while it runs.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    RunSandbox {
        attempt: u32,
    },
    StopSandbox {
        id: String,
    },
    RemoveSandbox {
        id: String,
    },
    Start {
        name: String,
        attempt: u32,
        sandbox: String,
    },
    Stop {
        id: String,
        name: String,
        grace: i64,
        why: String,
    },
    /// A stop that is under way gets less time.
    Hurry {
        id: String,
        grace: i64,
    },
    /// An instance that nothing needs any more.
    Remove {
        id: String,
    },
    /// Volumes, logs and cgroup away; then the object, which the user deleted.
    Finish,
}

impl Action {
    pub fn task(&self) -> Task {
        match self {
            Self::RunSandbox { .. } => Task::Sandbox,
            Self::StopSandbox { id } | Self::RemoveSandbox { id } => Task::EndSandbox(id.clone()),
            Self::Start { name, .. } => Task::Start(name.clone()),
            Self::Stop { id, .. } | Self::Remove { id } => Task::End(id.clone()),
            Self::Hurry { id, .. } => Task::Hurry(id.clone()),
            Self::Finish => Task::Finish,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    pub actions: Vec<Action>,
    pub status: PodStatus,
    /// When to decide again though nothing happened.
    pub wake: Option<Timestamp>,
}

pub(super) struct Plan<'a> {
    pub(super) input: &'a Input<'a>,
    pub(super) spec: &'a PodSpec,
    pub(super) actions: Vec<Action>,
    wake: Option<Timestamp>,
}

pub fn decide(input: &Input) -> Decision {
    let empty = PodSpec::default();
    let spec = input.pod.spec.as_ref().unwrap_or(&empty);
    let mut plan = Plan {
        input,
        spec,
        actions: Vec::new(),
        wake: None,
    };
    let overdue = plan.overdue();
    let finished = if plan.ending() || overdue.is_some() {
        plan.end();
        false
    } else {
        plan.run()
    };
    let facts = Facts {
        finished,
        overdue: overdue.or_else(|| input.memory.ended.clone()),
    };
    let status = status::report(input, spec, &facts);
    // Only this program's tasks may be in the way; the same one never starts twice.
    let running = &input.memory.running;
    plan.actions.retain(|a| !running.contains(&a.task()));
    Decision {
        actions: plan.actions,
        status,
        wake: plan.wake,
    }
}

impl<'a> Plan<'a> {
    pub(super) fn observed(&self) -> &'a Observed {
        self.input.observed
    }

    pub(super) fn memory(&self) -> &'a Memory {
        self.input.memory
    }

    pub(super) fn wake_at(&mut self, at: Timestamp) {
        self.wake = Some(self.wake.map_or(at, |w| w.min(at)));
    }

    fn deleted(&self) -> bool {
        self.input.pod.metadata.deletion_timestamp.is_some()
    }

    fn ending(&self) -> bool {
        self.deleted() || view::is_final(view::phase(self.input.pod)) || self.memory().ended.is_some()
    }

    /// The pod's own deadline has passed.
    fn overdue(&mut self) -> Option<(String, String)> {
        let limit = self.spec.active_deadline_seconds?;
        if view::is_final(view::phase(self.input.pod)) {
            return None;
        }
        let start = self.input.pod.status.as_ref()?.start_time.as_ref()?.0;
        let at = start
            .checked_add(SignedDuration::from_secs(limit))
            .unwrap_or(Timestamp::MAX);
        if self.input.now >= at {
            let message = "Pod was active on the node longer than the specified deadline";
            return Some(("DeadlineExceeded".into(), message.into()));
        }
        self.wake_at(at);
        None
    }

    /// Containers first, helpers after them, then the sandboxes, then the traces.
    fn end(&mut self) {
        let living: Vec<&Container> = self.observed().containers.iter().filter(|c| c.lives()).collect();
        if !living.is_empty() {
            let sidecar = |c: &&&Container| view::find(self.spec, &c.name).is_some_and(view::is_sidecar);
            let main: Vec<&Container> = living.iter().filter(|c| !sidecar(c)).copied().collect();
            let grace = if main.is_empty() {
                self.rest_of_grace()
            } else {
                view::grace(self.input.pod)
            };
            let ends = if main.is_empty() {
                // The last started helper goes first: others may depend on the first.

                let order = |c: &&Container| {
                    view::init_containers(self.spec)
                        .iter()
                        .position(|w| w.name == c.name)
                };
                living.into_iter().max_by_key(order).into_iter().collect()
            } else {
                main
            };
            for container in ends {
                self.stop(container, grace);
            }
            return;
        }
        let starting = self
            .memory()
            .running
            .iter()
            .any(|t| matches!(t, Task::Sandbox | Task::Start(_)));
        if starting {
            return;
        }
        let mut quiet = true;
        for sandbox in &self.observed().sandboxes {
            if !self.memory().stopped.contains(&sandbox.id) {
                self.actions.push(Action::StopSandbox {
                    id: sandbox.id.clone(),
                });
                quiet = false;
            } else if self.deleted() {
                self.actions.push(Action::RemoveSandbox {
                    id: sandbox.id.clone(),
                });
                quiet = false;
            }
        }
        if quiet && self.deleted() && self.memory().running.is_empty() {
            self.actions.push(Action::Finish);
        }
    }

    /// Helpers end after the others, but within the same time.
    fn rest_of_grace(&self) -> i64 {
        let grace = view::grace(self.input.pod);
        match &self.input.pod.metadata.deletion_timestamp {
            Some(end) => {
                let left = end.0.duration_since(self.input.now).as_secs();
                grace.min(left.max(LEAST_GRACE))
            }
            None => grace,
        }
    }

    fn stop(&mut self, container: &Container, time: i64) {
        if let Some(due) = self.memory().stopping.get(&container.id) {
            let grace = view::grace(self.input.pod);
            if due_after(self.input.now, grace) < *due {
                let id = container.id.clone();
                self.actions.push(Action::Hurry { id, grace });
            }
            return;
        }
        self.actions.push(Action::Stop {
            id: container.id.clone(),
            name: container.name.clone(),
            grace: time,
            why: "Stopping container".into(),
        });
    }

    /// Brings the pod forward; true when everything in it has ended for good.
    fn run(&mut self) -> bool {
        let Some(sandbox) = self.observed().current() else {
            return self.no_sandbox();
        };
        for other in &self.observed().sandboxes {
            if other.id == sandbox.id {
                continue;
            }
            self.actions.push(if self.memory().stopped.contains(&other.id) {
                Action::RemoveSandbox { id: other.id.clone() }
            } else {
                Action::StopSandbox { id: other.id.clone() }
            });
        }
        if self.memory().is_running(&Task::EndSandbox(sandbox.id.clone())) {
            return false;
        }
        self.tidy(sandbox);
        match self.init(sandbox) {
            Progress::Blocked => false,
            Progress::Failed => self.wind_down(sandbox),
            Progress::Complete => self.main(sandbox),
        }
    }

    fn no_sandbox(&mut self) -> bool {
        // A sandbox that is not ready may still have processes in it: they go first.
        let mut clear = true;
        for old in &self.observed().sandboxes {
            if !self.memory().stopped.contains(&old.id) {
                self.actions.push(Action::StopSandbox { id: old.id.clone() });
                clear = false;
            }
        }
        if !clear || self.memory().is_running(&Task::Sandbox) {
            return false;
        }
        if self.has_run() && !self.wants_to_run_again() {
            return true;
        }
        if let Some(failure) = self.memory().failures.get("")
            && failure.retry_at > self.input.now
        {
            self.wake_at(failure.retry_at);
            return false;
        }
        let attempt = self.observed().newest().map_or(0, |s| s.attempt + 1);
        self.actions.push(Action::RunSandbox { attempt });
        false
    }

    /// Whether any main container was ever started.
    fn has_run(&self) -> bool {
        self.spec
            .containers
            .iter()
            .any(|c| self.observed().last(&c.name).is_some() || self.reported(&c.name).is_some())
    }

    /// Without its sandbox a pod starts from the beginning, unless its policy forbids.
    fn wants_to_run_again(&self) -> bool {
        match view::policy(self.spec) {
            Policy::Always => true,
            Policy::Never => false,
            Policy::OnFailure => !self.spec.containers.iter().all(|c| self.ended_well(&c.name)),
        }
    }

    /// Whether the last run of a container was a success, also in a sandbox that is gone.
    pub(super) fn ended_well(&self, name: &str) -> bool {
        match self.observed().last(name) {
            Some(last) => last.state == State::Exited && last.exit_code == 0,
            None => self
                .reported(name)
                .and_then(|s| s.state.as_ref()?.terminated.as_ref())
                .is_some_and(|t| t.exit_code == 0),
        }
    }

    /// The last report about a container that had been made.
    pub(super) fn reported(&self, name: &str) -> Option<&'a k8s_openapi::api::core::v1::ContainerStatus> {
        status::reported(self.input.pod, name).filter(|s| s.container_id.is_some())
    }

    /// Keeps the last two instances of each container: the newest and, for
    /// `kubectl logs --previous`, the one before.
    fn tidy(&mut self, sandbox: &Sandbox) {
        for wanted in view::all_containers(self.spec) {
            let mut dead: Vec<&Container> = self
                .observed()
                .instances(&wanted.name)
                .filter(|c| c.sandbox == sandbox.id && c.state == State::Exited)
                .collect();
            dead.sort_by_key(|c| std::cmp::Reverse(c.attempt));
            for old in dead.into_iter().skip(2) {
                self.actions.push(Action::Remove { id: old.id.clone() });
            }
        }
    }

    fn init(&mut self, sandbox: &Sandbox) -> Progress {
        let spec = self.spec;
        let policy = match view::policy(spec) {
            // A failed init container is tried again unless the pod never restarts.
            Policy::Never => Policy::Never,
            _ => Policy::OnFailure,
        };
        // Once a main container exists in this sandbox, the init containers are behind it.
        let past = spec
            .containers
            .iter()
            .any(|c| self.observed().latest(&sandbox.id, &c.name).is_some());
        let ended = past && self.main_ended(sandbox);
        for wanted in view::init_containers(spec) {
            if view::is_sidecar(wanted) {
                if ended {
                    continue;
                }
                match self.act(wanted, sandbox, Policy::Always) {
                    Step::Runs { started: true } => {}
                    _ if past => {}
                    _ => return Progress::Blocked,
                }
            } else if !past {
                match self.act(wanted, sandbox, policy) {
                    Step::Done { ok: true } => {}
                    Step::Done { ok: false } => return Progress::Failed,
                    _ => return Progress::Blocked,
                }
            }
        }
        Progress::Complete
    }

    fn main_ended(&mut self, sandbox: &Sandbox) -> bool {
        let (spec, policy) = (self.spec, view::policy(self.spec));
        spec.containers
            .iter()
            .all(|c| matches!(self.step(c, sandbox, policy), Step::Done { .. }))
    }

    fn main(&mut self, sandbox: &Sandbox) -> bool {
        let (spec, policy) = (self.spec, view::policy(self.spec));
        let mut ended = true;
        for wanted in &spec.containers {
            let step = self.act(wanted, sandbox, policy);
            ended &= matches!(step, Step::Done { .. });
        }
        ended && self.wind_down(sandbox)
    }

    /// Everything that counts has ended: helpers go, last started first. True when done.
    fn wind_down(&mut self, sandbox: &Sandbox) -> bool {
        let helper = view::init_containers(self.spec)
            .iter()
            .rev()
            .filter_map(|w| self.observed().latest(&sandbox.id, &w.name))
            .find(|c| c.lives());
        if let Some(helper) = helper {
            self.stop(helper, view::grace(self.input.pod));
            return false;
        }
        !self
            .memory()
            .running
            .iter()
            .any(|t| matches!(t, Task::Start(_) | Task::End(_)))
    }
}

/// When a stop with this grace has killed at the latest.
pub(super) fn due_after(now: Timestamp, grace: i64) -> Timestamp {
    now.checked_add(SignedDuration::from_secs(grace.max(0)))
        .unwrap_or(Timestamp::MAX)
}

enum Progress {
    Blocked,
    Failed,
    Complete,
}
