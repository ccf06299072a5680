//! Whether processes run as they should, and if not, which pod is the problem.

use std::collections::BTreeSet;

use c5c3_kit::mask::Mask;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

use crate::build;
use crate::build::standing::image_of;
pub(crate) use crate::build::standing::{Progress, is_up, progress};
use crate::facts::{Facts, has_ended};
use crate::shape::{Process, Service};

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
