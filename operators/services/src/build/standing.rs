//! How far a workload has come with what was built for it.

use k8s_openapi::api::core::v1::PodSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{Configuration, image, is_scaled, workload_name};
use crate::facts::{Facts, Live};
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
    let wanted = image(service, process);
    hash == Some(configuration.hash_of(&process.settings))
        && image_of(template.metadata.as_ref(), template.spec.as_ref(), process) == Some(&wanted)
        && progress(service, process, &live).done
}

pub(crate) fn annotation<'a>(meta: Option<&'a ObjectMeta>, name: &str) -> Option<&'a String> {
    meta?.annotations.as_ref()?.get(name)
}

/// The image as the spec named it; of a pod from before this was noted, that of our container.
pub(crate) fn image_of<'a>(
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
