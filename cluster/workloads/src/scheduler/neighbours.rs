//! What a pod wants of the pods beside it: affinity, anti-affinity and spread over topology.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, Pod, PodAffinityTerm, TopologySpreadConstraint};
use kube::ResourceExt;

use super::{Cluster, filter};
use crate::pods;

fn domain<'a>(node: &'a Node, key: &str) -> Option<&'a String> {
    node.labels().get(key)
}

/// Pods that a term means, by the domain they run in.
fn by_domain<'a>(
    cluster: &'a Cluster<'_>,
    key: &str,
    keep: impl Fn(&Pod) -> bool,
) -> BTreeMap<&'a String, i64> {
    let mut counts = BTreeMap::new();
    for place in &cluster.places {
        if let Some(domain) = domain(place.node, key) {
            let count = i64::try_from(place.pods.iter().filter(|pod| keep(pod)).count()).unwrap_or(i64::MAX);
            *counts.entry(domain).or_insert(0) += count;
        }
    }
    counts
}

fn meant(term: &PodAffinityTerm, own: &Pod, other: &Pod) -> bool {
    let namespaces = term.namespaces.clone().unwrap_or_default();
    let same_namespace = if namespaces.is_empty() && term.namespace_selector.is_none() {
        other.namespace() == own.namespace()
    } else {
        term.namespace_selector.is_some() || other.namespace().is_some_and(|ns| namespaces.contains(&ns))
    };
    same_namespace
        && term
            .label_selector
            .as_ref()
            .is_some_and(|selector| pods::selects(selector, other.labels()))
}

/// Required terms, of the pod and of those that are placed already.
pub(super) fn allowed(cluster: &Cluster<'_>, pod: &Pod, node: &Node) -> Result<(), &'static str> {
    let affinity = pod.spec.as_ref().and_then(|spec| spec.affinity.as_ref());
    let apart = affinity
        .and_then(|a| a.pod_anti_affinity.as_ref())
        .and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref());
    for term in apart.into_iter().flatten() {
        let counts = by_domain(cluster, &term.topology_key, |other| meant(term, pod, other));
        if domain(node, &term.topology_key)
            .and_then(|domain| counts.get(domain))
            .is_some_and(|count| *count > 0)
        {
            return Err("node(s) didn't match pod anti-affinity rules");
        }
    }
    let together = affinity
        .and_then(|a| a.pod_affinity.as_ref())
        .and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref());
    for term in together.into_iter().flatten() {
        let counts = by_domain(cluster, &term.topology_key, |other| meant(term, pod, other));
        // The first of a group that wants to be together has nobody to be with.
        let first = counts.values().all(|count| *count == 0) && meant(term, pod, pod);
        let here = domain(node, &term.topology_key)
            .and_then(|domain| counts.get(domain))
            .is_some_and(|count| *count > 0);
        if !here && !first {
            return Err("node(s) didn't match pod affinity rules");
        }
    }
    for place in &cluster.places {
        for other in &place.pods {
            let affinity = other.spec.as_ref().and_then(|spec| spec.affinity.as_ref());
            let apart = affinity
                .and_then(|a| a.pod_anti_affinity.as_ref())
                .and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref());
            for term in apart.into_iter().flatten().filter(|term| meant(term, other, pod)) {
                let key = &term.topology_key;
                if domain(place.node, key).is_some() && domain(place.node, key) == domain(node, key) {
                    return Err("node(s) didn't satisfy existing pods anti-affinity rules");
                }
            }
        }
    }
    for constraint in spread(pod).filter(|constraint| constraint.when_unsatisfiable == "DoNotSchedule") {
        if skew(cluster, pod, node, constraint) > i64::from(constraint.max_skew) {
            return Err("node(s) didn't match pod topology spread constraints");
        }
    }
    Ok(())
}

fn spread(pod: &Pod) -> impl Iterator<Item = &TopologySpreadConstraint> {
    pod.spec
        .iter()
        .flat_map(|spec| spec.topology_spread_constraints.iter().flatten())
}

/// How uneven the spread would be with the pod on this node. Nodes that the pod cannot use do not count.
fn skew(cluster: &Cluster<'_>, pod: &Pod, node: &Node, constraint: &TopologySpreadConstraint) -> i64 {
    let Some(here) = domain(node, &constraint.topology_key) else {
        return i64::MAX;
    };
    let counted = |other: &Pod| {
        let same = |key: &String| {
            pod.labels()
                .get(key)
                .is_none_or(|own| other.labels().get(key) == Some(own))
        };
        other.namespace() == pod.namespace()
            && constraint.match_label_keys.iter().flatten().all(same)
            && constraint
                .label_selector
                .as_ref()
                .is_some_and(|selector| pods::selects(selector, other.labels()))
    };
    let mut counts = BTreeMap::new();
    for place in cluster
        .places
        .iter()
        .filter(|place| eligible(pod, place.node, constraint))
    {
        if let Some(domain) = domain(place.node, &constraint.topology_key) {
            let there = place
                .pods
                .iter()
                .filter(|other| !pods::is_terminating(**other) && counted(other));
            *counts.entry(domain).or_insert(0) += i64::try_from(there.count()).unwrap_or(i64::MAX);
        }
    }
    let few = constraint
        .min_domains
        .is_some_and(|least| usize::try_from(least).is_ok_and(|least| counts.len() < least));
    let least = counts.values().min().copied().filter(|_| !few).unwrap_or(0);
    counts.get(here).copied().unwrap_or(0) + i64::from(counted(pod)) - least
}

/// Whether the spread looks at a node: by default affinity excludes it, taints do not.
fn eligible(pod: &Pod, node: &Node, constraint: &TopologySpreadConstraint) -> bool {
    let Some(spec) = &pod.spec else { return true };
    let by_affinity = constraint.node_affinity_policy.as_deref() != Some("Ignore");
    let by_taints = constraint.node_taints_policy.as_deref() == Some("Honor");
    (!by_affinity || filter::selects_node(spec, node))
        && (!by_taints || filter::untolerated(spec, node, &["NoSchedule", "NoExecute"]).is_none())
}

/// Preferences in one number: more is better.
pub(super) fn preference(cluster: &Cluster<'_>, pod: &Pod, node: &Node) -> i64 {
    let affinity = pod.spec.as_ref().and_then(|spec| spec.affinity.as_ref());
    let count = |term: &PodAffinityTerm| {
        let counts = by_domain(cluster, &term.topology_key, |other| meant(term, pod, other));
        domain(node, &term.topology_key)
            .and_then(|domain| counts.get(domain))
            .copied()
            .unwrap_or(0)
    };
    let apart = affinity
        .and_then(|a| a.pod_anti_affinity.as_ref())
        .and_then(|a| a.preferred_during_scheduling_ignored_during_execution.as_ref());
    let together = affinity
        .and_then(|a| a.pod_affinity.as_ref())
        .and_then(|a| a.preferred_during_scheduling_ignored_during_execution.as_ref());
    let mut score = 0;
    score -= apart
        .into_iter()
        .flatten()
        .map(|wish| i64::from(wish.weight) * count(&wish.pod_affinity_term))
        .sum::<i64>();
    score += together
        .into_iter()
        .flatten()
        .map(|wish| i64::from(wish.weight) * count(&wish.pod_affinity_term))
        .sum::<i64>();
    score
        - spread(pod)
            .map(|constraint| 100 * skew(cluster, pod, node, constraint).min(1000))
            .sum::<i64>()
}
