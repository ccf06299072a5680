//! Steps that run to their end, and what became of them.

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use serde_json::{Value, json};

use super::{Configuration, pod};
use crate::config;
use crate::descriptor::Step;
use crate::facts::Facts;
use crate::names::Names;
use crate::subject::{Subject, Task};

/// A Job is named by what it does and with what: other inputs make another Job.
pub fn job<S: Subject>(
    subject: &S,
    configuration: &Configuration,
    steps: &[Step],
    task: Option<&Task>,
) -> Value {
    let names = Names::of(subject);
    // Several commands in one container would need a shell; init containers keep their order.
    let mut pods: Vec<Value> = steps
        .iter()
        .map(|step| {
            let mut environment: Vec<Value> = Vec::new();
            for (name, value) in task.iter().flat_map(|task| &task.environment) {
                environment.push(json!({"name": name, "value": value}));
            }
            for (name, secret, key) in task.iter().flat_map(|task| &task.secrets) {
                environment
                    .push(json!({"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}));
            }
            let shape = pod::Shape {
                container: step.name,
                command: json!(step.command),
                environment,
                with_volumes: false,
            };
            pod::spec(subject, configuration, shape)
        })
        .collect();
    // A descriptor names at least one step.
    let mut spec = pods.pop().unwrap_or_default();
    let first: Vec<Value> = pods
        .into_iter()
        .filter_map(|pod| pod["containers"].get(0).cloned())
        .collect();
    if !first.is_empty() {
        spec["initContainers"] = json!(first);
    }
    spec["restartPolicy"] = "Never".into();
    let title = steps.last().map_or("step", |step| step.name);
    let hash = config::hash_value(&spec);
    let mut labels = names.process_labels(title);
    labels["c5c3.io/step"] = title.into();
    json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": names.metadata(&names.suffixed(&format!("{title}-{hash}"))),
        "spec": {
            "backoffLimit": 4,
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    })
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Missing,
    Running(String),
    Complete,
    Failed(String),
}

/// How the Job of that name stands; secrets in its last words are masked.
pub fn outcome(facts: &Facts, name: &str, hidden: &[String]) -> Outcome {
    let Some(job) = facts.jobs.get(name) else {
        return Outcome::Missing;
    };
    let conditions = job.status.as_ref().and_then(|status| status.conditions.as_ref());
    let holds =
        |kind: &str| conditions.is_some_and(|all| all.iter().any(|c| c.type_ == kind && c.status == "True"));
    if holds("Complete") {
        return Outcome::Complete;
    }
    let words = last_words(facts, job).map(|text| mask(&text, hidden));
    if holds("Failed") {
        return Outcome::Failed(words.unwrap_or_else(|| "it ended without a word; see its pods".to_owned()));
    }
    Outcome::Running(words.unwrap_or_default())
}

/// The last lines that a failed container left, or why its pod does not start.
fn last_words(facts: &Facts, job: &Job) -> Option<String> {
    let uid = job.uid()?;
    let mut pods: Vec<&Pod> = facts
        .pods
        .iter()
        .filter(|pod| pod.owner_references().iter().any(|owner| owner.uid == uid))
        .collect();
    pods.sort_by_key(|pod| pod.creation_timestamp().map(|time| time.0));
    let status = pods.last()?.status.as_ref()?;
    let statuses = status
        .init_container_statuses
        .iter()
        .flatten()
        .chain(status.container_statuses.iter().flatten());
    statuses
        .filter_map(|container| {
            let state = container.state.as_ref()?;
            if let Some(ended) = state.terminated.as_ref().filter(|ended| ended.exit_code != 0) {
                let text = ended.message.as_deref().unwrap_or_default().trim();
                let lines: Vec<&str> = text.lines().rev().take(3).collect();
                let words: Vec<&str> = lines.into_iter().rev().collect();
                return Some(if words.is_empty() {
                    format!("exit code {}", ended.exit_code)
                } else {
                    words.join(" | ")
                });
            }
            let waiting = state.waiting.as_ref()?;
            let reason = waiting
                .reason
                .as_deref()
                .filter(|reason| *reason != "ContainerCreating" && *reason != "PodInitializing")?;
            Some(format!(
                "{reason}: {}",
                waiting.message.as_deref().unwrap_or_default()
            ))
        })
        .next()
}

pub fn mask(text: &str, hidden: &[String]) -> String {
    hidden
        .iter()
        .fold(text.to_owned(), |text, secret| text.replace(secret, "***"))
}
