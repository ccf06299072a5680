//! Job: pods that run until enough of them succeeded.

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{Job, JobCondition, JobSpec, JobStatus};
use k8s_openapi::api::core::v1::{EnvVar, EnvVarSource, ObjectFieldSelector, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;

use crate::action::{Action, Decision, Target};
use crate::batch::tracking::{self, TRACKED, Tally};
use crate::pods::{self, PodName};
use crate::table::Key;
use crate::world::World;

pub(crate) const INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// Delay after the first failure; each further one doubles it.
const FIRST_DELAY: i64 = 10;
const LONGEST_DELAY: i64 = 360;
/// Reasons of a failure, with their messages.
const BACKOFF: (&str, &str) = (
    "BackoffLimitExceeded",
    "Job has reached the specified backoff limit",
);
const DEADLINE: (&str, &str) = (
    "DeadlineExceeded",
    "Job was active longer than specified deadline",
);

pub(crate) fn finished_as(job: &Job) -> Option<&str> {
    let conditions = job.status.as_ref()?.conditions.as_ref()?;
    let done = conditions
        .iter()
        .find(|c| matches!(c.type_.as_str(), "Complete" | "Failed") && c.status == "True")?;
    Some(done.type_.as_str())
}

pub(crate) fn decide(world: &World, key: &Key, now: Timestamp) -> Decision {
    let mut decision = Decision::default();
    let live = world
        .jobs
        .get(key)
        .filter(|job| !pods::is_terminating(job.as_ref()) && finished_as(job).is_none());
    // Pods that are no longer counted must not be held by the finalizer.
    let counting = live.and_then(|job| job.uid());
    decision.actions = tracking::let_go(world, key, counting.as_deref());
    let Some(job) = world.jobs.get(key) else {
        return decision;
    };
    let (Some(spec), Some(uid)) = (&job.spec, job.uid()) else {
        return decision;
    };
    if pods::is_terminating(job.as_ref()) {
        return decision;
    }
    if finished_as(job).is_some() {
        expire(job, spec, now, &mut decision);
        return decision;
    }
    let owned: Vec<&Pod> = world.pods.owned_by(&uid).map(AsRef::as_ref).collect();
    let run = Run::new(job, spec, owned, now);
    let status = run.turn(&mut decision);
    decision.status(job.as_ref(), job.status.as_ref(), &status);
    decision
}

/// A finished Job with a time to live goes when that is over; its pods follow by ownership.
fn expire(job: &Job, spec: &JobSpec, now: Timestamp, decision: &mut Decision) {
    let Some(ttl) = spec.ttl_seconds_after_finished else {
        return;
    };
    let conditions = job.status.as_ref().and_then(|status| status.conditions.as_ref());
    let ended = conditions
        .and_then(|all| {
            all.iter()
                .find(|c| matches!(c.type_.as_str(), "Complete" | "Failed"))
        })
        .and_then(|condition| condition.last_transition_time.as_ref())
        .map_or(now, |time| time.0);
    let until = pods::later(ended, ttl.into());
    if until <= now {
        decision.push(Action::Delete {
            target: Target::of(job),
            grace: None,
        });
    } else {
        decision.again(until);
    }
}

struct Run<'a> {
    job: &'a Job,
    spec: &'a JobSpec,
    now: Timestamp,
    owned: Vec<&'a Pod>,
    active: Vec<&'a Pod>,
    terminating: i32,
    failed: Vec<&'a Pod>,
    succeeded: Vec<&'a Pod>,
}

impl<'a> Run<'a> {
    fn new(job: &'a Job, spec: &'a JobSpec, owned: Vec<&'a Pod>, now: Timestamp) -> Self {
        let phase = |wanted: &str| {
            owned
                .iter()
                .copied()
                .filter(|pod| pods::phase(pod) == wanted)
                .collect::<Vec<_>>()
        };
        let terminating = owned
            .iter()
            .filter(|pod| !tracking::has_ended(pod) && pods::is_terminating(**pod))
            .count();
        Self {
            job,
            spec,
            now,
            active: owned.iter().copied().filter(|pod| pods::is_active(pod)).collect(),
            terminating: number(terminating),
            failed: phase("Failed"),
            succeeded: phase("Succeeded"),
            owned,
        }
    }

    fn turn(&self, decision: &mut Decision) -> JobStatus {
        let before = self.job.status.clone().unwrap_or_default();
        let tally = Tally::of(&before, &self.owned, self.is_indexed());
        decision.actions.extend(tally.counted(&before, &self.owned));
        let mut status = JobStatus {
            start_time: before.start_time.clone(),
            succeeded: Some(tally.succeeded).filter(|n| *n > 0),
            failed: Some(tally.failed).filter(|n| *n > 0),
            uncounted_terminated_pods: tally.uncounted(),
            ready: Some(number(
                self.active.iter().filter(|pod| pods::is_ready(pod)).count(),
            )),
            terminating: Some(self.terminating),
            active: Some(number(self.active.len())).filter(|n| *n > 0),
            completed_indexes: self
                .is_indexed()
                .then(|| tracking::ranges(&tally.indexes))
                .filter(|text| !text.is_empty()),
            conditions: before.conditions.clone(),
            ..before
        };
        let suspended = is_true(&status, "Suspended");
        if self.spec.suspend.unwrap_or(false) {
            self.stop(&self.active, decision);
            status.start_time = None;
            if !suspended {
                self.tell(false, "Suspended", "Job suspended", decision);
            }
            set_condition(
                &mut status,
                "Suspended",
                true,
                "JobSuspended",
                "Job suspended",
                self.now,
            );
            return status;
        }
        if suspended {
            self.tell(false, "Resumed", "Job resumed", decision);
            set_condition(
                &mut status,
                "Suspended",
                false,
                "JobResumed",
                "Job resumed",
                self.now,
            );
        }
        status.start_time = status.start_time.or(Some(Time(self.now)));
        if let Some((reason, message)) = self.failure(&status, tally.all_failed(), decision) {
            self.stop(&self.active, decision);
            set_condition(&mut status, "FailureTarget", true, reason, message, self.now);
            if tally.is_settled() {
                self.tell(true, reason, message, decision);
                set_condition(&mut status, "Failed", true, reason, message, self.now);
            }
            status.active = None;
            return status;
        }
        let done = tally.all_succeeded();
        let complete = match self.spec.completions {
            Some(wanted) => done >= wanted,
            // A work queue is done when one pod succeeded and none runs any more.
            None => done > 0 && self.active.is_empty() || done >= self.spec.parallelism.unwrap_or(1).max(1),
        };
        if complete {
            self.stop(&self.active, decision);
            let (reason, text) = ("CompletionsReached", "Reached expected number of succeeded pods");
            set_condition(&mut status, "SuccessCriteriaMet", true, reason, text, self.now);
            // Done is what has been counted, not what is still to be.
            if tally.is_settled() {
                self.tell(false, "Completed", "Job completed", decision);
                set_condition(&mut status, "Complete", true, reason, text, self.now);
                status.completion_time = Some(Time(self.now));
            }
            status.active = None;
            return status;
        }
        self.start_missing(done, &tally.indexes, decision);
        status
    }

    fn tell(&self, warning: bool, reason: &'static str, message: &str, decision: &mut Decision) {
        decision.push(Action::Event {
            target: Target::of(self.job),
            warning,
            reason,
            message: message.into(),
        });
    }

    fn is_indexed(&self) -> bool {
        self.spec.completion_mode.as_deref() == Some("Indexed")
    }

    fn failure(
        &self,
        status: &JobStatus,
        failed: i32,
        decision: &mut Decision,
    ) -> Option<(&'static str, &'static str)> {
        // What failed stays so: the pods that showed it may be gone by now.
        let target = status.conditions.iter().flatten();
        let target = target
            .filter(|condition| condition.type_ == "FailureTarget" && condition.status == "True")
            .map(|condition| condition.reason.as_deref().unwrap_or_default())
            .next();
        if let Some(reason) = target {
            return Some(if reason == DEADLINE.0 { DEADLINE } else { BACKOFF });
        }
        let retries = self.spec.backoff_limit.unwrap_or(6);
        // With restartPolicy OnFailure the container restarts in its pod: those count too.
        let restarts: i32 = self
            .active
            .iter()
            .flat_map(|pod| pod.status.iter())
            .flat_map(|status| {
                status
                    .container_statuses
                    .iter()
                    .flatten()
                    .chain(status.init_container_statuses.iter().flatten())
            })
            .map(|container| container.restart_count)
            .sum();
        let on_failure = self
            .spec
            .template
            .spec
            .as_ref()
            .and_then(|spec| spec.restart_policy.as_deref())
            == Some("OnFailure");
        let restarted = on_failure && restarts > 0 && restarts >= retries;
        if failed > retries || restarted {
            return Some(BACKOFF);
        }
        let deadline = self.spec.active_deadline_seconds?;
        let until = pods::later(status.start_time.as_ref()?.0, deadline);
        if until <= self.now {
            return Some(DEADLINE);
        }
        decision.again(until);
        None
    }

    /// Ends pods that are not to be counted.
    fn stop(&self, active: &[&Pod], decision: &mut Decision) {
        for pod in active {
            decision.actions.extend(pods::without_finalizer(*pod, TRACKED));
            decision.push(Action::Delete {
                target: Target::of(*pod),
                grace: None,
            });
        }
    }

    fn start_missing(&self, done: i32, completed: &BTreeSet<i32>, decision: &mut Decision) {
        let parallel = self.spec.parallelism.unwrap_or(1).max(0);
        let running = number(self.active.len());
        let wanted = match self.spec.completions {
            Some(completions) => parallel.min(completions - done),
            None if done > 0 => running.min(parallel),
            None => parallel,
        };
        if running > wanted {
            let mut active = self.active.clone();
            pods::by_deletion_rank(&mut active, self.now);
            let surplus = usize::try_from(running - wanted).unwrap_or(0);
            self.stop(&active[..surplus.min(active.len())], decision);
            return;
        }
        let missing = wanted - running - self.terminating;
        if missing <= 0 {
            return;
        }
        if let Some(at) = self.next_try().filter(|at| *at > self.now) {
            decision.again(at);
            return;
        }
        let taken: BTreeSet<i32> = self
            .active
            .iter()
            .filter_map(|pod| index_of(pod))
            .chain(completed.iter().copied())
            .collect();
        let mut free = (0..self.spec.completions.unwrap_or(0)).filter(|index| !taken.contains(index));
        for _ in 0..missing {
            let index = if self.is_indexed() {
                let Some(index) = free.next() else { return };
                Some(index)
            } else {
                None
            };
            decision.push(Action::create(&self.pod(index)));
        }
    }

    fn next_try(&self) -> Option<Timestamp> {
        let last = self.failed.iter().filter_map(|pod| ended_at(pod)).max()?;
        // Failures since the last success are what the delay grows with.
        let success = self.succeeded.iter().filter_map(|pod| ended_at(pod)).max();
        let streak = self.failed.iter().filter(|pod| ended_at(pod) > success).count();
        let doubled = u32::try_from(streak.saturating_sub(1))
            .unwrap_or(u32::MAX)
            .min(10);
        (streak > 0).then(|| pods::later(last, (FIRST_DELAY << doubled).min(LONGEST_DELAY)))
    }

    fn pod(&self, index: Option<i32>) -> Pod {
        let mut template = self.spec.template.clone();
        let name = self.job.name_any();
        let meta = template.metadata.get_or_insert_default();
        let finalizers = meta.finalizers.get_or_insert_default();
        finalizers.push(TRACKED.into());
        let labels = meta.labels.get_or_insert_default();
        for (key, value) in [
            ("job-name", &name),
            ("controller-uid", &self.job.uid().unwrap_or_default()),
        ] {
            labels.insert(key.into(), value.clone());
            labels.insert(format!("batch.kubernetes.io/{key}"), value.clone());
        }
        let Some(index) = index else {
            return pods::from_template(self.job, &template, PodName::Generated(format!("{name}-")));
        };
        labels.insert(INDEX.into(), index.to_string());
        meta.annotations
            .get_or_insert_default()
            .insert(INDEX.into(), index.to_string());
        let spec = template.spec.get_or_insert_default();
        spec.hostname = Some(format!("{name}-{index}"));
        for container in spec
            .containers
            .iter_mut()
            .chain(spec.init_containers.iter_mut().flatten())
        {
            container.env.get_or_insert_default().push(EnvVar {
                name: "JOB_COMPLETION_INDEX".into(),
                value_from: Some(EnvVarSource {
                    field_ref: Some(ObjectFieldSelector {
                        field_path: format!("metadata.annotations['{INDEX}']"),
                        ..Default::default()
                    }),
                    ..Default::default()
                }),
                ..Default::default()
            });
        }
        pods::from_template(
            self.job,
            &template,
            PodName::Generated(format!("{name}-{index}-")),
        )
    }
}

pub(crate) fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

pub(crate) fn index_of(pod: &Pod) -> Option<i32> {
    pod.annotations().get(INDEX)?.parse().ok()
}

/// When the last container ended.
fn ended_at(pod: &Pod) -> Option<Timestamp> {
    let statuses = pod.status.as_ref()?.container_statuses.as_ref()?;
    statuses
        .iter()
        .filter_map(|container| {
            container
                .state
                .as_ref()?
                .terminated
                .as_ref()?
                .finished_at
                .as_ref()
                .map(|time| time.0)
        })
        .max()
        .or_else(|| pod.creation_timestamp().map(|time| time.0))
}

fn is_true(status: &JobStatus, kind: &str) -> bool {
    let mut conditions = status.conditions.iter().flatten();
    conditions.any(|condition| condition.type_ == kind && condition.status == "True")
}

fn set_condition(
    status: &mut JobStatus,
    kind: &str,
    holds: bool,
    reason: &str,
    message: &str,
    now: Timestamp,
) {
    let wanted = if holds { "True" } else { "False" };
    let conditions = status.conditions.get_or_insert_default();
    if conditions
        .iter()
        .any(|condition| condition.type_ == kind && condition.status == wanted)
    {
        return;
    }
    conditions.retain(|condition| condition.type_ != kind);
    conditions.push(JobCondition {
        type_: kind.into(),
        status: wanted.into(),
        reason: Some(reason.into()),
        message: Some(message.into()),
        last_probe_time: Some(Time(now)),
        last_transition_time: Some(Time(now)),
    });
}

#[cfg(test)]
#[path = "job_tests.rs"]
mod tests;
