//! Steps that run on a schedule, once for each set of inputs, or when somebody asks.

mod results;

use c5c3_api::common::{RecurringJobStatus, Time};
use c5c3_api::conditions::reason;
use c5c3_kit::{Kind, Reference, States, Wanted};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::{CronJob, CronJobSpec, Job, JobSpec, JobTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use serde_json::{Value, json};

use super::{Gate, rollout, troubled};
use crate::build::{self, Configuration, Outcome, Steps};
use crate::facts::Facts;
use crate::names::{ASKED, NODES};
use crate::shape::{Asked, Recurring, Service};

/// So many runs that ended are kept, of good ones and of bad ones.
const HISTORY: i32 = 3;

/// What becomes of the steps.
#[derive(Debug)]
pub struct Planned {
    pub wanted: Vec<Wanted>,
    pub kept: Vec<Reference>,
    pub title: String,
    pub part: Option<&'static str>,
    /// What the status reports about the runs.
    status: Value,
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
    failed: Option<(String, String)>,
}

pub(crate) fn plan(service: &Service, facts: &Facts, configuration: &Configuration) -> Vec<Planned> {
    let all = service.recurring.iter();
    all.filter_map(|recurring| one(service, facts, configuration, recurring))
        .collect()
}

fn one(
    service: &Service,
    facts: &Facts,
    configuration: &Configuration,
    recurring: &Recurring,
) -> Option<Planned> {
    let names = &service.names;
    let nodes = rollout::nodes_of(facts, &recurring.nodes_of);
    if nodes.is_empty() && !recurring.nodes_of.is_empty() {
        return None;
    }
    let steps = steps(service, configuration, recurring, &nodes)?;
    let namespace = Some(names.namespace.as_str());
    let ours = facts
        .jobs
        .values()
        .filter(|job| build::has_title(job, &steps.title));
    let began = |job: &Job| job.status.as_ref()?.start_time.as_ref().map(|time| time.0);
    let newest = ours.clone().filter_map(began).max();
    let has_ended = |job: &&Job| build::is_complete(job) || build::has_failed(job);
    let mut busy = ours.clone().any(|job| !has_ended(&job));
    let ended = ours.clone().filter(has_ended);
    let ended = ended.max_by_key(|job| (began(job), job.name_any()));
    let named = |job: &str| Kind::of::<Job>().named(namespace, job);
    let (mut wanted, mut kept) = (Vec::new(), Vec::new());
    let mut asked_at_work = false;
    let before = recurring.told.as_ref();
    let mut acted = before.and_then(|told| told["runNow"].as_str().map(str::to_owned));
    if let Some(asked) = &recurring.asked {
        let live = ours
            .clone()
            .find(|job| job.annotations().get(ASKED) == Some(&asked.mark));
        if let Some(job) = live {
            kept.push(named(&job.name_any()));
            acted = Some(asked.mark.clone());
            asked_at_work = !has_ended(&job);
        } else if !busy && acted.as_ref() != Some(&asked.mark) {
            let job = asked_job(&steps, service, configuration, recurring, asked);
            wanted.push(Wanted::of(&job));
            (busy, asked_at_work) = (true, true);
        }
    }
    let name = steps.name(names);
    let usual = || Wanted::of(&job(&steps, service, configuration, recurring, &nodes));
    let live = facts.jobs.contains_key(&name);
    match &recurring.schedule {
        Some(schedule) => {
            // Two runs at once would be in each other's way.
            let cron_job = cron_job(&steps, service, configuration, recurring, schedule, asked_at_work);
            wanted.push(Wanted::of(&cron_job));
            kept.push(Kind::of::<CronJob>().named(namespace, &names.suffixed(&steps.title)));
            let passed = before.map(|told| told["installedRelease"].as_str());
            let is_new = passed.is_some_and(|passed| passed != service.version().as_deref());
            if is_new || live {
                kept.push(named(&name));
                wanted.extend((!live && !busy).then(usual));
            }
        }
        // It was done for all of these nodes before one of them went.
        None if ended.is_some_and(|job| build::is_complete(job) && covers(job, &nodes)) => {}
        None => {
            kept.push(named(&name));
            let waits = recurring.asked.is_some() && busy;
            wanted.extend((!live && !waits).then(usual));
        }
    }
    let last = ended.map(|job| Run {
        began: began(job),
        ended: end(job),
        failed: failure(&steps, &steps.outcome_of(job, facts, &configuration.hidden)).map(|(step, words)| {
            let said = build::last_word(facts, job).and_then(results::words);
            (step, said.map_or(words, |said| configuration.hidden.hide(&said)))
        }),
    });
    let once_per_node = recurring.schedule.is_none() && !recurring.nodes_of.is_empty();
    if once_per_node || recurring.told.is_some() {
        // What was done stays until the next run is done.
        kept.extend(ended.map(|job| named(&job.name_any())));
    }
    let current = facts.jobs.get(&steps.name(names));
    let trying =
        current.and_then(|job| failure(&steps, &steps.outcome_of(job, facts, &configuration.hidden)));
    let status = match before {
        Some(before) => results::status(
            service,
            facts,
            configuration,
            &results::Seen {
                before,
                began: newest,
                ended,
                took: last.as_ref().and_then(Run::took),
                acted,
            },
        ),
        None => json!({}),
    };
    Some(Planned {
        wanted,
        kept,
        title: steps.title,
        part: recurring.part,
        status,
        // One that is tried again has not ended, and says why.
        last: trying.filter(|_| recurring.again).map(Run::that_failed).or(last),
        began: newest,
        schedule: recurring.schedule.clone(),
    })
}

/// The step that failed, and its words.
fn failure(steps: &Steps<'_>, outcome: &Outcome) -> Option<(String, String)> {
    let Outcome::Failed { step, words, .. } = outcome else {
        return None;
    };
    let step = steps.steps.get(*step).map_or(&steps.title, |step| &step.name);
    Some((step.clone(), words.clone()))
}

/// Whether a run was made for these nodes, and perhaps for others.
fn covers(job: &Job, nodes: &[String]) -> bool {
    let Some(done) = job.annotations().get(NODES) else {
        return false;
    };
    let done: Vec<&str> = done.split(',').collect();
    nodes.iter().all(|node| done.contains(&node.as_str()))
}

fn steps(
    service: &Service,
    configuration: &Configuration,
    recurring: &Recurring,
    nodes: &[String],
) -> Option<Steps<'static>> {
    let mut steps = recurring.steps.clone();
    steps.last_mut()?.command.extend(nodes.iter().cloned());
    let mut inputs = vec![service.image()];
    // On a schedule the next run comes by itself.
    if recurring.told.is_none() || recurring.schedule.is_none() {
        inputs.push(configuration.hash_of(&service.schema.settings).to_owned());
    }
    Some(Steps {
        title: steps.last()?.name.clone(),
        settings: service.schema.settings.clone(),
        named_by: steps.clone(),
        steps,
        task: None,
        patience: None,
        wait_for: None,
        inputs,
        volumes: recurring.volumes.clone(),
        schema: None,
    })
}

/// Most runs that failed are an answer; they are not tried until they fit.
fn run(
    steps: &Steps<'_>,
    service: &Service,
    configuration: &Configuration,
    recurring: &Recurring,
) -> JobSpec {
    let (restart, limit) = if recurring.again {
        ("OnFailure", 100_000)
    } else {
        ("Never", 0)
    };
    JobSpec {
        active_deadline_seconds: recurring.longest.map(Into::into),
        ..steps.run(service, configuration, restart, limit)
    }
}

/// The same steps with other arguments, once.
fn asked_job(
    steps: &Steps<'_>,
    service: &Service,
    configuration: &Configuration,
    recurring: &Recurring,
    asked: &Asked,
) -> Job {
    let mut own = Steps {
        title: steps.title.clone(),
        settings: steps.settings.clone(),
        steps: steps.steps.clone(),
        named_by: steps.named_by.clone(),
        inputs: steps.inputs.iter().chain([&asked.mark]).cloned().collect(),
        volumes: steps.volumes.clone(),
        task: None,
        patience: None,
        wait_for: None,
        schema: None,
    };
    if let Some(last) = own.steps.last_mut() {
        last.command.extend(asked.arguments.iter().cloned());
    }
    let mut job = job(&own, service, configuration, recurring, &[]);
    job.metadata.annotations = Some([(ASKED.to_owned(), asked.mark.clone())].into());
    job
}

fn job(
    steps: &Steps<'_>,
    service: &Service,
    configuration: &Configuration,
    recurring: &Recurring,
    nodes: &[String],
) -> Job {
    let names = &service.names;
    let mut metadata = names.metadata(&steps.name(names));
    if !nodes.is_empty() {
        metadata.annotations = Some([(NODES.to_owned(), nodes.join(","))].into());
    }
    Job {
        metadata,
        spec: Some(run(steps, service, configuration, recurring)),
        ..Job::default()
    }
}

fn cron_job(
    steps: &Steps<'_>,
    service: &Service,
    configuration: &Configuration,
    recurring: &Recurring,
    schedule: &str,
    suspended: bool,
) -> CronJob {
    let names = &service.names;
    CronJob {
        metadata: names.metadata(&names.suffixed(&steps.title)),
        spec: CronJobSpec {
            schedule: schedule.to_owned(),
            time_zone: Some("Etc/UTC".to_owned()),
            concurrency_policy: Some("Forbid".to_owned()),
            suspend: Some(suspended),
            successful_jobs_history_limit: Some(HISTORY),
            failed_jobs_history_limit: Some(HISTORY),
            job_template: JobTemplateSpec {
                metadata: Some(ObjectMeta {
                    labels: Some(names.labels()),
                    ..ObjectMeta::default()
                }),
                spec: Some(run(steps, service, configuration, recurring)),
            },
            ..CronJobSpec::default()
        },
        ..CronJob::default()
    }
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

impl Run {
    fn took(&self) -> Option<SignedDuration> {
        Some(self.ended?.duration_since(self.began?))
    }

    fn words(&self) -> Option<String> {
        let (step, words) = self.failed.as_ref()?;
        Some(format!("{step}: {words}"))
    }

    fn that_failed(failed: (String, String)) -> Self {
        Run {
            began: None,
            ended: None,
            failed: Some(failed),
        }
    }
}

impl Planned {
    pub fn state(&self, states: States, gate: &Gate) -> States {
        let title = &self.title;
        let Some(part) = self.part else {
            return states;
        };
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
            (None, _) if self.began.is_some() => states.unmet(
                part,
                reason::RUNNING,
                format!("{title} is running for the first time"),
            ),
            (None, Gate::Dependency(trouble)) => {
                troubled(states, part, reason::DEPENDENCY_NOT_READY, trouble)
            }
            (None, Gate::Credentials { reason, trouble }) => troubled(states, part, reason, trouble),
            (None, _) => {
                let text = match &self.schedule {
                    Some(at) => format!("{title} first runs on its schedule ({at})"),
                    None => format!("{title} is starting"),
                };
                states.unmet(part, reason::WAITING, text)
            }
        }
    }

    /// What the status reports about the runs.
    pub fn status(&self) -> Value {
        self.status.clone()
    }

    /// The last run. What nothing new is known of stays: runs go before what is told of them.
    pub fn last_run(&self, before: &[RecurringJobStatus]) -> RecurringJobStatus {
        let before = before.iter().find(|before| before.name == self.title);
        let known = RecurringJobStatus {
            name: self.title.clone(),
            schedule: self.schedule.clone(),
            last_run: self.began.map(Time),
            succeeded: self.last.as_ref().map(|run| run.failed.is_none()),
            failure: self.last.as_ref().and_then(Run::words),
        };
        match before {
            None => known,
            Some(before) => RecurringJobStatus {
                last_run: known.last_run.or_else(|| before.last_run.clone()),
                failure: if known.succeeded.is_some() {
                    known.failure
                } else {
                    before.failure.clone()
                },
                succeeded: known.succeeded.or(before.succeeded),
                ..known
            },
        }
    }
}
