//! The last report about a pod: which version of the object has it, and whether the watch
//! has caught up with it.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodStatus};

/// Between two reports that say the same.
const AGAIN: Duration = Duration::from_secs(1);

#[derive(Clone, Debug)]
pub(in crate::pods) struct Report {
    pub status: PodStatus,
    version: Option<u64>,
    at: Timestamp,
}

impl Report {
    pub(in crate::pods) fn new(status: PodStatus, version: Option<String>) -> Self {
        Self {
            status,
            version: version.as_deref().and_then(|v| v.parse().ok()),
            at: Timestamp::now(),
        }
    }

    /// Whether the object has this report or something newer. Of a pod that is gone nothing
    /// newer comes.
    pub(in crate::pods) fn is_shown(&self, pod: &Pod) -> bool {
        let shown = pod.metadata.resource_version.as_deref();
        match (shown.and_then(|v| v.parse::<u64>().ok()), self.version) {
            (Some(shown), Some(own)) => shown >= own,
            _ => false,
        }
    }

    pub(in crate::pods) fn again_at(&self) -> Option<Timestamp> {
        self.at.checked_add(AGAIN).ok()
    }

    /// The pod with what was reported.
    pub(in crate::pods) fn over(&self, pod: &Pod) -> Pod {
        let mut seen = Pod::clone(pod);
        let (status, own) = (seen.status.get_or_insert_default(), &self.status);
        status.phase.clone_from(&own.phase);
        status.start_time.clone_from(&own.start_time);
        status.pod_ip.clone_from(&own.pod_ip);
        status.container_statuses.clone_from(&own.container_statuses);
        status
            .init_container_statuses
            .clone_from(&own.init_container_statuses);
        seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newer_version_shows_the_report() {
        let pod = |version: Option<&str>| {
            let mut pod = Pod::default();
            pod.metadata.resource_version = version.map(String::from);
            pod
        };
        let report = Report::new(PodStatus::default(), Some("10".into()));
        assert!(!report.is_shown(&pod(Some("9"))), "the watch is behind");
        assert!(report.is_shown(&pod(Some("10"))));
        assert!(report.is_shown(&pod(Some("11"))), "somebody wrote after it");
        assert!(!report.is_shown(&pod(None)));
        let lost = Report::new(PodStatus::default(), None);
        assert!(!lost.is_shown(&pod(Some("11"))));
    }
}
