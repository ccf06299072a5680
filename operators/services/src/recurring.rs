//! Steps that run on a schedule, or once for each set of inputs.

use c5c3_api::conditions::reason;
use c5c3_kit::{Kind, Observed, Reference, States};
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{CronJob, Job};
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::build::{self, Configuration, Outcome, Steps};
use crate::names::Names;
use crate::plan::{Gate, has_title};
use crate::reconcile::Services;
use crate::subject::{Recurring, Subject};

/// So many runs that ended are kept, of good ones and of bad ones.
const HISTORY: u32 = 3;

/// What becomes of the steps.
#[derive(Debug)]
pub struct Planned {
    pub wanted: Option<Value>,
    pub kept: Vec<Reference>,
    title: &'static str,
    part: &'static str,
    /// The last run that ended; one that goes on says nothing yet.
    last: Option<Run>,
    /// When the newest run began.
    began: Option<Timestamp>,
    schedule: Option<String>,
}

#[derive(Debug)]
struct Run {
    began: Option<Timestamp>,
    ended: Option<Timestamp>,
    /// The step that failed, and its words.
    failed: Option<(&'static str, String)>,
}

pub fn plan<S: Subject>(observed: &Observed<Services<S>>, configuration: &Configuration) -> Option<Planned> {
    let (subject, facts) = (&observed.object, &observed.facts);
    let names = Names::of(subject);
    let recurring = subject.extras().recurring?;
    let steps = steps(subject, configuration, &recurring)?;
    let namespace = Some(names.namespace.as_str());
    let (wanted, kept) = match &recurring.schedule {
        Some(schedule) => {
            let cron_job = cron_job(&names, &steps, subject, configuration, schedule);
            let live = Kind::of::<CronJob>().named(namespace, &names.suffixed(steps.title));
            (Some(cron_job), live)
        }
        None => {
            let name = steps.name(&names);
            let live = facts.jobs.contains_key(&name);
            let job = job(&names, &steps, subject, configuration);
            ((!live).then_some(job), Kind::of::<Job>().named(namespace, &name))
        }
    };
    let ours = facts.jobs.values().filter(|job| has_title(job, steps.title));
    let began = |job: &Job| job.status.as_ref()?.start_time.as_ref().map(|time| time.0);
    let newest = ours.clone().filter_map(began).max();
    let ended = ours.filter(|job| build::is_complete(job) || build::has_failed(job));
    let last = ended
        .max_by_key(|job| (began(job), job.name_any()))
        .map(|job| Run {
            began: began(job),
            ended: end(job),
            failed: match steps.outcome_of(job, facts, &configuration.hidden) {
                Outcome::Failed { step, words, .. } => {
                    Some((steps.steps.get(step).map_or(steps.title, |step| step.name), words))
                }
                _ => None,
            },
        });
    Some(Planned {
        wanted,
        kept: vec![kept],
        title: steps.title,
        part: recurring.part,
        last,
        began: newest,
        schedule: recurring.schedule,
    })
}

fn steps<S: Subject>(
    subject: &S,
    configuration: &Configuration,
    recurring: &Recurring,
) -> Option<Steps<'static>> {
    let steps = recurring.steps.to_vec();
    Some(Steps {
        title: steps.last()?.name,
        named_by: steps.clone(),
        steps,
        task: None,
        arguments: recurring.arguments.clone(),
        patience: None,
        wait_for: None,
        inputs: [subject.common().image.reference(), configuration.hash.clone()]
            .into_iter()
            .chain(recurring.arguments.iter().cloned())
            .collect(),
        schema: None,
    })
}

/// A run that failed is an answer; it is not tried until it fits.
fn run<S: Subject>(names: &Names, steps: &Steps<'_>, subject: &S, configuration: &Configuration) -> Value {
    let mut spec = steps.pod(subject, configuration);
    spec["restartPolicy"] = "Never".into();
    json!({"backoffLimit": 0, "template": {"metadata": names.pod_metadata(steps.title), "spec": spec}})
}

fn job<S: Subject>(names: &Names, steps: &Steps<'_>, subject: &S, configuration: &Configuration) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": names.metadata(&steps.name(names)),
        "spec": run(names, steps, subject, configuration),
    })
}

fn cron_job<S: Subject>(
    names: &Names,
    steps: &Steps<'_>,
    subject: &S,
    configuration: &Configuration,
    schedule: &str,
) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "CronJob", "metadata": names.metadata(&names.suffixed(steps.title)),
        "spec": {
            "schedule": schedule, "timeZone": "Etc/UTC", "concurrencyPolicy": "Forbid",
            "successfulJobsHistoryLimit": HISTORY, "failedJobsHistoryLimit": HISTORY,
            "jobTemplate": {"metadata": {"labels": names.labels()}, "spec": run(names, steps, subject, configuration)},
        },
    })
}

/// A Job that failed has no completion time; its condition tells when.
fn end(job: &Job) -> Option<Timestamp> {
    let status = job.status.as_ref()?;
    let failed = status
        .conditions
        .iter()
        .flatten()
        .find(|c| c.type_ == "Failed" && c.status == "True");
    let at = status
        .completion_time
        .as_ref()
        .or_else(|| failed?.last_transition_time.as_ref())?;
    Some(at.0)
}

impl Planned {
    pub fn state(&self, states: States, gate: &Gate) -> States {
        let Planned { title, part, .. } = self;
        match (&self.last, gate) {
            (Some(Run { failed: None, .. }), _) => {
                states.met(part, reason::SUCCEEDED, format!("{title} succeeded"))
            }
            (
                Some(Run {
                    failed: Some((step, words)),
                    ..
                }),
                _,
            ) => states.unmet(part, reason::FAILED, format!("{step} failed: {words}")),
            (None, _) if self.began.is_some() => {
                states.unmet(part, reason::RUNNING, format!("{title} runs for the first time"))
            }
            (None, Gate::Dependency(words)) => {
                states.unmet(part, reason::DEPENDENCY_NOT_READY, words.clone())
            }
            (None, Gate::Credentials { reason, message }) => states.unmet(part, reason, message.clone()),
            (None, _) => {
                let when = self
                    .schedule
                    .as_ref()
                    .map(|at| format!(" at its first time ({at})"));
                let text = format!("{title} starts{}", when.unwrap_or_default());
                states.unmet(part, reason::WAITING, text)
            }
        }
    }

    /// What the status tells of the runs.
    pub fn status(&self) -> Value {
        let mut status = json!({});
        if let Some(began) = self.began {
            status["lastRun"] = began.to_string().into();
        }
        let took = self
            .last
            .as_ref()
            .and_then(|run| Some(run.ended?.duration_since(run.began?)));
        if let Some(took) = took {
            status["lastDuration"] = format!("{}s", took.as_secs()).into();
        }
        status
    }
}
