//! Whether processes run as they should, and what keeps a pod from it.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

use crate::build::{self, Configuration, deployment_name, is_scaled};
use crate::descriptor::Process;
use crate::facts::Facts;
use crate::names::{CONFIG, Names};
use crate::subject::Subject;

/// How far a Deployment has brought its pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    pub wanted: i32,
    pub updated: i32,
    pub up: i32,
    pub done: bool,
}

pub fn progress<S: Subject>(subject: &S, process: &Process, live: &Deployment) -> Progress {
    let status = live.status.clone().unwrap_or_default();
    let wanted = match live.spec.replicas {
        Some(number) if is_scaled(subject, process) => number,
        _ => subject.replicas(process.name),
    };
    let updated = status.updated_replicas.unwrap_or(0);
    let up = status.available_replicas.unwrap_or(0);
    // Numbers of an earlier generation say nothing of this one.
    let seen = status.observed_generation.is_some() && status.observed_generation == live.metadata.generation;
    Progress {
        wanted,
        updated,
        up,
        done: seen && updated >= wanted && up >= wanted && status.replicas.unwrap_or(0) == updated,
    }
}

/// It was up with this image and configuration when it was looked at.
pub fn is_up<S: Subject>(
    subject: &S,
    facts: &Facts,
    configuration: &Configuration,
    process: &Process,
) -> bool {
    let name = deployment_name::<S>(&Names::of(subject), process);
    let Some(live) = facts.deployments.get(&name) else {
        return false;
    };
    let template = live.spec.template.metadata.as_ref();
    let hash = template
        .and_then(|meta| meta.annotations.as_ref())
        .and_then(|all| all.get(CONFIG));
    let image = subject.common().image.reference();
    let containers = live.spec.template.spec.iter().flat_map(|pod| &pod.containers);
    let same = containers
        .into_iter()
        .all(|container| container.image.as_deref() == Some(&image));
    hash == Some(&configuration.hash) && same && progress(subject, process, live).done
}

/// All processes are up, and not even a pod that is on its way out runs another image.
pub fn everywhere<S: Subject>(subject: &S, facts: &Facts, configuration: &Configuration) -> bool {
    let image = subject.common().image.reference();
    let processes = S::DESCRIPTOR.processes;
    let ours = |pod: &&Pod| processes.iter().any(|process| is_of(pod, process));
    let another = |pod: &Pod| {
        let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
        containers
            .into_iter()
            .any(|container| container.image.as_deref() != Some(&image))
    };
    processes
        .iter()
        .all(|process| is_up(subject, facts, configuration, process))
        && !facts.pods.iter().filter(ours).any(another)
}

fn is_of(pod: &Pod, process: &Process) -> bool {
    pod.labels()
        .get("app.kubernetes.io/component")
        .is_some_and(|component| component == process.name)
}

/// The pod that says most about why a process is not up, in words that follow others.
pub fn blocked_pod(facts: &Facts, process: &Process, hidden: &[String]) -> String {
    let pods = facts.pods.iter().filter(|pod| is_of(pod, process));
    let pods: Vec<&Pod> = pods
        .filter(|pod| pod.metadata.deletion_timestamp.is_none())
        .collect();
    let first = |why: fn(&Pod) -> Option<String>| pods.iter().find_map(|pod| why(pod));
    let words = first(fails)
        .or_else(|| first(build::unplaced))
        .or_else(|| first(unready));
    words
        .map(|words| format!("; {}", build::mask(&words, hidden)))
        .unwrap_or_default()
}

/// It does not start, or ends again and again: its last words tell more than the pause before the
/// next try.
fn fails(pod: &Pod) -> Option<String> {
    let words = build::statuses(pod).find_map(|container| {
        let waits = build::not_starting(container);
        let ready = container.ready;
        match (build::last_words(container), waits) {
            (Some((_, words)), _) if !ready => Some(words),
            (_, waits) => waits,
        }
    })?;
    Some(format!("pod {}: {words}", pod.name_any()))
}

fn unready(pod: &Pod) -> Option<String> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let running = build::statuses(pod).any(|container| {
        container
            .state
            .as_ref()
            .is_some_and(|state| state.running.is_some())
    });
    let ready = conditions
        .iter()
        .find(|c| c.type_ == "Ready" && c.status == "False")?;
    let why = ready
        .message
        .as_deref()
        .map(|why| format!(": {why}"))
        .unwrap_or_default();
    running.then(|| format!("pod {} runs and is not ready{why}", pod.name_any()))
}
