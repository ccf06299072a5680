//! Pods as they were seen.

use k8s_openapi::api::core::v1::Pod;

/// An evicted pod may lie there for long, and does nothing any more.
pub(crate) fn has_ended(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}
