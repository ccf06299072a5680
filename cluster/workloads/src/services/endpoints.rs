//! EndpointSlices of the Services that select pods.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ObjectReference, Pod, Service, ServicePort};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt;
use serde_json::json;

use crate::action::{Action, Decision, Target, merge_diff, to_value};
use crate::pods;
use crate::services::legacy_endpoints;
use crate::table::Key;
use crate::world::World;

const SERVICE: &str = "kubernetes.io/service-name";
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
const MOST: usize = 100;

pub(crate) fn decide(world: &World, key: &Key, manager: &str) -> Decision {
    let mut decision = Decision::default();
    let service = world
        .services
        .get(key)
        .filter(|service| !pods::is_terminating(service.as_ref()));
    let existing = world.endpoint_slices.in_namespace(&key.0).filter(|slice| {
        slice.labels().get(SERVICE) == Some(&key.1)
            && slice.labels().get(MANAGED_BY).map(String::as_str) == Some(manager)
    });
    let mut existing: Vec<&EndpointSlice> = existing.map(AsRef::as_ref).collect();
    existing.sort_by_key(|slice| slice.name_any());

    let wanted = service
        .map(|service| slices(world, service, manager))
        .unwrap_or_default();
    let legacy = world.endpoints.get(key).map(AsRef::as_ref);
    let legacy = legacy_endpoints::decide(legacy, service.map(AsRef::as_ref), &wanted);
    decision.actions.extend(legacy);
    let mut left = existing.into_iter();
    for slice in wanted {
        match left.next() {
            Some(old) => decision.actions.extend(update(old, &slice)),
            None => decision.push(Action::create(&slice)),
        }
    }
    decision.actions.extend(left.map(|old| Action::Delete {
        target: Target::of(old),
        grace: None,
    }));
    decision
}

fn update(old: &EndpointSlice, wanted: &EndpointSlice) -> Option<Action> {
    let content = |slice: &EndpointSlice| json!({"endpoints": slice.endpoints, "ports": slice.ports});
    let labels = merge_diff(&to_value(old.labels()), &to_value(wanted.labels()));
    let content = merge_diff(&content(old), &content(wanted));
    if labels.is_none() && content.is_none() {
        return None;
    }
    let mut body = content.unwrap_or_else(|| json!({}));
    if let Some(labels) = labels {
        body["metadata"] = json!({"labels": labels});
    }
    Some(Action::Patch {
        target: Target::of(old),
        subresource: None,
        body,
    })
}

fn slices(world: &World, service: &Service, manager: &str) -> Vec<EndpointSlice> {
    let Some(spec) = &service.spec else {
        return Vec::new();
    };
    let selector = spec.selector.clone().unwrap_or_default();
    if selector.is_empty() || spec.type_.as_deref() == Some("ExternalName") {
        return Vec::new();
    }
    let namespace = service.namespace().unwrap_or_default();
    let unready_too = spec.publish_not_ready_addresses.unwrap_or(false);
    // Named ports may mean other numbers in other pods: each set of numbers is a slice.
    let mut groups: BTreeMap<String, (Vec<EndpointPort>, Vec<Endpoint>)> = BTreeMap::new();
    for pod in world.pods.in_namespace(&namespace) {
        let chosen = selector
            .iter()
            .all(|(name, value)| pod.labels().get(name) == Some(value));
        let address = pod
            .status
            .as_ref()
            .and_then(|status| status.pod_ip.clone())
            .filter(|ip| !ip.is_empty());
        let Some(address) = address.filter(|_| chosen && !pods::is_finished(pod)) else {
            continue;
        };
        let ports: Vec<_> = spec
            .ports
            .iter()
            .flatten()
            .filter_map(|port| endpoint_port(port, pod))
            .collect();
        let group = groups
            .entry(to_value(&ports).to_string())
            .or_insert_with(|| (ports, Vec::new()));
        group.1.push(endpoint(service, pod, address, unready_too));
    }
    if groups.is_empty() {
        groups.insert(String::new(), (Vec::new(), Vec::new()));
    }
    let mut all = Vec::new();
    for (ports, mut endpoints) in groups.into_values() {
        endpoints.sort_by(|a, b| a.addresses.cmp(&b.addresses));
        let chunks: Vec<&[Endpoint]> = if endpoints.is_empty() {
            vec![&[]]
        } else {
            endpoints.chunks(MOST).collect()
        };
        all.extend(
            chunks
                .into_iter()
                .map(|chunk| slice(service, &ports, chunk, manager)),
        );
    }
    all
}

fn slice(service: &Service, ports: &[EndpointPort], endpoints: &[Endpoint], manager: &str) -> EndpointSlice {
    let mut labels = service.labels().clone();
    labels.insert(SERVICE.into(), service.name_any());
    labels.insert(MANAGED_BY.into(), manager.into());
    if service.spec.as_ref().and_then(|spec| spec.cluster_ip.as_deref()) == Some("None") {
        labels.insert("service.kubernetes.io/headless".into(), String::new());
    }
    EndpointSlice {
        metadata: ObjectMeta {
            generate_name: Some(format!("{}-", service.name_any())),
            labels: Some(labels),
            ..pods::owned_by(service)
        },
        address_type: "IPv4".to_owned(),
        endpoints: Some(endpoints.to_vec()),
        ports: Some(ports.to_vec()),
    }
}

fn endpoint_port(port: &ServicePort, pod: &Pod) -> Option<EndpointPort> {
    let protocol = port.protocol.clone().unwrap_or_else(|| "TCP".into());
    let number = match &port.target_port {
        None => port.port,
        Some(IntOrString::Int(0)) => port.port,
        Some(IntOrString::Int(number)) => *number,
        Some(IntOrString::String(name)) => {
            let containers = pod.spec.iter().flat_map(|spec| {
                spec.containers
                    .iter()
                    .chain(spec.init_containers.iter().flatten())
            });
            let named = containers.flat_map(|container| container.ports.iter().flatten());
            named
                .into_iter()
                .find(|own| {
                    own.name.as_ref() == Some(name) && own.protocol.as_deref().unwrap_or("TCP") == protocol
                })?
                .container_port
        }
    };
    Some(EndpointPort {
        name: Some(port.name.clone().unwrap_or_default()),
        port: Some(number),
        protocol: Some(protocol),
        app_protocol: port.app_protocol.clone(),
    })
}

fn endpoint(service: &Service, pod: &Pod, address: String, unready_too: bool) -> Endpoint {
    let spec = pod.spec.as_ref();
    let serving = pods::is_ready(pod);
    let terminating = pods::is_terminating(pod);
    let names_service = spec.and_then(|spec| spec.subdomain.as_deref()) == Some(service.name_any().as_str());
    Endpoint {
        addresses: vec![address],
        conditions: Some(EndpointConditions {
            ready: Some(unready_too || serving && !terminating),
            serving: Some(unready_too || serving),
            terminating: Some(terminating),
        }),
        hostname: spec
            .and_then(|spec| spec.hostname.clone())
            .filter(|_| names_service),
        node_name: spec.and_then(|spec| spec.node_name.clone()),
        target_ref: Some(ObjectReference {
            kind: Some("Pod".into()),
            namespace: pod.namespace(),
            name: Some(pod.name_any()),
            uid: pod.uid(),
            ..Default::default()
        }),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Sim, config};
    use serde_json::Value;

    fn pod(name: &str, ip: &str, port: i32, ready: bool) -> Value {
        json!({"kind": "Pod", "apiVersion": "v1",
            "metadata": {"namespace": "n", "name": name, "uid": name, "labels": {"app": "web"}},
            "spec": {"nodeName": "a", "hostname": name, "subdomain": "web", "containers": [{"name": "c", "ports": [{"name": "http", "containerPort": port}]}]},
            "status": {"phase": "Running", "podIP": ip, "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}]}})
    }

    fn cluster() -> Sim {
        let mut sim = Sim::default();
        sim.learn(
            json!({"kind": "Node", "apiVersion": "v1", "metadata": {"name": "a"},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]}}),
        );
        sim.learn(service());
        sim
    }

    fn service() -> Value {
        json!({"kind": "Service", "apiVersion": "v1", "metadata": {"namespace": "n", "name": "web", "uid": "s"},
            "spec": {"selector": {"app": "web"}, "ports": [{"name": "http", "port": 80, "targetPort": "http"}]}})
    }

    fn ready(sim: &Sim) -> Vec<(i32, Vec<String>)> {
        let mut all: Vec<_> = sim
            .world
            .endpoint_slices
            .iter()
            .map(|slice| {
                let port = slice
                    .ports
                    .iter()
                    .flatten()
                    .next()
                    .and_then(|port| port.port)
                    .unwrap_or(0);
                let up = slice
                    .endpoints
                    .iter()
                    .flatten()
                    .filter(|e| e.conditions.as_ref().and_then(|c| c.ready) == Some(true));
                (port, up.flat_map(|endpoint| endpoint.addresses.clone()).collect())
            })
            .collect();
        all.sort();
        all
    }

    #[test]
    fn ready_pods_are_endpoints_by_their_own_port_numbers() {
        let mut sim = cluster();
        for value in [
            pod("a", "10.0.0.1", 8080, true),
            pod("b", "10.0.0.2", 8080, false),
            pod("c", "10.0.0.3", 9090, true),
        ] {
            sim.learn(value);
        }
        sim.settle();
        assert_eq!(
            ready(&sim),
            [(8080, vec!["10.0.0.1".into()]), (9090, vec!["10.0.0.3".into()])]
        );
        sim.change::<Pod>("a", |pod| {
            pod.status.as_mut().unwrap().conditions.as_mut().unwrap()[0].status = "False".into();
        });
        sim.settle();
        assert_eq!(ready(&sim)[0], (8080, vec![]));
    }

    #[test]
    fn the_slices_go_with_the_service() {
        let mut sim = cluster();
        sim.learn(pod("a", "10.0.0.1", 80, true));
        sim.settle();
        assert_eq!(sim.world.endpoint_slices.iter().count(), 1);
        assert_eq!(
            decide(&sim.world, &("n".into(), "web".into()), &config().slices),
            Decision::default()
        );
        sim.remove("Service", "web");
        sim.settle();
        assert_eq!(sim.world.endpoint_slices.iter().count(), 0);
    }
}
