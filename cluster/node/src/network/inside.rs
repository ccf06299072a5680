//! Connections into the cluster's network for the rest of this process.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use apiserver::pods::Connection;
use tokio::net::TcpStream;

use super::follow::Network;
use super::frontends::{Protocol, Snapshot, frontends};
use crate::addresses::Addresses;
use crate::dns::answer::{Answer, Question, Value, answer};

/// Reaches pods and services by name or address, from a node's point of view.
#[derive(Clone)]
pub struct Inside(Arc<Network>);

impl std::fmt::Debug for Inside {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Inside").field(&self.0.domain()).finish()
    }
}

impl Inside {
    pub fn new(network: Arc<Network>) -> Self {
        Self(network)
    }

    /// `keystone.openstack.svc`, with or without the cluster's domain, or an address. `None`: it is
    /// not a name of the cluster.
    pub async fn connect(&self, host: &str, port: u16) -> io::Result<Option<TcpStream>> {
        let network = &self.0;
        let snapshot = network.snapshot();
        let found = resolve(
            &snapshot,
            network.addresses(),
            network.domain(),
            host,
            port,
            chance(),
        );
        let Some(found) = found else {
            return Ok(None);
        };
        let to = found.map_err(|why| io::Error::new(io::ErrorKind::ConnectionRefused, why))?;
        let way = network
            .way()
            .ok_or_else(|| io::Error::new(io::ErrorKind::NotConnected, "no node is up"))?;
        way.connect(to).await.map(Some)
    }
}

/// Admission webhooks run in the cluster.
#[async_trait::async_trait]
impl apiserver::admission::Network for Inside {
    async fn connect(&self, host: &str, port: u16) -> io::Result<Option<Box<dyn Connection>>> {
        let stream = Inside::connect(self, host, port).await?;
        Ok(stream.map(|stream| Box::new(stream) as Box<dyn Connection>))
    }
}

/// Which of several endpoints: any number will do, if it is not always the same.
fn chance() -> usize {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Pure. A ready endpoint; without one, callers fail at once instead of waiting.
fn resolve(
    snapshot: &Snapshot,
    addresses: &Addresses,
    domain: &str,
    host: &str,
    port: u16,
    chance: usize,
) -> Option<Result<SocketAddr, String>> {
    let name = host.trim_end_matches('.').to_ascii_lowercase();
    let address: Ipv4Addr = match name.parse::<IpAddr>() {
        Ok(IpAddr::V4(address)) => address,
        Ok(IpAddr::V6(_)) => return None,
        Err(_) => {
            let full = if name.ends_with(".svc") {
                format!("{name}.{domain}")
            } else {
                name
            };
            match answer(snapshot, addresses, domain, &full, Question::Address) {
                Answer::Foreign => return None,
                Answer::Unknown => return Some(Err(format!("no Service is called {host}"))),
                Answer::Known(values) => {
                    let mut found = values.iter().filter_map(|value| match value {
                        Value::Address(address) => Some(*address),
                        _ => None,
                    });
                    match found.next() {
                        Some(address) => address,
                        None => return Some(Err(format!("{host} has no ready endpoint"))),
                    }
                }
            }
        }
    };
    if !addresses.reaches(address) {
        return None;
    }
    let service = frontends(snapshot)
        .into_iter()
        .find(|f| f.address == address && f.port == port && f.protocol == Protocol::Tcp);
    let Some(service) = service else {
        return Some(Ok(SocketAddr::from((address, port))));
    };
    let count = service.backends.len();
    Some(
        match service.backends.get(chance.checked_rem(count).unwrap_or(0)) {
            Some(backend) => Ok(SocketAddr::V4(backend.to)),
            None => Err(format!("Service {} has no ready endpoint", service.name)),
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::Service;
    use k8s_openapi::api::discovery::v1::EndpointSlice;
    use serde_json::json;

    fn world(ready: bool) -> (Snapshot, Addresses) {
        let addresses = Addresses::default();
        let [a, b] = addresses.services;
        let service: Service = serde_json::from_value(json!({
            "metadata": {"name": "keystone", "namespace": "openstack"},
            "spec": {"clusterIP": format!("{a}.{b}.0.9"), "ports": [{"name": "api", "port": 5000, "protocol": "TCP"}]},
        }))
        .expect("a service");
        let [a, b] = addresses.pods;
        let slice: EndpointSlice = serde_json::from_value(json!({
            "metadata": {"name": "k-1", "namespace": "openstack", "labels": {"kubernetes.io/service-name": "keystone"}},
            "addressType": "IPv4", "ports": [{"name": "api", "port": 5001, "protocol": "TCP"}],
            "endpoints": [{"addresses": [format!("{a}.{b}.1.7")], "conditions": {"ready": ready}}],
        }))
        .expect("a slice");
        let snapshot = Snapshot {
            services: vec![Arc::new(service)],
            slices: vec![Arc::new(slice)],
        };
        (snapshot, addresses)
    }

    #[test]
    fn names_lead_to_a_ready_endpoint() {
        let (snapshot, addresses) = world(true);
        let [a, b] = addresses.pods;
        let pod = SocketAddr::from(([a, b, 1, 7], 5001));
        let at = |host: &str, port| resolve(&snapshot, &addresses, "cluster.local", host, port, 3);
        for name in ["keystone.openstack.svc", "Keystone.openstack.svc.cluster.local."] {
            assert_eq!(at(name, 5000), Some(Ok(pod)), "{name}");
        }
        assert_eq!(
            at(&format!("{a}.{b}.1.7"), 80),
            Some(Ok(SocketAddr::from(([a, b, 1, 7], 80))))
        );
        assert_eq!(at("example.org", 443), None);
        assert_eq!(at("127.0.0.1", 443), None);
        let missing = at("nova.openstack.svc", 1).expect("ours").expect_err("no such");
        assert!(missing.contains("nova.openstack.svc"), "{missing}");
    }

    #[test]
    fn without_an_endpoint_it_says_so_at_once() {
        let (snapshot, addresses) = world(false);
        let none = resolve(
            &snapshot,
            &addresses,
            "cluster.local",
            "keystone.openstack.svc",
            5000,
            0,
        );
        let why = none.expect("ours").expect_err("none is ready");
        assert!(why.contains("no ready endpoint"), "{why}");
    }
}
