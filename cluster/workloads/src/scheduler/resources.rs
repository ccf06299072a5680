//! What pods ask for and nodes have: CPU in thousandths, everything else in whole units.

use std::collections::BTreeMap;

use apimachinery::quantity::Quantity;
use k8s_openapi::api::core::v1::{Container, Node, Pod};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Text;

pub(super) type Amounts = BTreeMap<String, i64>;

fn amount(resource: &str, text: &Text) -> i64 {
    let Ok(quantity) = Quantity::parse(&text.0) else {
        return 0;
    };
    if resource == "cpu" {
        quantity.milli_value()
    } else {
        quantity.value()
    }
}

fn amounts(list: Option<&BTreeMap<String, Text>>) -> Amounts {
    list.into_iter()
        .flatten()
        .map(|(name, text)| (name.clone(), amount(name, text)))
        .collect()
}

pub(super) fn add(sum: &mut Amounts, other: &Amounts) {
    for (name, value) in other {
        let entry = sum.entry(name.clone()).or_default();
        *entry = entry.saturating_add(*value);
    }
}

fn at_least(most: &mut Amounts, other: &Amounts) {
    for (name, value) in other {
        let entry = most.entry(name.clone()).or_default();
        *entry = (*entry).max(*value);
    }
}

fn requests(container: &Container) -> Amounts {
    let resources = container.resources.as_ref();
    // A limit without a request is its own request.
    let mut asked = amounts(resources.and_then(|resources| resources.limits.as_ref()));
    asked.extend(amounts(
        resources.and_then(|resources| resources.requests.as_ref()),
    ));
    asked
}

/// The containers together with the sidecars, or an init container if that needs more.
pub(super) fn asked_by(pod: &Pod) -> Amounts {
    let Some(spec) = &pod.spec else {
        return Amounts::new();
    };
    let mut sum = Amounts::new();
    for container in &spec.containers {
        add(&mut sum, &requests(container));
    }
    let mut sidecars = Amounts::new();
    let mut peak = Amounts::new();
    for container in spec.init_containers.iter().flatten() {
        let mut asked = requests(container);
        if container.restart_policy.as_deref() == Some("Always") {
            add(&mut sidecars, &asked);
            at_least(&mut peak, &sidecars);
        } else {
            add(&mut asked, &sidecars);
            at_least(&mut peak, &asked);
        }
    }
    add(&mut sum, &sidecars);
    at_least(&mut sum, &peak);
    add(&mut sum, &amounts(spec.overhead.as_ref()));
    sum.insert("pods".into(), 1);
    sum
}

pub(super) fn offered_by(node: &Node) -> Amounts {
    let status = node.status.as_ref();
    amounts(status.and_then(|status| status.allocatable.as_ref().or(status.capacity.as_ref())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_pod_needs_its_containers_or_its_largest_init_container() {
        let pod: Pod = serde_json::from_value(json!({"spec": {
            "containers": [{"name": "a", "resources": {"requests": {"cpu": "100m", "memory": "1Gi"}}},
                           {"name": "b", "resources": {"limits": {"cpu": "1"}}}],
            "initContainers": [{"name": "side", "restartPolicy": "Always", "resources": {"requests": {"cpu": "50m"}}},
                               {"name": "init", "resources": {"requests": {"memory": "2Gi"}}}]}}))
        .expect("a pod");
        let asked = asked_by(&pod);
        assert_eq!(asked["cpu"], 1150);
        assert_eq!(asked["memory"], 2 << 30);
    }
}
