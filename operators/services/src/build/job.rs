//! Steps that run to their end, and what became of them.

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::ResourceExt;
use serde_json::{Value, json};

use super::secrets::{self, mask, variable};
use super::{Configuration, database_ready, pod};
use crate::config;
use crate::descriptor::Step;
use crate::error::Error;
use crate::facts::Facts;
use crate::names::Names;
use crate::subject::{Subject, Task};

/// Steps that one Job runs, in order, and what decides whether they must run again.
#[derive(Debug)]
pub struct Steps<'a> {
    /// Names the Job.
    pub title: &'static str,
    pub steps: Vec<Step>,
    pub task: Option<&'a Task>,
    /// The database is on its way: so many seconds are given to it.
    pub patience: Option<u32>,
    /// A file that must be there first.
    pub wait_for: Option<String>,
    /// Other inputs make another Job.
    pub inputs: Vec<String>,
}

impl<'a> Steps<'a> {
    /// The schema and what follows it: one Job, one Python process for all.
    pub fn setup<S: Subject>(
        subject: &S,
        configuration: &Configuration,
        task: Option<&'a Task>,
        facts: &Facts,
    ) -> Result<Self, Error> {
        let mut inputs = vec![
            subject.common().image.reference(),
            configuration.database_hash.clone(),
        ];
        if let Some(task) = task {
            inputs.extend(
                task.environment
                    .iter()
                    .map(|(name, value)| format!("{name}={value}")),
            );
            for (name, secret, key) in &task.secrets {
                let value = secrets::value(facts, secret, key)?;
                inputs.push(config::hash(&[name, &value]));
            }
        }
        let schema = S::DESCRIPTOR.schema;
        Ok(Steps {
            title: schema.first().map_or("setup", |step| step.name),
            steps: schema.iter().copied().chain(task.map(|task| task.step)).collect(),
            task,
            patience: database_ready(subject, facts).is_err().then_some(120),
            wait_for: None,
            inputs,
        })
    }

    /// The Job's name says what it does and with what.
    pub fn name(&self, names: &Names) -> String {
        let commands = json!(self.steps.iter().map(|step| step.command).collect::<Vec<_>>());
        let hash = config::hash_value(&json!([commands, self.inputs]));
        names.suffixed(&format!("{}-{hash}", self.title))
    }

    pub fn job<S: Subject>(&self, subject: &S, configuration: &Configuration) -> Value {
        let names = Names::of(subject);
        let mut command = vec!["python3", "-c", include_str!("steps.py")];
        let patience = self.patience.map(|seconds| seconds.to_string());
        if let Some(seconds) = &patience {
            command.extend(["--patience", seconds]);
        }
        if let Some(path) = &self.wait_for {
            command.extend(["--wait-for", path]);
        }
        for step in &self.steps {
            command.push("--");
            command.extend(step.command);
        }
        let mut environment: Vec<Value> = Vec::new();
        for (group, _) in subject.databases() {
            // A database that does not answer is a failure to be told, not to be sat out.
            for (option, value) in [("max_retries", "2"), ("retry_interval", "1")] {
                environment.push(json!({"name": variable(group, option), "value": value}));
            }
        }
        for (name, value) in self.task.iter().flat_map(|task| &task.environment) {
            environment.push(json!({"name": name, "value": value}));
        }
        for (name, secret, key) in self.task.iter().flat_map(|task| &task.secrets) {
            let source = json!({"secretKeyRef": {"name": secret, "key": key}});
            environment.push(json!({"name": name, "valueFrom": source}));
        }
        let shape = pod::Shape {
            container: self.title,
            command: json!(command),
            environment,
            process: false,
        };
        let mut spec = pod::spec(subject, configuration, shape);
        spec["restartPolicy"] = "OnFailure".into();
        json!({
            "apiVersion": "batch/v1", "kind": "Job",
            "metadata": names.metadata(&self.name(&names)),
            "spec": {
                // It is tried until it works or is replaced: the world may mend without a word to us.
                "backoffLimit": 100_000,
                "template": {"metadata": names.pod_metadata(self.title), "spec": spec},
            },
        })
    }

    /// How it stands; secrets in its last words are masked.
    pub fn outcome(&self, names: &Names, facts: &Facts, hidden: &[String]) -> Outcome {
        let Some(job) = facts.jobs.get(&self.name(names)) else {
            return Outcome::Missing;
        };
        let conditions = job.status.as_ref().and_then(|status| status.conditions.as_ref());
        let holds = |kind: &str| {
            conditions.is_some_and(|all| all.iter().any(|c| c.type_ == kind && c.status == "True"))
        };
        if holds("Complete") {
            return Outcome::Complete;
        }
        match trouble(facts, job) {
            Some(Trouble { step, words }) => Outcome::Failed {
                // Any other number is that of a signal.
                step: if step < self.steps.len() { step } else { 0 },
                words: mask(&words, hidden),
                again: !holds("Failed"),
            },
            None if holds("Failed") => Outcome::Failed {
                step: 0,
                words: format!(
                    "it ended without a word; delete Job {} to try again",
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

/// The last lines that a failed container left, or why its pod does not start.
fn trouble(facts: &Facts, job: &Job) -> Option<Trouble> {
    let uid = job.uid()?;
    let pods = facts
        .pods
        .iter()
        .filter(|pod| pod.owner_references().iter().any(|owner| owner.uid == uid));
    let newest = pods.max_by_key(|pod| pod.creation_timestamp().map(|time| time.0))?;
    statuses(newest).find_map(of_container)
}

pub fn statuses(pod: &Pod) -> impl Iterator<Item = &ContainerStatus> {
    pod.status
        .iter()
        .flat_map(|status| status.container_statuses.iter().flatten())
}

fn of_container(container: &ContainerStatus) -> Option<Trouble> {
    let ended = [container.state.as_ref(), container.last_state.as_ref()];
    let ended = ended
        .into_iter()
        .flatten()
        .find_map(|state| state.terminated.as_ref())
        .filter(|ended| ended.exit_code != 0);
    if let Some(ended) = ended {
        let text = ended.message.as_deref().unwrap_or_default().trim();
        let lines: Vec<&str> = text
            .lines()
            .rev()
            .filter(|line| !line.trim().is_empty())
            .take(3)
            .collect();
        let words: Vec<&str> = lines.into_iter().rev().collect();
        return Some(Trouble {
            // The runner ends with the number of the step that failed.
            step: usize::try_from(ended.exit_code - 1).unwrap_or(0),
            words: if words.is_empty() {
                format!("exit code {}", ended.exit_code)
            } else {
                words.join(" | ")
            },
        });
    }
    not_starting(container).map(|words| Trouble { step: 0, words })
}

/// Why a container does not start, unless it is merely on its way.
pub fn not_starting(container: &ContainerStatus) -> Option<String> {
    let waiting = container.state.as_ref()?.waiting.as_ref()?;
    let reason = waiting
        .reason
        .as_deref()
        .filter(|reason| *reason != "ContainerCreating" && *reason != "PodInitializing")?;
    let message = waiting.message.as_deref().unwrap_or_default();
    Some(format!("{reason}: {message}"))
}
