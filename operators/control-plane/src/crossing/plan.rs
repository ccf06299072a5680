//! Pure. Which Services cross, as what, and how far that is.

use std::net::IpAddr;

use c5c3_api::c5c3::ControlPlane;
use c5c3_api::conditions::reason;
use c5c3_kit::Wanted;
use c5c3_kit::conditions::{State, Truth};
use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;

use super::Facts;
use crate::plan::{MESSAGING, SERVICES, hypervisors};

const METADATA: &str = "nova-metadata";
/// An embedded cluster brings a balancer to the machine's loopback too unless told so.
const EXPOSE: (&str, &str) = ("c5c3.io/expose", "none");
const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// The cluster of the hypervisors, where it is another one.
pub(crate) fn place(plane: &ControlPlane) -> Option<&str> {
    hypervisors(&plane.spec).map(|cluster| cluster.name.as_str())
}

/// Names of the Services that hypervisors call. What somebody else runs is not in a cluster of ours.
pub(crate) fn called(plane: &ControlPlane) -> Vec<String> {
    let spec = &plane.spec;
    if place(plane).is_none() {
        return Vec::new();
    }
    let called = SERVICES.iter().filter(|service| service.called_by_hypervisors);
    let mut names: Vec<String> = called
        .filter(|service| service.runs(spec))
        .map(|service| service.name.to_owned())
        .collect();
    if spec.services.neutron.common.enabled {
        names.push(METADATA.to_owned());
    }
    if spec.infrastructure.messaging.hosts.is_empty() {
        names.push(MESSAGING.to_owned());
    }
    names
}

/// The Service that gives another one an address outside of its cluster.
pub(crate) fn balancer(name: &str) -> String {
    format!("{name}-hypervisors")
}

/// The balancers here, and over there the names of those that have an address.
pub(crate) fn wanted(plane: &ControlPlane, facts: &Facts) -> Vec<Wanted> {
    let Some(cluster) = place(plane) else {
        return Vec::new();
    };
    let namespace = plane.namespace();
    let named = |name: String| ObjectMeta {
        name: Some(name),
        namespace: namespace.clone(),
        ..ObjectMeta::default()
    };
    let mut all = Vec::new();
    let mut there = Vec::new();
    for name in called(plane) {
        let Some(spec) = facts
            .services
            .get(&name)
            .and_then(|service| service.spec.as_ref())
        else {
            continue;
        };
        let metadata = ObjectMeta {
            annotations: Some([(EXPOSE.0.to_owned(), EXPOSE.1.to_owned())].into()),
            ..named(balancer(&name))
        };
        all.push(Wanted::of(&outside(metadata, spec)));
        let addresses = addresses(facts, &name);
        if !addresses.is_empty() {
            let slice = ObjectMeta {
                labels: Some([(SERVICE_NAME.to_owned(), name.clone())].into()),
                ..named(name.clone())
            };
            there.push(Wanted::of(&alias(named(name), spec)));
            there.push(Wanted::of(&endpoints(slice, spec, addresses)));
        }
    }
    if facts.away.is_none() {
        let there = there.into_iter();
        all.extend(there.map(|object| object.in_cluster(cluster.to_owned())));
    }
    all
}

/// Ports as they are, without what the server chose.
fn ports(spec: &ServiceSpec) -> Vec<ServicePort> {
    let ports = spec.ports.iter().flatten().cloned();
    ports
        .map(|port| ServicePort {
            node_port: None,
            ..port
        })
        .collect()
}

fn outside(metadata: ObjectMeta, spec: &ServiceSpec) -> Service {
    Service {
        metadata,
        spec: Some(ServiceSpec {
            type_: Some("LoadBalancer".to_owned()),
            selector: spec.selector.clone(),
            ports: Some(ports(spec)),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    }
}

/// Without an address of its own: the name leads to the balancer itself.
fn alias(metadata: ObjectMeta, spec: &ServiceSpec) -> Service {
    let ports = ports(spec).into_iter().map(|port| ServicePort {
        target_port: None,
        ..port
    });
    Service {
        metadata,
        spec: Some(ServiceSpec {
            cluster_ip: Some("None".to_owned()),
            ports: Some(ports.collect()),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    }
}

fn endpoints(metadata: ObjectMeta, spec: &ServiceSpec, addresses: Vec<IpAddr>) -> EndpointSlice {
    let six = addresses.iter().all(IpAddr::is_ipv6);
    let ports = ports(spec).into_iter().map(|port| EndpointPort {
        name: port.name,
        port: Some(port.port),
        protocol: port.protocol,
        ..EndpointPort::default()
    });
    EndpointSlice {
        metadata,
        address_type: if six { "IPv6" } else { "IPv4" }.to_owned(),
        endpoints: Some(vec![Endpoint {
            addresses: addresses.iter().map(ToString::to_string).collect(),
            ..Endpoint::default()
        }]),
        ports: Some(ports.collect()),
    }
}

/// Where the balancer of a Service is reached, in one family: a slice holds no other. The machine's own
/// loopback, which an embedded cluster may tell, is nowhere else.
fn addresses(facts: &Facts, name: &str) -> Vec<IpAddr> {
    let status = facts
        .services
        .get(&balancer(name))
        .and_then(|balancer| balancer.status.as_ref());
    let ingress = status.and_then(|status| status.load_balancer.as_ref()?.ingress.as_ref());
    let all: Vec<IpAddr> = (ingress.into_iter().flatten())
        .filter_map(|one| one.ip.as_deref()?.parse().ok())
        .filter(|address: &IpAddr| !address.is_loopback())
        .collect();
    let first = all.first().map(IpAddr::is_ipv4);
    all.into_iter()
        .filter(|address| Some(address.is_ipv4()) == first)
        .collect()
}

pub(crate) fn state(plane: &ControlPlane, facts: &Facts) -> State {
    let told = |truth: Truth, reason: &str, message: String| State::new(truth, reason, message);
    let Some(cluster) = place(plane) else {
        let text = "hypervisors are nodes of this cluster".to_owned();
        return told(Truth::True, reason::NOT_REQUIRED, text);
    };
    if let Some(why) = &facts.away {
        return told(Truth::False, reason::UNREACHABLE, why.clone());
    }
    let names = called(plane);
    if let Some(missing) = names.iter().find(|name| !facts.services.contains_key(*name)) {
        let text = format!("Service {missing} does not exist yet");
        return told(Truth::False, reason::WAITING, text);
    }
    if let Some(silent) = names.iter().find(|name| addresses(facts, name).is_empty()) {
        let text = format!(
            "Service {} has no address yet (status.loadBalancer)",
            balancer(silent)
        );
        return told(Truth::False, reason::WAITING, text);
    }
    let text = format!("available in cluster {cluster}: {}", names.join(", "));
    told(Truth::True, reason::READY, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn plane(cluster: Option<&str>) -> ControlPlane {
        let compute = cluster.map(|name| json!({"clusterRef": {"name": name}}));
        serde_json::from_value(json!({
            "apiVersion": "c5c3.io/v1alpha1", "kind": "ControlPlane",
            "metadata": {"name": "cloud", "namespace": "openstack"},
            "spec": {"openStackRelease": "2025.2", "services": {
                "nova": {"compute": compute.unwrap_or_else(|| json!({}))},
                "cinder": {"enabled": false},
            }},
        }))
        .expect("a ControlPlane")
    }

    fn service(name: &str, spec: Value, status: Value) -> (String, Service) {
        let object = json!({"metadata": {"name": name}, "spec": spec, "status": status});
        (
            name.to_owned(),
            serde_json::from_value(object).expect("a Service"),
        )
    }

    fn facts(addressed: bool) -> Facts {
        let mut facts = Facts::default();
        for name in called(&plane(Some("hypervisor"))) {
            let spec = json!({"clusterIP": "10.192.0.9", "selector": {"app": name},
                "ports": [{"name": "api", "port": 5000, "targetPort": "api", "nodePort": 31000, "protocol": "TCP"}]});
            facts.services.extend([service(&name, spec, json!({}))]);
            if addressed {
                let ingress = json!([{"ip": "10.195.0.7"}, {"ip": "127.0.0.1"}]);
                let status = json!({"loadBalancer": {"ingress": ingress}});
                facts
                    .services
                    .extend([service(&balancer(&name), json!({}), status)]);
            }
        }
        facts
    }

    fn said(facts: &Facts) -> String {
        let state = state(&plane(Some("hypervisor")), facts);
        format!("{} {}: {}", state.truth.as_str(), state.reason, state.message)
    }

    #[test]
    fn one_cluster_needs_nothing() {
        let alone = plane(None);
        assert!(called(&alone).is_empty() && wanted(&alone, &Facts::default()).is_empty());
        assert_eq!(state(&alone, &Facts::default()).reason, reason::NOT_REQUIRED);
    }

    #[test]
    fn hypervisors_find_what_they_call_by_the_same_names() {
        let plane = plane(Some("hypervisor"));
        assert_eq!(
            called(&plane),
            [
                "keystone",
                "glance",
                "placement",
                "neutron",
                "nova-metadata",
                "rabbitmq"
            ],
            "and no database"
        );
        let all = wanted(&plane, &facts(true));
        let (here, there): (Vec<&Wanted>, Vec<&Wanted>) =
            all.iter().partition(|one| one.cluster() == c5c3_kit::HOME);
        assert!(
            here.iter()
                .all(|one| one.object()["spec"]["type"] == "LoadBalancer")
        );
        assert!(there.iter().all(|one| one.cluster() == "hypervisor"));
        assert_eq!((here.len(), there.len()), (6, 12));
        insta::assert_yaml_snapshot!("keystone", [here[0], there[0], there[1]].map(Wanted::object));
    }

    #[test]
    fn it_says_what_it_waits_for() {
        let text = "True Ready: available in cluster hypervisor: keystone, glance, placement, neutron, nova-metadata, rabbitmq";
        assert_eq!(said(&facts(true)), text);
        assert_eq!(
            said(&facts(false)),
            "False Waiting: Service keystone-hypervisors has no address yet (status.loadBalancer)"
        );
        assert_eq!(
            said(&Facts::default()),
            "False Waiting: Service keystone does not exist yet"
        );
        let away = Facts {
            away: Some("cluster hypervisor does not answer within 10 s".to_owned()),
            ..facts(true)
        };
        assert_eq!(
            said(&away),
            "False Unreachable: cluster hypervisor does not answer within 10 s"
        );
        let objects = wanted(&plane(Some("hypervisor")), &away);
        assert!(objects.iter().all(|one| one.cluster() == c5c3_kit::HOME));
    }
}
