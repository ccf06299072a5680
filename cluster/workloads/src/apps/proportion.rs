//! A Deployment that is scaled while it rolls out shares the difference among its ReplicaSets, each by
//! its size: a rollout that stands still keeps its risk at the same part of all pods.

use k8s_openapi::api::apps::v1::ReplicaSet;
use kube::ResourceExt;
use serde_json::{Value, json};

/// Written on a ReplicaSet when it is scaled: what the Deployment wanted then, and how many pods it
/// could have at most.
const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
const MOST: &str = "deployment.kubernetes.io/max-replicas";

/// The number that a Deployment wants, and the most that it may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    pub desired: i32,
    pub most: i32,
}

impl Size {
    pub(crate) fn annotations(self) -> Value {
        json!({DESIRED: self.desired.to_string(), MOST: self.most.to_string()})
    }

    /// That of the time when the set was last scaled.
    fn of(set: &ReplicaSet) -> Option<Self> {
        let read = |name| set.annotations().get(name)?.parse().ok();
        Some(Size {
            desired: read(DESIRED)?,
            most: read(MOST)?,
        })
    }
}

/// Whether the Deployment wants another number now than when its sets were last scaled.
pub(crate) fn is_scaled(active: &[&ReplicaSet], size: Size) -> bool {
    let other = |set: &&ReplicaSet| Size::of(set).is_some_and(|then| then.desired != size.desired);
    active.iter().any(other)
}

/// The new size of each active set, in their order.
pub(crate) fn share(active: &[&ReplicaSet], size: Size) -> Vec<i32> {
    let replicas = |set: &ReplicaSet| set.spec.replicas.unwrap_or(1);
    let mut sizes: Vec<i32> = active.iter().map(|set| replicas(set)).collect();
    if size.desired == 0 {
        return vec![0; sizes.len()];
    }
    let total: i32 = sizes.iter().sum();
    let to_add = size.most - total;
    // The largest first; of equal ones the newest when it goes up, the oldest when it goes down.
    let mut order: Vec<usize> = (0..active.len()).collect();
    order.sort_by_key(|&i| {
        let age = i32::try_from(i).unwrap_or(i32::MAX);
        (-sizes[i], if to_add > 0 { -age } else { age })
    });
    let mut added = 0;
    for &i in &order {
        let then = Size::of(active[i]).map_or(size.most, |then| then.most).max(1);
        let wanted = (f64::from(sizes[i]) * f64::from(size.most) / f64::from(then)).round();
        let part = wanted as i32 - sizes[i];
        let left = to_add - added;
        let part = if to_add > 0 {
            part.clamp(0, left.max(0))
        } else {
            part.clamp(left.min(0), 0)
        };
        sizes[i] += part;
        added += part;
    }
    // What rounding left goes to the largest, as far as it has as many.
    let mut left = to_add - added;
    for &i in &order {
        let part = left.max(-sizes[i]);
        sizes[i] += part;
        left -= part;
    }
    sizes
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn set(replicas: i32, desired: i32, most: i32) -> ReplicaSet {
        serde_json::from_value(json!({
            "metadata": {"name": "s", "annotations": Size { desired, most }.annotations()},
            "spec": {"replicas": replicas, "selector": {}},
        }))
        .expect("a set")
    }

    #[test]
    fn replicas_are_shared_by_size() {
        type Case = (&'static [i32], (i32, i32), (i32, i32), &'static [i32]);
        let cases: [Case; 5] = [
            (&[8, 5], (10, 13), (30, 33), &[20, 13]),
            (&[20, 13], (30, 33), (5, 8), &[5, 3]),
            (&[5, 5], (10, 10), (11, 11), &[5, 6]),
            (&[3, 3], (6, 6), (5, 5), &[2, 3]),
            (&[8, 5], (10, 13), (0, 3), &[0, 0]),
        ];
        for (sizes, then, now, wanted) in cases {
            let sets: Vec<ReplicaSet> = sizes.iter().map(|n| set(*n, then.0, then.1)).collect();
            let sets: Vec<&ReplicaSet> = sets.iter().collect();
            let size = Size {
                desired: now.0,
                most: now.1,
            };
            assert!(is_scaled(&sets, size));
            assert_eq!(share(&sets, size), wanted, "{sizes:?} {then:?} {now:?}");
        }
    }

    proptest! {
        #[test]
        fn the_sum_is_what_is_allowed(sizes in proptest::collection::vec(1i32..40, 1..5), surge in 0i32..5, now in 1i32..120) {
            let total: i32 = sizes.iter().sum();
            let sets: Vec<ReplicaSet> = sizes.iter().map(|n| set(*n, (total - surge).max(1), total)).collect();
            let sets: Vec<&ReplicaSet> = sets.iter().collect();
            let shared = share(&sets, Size { desired: now, most: now + surge });
            prop_assert!(shared.iter().all(|n| *n >= 0));
            prop_assert_eq!(shared.iter().sum::<i32>(), now + surge);
        }
    }
}
