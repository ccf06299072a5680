//! How a Job counts its pods, each once, though any of them may be removed at any time.
//!
//! A finalizer keeps a pod until its end is written down: first its uid in the status, then the
//! finalizer goes, then the uid becomes part of the number.

use std::collections::BTreeSet;

use k8s_openapi::api::batch::v1::{JobStatus, UncountedTerminatedPods};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

use crate::action::Action;
use crate::batch::job::{index_of, number};
use crate::pods;
use crate::table::Key;
use crate::world::World;

pub(crate) const TRACKED: &str = "batch.kubernetes.io/job-tracking";
const JOB_NAME: &str = "batch.kubernetes.io/job-name";

fn is_tracked(pod: &Pod) -> bool {
    pod.finalizers().iter().any(|name| name == TRACKED)
}

/// Ended, or removed for good before anybody said how it ended.
pub(crate) fn has_ended(pod: &Pod) -> bool {
    pods::is_finished(pod) || pods::is_forced(pod)
}

pub(crate) struct Tally {
    /// Written down, with the pods that are let go.
    pub succeeded: i32,
    pub failed: i32,
    pub indexes: BTreeSet<i32>,
    new_succeeded: BTreeSet<String>,
    new_failed: BTreeSet<String>,
}

impl Tally {
    pub(crate) fn of(before: &JobStatus, owned: &[&Pod], indexed: bool) -> Self {
        let noted = before.uncounted_terminated_pods.clone().unwrap_or_default();
        let kept: BTreeSet<String> = owned
            .iter()
            .filter(|pod| is_tracked(pod))
            .filter_map(|pod| pod.uid())
            .collect();
        let ended = |success: bool| {
            owned
                .iter()
                .filter(move |pod| is_tracked(pod) && has_ended(pod))
                .filter(move |pod| (pods::phase(pod) == "Succeeded") == success)
                .filter_map(|pod| pod.uid())
        };
        let split = |noted: Option<Vec<String>>, ended: &mut dyn Iterator<Item = String>| {
            let (mut waiting, free): (BTreeSet<_>, BTreeSet<_>) =
                noted.into_iter().flatten().partition(|uid| kept.contains(uid));
            waiting.extend(ended);
            (waiting, number(free.len()))
        };
        let (new_succeeded, more_succeeded) = split(noted.succeeded, &mut ended(true));
        let (new_failed, more_failed) = split(noted.failed, &mut ended(false));
        let mut indexes = BTreeSet::new();
        let mut succeeded = before.succeeded.unwrap_or(0).saturating_add(more_succeeded);
        if indexed {
            indexes = parse(before.completed_indexes.as_deref().unwrap_or_default());
            let done = owned.iter().filter(|pod| pods::phase(pod) == "Succeeded");
            indexes.extend(done.filter_map(|pod| index_of(pod)));
            succeeded = number(indexes.len());
        }
        Self {
            succeeded,
            failed: before.failed.unwrap_or(0).saturating_add(more_failed),
            indexes,
            new_succeeded,
            new_failed,
        }
    }

    /// With those that are noted and still to be counted. An index counts as soon as it is known.
    pub(crate) fn all_succeeded(&self) -> i32 {
        if self.indexes.is_empty() {
            self.succeeded.saturating_add(number(self.new_succeeded.len()))
        } else {
            self.succeeded
        }
    }

    pub(crate) fn all_failed(&self) -> i32 {
        self.failed.saturating_add(number(self.new_failed.len()))
    }

    pub(crate) fn is_settled(&self) -> bool {
        self.new_succeeded.is_empty() && self.new_failed.is_empty()
    }

    pub(crate) fn uncounted(&self) -> Option<UncountedTerminatedPods> {
        let list =
            |uids: &BTreeSet<String>| (!uids.is_empty()).then(|| uids.iter().cloned().collect::<Vec<_>>());
        Some(UncountedTerminatedPods {
            succeeded: list(&self.new_succeeded),
            failed: list(&self.new_failed),
        })
    }

    /// Lets go of the pods that the stored status has noted.
    pub(crate) fn counted(&self, before: &JobStatus, owned: &[&Pod]) -> Vec<Action> {
        let noted = before.uncounted_terminated_pods.clone().unwrap_or_default();
        let noted: BTreeSet<String> = noted
            .succeeded
            .into_iter()
            .chain(noted.failed)
            .flatten()
            .collect();
        owned
            .iter()
            .filter(|pod| pod.uid().is_some_and(|uid| noted.contains(&uid)))
            .filter_map(|pod| pods::without_finalizer(*pod, TRACKED))
            .collect()
    }
}

/// The Job whose pods a tracked pod is counted with, by name.
pub(crate) fn job_of(pod: &Pod) -> Option<Key> {
    let name = pod.labels().get(JOB_NAME).filter(|_| is_tracked(pod))?;
    Some((pod.namespace().unwrap_or_default(), name.clone()))
}

/// Frees pods of this Job's name that the Job which counts now, if any, does not control.
pub(crate) fn let_go(world: &World, key: &Key, counting: Option<&str>) -> Vec<Action> {
    world
        .pods
        .in_namespace(&key.0)
        .filter(|pod| job_of(pod).as_ref() == Some(key))
        .filter(|pod| {
            let owner = pods::controller_of(pod.as_ref());
            counting.is_none() || owner.map(|owner| owner.uid.as_str()) != counting
        })
        .filter_map(|pod| pods::without_finalizer(pod.as_ref(), TRACKED))
        .collect()
}

/// `0,2-4`, as Kubernetes writes completed indexes.
pub(crate) fn ranges(indexes: &BTreeSet<i32>) -> String {
    let mut runs: Vec<(i32, i32)> = Vec::new();
    for index in indexes {
        match runs.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(*index) => *last = *index,
            _ => runs.push((*index, *index)),
        }
    }
    let text = runs.into_iter().map(|(first, last)| {
        if first == last {
            first.to_string()
        } else {
            format!("{first}-{last}")
        }
    });
    text.collect::<Vec<_>>().join(",")
}

/// More indexes than a Job may have are not worth memory.
const MOST_INDEXES: i32 = 100_000;

fn parse(text: &str) -> BTreeSet<i32> {
    let mut all = BTreeSet::new();
    for run in text.split(',').filter(|run| !run.is_empty()) {
        let (first, last) = run.split_once('-').unwrap_or((run, run));
        if let (Ok(first), Ok(last)) = (first.parse::<i32>(), last.parse::<i32>()) {
            all.extend(first.max(0)..=last.min(MOST_INDEXES));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_are_written_and_read_as_ranges() {
        let indexes = BTreeSet::from([0, 2, 3, 4, 7]);
        assert_eq!(ranges(&indexes), "0,2-4,7");
        assert_eq!(parse("0,2-4,7"), indexes);
        assert_eq!(parse("x,-,3-1,"), BTreeSet::new());
    }
}
