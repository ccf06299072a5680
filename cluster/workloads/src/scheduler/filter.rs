//! Whether a pod may run on a node at all, and if not, why, in Kubernetes' words.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Node, NodeSelectorRequirement, NodeSelectorTerm, Pod, PodSpec, Taint, Toleration,
};
use kube::ResourceExt;

use super::resources::{self, Amounts};

pub(crate) fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let effect = text(&toleration.effect);
    let key = text(&toleration.key);
    let any_key = key.is_empty() && toleration.operator.as_deref() == Some("Exists");
    (effect.is_empty() || effect == taint.effect)
        && (any_key || key == taint.key)
        && (toleration.operator.as_deref() == Some("Exists") || text(&toleration.value) == text(&taint.value))
}

/// What does not depend on other pods: cordon, taints, selector and affinity.
pub(crate) fn node_suits(pod: &Pod, node: &Node) -> Result<(), String> {
    let Some(spec) = &pod.spec else { return Ok(()) };
    let own = node.spec.as_ref();
    let tolerations: &[Toleration] = spec.tolerations.as_deref().unwrap_or_default();
    let unschedulable = Taint {
        key: "node.kubernetes.io/unschedulable".into(),
        effect: "NoSchedule".into(),
        ..Default::default()
    };
    if own.and_then(|spec| spec.unschedulable).unwrap_or(false)
        && !tolerations.iter().any(|t| tolerates(t, &unschedulable))
    {
        return Err("node(s) were unschedulable".into());
    }
    if let Some(taint) = untolerated(spec, node, &["NoSchedule", "NoExecute"]) {
        let value = taint.value.as_deref().unwrap_or_default();
        return Err(format!(
            "node(s) had untolerated taint {{{}: {value}}}",
            taint.key
        ));
    }
    if !selects_node(spec, node) {
        return Err("node(s) didn't match Pod's node affinity/selector".into());
    }
    Ok(())
}

/// The first taint of these effects that the pod does not bear.
pub(crate) fn untolerated<'a>(spec: &PodSpec, node: &'a Node, effects: &[&str]) -> Option<&'a Taint> {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_deref());
    let tolerations = spec.tolerations.as_deref().unwrap_or_default();
    taints
        .unwrap_or_default()
        .iter()
        .filter(|taint| effects.contains(&taint.effect.as_str()))
        .find(|taint| !tolerations.iter().any(|toleration| tolerates(toleration, taint)))
}

/// What the pod asks of the node itself: its selector and its required affinity.
pub(crate) fn selects_node(spec: &PodSpec, node: &Node) -> bool {
    let selected = spec
        .node_selector
        .iter()
        .flatten()
        .all(|(name, value)| node.labels().get(name) == Some(value));
    let affinity = spec
        .affinity
        .as_ref()
        .and_then(|affinity| affinity.node_affinity.as_ref());
    let required = affinity.and_then(|affinity| {
        affinity
            .required_during_scheduling_ignored_during_execution
            .as_ref()
    });
    selected
        && required.is_none_or(|required| {
            required
                .node_selector_terms
                .iter()
                .any(|term| term_matches(term, node))
        })
}

pub(crate) fn term_matches(term: &NodeSelectorTerm, node: &Node) -> bool {
    let fields = BTreeMap::from([("metadata.name".to_owned(), node.name_any())]);
    let empty = term.match_expressions.is_none() && term.match_fields.is_none();
    !empty
        && term
            .match_expressions
            .iter()
            .flatten()
            .all(|rule| requirement_holds(rule, node.labels()))
        && term
            .match_fields
            .iter()
            .flatten()
            .all(|rule| requirement_holds(rule, &fields))
}

fn requirement_holds(rule: &NodeSelectorRequirement, labels: &BTreeMap<String, String>) -> bool {
    let value = labels.get(&rule.key);
    let listed = || value.is_some_and(|value| rule.values.iter().flatten().any(|wanted| wanted == value));
    let compare = |holds: fn(i64, i64) -> bool| {
        let own = value.and_then(|value| value.parse::<i64>().ok());
        let bound = rule
            .values
            .iter()
            .flatten()
            .next()
            .and_then(|bound| bound.parse::<i64>().ok());
        own.zip(bound).is_some_and(|(own, bound)| holds(own, bound))
    };
    match rule.operator.as_str() {
        "In" => listed(),
        "NotIn" => !listed(),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => compare(|own, bound| own > bound),
        "Lt" => compare(|own, bound| own < bound),
        _ => false,
    }
}

/// What the pods on the node leave free.
pub(crate) fn resources_fit(asked: &Amounts, node: &Node, used: &Amounts) -> Result<(), String> {
    let offered = resources::offered_by(node);
    for (name, wanted) in asked.iter().filter(|(_, wanted)| **wanted > 0) {
        let Some(total) = offered.get(name).copied() else {
            // A node that does not count pods has room for any number of them.
            if name == "pods" || name == "ephemeral-storage" {
                continue;
            }
            return Err(format!("Insufficient {name}"));
        };
        if wanted.saturating_add(used.get(name).copied().unwrap_or(0)) > total {
            return Err(if name == "pods" {
                "Too many pods".into()
            } else {
                format!("Insufficient {name}")
            });
        }
    }
    Ok(())
}

pub(crate) fn host_ports(pod: &Pod) -> Vec<(i32, String)> {
    let Some(spec) = &pod.spec else { return Vec::new() };
    let ports = spec
        .containers
        .iter()
        .flat_map(|container| container.ports.iter().flatten());
    let on_host = spec.host_network.unwrap_or(false);
    ports
        .filter_map(|port| {
            let number = port
                .host_port
                .filter(|number| *number > 0)
                .or(on_host.then_some(port.container_port))?;
            Some((number, port.protocol.clone().unwrap_or_else(|| "TCP".into())))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn node(extra: Value) -> Node {
        let mut node = json!({"metadata": {"name": "a", "labels": {"zone": "z1", "cores": "8"}},
            "status": {"allocatable": {"cpu": "2", "memory": "1Gi"}}});
        json_patch_into(&mut node, extra);
        serde_json::from_value(node).expect("a node")
    }

    fn json_patch_into(target: &mut Value, extra: Value) {
        for (key, value) in extra.as_object().cloned().unwrap_or_default() {
            target[key] = value;
        }
    }

    fn pod(spec: Value) -> Pod {
        serde_json::from_value(json!({"spec": spec})).expect("a pod")
    }

    #[test]
    fn reasons_are_those_of_kubernetes() {
        let affinity = |rule: Value| {
            json!({"containers": [], "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
            {"nodeSelectorTerms": [{"matchExpressions": [rule]}]}}}})
        };
        let tainted = json!({"spec": {"taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]}});
        let cases = [
            (json!({"containers": []}), json!({}), None),
            (
                json!({"containers": []}),
                json!({"spec": {"unschedulable": true}}),
                Some("node(s) were unschedulable"),
            ),
            (
                json!({"containers": []}),
                tainted.clone(),
                Some("node(s) had untolerated taint {gpu: yes}"),
            ),
            (
                json!({"containers": [], "tolerations": [{"key": "gpu", "operator": "Exists"}]}),
                tainted.clone(),
                None,
            ),
            (
                json!({"containers": [], "tolerations": [{"key": "gpu", "value": "no"}]}),
                tainted,
                Some("node(s) had untolerated taint {gpu: yes}"),
            ),
            (
                json!({"containers": [], "nodeSelector": {"zone": "z2"}}),
                json!({}),
                Some("node(s) didn't match Pod's node affinity/selector"),
            ),
            (
                affinity(json!({"key": "cores", "operator": "Gt", "values": ["4"]})),
                json!({}),
                None,
            ),
            (
                affinity(json!({"key": "cores", "operator": "Lt", "values": ["4"]})),
                json!({}),
                Some("node(s) didn't match Pod's node affinity/selector"),
            ),
        ];
        for (spec, extra, expected) in cases {
            let answer = node_suits(&pod(spec.clone()), &node(extra)).err();
            assert_eq!(answer.as_deref(), expected, "{spec}");
        }
    }

    #[test]
    fn room_is_counted_per_resource() {
        let asked = resources::asked_by(&pod(
            json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": "1500m"}}}]}),
        ));
        assert!(resources_fit(&asked, &node(json!({})), &Amounts::new()).is_ok());
        let used = Amounts::from([("cpu".to_owned(), 600)]);
        assert_eq!(
            resources_fit(&asked, &node(json!({})), &used),
            Err("Insufficient cpu".into())
        );
    }
}
