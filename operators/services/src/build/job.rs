//! Jobs for steps that run to completion, and their outcome.

use c5c3_kit::mask::Mask;
use c5c3_kit::pod::{env, env_secret};
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::{ContainerStatus, EnvVar, Pod, PodSpec, PodTemplateSpec};
use kube::ResourceExt;
use serde_json::json;

use super::hanging::hanging;
use super::secrets::variable;
use super::{Configuration, pod};
use crate::config;
use crate::facts::{Facts, has_ended};
use crate::names::{Names, POD, SCHEMA};
use crate::shape::{Requests, Rights, Service, Step, Task, Volume};

/// Steps that one Job runs, in order, and what decides whether they must run again.
#[derive(Debug)]
pub struct Steps<'a> {
    /// Names the Job.
    pub title: String,
    /// Name of the settings that the steps read.
    pub settings: String,
    pub steps: Vec<Step>,
    /// The steps that name the Job: an upgrade gets to the same schema by other steps.
    pub named_by: Vec<Step>,
    pub task: Option<&'a Task>,
    /// The database is on its way: so many seconds are given to it.
    pub patience: Option<u32>,
    /// A file that must be there first.
    pub wait_for: Option<String>,
    /// Other inputs make another Job.
    pub inputs: Vec<String>,
    pub volumes: Vec<Volume>,
    pub schema: Option<Schema>,
}

/// The database schema that a Job stands for when it is complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schema {
    /// Another schema has another mark.
    pub mark: String,
    /// The Job that has made it already.
    pub made_by: Option<String>,
}

impl Steps<'_> {
    /// The name of the Job, derived from what it does and its inputs.
    pub fn name(&self, names: &Names) -> String {
        let commands = json!(self.named_by.iter().map(Step::words).collect::<Vec<_>>());
        let hash = config::hash_value(&json!([commands, self.inputs]));
        names.suffixed(&format!("{}-{hash}", self.title))
    }

    pub fn job(&self, service: &Service, configuration: &Configuration) -> Job {
        let names = &service.names;
        let mut metadata = names.metadata(&self.name(names));
        let annotations = metadata.annotations.get_or_insert_default();
        annotations.insert(POD.to_owned(), self.content(service, configuration));
        if let Some(schema) = &self.schema {
            annotations.insert(SCHEMA.to_owned(), schema.mark.clone());
        }
        // It is tried until it works or is replaced: the world may heal without a word to us.
        let spec = self.run(service, configuration, "OnFailure", 100_000);
        Job {
            metadata,
            spec: Some(spec),
            ..Job::default()
        }
    }

    /// What runs: a pod that may be restarted so many times.
    pub fn run(
        &self,
        service: &Service,
        configuration: &Configuration,
        restart: &str,
        limit: i32,
    ) -> JobSpec {
        JobSpec {
            backoff_limit: Some(limit),
            template: PodTemplateSpec {
                metadata: Some(service.names.pod_metadata(&self.title)),
                spec: Some(PodSpec {
                    restart_policy: Some(restart.to_owned()),
                    ..self.pod_with(service, configuration, self.patience)
                }),
            },
            ..JobSpec::default()
        }
    }

    /// What its pod is made of, apart from the time that is given to the database.
    fn content(&self, service: &Service, configuration: &Configuration) -> String {
        config::hash_value(&json!(self.pod_with(service, configuration, None)))
    }

    /// The existing Job was created from other inputs and is not at work: if it is recreated, it may
    /// succeed.
    pub fn is_outdated(&self, service: &Service, configuration: &Configuration, facts: &Facts) -> bool {
        let Some(live) = facts.jobs.get(&self.name(&service.names)) else {
            return false;
        };
        !is_complete(live)
            && !runs_now(facts, live)
            && live.annotations().get(POD) != Some(&self.content(service, configuration))
    }

    /// The pod that runs the steps.
    fn pod_with(&self, service: &Service, configuration: &Configuration, patience: Option<u32>) -> PodSpec {
        let fixed = ["python3", "-c", include_str!("steps.py")];
        let mut command: Vec<String> = fixed.map(str::to_owned).into();
        if let Some(seconds) = patience {
            command.extend(["--patience".to_owned(), seconds.to_string()]);
        }
        if let Some(path) = &self.wait_for {
            command.extend(["--wait-for".to_owned(), path.clone()]);
        }
        for step in &self.steps {
            command.push("--".to_owned());
            command.extend(step.words());
        }
        let mut environment: Vec<EnvVar> = Vec::new();
        let settings = service.settings.iter();
        let own = settings.filter(|settings| settings.name == self.settings);
        for (group, _) in own.flat_map(|settings| &settings.databases) {
            // A database that does not answer is a failure to be told, not to be sat out.
            for (option, value) in [("max_retries", "2"), ("retry_interval", "1")] {
                environment.push(env(variable(group, option), value));
            }
        }
        for (name, value) in self.task.iter().flat_map(|task| &task.environment) {
            environment.push(env(name, value));
        }
        for (name, secret, key) in self.task.iter().flat_map(|task| &task.secrets) {
            environment.push(env_secret(name, secret, key));
        }
        let container = pod::Container {
            name: &self.title,
            image: service.image(),
            command,
            environment,
            volumes: &self.volumes,
            rights: &Rights::None,
            credentials: self.steps.iter().any(|step| step.credentials),
            elsewhere: false,
            requests: Requests::STEP,
            scaled: false,
            facts: None,
            masked: true,
        };
        pod::spec(service, configuration.of(&self.settings), container)
    }

    /// The outcome of the Job; secrets in its message are masked.
    pub fn outcome(&self, names: &Names, facts: &Facts, hidden: &Mask, now: Timestamp) -> Outcome {
        let Some(job) = facts.jobs.get(&self.name(names)) else {
            return Outcome::Missing;
        };
        let hangs = || newest_pod(facts, job).and_then(|pod| hanging(pod, now));
        match self.outcome_of(job, facts, hidden) {
            Outcome::Running => {
                hangs().map_or(Outcome::Running, |words| Outcome::Waiting(hidden.hide(&words)))
            }
            other => other,
        }
    }

    /// The same of a Job that runs these steps.
    pub fn outcome_of(&self, job: &Job, facts: &Facts, hidden: &Mask) -> Outcome {
        if is_complete(job) {
            return Outcome::Complete;
        }
        let failed = has_failed(job);
        let pod = newest_pod(facts, job);
        if let Some(words) = pod.and_then(unplaced) {
            return Outcome::Waiting(words);
        }
        match pod.and_then(|pod| statuses(pod).find_map(of_container)) {
            Some(Trouble { step, words }) => Outcome::Failed {
                // Any other number is that of a signal.
                step: if step < self.steps.len() { step } else { 0 },
                words: hidden.hide(&words),
                again: !failed,
            },
            None if failed => Outcome::Failed {
                step: 0,
                words: format!(
                    "it ended without a message; delete Job {} to try again",
                    job.name_any()
                ),
                again: false,
            },
            None => Outcome::Running,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Missing,
    Running,
    /// No node takes its pod, or the pod hangs there; the words say why.
    Waiting(String),
    Complete,
    /// The step with this number, from 0.
    Failed {
        step: usize,
        words: String,
        again: bool,
    },
}

struct Trouble {
    step: usize,
    words: String,
}

pub fn has_title(job: &Job, title: &str) -> bool {
    let template = job.spec.as_ref().and_then(|spec| spec.template.metadata.as_ref());
    let labels = template.and_then(|meta| meta.labels.as_ref());
    labels
        .and_then(|labels| labels.get("app.kubernetes.io/component"))
        .is_some_and(|component| component == title)
}

fn holds(job: &Job, condition: &str) -> bool {
    let conditions = job.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.is_some_and(|all| all.iter().any(|c| c.type_ == condition && c.status == "True"))
}

pub fn is_complete(job: &Job) -> bool {
    holds(job, "Complete")
}

pub fn has_failed(job: &Job) -> bool {
    holds(job, "Failed")
}

fn pods_of<'a>(facts: &'a Facts, job: &Job) -> impl Iterator<Item = &'a Pod> {
    let uid = job.uid().unwrap_or_default();
    let ours = move |pod: &&Pod| pod.owner_references().iter().any(|owner| owner.uid == uid);
    facts.pods.iter().filter(ours)
}

fn newest_pod<'a>(facts: &'a Facts, job: &Job) -> Option<&'a Pod> {
    pods_of(facts, job).max_by_key(|pod| pod.creation_timestamp().map(|time| time.0))
}

/// The termination message of a Job that ended, successfully or not.
pub fn last_word<'a>(facts: &'a Facts, job: &Job) -> Option<&'a str> {
    let pod = newest_pod(facts, job)?;
    let ended = |container: &'a ContainerStatus| container.state.as_ref()?.terminated.as_ref();
    let mut ended = statuses(pod).filter_map(ended);
    ended.find_map(|ended| ended.message.as_deref())
}

/// A step is running right now: stopping it might leave a change half done. A Job that waits for its
/// image, a node or the next retry is not running.
pub fn runs_now(facts: &Facts, job: &Job) -> bool {
    pods_of(facts, job).any(|pod| statuses(pod).any(is_running))
}

/// A pod that is still at work, with one of these titles, though its Job is gone.
pub fn orphan_at_work<'a>(facts: &Facts, titles: impl Iterator<Item = &'a str> + Clone) -> Option<String> {
    let known = |uid: &str| facts.jobs.values().any(|job| job.uid().as_deref() == Some(uid));
    let ours = |pod: &&Pod| {
        let component = pod.labels().get("app.kubernetes.io/component");
        titles
            .clone()
            .any(|title| component.is_some_and(|found| found == title))
    };
    let orphaned = |pod: &&Pod| {
        let mut owners = pod.owner_references().iter();
        owners.any(|owner| owner.kind == "Job" && !known(&owner.uid))
    };
    let at_work = |pod: &&Pod| statuses(pod).any(is_running) && !has_ended(pod);
    let mut pods = facts.pods.iter().filter(ours);
    let found = pods.find(|pod| orphaned(pod) && at_work(pod));
    found.map(|pod| format!("pod {}, whose Job is gone", pod.name_any()))
}

fn is_running(container: &ContainerStatus) -> bool {
    container
        .state
        .as_ref()
        .is_some_and(|state| state.running.is_some())
}

/// Why the pod is not scheduled.
pub fn unplaced(pod: &Pod) -> Option<String> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let found = conditions
        .iter()
        .find(|c| c.type_ == "PodScheduled" && c.status == "False")?;
    let why = found.message.as_deref().unwrap_or("no reason given");
    Some(format!("pod {} is not scheduled: {why}", pod.name_any()))
}

pub fn statuses(pod: &Pod) -> impl Iterator<Item = &ContainerStatus> {
    pod.status.iter().flat_map(|status| {
        let first = status.init_container_statuses.iter().flatten();
        first.chain(status.container_statuses.iter().flatten())
    })
}

fn of_container(container: &ContainerStatus) -> Option<Trouble> {
    match last_words(container) {
        Some((code, words)) => Some(Trouble {
            // The runner ends with the number of the step that failed.
            step: usize::try_from(code - 1).unwrap_or(0),
            words,
        }),
        None => not_starting(container).map(|words| Trouble { step: 0, words }),
    }
}

/// The exit code of a container that failed, and the last lines that it left.
pub fn last_words(container: &ContainerStatus) -> Option<(i32, String)> {
    let ended = [container.state.as_ref(), container.last_state.as_ref()];
    let ended = ended
        .into_iter()
        .flatten()
        .find_map(|state| state.terminated.as_ref())
        .filter(|ended| ended.exit_code != 0)?;
    let text = ended.message.as_deref().unwrap_or_default().trim();
    let lines: Vec<&str> = text
        .lines()
        .rev()
        .filter(|line| !line.trim().is_empty())
        .take(3)
        .collect();
    let words: Vec<&str> = lines.into_iter().rev().collect();
    let words = if words.is_empty() {
        format!("exit code {}", ended.exit_code)
    } else {
        words.join(" | ")
    };
    Some((ended.exit_code, words))
}

/// Why a container does not start, unless it is still starting normally.
pub fn not_starting(container: &ContainerStatus) -> Option<String> {
    let waiting = container.state.as_ref()?.waiting.as_ref()?;
    let reason = waiting
        .reason
        .as_deref()
        .filter(|reason| *reason != "ContainerCreating" && *reason != "PodInitializing")?;
    let message = waiting.message.as_deref().unwrap_or_default();
    Some(format!("{reason}: {message}"))
}
