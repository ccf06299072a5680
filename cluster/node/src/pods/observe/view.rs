//! Questions about a pod's specification that several decisions ask.

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    Always,
    OnFailure,
    Never,
}

impl Policy {
    pub fn restarts(self, exit_code: i32) -> bool {
        match self {
            Self::Always => true,
            Self::OnFailure => exit_code != 0,
            Self::Never => false,
        }
    }
}

pub fn policy(spec: &PodSpec) -> Policy {
    match spec.restart_policy.as_deref() {
        Some("Never") => Policy::Never,
        Some("OnFailure") => Policy::OnFailure,
        _ => Policy::Always,
    }
}

/// An init container that stays: started before the others, restarted always.
pub fn is_sidecar(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

pub fn init_containers(spec: &PodSpec) -> &[Container] {
    spec.init_containers.as_deref().unwrap_or_default()
}

pub fn all_containers(spec: &PodSpec) -> impl Iterator<Item = &Container> {
    init_containers(spec).iter().chain(&spec.containers)
}

pub fn find<'a>(spec: &'a PodSpec, name: &str) -> Option<&'a Container> {
    all_containers(spec).find(|c| c.name == name)
}

pub fn is_final(phase: Option<&str>) -> bool {
    matches!(phase, Some("Succeeded" | "Failed"))
}

pub fn phase(pod: &Pod) -> Option<&str> {
    pod.status.as_ref()?.phase.as_deref()
}

pub fn uid(pod: &Pod) -> &str {
    pod.metadata.uid.as_deref().unwrap_or_default()
}

pub fn name(pod: &Pod) -> &str {
    pod.metadata.name.as_deref().unwrap_or_default()
}

pub fn namespace(pod: &Pod) -> &str {
    pod.metadata.namespace.as_deref().unwrap_or("default")
}

pub fn grace(pod: &Pod) -> i64 {
    pod.metadata
        .deletion_grace_period_seconds
        .or_else(|| pod.spec.as_ref()?.termination_grace_period_seconds)
        .unwrap_or(30)
}
