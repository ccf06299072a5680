//! Pod Security Standards: what a pod may ask of its node, by the labels of its namespace.
//!
//! The checks are pure functions of a pod's metadata and spec; [`admission`] asks them.

mod admission;
mod baseline;
mod pod;
mod policy;
mod restricted;

pub(crate) use admission::judge;
use pod::{Pod, Violation};
use policy::{Level, LevelVersion};

/// One control of a standard.
struct Check {
    id: &'static str,
    /// The minor version of Kubernetes whose standard had it first.
    since: u32,
    /// Controls of the baseline that this one is a stricter form of.
    replaces: Option<&'static str>,
    /// What the pod does wrong by the standard of a minor version.
    check: fn(&Pod<'_>, u32) -> Option<Violation>,
}

/// What a pod does wrong by a standard, in the order in which Kubernetes tells it.
fn evaluate(standard: LevelVersion, pod: &Pod<'_>) -> Vec<Violation> {
    let minor = standard.version.minor();
    let part_of = |check: &&Check| check.since <= minor;
    let baseline = baseline::CHECKS.iter().filter(part_of);
    let restricted = restricted::CHECKS.iter().filter(part_of);
    let checks: Vec<&Check> = match standard.level {
        Level::Privileged => Vec::new(),
        Level::Baseline => baseline.collect(),
        Level::Restricted => {
            let replaced: Vec<&str> = restricted.clone().filter_map(|check| check.replaces).collect();
            baseline
                .filter(|check| !replaced.contains(&check.id))
                .chain(restricted)
                .collect()
        }
    };
    checks
        .iter()
        .filter_map(|check| (check.check)(pod, minor))
        .collect()
}

#[cfg(test)]
mod tests;
