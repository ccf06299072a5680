//! Whether processes run as they should, and if not, which pod is the problem.

use std::collections::BTreeSet;

use c5c3_kit::mask::Mask;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;

use crate::build::{self, Configuration, is_scaled, workload_name};
use crate::facts::{Facts, Live, has_ended};
use crate::names::{CONFIG, IMAGE};
use crate::shape::{Process, Service};

/// How far a workload has brought its pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Progress {
    pub wanted: i32,
    pub updated: i32,
    pub up: i32,
    pub done: bool,
}

pub(crate) fn progress(service: &Service, process: &Process, live: &Live) -> Progress {
    let wanted = match (process.wanted(), live.replicas) {
        (Some(_), Some(number)) if is_scaled(service, process) => number,
        (Some(wanted), _) => wanted,
        // As many as there are nodes.
        (None, nodes) => nodes.unwrap_or(0),
    };
    let Live {
        updated, available, ..
    } = *live;
    // Numbers of an earlier generation say nothing of this one.
    let seen = live.observed_generation.is_some() && live.observed_generation == live.metadata.generation;
    Progress {
        wanted,
        updated,
        up: available,
        done: seen && updated >= wanted && available >= wanted && live.total == updated,
    }
}

/// It was up with this image and configuration when it was looked at.
pub(crate) fn is_up(
    service: &Service,
    facts: &Facts,
    configuration: &Configuration,
    process: &Process,
) -> bool {
    let Some(live) = facts.live(process, &workload_name(service, process)) else {
        return false;
    };
    let template = &live.template;
    let hash = annotation(template.metadata.as_ref(), CONFIG).map(String::as_str);
    let image = build::image(service, process);
    hash == Some(configuration.hash_of(&process.settings))
        && image_of(template.metadata.as_ref(), template.spec.as_ref(), process) == Some(&image)
        && progress(service, process, &live).done
}

/// A pod that may still do something with another image.
pub(crate) fn left_over<'a>(service: &Service, facts: &'a Facts) -> Option<&'a Pod> {
    let another = |pod: &&Pod| {
        let mut processes = service.processes.iter().filter(|process| !process.is_on_nodes());
        let process = processes.find(|process| is_of(pod, process));
        process.is_some_and(|process| {
            let image = build::image(service, process);
            image_of(Some(&pod.metadata), pod.spec.as_ref(), process) != Some(&image)
        })
    };
    let pods = facts.pods.iter().filter(|pod| !has_ended(pod));
    pods.filter(another).min_by_key(|pod| pod.name_any())
}

fn annotation<'a>(meta: Option<&'a ObjectMeta>, name: &str) -> Option<&'a String> {
    meta?.annotations.as_ref()?.get(name)
}

/// The image as the spec named it; of a pod from before this was noted, that of our container.
fn image_of<'a>(
    meta: Option<&'a ObjectMeta>,
    pod: Option<&'a PodSpec>,
    process: &Process,
) -> Option<&'a String> {
    let container = || {
        let mut containers = pod?.containers.iter();
        let ours = containers.find(|container| container.name == process.name)?;
        ours.image.as_ref()
    };
    annotation(meta, IMAGE).or_else(container)
}

/// Whether it is a pod of that process.
pub(crate) fn is_of(pod: &Pod, process: &Process) -> bool {
    pod.labels()
        .get("app.kubernetes.io/component")
        .is_some_and(|component| *component == process.name)
}

/// Nodes on which one of these processes is up, sorted.
pub(crate) fn nodes_of(facts: &Facts, processes: &[String]) -> Vec<String> {
    let up = |pod: &&Pod| {
        let conditions = pod
            .status
            .iter()
            .flat_map(|status| status.conditions.iter().flatten());
        let ready = conditions
            .clone()
            .any(|c| c.type_ == "Ready" && c.status == "True");
        ready && pod.metadata.deletion_timestamp.is_none()
    };
    let component = |pod: &&Pod| {
        let component = pod.labels().get("app.kubernetes.io/component");
        component.is_some_and(|component| processes.contains(component))
    };
    let pods = facts.pods.iter().filter(component).filter(up);
    let nodes = pods.filter_map(|pod| pod.spec.as_ref()?.node_name.clone());
    nodes.collect::<BTreeSet<String>>().into_iter().collect()
}

/// The pod that says most about why a process is not up, in words that follow others.
pub(crate) fn blocked_pod(facts: &Facts, process: &Process, hidden: &Mask, now: Timestamp) -> String {
    let pods = facts.pods.iter().filter(|pod| is_of(pod, process));
    let pods: Vec<&Pod> = pods
        .filter(|pod| pod.metadata.deletion_timestamp.is_none())
        .collect();
    let first = |why: fn(&Pod) -> Option<String>| pods.iter().find_map(|pod| why(pod));
    let words = first(fails)
        .or_else(|| first(build::unplaced))
        .or_else(|| pods.iter().find_map(|pod| build::hanging(pod, now)))
        .or_else(|| first(unready));
    words
        .map(|words| format!("; {}", hidden.hide(&words)))
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
    running.then(|| format!("pod {} is running but not ready{why}", pod.name_any()))
}
