//! CronJob: a Job at each time of a schedule.

use std::str::FromStr;

use croner::Cron;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::{CronJob, CronJobSpec, CronJobStatus, Job};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::ResourceExt;

use crate::action::{Action, Decision, Target};
use crate::batch::job::finished_as;
use crate::pods;
use crate::table::Key;
use crate::world::World;

const SCHEDULED: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";

pub(crate) fn decide(world: &World, key: &Key, now: Timestamp) -> Decision {
    let mut decision = Decision::default();
    let Some(cron) = world.cron_jobs.get(key) else {
        return decision;
    };
    let (spec, Some(uid)) = (&cron.spec, cron.uid()) else {
        return decision;
    };
    if pods::is_terminating(cron.as_ref()) {
        return decision;
    }
    let jobs: Vec<&Job> = world.jobs.owned_by(&uid).map(AsRef::as_ref).collect();
    let active: Vec<&Job> = jobs
        .iter()
        .copied()
        .filter(|job| finished_as(job).is_none() && !pods::is_terminating(*job))
        .collect();
    let mut status = status(cron, &jobs, &active);
    forget_history(spec, &jobs, &mut decision);

    if !spec.suspend.unwrap_or(false) {
        match Times::of(spec) {
            Ok(times) => start(world, cron, &times, &active, now, &mut status, &mut decision),
            Err(message) => {
                decision.push(Action::Event {
                    target: Target::of(cron.as_ref()),
                    warning: true,
                    reason: "InvalidSchedule",
                    message,
                });
            }
        }
    }
    decision.status(cron.as_ref(), cron.status.as_ref(), &status);
    decision
}

/// The times that a schedule names: by the clock of a time zone, or at a fixed interval in seconds.
enum Times {
    Clock { cron: Box<Cron>, zone: TimeZone },
    Every(i64),
}

impl Times {
    fn of(spec: &CronJobSpec) -> Result<Self, String> {
        let wrong = |why: &dyn std::fmt::Display| format!("spec.schedule {:?}: {why}", spec.schedule);
        let schedule = match spec.schedule.trim() {
            "@midnight" => "@daily",
            other => other,
        };
        if let Some(pause) = schedule.strip_prefix("@every ") {
            let pause: SignedDuration = pause.trim().parse().map_err(|error| wrong(&error))?;
            return Ok(Self::Every(pause.as_secs().max(1)));
        }
        let cron = Cron::from_str(schedule).map_err(|error| wrong(&error))?;
        let zone = match spec.time_zone.as_deref() {
            None | Some("" | "Etc/UTC" | "UTC") => TimeZone::UTC,
            Some(name) => TimeZone::get(name).map_err(|error| format!("spec.timeZone {name:?}: {error}"))?,
        };
        Ok(Self::Clock {
            cron: Box::new(cron),
            zone,
        })
    }

    /// The next time after `now`; `last` is the one before.
    fn next(&self, last: Timestamp, now: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Clock { cron, zone } => {
                let next = cron.find_next_occurrence(&now.to_zoned(zone.clone()), false);
                next.ok().map(|time| time.timestamp())
            }
            Self::Every(pause) => {
                let whole = now.duration_since(last).as_secs().max(0) / pause;
                Some(pods::later(last, whole.saturating_add(1).saturating_mul(*pause)))
            }
        }
    }

    /// The last time in `(after, now]`, if there is one. Earlier ones that were missed stay missed.
    fn last_due(&self, after: Timestamp, now: Timestamp) -> Option<Timestamp> {
        let last = match self {
            Self::Clock { cron, zone } => {
                let last = cron.find_previous_occurrence(&now.to_zoned(zone.clone()), true);
                last.ok()?.timestamp()
            }
            Self::Every(pause) => {
                let whole = now.duration_since(after).as_secs().max(0) / pause;
                pods::later(after, whole.saturating_mul(*pause))
            }
        };
        (last > after && last <= now).then_some(last)
    }
}

fn start(
    world: &World,
    cron: &CronJob,
    times: &Times,
    active: &[&Job],
    now: Timestamp,
    status: &mut CronJobStatus,
    decision: &mut Decision,
) {
    let spec = &cron.spec;
    let created = cron.creation_timestamp().map_or(now, |time| time.0);
    let last = status.last_schedule_time.as_ref().map_or(created, |time| time.0);
    let oldest = spec
        .starting_deadline_seconds
        .map(|deadline| pods::later(now, deadline.saturating_neg()));
    if let Some(next) = times.next(last, now) {
        decision.again(next);
    }
    let Some(due) = times.last_due(last, now) else {
        return;
    };
    let job = job_at(cron, due);
    // The name carries the time, so the same start is never made twice; and it counts only when
    // it is there, so a start that was refused is tried again.
    let key = (cron.namespace().unwrap_or_default(), job.name_any());
    if world.jobs.get(&key).is_some() {
        status.last_schedule_time = Some(Time(due));
        return;
    }
    if oldest.is_some_and(|oldest| due < oldest) {
        return;
    }
    match spec.concurrency_policy.as_deref() {
        Some("Forbid") if !active.is_empty() => return,
        Some("Replace") => {
            decision.actions.extend(active.iter().map(|job| Action::Delete {
                target: Target::of(*job),
                grace: None,
            }));
        }
        _ => {}
    }
    decision.push(Action::create(&job));
}

fn job_at(cron: &CronJob, due: Timestamp) -> Job {
    let spec = cron.spec.job_template.clone();
    let meta = spec.metadata.unwrap_or_default();
    let mut annotations = meta.annotations.unwrap_or_default();
    annotations.insert(SCHEDULED.into(), due.to_string());
    Job {
        metadata: ObjectMeta {
            name: Some(format!("{}-{}", cron.name_any(), due.as_second() / 60)),
            labels: Some(meta.labels.unwrap_or_default()),
            annotations: Some(annotations),
            ..pods::owned_by(cron)
        },
        spec: Some(spec.spec.unwrap_or_default()),
        status: None,
    }
}

fn status(cron: &CronJob, jobs: &[&Job], active: &[&Job]) -> CronJobStatus {
    let mut status = cron.status.clone().unwrap_or_default();
    let references: Vec<_> = active
        .iter()
        .map(|job| ObjectReference {
            api_version: Some("batch/v1".into()),
            kind: Some("Job".into()),
            namespace: job.namespace(),
            name: job.metadata.name.clone(),
            uid: job.uid(),
            ..Default::default()
        })
        .collect();
    status.active = (!references.is_empty()).then_some(references);
    let ended = jobs.iter().filter(|job| finished_as(job) == Some("Complete"));
    let last = ended
        .filter_map(|job| job.status.as_ref()?.completion_time.clone())
        .max_by_key(|time| time.0);
    if let Some(last) = last {
        status.last_successful_time = Some(last);
    }
    status
}

fn forget_history(spec: &CronJobSpec, jobs: &[&Job], decision: &mut Decision) {
    let limits = [
        ("Complete", spec.successful_jobs_history_limit.unwrap_or(3)),
        ("Failed", spec.failed_jobs_history_limit.unwrap_or(1)),
    ];
    for (outcome, limit) in limits {
        let mut ended: Vec<_> = jobs
            .iter()
            .copied()
            .filter(|job| finished_as(job) == Some(outcome))
            .collect();
        ended.sort_by_key(|job| (job.creation_timestamp().map(|time| time.0), job.name_any()));
        let surplus = ended.len().saturating_sub(usize::try_from(limit).unwrap_or(0));
        let gone = ended
            .into_iter()
            .take(surplus)
            .filter(|job| !pods::is_terminating(*job));
        decision.actions.extend(gone.map(|job| Action::Delete {
            target: Target::of(job),
            grace: None,
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Sim, now};
    use serde_json::{Value, json};

    fn cron(extra: Value) -> Value {
        let mut cron = json!({"kind": "CronJob", "apiVersion": "batch/v1",
            "metadata": {"namespace": "n", "name": "rotate", "uid": "c", "creationTimestamp": now().to_string()},
            "spec": {"schedule": "*/5 * * * *", "jobTemplate": {"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": []}}}}}});
        for (key, value) in extra.as_object().expect("an object") {
            cron["spec"][key] = value.clone();
        }
        cron
    }

    #[test]
    fn one_job_a_time_and_after_an_outage_only_the_last_one() {
        let mut sim = Sim::default();
        sim.learn(cron(json!({})));
        sim.settle();
        assert_eq!(sim.world.jobs.iter().count(), 0);
        sim.pass(300);
        assert_eq!(sim.world.jobs.iter().count(), 1);
        sim.jump(3600);
        assert_eq!(
            sim.world.jobs.iter().count(),
            2,
            "eleven starts were missed, one is made up for"
        );
    }

    #[test]
    fn forbid_waits_and_replace_ends_the_old_one() {
        for (policy, left) in [("Forbid", 1), ("Replace", 1), ("Allow", 2)] {
            let mut sim = Sim::default();
            sim.learn(cron(json!({"concurrencyPolicy": policy})));
            sim.settle();
            sim.pass(300);
            let first = sim.world.jobs.iter().next().map(|job| job.name_any());
            sim.pass(300);
            assert_eq!(sim.world.jobs.iter().count(), left, "{policy}");
            let still = sim.world.jobs.iter().any(|job| Some(job.name_any()) == first);
            assert_eq!(still, policy != "Replace", "{policy}");
        }
    }

    #[test]
    fn a_start_past_its_deadline_is_left_out() {
        let mut sim = Sim::default();
        sim.learn(cron(
            json!({"schedule": "0 0 1 1 *", "startingDeadlineSeconds": 60}),
        ));
        sim.settle();
        sim.jump(400 * 24 * 3600);
        assert_eq!(sim.world.jobs.iter().count(), 0);
    }

    #[test]
    fn a_wrong_schedule_is_named() {
        let spec: CronJobSpec =
            serde_json::from_value(json!({"schedule": "61 * * * *", "jobTemplate": {}})).expect("a spec");
        let error = Times::of(&spec).err().expect("refused");
        assert!(error.contains("spec.schedule \"61 * * * *\""), "{error}");
    }

    fn times(schedule: &str, zone: Option<&str>) -> Times {
        let spec = json!({"schedule": schedule, "timeZone": zone, "jobTemplate": {}});
        Times::of(&serde_json::from_value(spec).expect("a spec")).unwrap_or_else(|error| panic!("{error}"))
    }

    /// The next `count` times, as they follow each other.
    fn following(times: &Times, from: &str, count: usize) -> Vec<String> {
        let mut at: Timestamp = from.parse().expect("a time");
        let mut all = Vec::new();
        for _ in 0..count {
            at = times.next(at, at).expect("a next time");
            all.push(at.to_string());
        }
        all
    }

    #[test]
    fn a_zone_decides_what_the_clock_says() {
        let berlin = times("30 9 * * *", Some("Europe/Berlin"));
        assert_eq!(
            following(&berlin, "2026-01-10T00:00:00Z", 1),
            ["2026-01-10T08:30:00Z"]
        );
        assert_eq!(
            following(&berlin, "2026-07-10T00:00:00Z", 1),
            ["2026-07-10T07:30:00Z"]
        );
        let kolkata = times("0 0 * * *", Some("Asia/Kolkata"));
        assert_eq!(
            following(&kolkata, "2026-01-10T00:00:00Z", 1),
            ["2026-01-10T18:30:00Z"]
        );
    }

    #[test]
    fn an_hour_that_is_left_out_or_comes_twice_makes_one_start_a_day() {
        let berlin = times("30 2 * * *", Some("Europe/Berlin"));
        // On March 29 the clock goes from 2 to 3: the start is as soon as the hour is over.
        assert_eq!(
            following(&berlin, "2026-03-28T00:00:00Z", 3),
            [
                "2026-03-28T01:30:00Z",
                "2026-03-29T01:00:00Z",
                "2026-03-30T00:30:00Z"
            ]
        );
        // On October 25 the clock goes from 3 back to 2.
        assert_eq!(
            following(&berlin, "2026-10-24T12:00:00Z", 2),
            ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]
        );
        let hourly = times("0 * * * *", Some("Europe/Berlin"));
        assert_eq!(
            following(&hourly, "2026-10-24T23:30:00Z", 3),
            [
                "2026-10-25T00:00:00Z",
                "2026-10-25T01:00:00Z",
                "2026-10-25T02:00:00Z"
            ],
            "each hour that passes counts"
        );
    }

    #[test]
    fn every_counts_from_the_last_start() {
        let every = times("@every 1h30m", None);
        assert_eq!(
            following(&every, "2026-01-01T00:10:00Z", 2),
            ["2026-01-01T01:40:00Z", "2026-01-01T03:10:00Z"]
        );
        let mut sim = Sim::default();
        sim.learn(cron(json!({"schedule": "@every 2m"})));
        sim.settle();
        sim.pass(241);
        assert_eq!(sim.world.jobs.iter().count(), 2);
    }

    #[test]
    fn a_start_that_was_refused_is_not_written_down() {
        let mut sim = Sim::default();
        sim.learn(cron(json!({})));
        let at = pods::later(now(), 301);
        let key = ("n".to_owned(), "rotate".to_owned());
        let decision = decide(&sim.world, &key, at);
        assert!(
            matches!(decision.actions.as_slice(), [Action::Create(_)]),
            "{decision:?}"
        );
        sim.pass(301);
        let status = sim
            .world
            .cron_jobs
            .get(&key)
            .and_then(|cron| cron.status.clone())
            .expect("a status");
        assert_eq!(status.last_schedule_time, Some(Time(pods::later(now(), 300))));
    }
}
