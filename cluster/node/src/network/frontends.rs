//! Service addresses and where their connections go.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt;

use crate::names::Names;

/// The Services and endpoints of a cluster at one moment.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    pub services: Vec<Arc<Service>>,
    pub slices: Vec<Arc<EndpointSlice>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    Tcp,
    Udp,
}

impl Protocol {
    fn parse(text: Option<&str>) -> Option<Self> {
        match text {
            None | Some("TCP") => Some(Self::Tcp),
            Some("UDP") => Some(Self::Udp),
            _ => None,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        }
    }
}

/// An endpoint and the node it is on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backend {
    pub to: SocketAddrV4,
    pub node: Option<String>,
}

/// One port of a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frontend {
    /// `namespace/name:port`, for people who read the rules.
    pub name: String,
    pub address: Ipv4Addr,
    pub protocol: Protocol,
    pub port: u16,
    pub node_port: Option<u16>,
    pub backends: Vec<Backend>,
    /// The same client goes to the same endpoint.
    pub sticky: bool,
    /// Only endpoints of the client's own node.
    pub local: bool,
}

/// `namespace/name`.
pub fn full_name(service: &Service) -> String {
    let namespace = service.namespace().unwrap_or_default();
    format!("{namespace}/{}", service.name_any())
}

/// Endpoints of a Service that take connections, with their ports.
pub fn slices_of<'a>(
    snapshot: &'a Snapshot,
    service: &'a Service,
) -> impl Iterator<Item = &'a EndpointSlice> {
    let (namespace, name) = (service.namespace(), service.name_any());
    snapshot.slices.iter().map(AsRef::as_ref).filter(move |slice| {
        slice.namespace() == namespace
            && slice.labels().get("kubernetes.io/service-name") == Some(&name)
            && slice.address_type == "IPv4"
    })
}

fn backends(snapshot: &Snapshot, service: &Service, port_name: Option<&str>) -> Vec<Backend> {
    let mut found: BTreeMap<SocketAddrV4, Backend> = BTreeMap::new();
    for slice in slices_of(snapshot, service) {
        let number = slice.ports.iter().flatten().find_map(|p| {
            let same = p.name.as_deref().unwrap_or_default() == port_name.unwrap_or_default();
            same.then(|| usable(p.port?)).flatten()
        });
        let Some(number) = number else { continue };
        for endpoint in slice.endpoints.iter().flatten() {
            let ready = endpoint.conditions.as_ref().and_then(|c| c.ready);
            if ready == Some(false) {
                continue;
            }
            for ip in endpoint.addresses.iter().filter_map(|a| a.parse().ok()) {
                let to = SocketAddrV4::new(ip, number);
                let node = endpoint.node_name.clone();
                found.insert(to, Backend { to, node });
            }
        }
    }
    found.into_values().collect()
}

/// 0 stands for none.
fn usable(port: i32) -> Option<u16> {
    u16::try_from(port).ok().filter(|port| *port > 0)
}

/// Every port of every Service that has an address, in a stable order.
pub fn frontends(snapshot: &Snapshot) -> Vec<Frontend> {
    let mut all = Vec::new();
    for service in &snapshot.services {
        let Some(spec) = &service.spec else { continue };
        let address = spec.cluster_ip.as_deref().and_then(|ip| ip.parse().ok());
        let Some(address) = address else { continue };
        for port in spec.ports.iter().flatten() {
            let Some(protocol) = Protocol::parse(port.protocol.as_deref()) else {
                continue;
            };
            let Some(number) = usable(port.port) else {
                continue;
            };
            all.push(Frontend {
                name: format!(
                    "{}:{}",
                    full_name(service),
                    port.name.clone().unwrap_or_else(|| number.to_string()),
                ),
                address,
                protocol,
                port: number,
                node_port: port.node_port.and_then(usable),
                backends: backends(snapshot, service, port.name.as_deref()),
                sticky: spec.session_affinity.as_deref() == Some("ClientIP"),
                local: spec.internal_traffic_policy.as_deref() == Some("Local"),
            });
        }
    }
    all.sort_by_key(|f| (f.address, f.protocol, f.port));
    all
}

/// A Service that is to be reached on loopback of the machine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Exposure {
    pub service: String,
    pub listen: u16,
    pub to: SocketAddrV4,
}

/// Of a LoadBalancer: its address on the fabric is enough.
const NOWHERE: &str = "none";

/// Services with the annotation, or of type LoadBalancer (on their own port). Beside them
/// what is wrong with those that cannot be exposed, by name.
pub fn exposures(snapshot: &Snapshot, names: Names) -> (Vec<Exposure>, Vec<(String, String)>) {
    let expose = names.expose();
    let (mut good, mut bad) = (Vec::new(), Vec::new());
    for service in &snapshot.services {
        let Some(spec) = &service.spec else { continue };
        let name = full_name(service);
        let asked = service.annotations().get(&expose);
        let balancer = spec.type_.as_deref() == Some("LoadBalancer");
        let Some(address) = spec.cluster_ip.as_deref().and_then(|ip| ip.parse().ok()) else {
            continue;
        };
        let ports: Vec<u16> = spec
            .ports
            .iter()
            .flatten()
            .filter(|p| Protocol::parse(p.protocol.as_deref()) == Some(Protocol::Tcp))
            .filter_map(|p| usable(p.port))
            .collect();
        match asked {
            Some(text) if text == NOWHERE => {}
            Some(text) => match (text.parse::<u16>(), ports.first()) {
                (Ok(listen), Some(port)) if listen > 0 => good.push(Exposure {
                    service: name,
                    listen,
                    to: SocketAddrV4::new(address, *port),
                }),
                (_, None) => bad.push((name, format!("{expose} needs a TCP port in the Service"))),
                _ => bad.push((
                    name,
                    format!("{expose} is {text:?}, not a port number from 1 to 65535 or none"),
                )),
            },
            None if balancer => good.extend(ports.into_iter().map(|port| Exposure {
                service: name.clone(),
                listen: port,
                to: SocketAddrV4::new(address, port),
            })),
            None => {}
        }
    }
    good.sort();
    (good, bad)
}

/// Number of a target port that may be a name.
pub fn number(port: &IntOrString) -> Option<u16> {
    match port {
        IntOrString::Int(n) => u16::try_from(*n).ok(),
        IntOrString::String(text) => text.parse().ok(),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::names::EXAMPLE;
    use serde_json::json;

    pub(crate) fn snapshot() -> Snapshot {
        let service = |value| Arc::new(serde_json::from_value::<Service>(value).unwrap());
        let slice = |value| Arc::new(serde_json::from_value::<EndpointSlice>(value).unwrap());
        Snapshot {
            services: vec![
                service(json!({ "metadata": { "name": "web", "namespace": "n",
                        "annotations": { "example.org/expose": "5000" } },
                    "spec": { "clusterIP": "10.192.0.20", "type": "NodePort", "ports": [
                        { "name": "http", "port": 80, "nodePort": 30080 }] } })),
                service(json!({ "metadata": { "name": "empty", "namespace": "n" },
                    "spec": { "clusterIP": "10.192.0.21", "ports": [{ "port": 1 }] } })),
                service(json!({ "metadata": { "name": "db", "namespace": "n" },
                    "spec": { "clusterIP": "None", "ports": [{ "port": 3306 }] } })),
                service(json!({ "metadata": { "name": "other", "namespace": "n" },
                    "spec": { "type": "ExternalName", "externalName": "x.example" } })),
            ],
            slices: vec![
                slice(
                    json!({ "addressType": "IPv4", "metadata": { "name": "web-1", "namespace": "n",
                        "labels": { "kubernetes.io/service-name": "web" } },
                    "ports": [{ "name": "http", "port": 8080 }],
                    "endpoints": [
                        { "addresses": ["10.191.1.2"], "nodeName": "a", "conditions": { "ready": true } },
                        { "addresses": ["10.191.2.2"], "nodeName": "b" },
                        { "addresses": ["10.191.2.3"], "conditions": { "ready": false } },
                    ] }),
                ),
                slice(
                    json!({ "addressType": "IPv4", "metadata": { "name": "db-1", "namespace": "n",
                        "labels": { "kubernetes.io/service-name": "db" } },
                    "ports": [{ "name": "", "port": 3306 }],
                    "endpoints": [
                        { "addresses": ["10.191.1.9"], "hostname": "db-0", "conditions": { "ready": true } },
                    ] }),
                ),
            ],
        }
    }

    #[test]
    fn only_ready_endpoints_of_addressed_services() {
        let all = frontends(&snapshot());
        assert_eq!(all.len(), 2);
        let to: Vec<String> = all[0].backends.iter().map(|b| b.to.to_string()).collect();
        assert_eq!(to, ["10.191.1.2:8080", "10.191.2.2:8080"]);
        assert!(all[1].backends.is_empty());
    }

    #[test]
    fn zero_is_no_port() {
        let mut snapshot = snapshot();
        let mut web = Service::clone(&snapshot.services[0]);
        let ports = web.spec.as_mut().and_then(|spec| spec.ports.as_mut()).unwrap();
        ports[0].node_port = Some(0);
        let zero = k8s_openapi::api::core::v1::ServicePort {
            port: 0,
            ..ports[0].clone()
        };
        ports.push(zero);
        snapshot.services = vec![Arc::new(web)];
        let all = frontends(&snapshot);
        assert_eq!((all.len(), all[0].port, all[0].node_port), (1, 80, None));
    }

    #[test]
    fn exposed_services() {
        let mut snapshot = snapshot();
        let (good, bad) = exposures(&snapshot, EXAMPLE);
        assert!(bad.is_empty());
        assert_eq!(
            (good[0].listen, good[0].to.to_string()),
            (5000, "10.192.0.20:80".into())
        );
        // One that is not to be brought to the machine, though its type would do so.
        let mut inner = Service::clone(&snapshot.services[0]);
        inner.metadata.annotations = Some([("example.org/expose".into(), "none".into())].into());
        inner.spec.as_mut().unwrap().type_ = Some("LoadBalancer".into());
        snapshot.services = vec![Arc::new(inner)];
        assert_eq!(exposures(&snapshot, EXAMPLE), (vec![], vec![]));
        let mut broken = Service::clone(&snapshot.services[0]);
        broken.metadata.annotations = Some([("example.org/expose".into(), "many".into())].into());
        snapshot.services = vec![Arc::new(broken)];
        let (good, bad) = exposures(&snapshot, EXAMPLE);
        assert!(good.is_empty());
        assert_eq!(
            bad,
            [(
                "n/web".to_owned(),
                "example.org/expose is \"many\", not a port number from 1 to 65535 or none".to_owned()
            )]
        );
    }
}
