//! Nodes: what one may do hangs on the pods that are bound to it.

mod references;

use apimachinery::selector::{FieldOperator, FieldSelector};
use serde_json::Value;

use crate::{
    cluster::Cluster,
    identity::{Attributes, Identity},
    registry::Kind,
    status::ApiError,
    verb::Verb,
};

use references::{References, references};

const GROUP: &str = "system:nodes";
const USER: &str = "system:node:";
const LEASES: &str = "kube-node-lease";
/// Labels by which administrators keep nodes apart; a node gives itself none.
const RESTRICTED: &str = "node-restriction.kubernetes.io/";

/// The node that someone is.
pub(super) fn name(identity: &Identity) -> Option<&str> {
    let member = identity.groups.iter().any(|group| group == GROUP);
    let name = identity.user.strip_prefix(USER)?;
    (member && !name.is_empty()).then_some(name)
}

/// What there is to know of pods and claims.
pub(super) trait Facts {
    /// The pods of a node in one namespace, or in all.
    fn pods_of(&self, node: &str, namespace: Option<&str>) -> Vec<Value>;
    fn pod(&self, namespace: &str, name: &str) -> Option<Value>;
    fn claim(&self, namespace: &str, name: &str) -> Option<Value>;
    fn volume(&self, name: &str) -> Option<Value>;
}

impl Facts for Cluster {
    fn pods_of(&self, node: &str, namespace: Option<&str>) -> Vec<Value> {
        let pods = self.list("", "pods", namespace).objects;
        // Most pods are elsewhere: their text tells without being read.
        let quoted = Value::from(node).to_string();
        pods.iter()
            .filter(|pod| String::from_utf8_lossy(&pod.bytes).contains(&quoted))
            .map(|pod| pod.value())
            .filter(|pod| is_on(pod, node))
            .collect()
    }

    fn pod(&self, namespace: &str, name: &str) -> Option<Value> {
        Some(self.get("", "pods", namespace, name)?.value())
    }

    fn claim(&self, namespace: &str, name: &str) -> Option<Value> {
        Some(self.get("", "persistentvolumeclaims", namespace, name)?.value())
    }

    fn volume(&self, name: &str) -> Option<Value> {
        Some(self.get("", "persistentvolumes", "", name)?.value())
    }
}

fn is_on(pod: &Value, node: &str) -> bool {
    pod["spec"]["nodeName"] == node
}

/// Whether a node may do something beyond what roles give it.
pub(super) fn allows(node: &str, a: &Attributes, facts: &impl Facts) -> bool {
    let (verb, own) = (&a.verb, a.name == node);
    let reads = verb.reads();
    let needed = |wanted: fn(&References<'_>, &str) -> bool| {
        !a.namespace.is_empty()
            && !a.name.is_empty()
            && facts
                .pods_of(node, Some(&a.namespace))
                .iter()
                .any(|pod| wanted(&references(pod), &a.name))
    };
    // A pod that is gone is answered so, not refused.
    let own_pod = || {
        facts
            .pod(&a.namespace, &a.name)
            .is_none_or(|pod| is_on(&pod, node))
    };
    match (a.group.as_str(), a.resource.as_str(), a.subresource.as_str()) {
        // Which object is created is in its body: [`admit`] looks at that.
        ("", "nodes", "") if *verb == Verb::Create => true,
        ("", "nodes", "" | "status") => own && (reads || matches!(verb, Verb::Update | Verb::Patch)),
        ("coordination.k8s.io", "leases", "") if a.namespace == LEASES => match verb {
            Verb::Create => true,
            Verb::Get | Verb::Update | Verb::Patch | Verb::Delete => own,
            _ => false,
        },
        ("", "pods", "") => match verb {
            Verb::List | Verb::Watch => selects_own(node, &a.field_selector),
            Verb::Get | Verb::Delete => own_pod(),
            _ => false,
        },
        ("", "pods", "status") => matches!(verb, Verb::Get | Verb::Update | Verb::Patch) && own_pod(),
        ("", "secrets", "") => reads && needed(|pod, name| pod.secrets.contains(name)),
        ("", "configmaps", "") => reads && needed(|pod, name| pod.config_maps.contains(name)),
        ("", "persistentvolumeclaims", "") => reads && needed(|pod, name| pod.claims.contains(name)),
        ("", "persistentvolumes", "") => *verb == Verb::Get && holds(node, &a.name, facts),
        ("", "serviceaccounts", "token") => *verb == Verb::Create && needed(|pod, name| pod.account == name),
        ("" | "events.k8s.io", "events", "") => matches!(verb, Verb::Create | Verb::Update | Verb::Patch),
        ("", "services", "") | ("node.k8s.io", "runtimeclasses", "") => reads,
        _ => false,
    }
}

fn selects_own(node: &str, selector: &str) -> bool {
    FieldSelector::parse(selector).is_ok_and(|selector| {
        selector.requirements().iter().any(|requirement| {
            requirement.field == "spec.nodeName"
                && requirement.operator == FieldOperator::Equals
                && requirement.value == node
        })
    })
}

/// The volume is bound to a claim of a pod on the node, and the claim to it.
fn holds(node: &str, volume: &str, facts: &impl Facts) -> bool {
    let Some(object) = facts.volume(volume) else {
        return false;
    };
    let claim = &object["spec"]["claimRef"];
    let (Some(namespace), Some(name)) = (claim["namespace"].as_str(), claim["name"].as_str()) else {
        return false;
    };
    facts
        .claim(namespace, name)
        .is_some_and(|claim| claim["spec"]["volumeName"] == volume)
        && facts
            .pods_of(node, Some(namespace))
            .iter()
            .any(|pod| references(pod).claims.contains(name))
}

/// Why a node is refused, as Kubernetes says it.
pub(super) fn refusal(node: &str, a: &Attributes) -> String {
    match a.resource.as_str() {
        "secrets" | "configmaps" | "persistentvolumeclaims" | "persistentvolumes" | "serviceaccounts" => {
            format!("no relationship found between node '{node}' and this object")
        }
        "nodes" | "leases" if !a.name.is_empty() => {
            format!("node '{node}' cannot access those of other nodes")
        }
        "pods" if matches!(a.verb, Verb::List | Verb::Watch) => {
            "can only list/watch pods with spec.nodeName field selector".to_owned()
        }
        _ => String::new(),
    }
}

/// A node writes its own Node and lease, and the status of its own pods.
pub(super) fn admit(node: &str, kind: &Kind, old: Option<&Value>, new: &Value) -> Result<(), ApiError> {
    let name = new["metadata"]["name"].as_str().unwrap_or_default();
    let refuse = |what: String| Err(ApiError::forbidden(&kind.group, &kind.plural, name, &what));
    match (kind.group.as_str(), kind.plural.as_str()) {
        ("", "nodes") if name != node => {
            refuse(format!("node {node:?} is not allowed to modify node {name:?}"))
        }
        ("", "nodes") if restricted(old.unwrap_or(&Value::Null)) != restricted(new) => refuse(format!(
            "is not allowed to modify labels that start with {RESTRICTED}"
        )),
        ("coordination.k8s.io", "leases") if name != node => {
            refuse("can only access node lease with the same name as the requesting node".to_owned())
        }
        ("", "pods") if !is_on(old.unwrap_or(new), node) => refuse(format!(
            "node {node:?} can only update pod status for pods with spec.nodeName set to itself"
        )),
        _ => Ok(()),
    }
}

fn restricted(node: &Value) -> Vec<(&String, &Value)> {
    let labels = node["metadata"]["labels"].as_object().into_iter().flatten();
    let label = |key: &str| {
        key.split('/')
            .next()
            .is_some_and(|domain| format!("{domain}/").ends_with(RESTRICTED))
    };
    labels.filter(|(key, _)| label(key)).collect()
}

/// A node asks for tokens of its own pods, bound to them.
pub(super) fn admit_token(
    node: &str,
    facts: &impl Facts,
    account: &Value,
    request: &Value,
) -> Result<(), ApiError> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (namespace, name) = (
        text(&account["metadata"]["namespace"]),
        text(&account["metadata"]["name"]),
    );
    let bound = &request["spec"]["boundObjectRef"];
    let refuse = |what: &str| Err(ApiError::forbidden("", "serviceaccounts", &name, what));
    if bound["kind"] != "Pod" {
        return refuse("node requested token not bound to a pod");
    }
    let Some(pod) = facts.pod(&namespace, bound["name"].as_str().unwrap_or_default()) else {
        return Err(ApiError::not_found("", "pods", &text(&bound["name"])));
    };
    if bound["uid"] != pod["metadata"]["uid"] {
        return refuse("the UID in the bound object reference does not match the UID of the pod");
    }
    if !is_on(&pod, node) {
        return refuse("node requested token bound to a pod scheduled on a different node");
    }
    if references(&pod).account != name {
        return refuse("node requested token for an account that the pod does not run as");
    }
    Ok(())
}

#[cfg(test)]
mod tests;
