//! Addresses of LoadBalancers: each has one of its cluster's own range for as long as it lives.
//! Pods and nodes of every cluster of the fabric reach it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt;

use super::frontends::Frontend;
use crate::addresses::Network;

pub(super) struct Pool {
    network: Network,
    /// By the Service's uid.
    given: BTreeMap<String, Ipv4Addr>,
}

pub(super) fn is_balancer(service: &Service) -> bool {
    service.spec.as_ref().and_then(|spec| spec.type_.as_deref()) == Some("LoadBalancer")
}

/// Addresses that a Service shows.
pub(super) fn shown(service: &Service) -> impl Iterator<Item = &str> {
    let balancer = service.status.as_ref().and_then(|s| s.load_balancer.as_ref());
    let ingress = balancer.and_then(|b| b.ingress.as_ref()).into_iter().flatten();
    ingress.filter_map(|entry| entry.ip.as_deref())
}

impl Pool {
    pub(super) fn new(network: Network) -> Self {
        Self {
            network,
            given: BTreeMap::new(),
        }
    }

    /// Gives an address to every balancer that has none, and takes back those of others. What a
    /// balancer shows already stays its own.
    pub(super) fn settle(&mut self, services: &[Arc<Service>]) {
        let mut all: Vec<(String, &Service)> = services
            .iter()
            .filter(|service| is_balancer(service))
            .filter_map(|service| Some((service.uid()?, service.as_ref())))
            .collect();
        all.sort_by_key(|(uid, service)| (service.creation_timestamp().map(|t| t.0), uid.clone()));
        self.given
            .retain(|uid, _| all.iter().any(|(known, _)| known == uid));
        let mut taken: BTreeSet<Ipv4Addr> = self.given.values().copied().collect();
        let mut give = |given: &mut BTreeMap<String, Ipv4Addr>, uid: &str, address: Option<Ipv4Addr>| {
            let free = |address: &Ipv4Addr| self.network.contains(*address) && taken.insert(*address);
            if let Some(address) = address.filter(free) {
                given.insert(uid.into(), address);
            }
        };
        for (uid, service) in &all {
            if !self.given.contains_key(uid) {
                let own = shown(service).filter_map(|text| text.parse().ok());
                let own = own.into_iter().find(|address| self.network.contains(*address));
                give(&mut self.given, uid, own);
            }
        }
        for (uid, service) in &all {
            if !self.given.contains_key(uid) {
                let asked = service
                    .spec
                    .as_ref()
                    .and_then(|spec| spec.load_balancer_ip.as_deref());
                give(&mut self.given, uid, asked.and_then(|text| text.parse().ok()));
            }
            if !self.given.contains_key(uid) {
                let [a, b, c, _] = self.network.address.octets();
                let mut hosts = (1..255).map(|host| Ipv4Addr::new(a, b, c, host));
                let given: BTreeSet<Ipv4Addr> = self.given.values().copied().collect();
                give(
                    &mut self.given,
                    uid,
                    hosts.find(|address| !given.contains(address)),
                );
            }
        }
    }

    /// The address of a balancer; none when the range is used up.
    pub(super) fn of(&self, service: &Service) -> Option<Ipv4Addr> {
        self.given.get(&service.uid()?).copied()
    }

    /// The same ports at the balancers' addresses.
    pub(super) fn frontends(&self, services: &[Arc<Service>], own: &[Frontend]) -> Vec<Frontend> {
        let address = |service: &Service| {
            let inner: Ipv4Addr = service.spec.as_ref()?.cluster_ip.as_deref()?.parse().ok()?;
            Some((inner, self.of(service)?))
        };
        let outer: BTreeMap<Ipv4Addr, Ipv4Addr> = services.iter().filter_map(|s| address(s)).collect();
        let balanced = own.iter().filter_map(|frontend| {
            Some(Frontend {
                address: *outer.get(&frontend.address)?,
                // The Service's own address has these two.
                node_port: None,
                local: false,
                ..frontend.clone()
            })
        });
        balanced.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::frontends::{frontends, tests::snapshot};
    use super::*;
    use crate::addresses::Addresses;
    use serde_json::json;

    fn balancer(uid: &str, shown: &[&str], asked: Option<&str>) -> Arc<Service> {
        let ingress: Vec<_> = shown.iter().map(|ip| json!({ "ip": ip })).collect();
        let service = json!({ "metadata": { "name": uid, "uid": uid },
            "spec": { "type": "LoadBalancer", "loadBalancerIP": asked },
            "status": { "loadBalancer": { "ingress": ingress } } });
        Arc::new(serde_json::from_value(service).unwrap())
    }

    #[test]
    fn a_balancer_keeps_its_address() {
        let mut pool = Pool::new(Addresses::default().balancer_network());
        let of = |pool: &Pool, service: &Service| pool.of(service).map(|a| a.to_string());
        let (a, b) = (
            balancer("b", &[], None),
            balancer("c", &["10.195.0.1", "127.0.0.1"], None),
        );
        pool.settle(&[a.clone(), b.clone()]);
        assert_eq!(of(&pool, &b).as_deref(), Some("10.195.0.1"), "it shows it");
        assert_eq!(of(&pool, &a).as_deref(), Some("10.195.0.2"));
        // One that is listed before changes nothing, nor does one that shows what another has.
        let (c, d) = (
            balancer("a", &[], Some("10.195.0.9")),
            balancer("d", &["10.195.0.2"], None),
        );
        pool.settle(&[a.clone(), b.clone(), c.clone(), d.clone()]);
        assert_eq!(of(&pool, &a).as_deref(), Some("10.195.0.2"));
        assert_eq!(of(&pool, &c).as_deref(), Some("10.195.0.9"), "it asked for it");
        assert_eq!(of(&pool, &d).as_deref(), Some("10.195.0.3"));
        pool.settle(std::slice::from_ref(&b));
        assert_eq!(of(&pool, &a), None);
        // Addresses of another cluster are never taken.
        let e = balancer("e", &["10.195.1.7"], Some("10.195.1.8"));
        pool.settle(&[b, e.clone()]);
        assert_eq!(of(&pool, &e).as_deref(), Some("10.195.0.2"));
    }

    #[test]
    fn a_range_that_is_used_up_is_no_trouble_for_others() {
        let mut pool = Pool::new(Addresses::default().balancer_network());
        let all: Vec<_> = (0..256)
            .map(|n| balancer(&format!("{n:03}"), &[], None))
            .collect();
        pool.settle(&all);
        assert_eq!(pool.given.len(), 254);
        assert_eq!(pool.of(&all[255]), None);
    }

    #[test]
    fn its_ports_are_those_of_the_service() {
        let mut snapshot = snapshot();
        let mut web = Service::clone(&snapshot.services[0]);
        web.metadata.uid = Some("u".into());
        web.spec.as_mut().unwrap().type_ = Some("LoadBalancer".into());
        snapshot.services[0] = Arc::new(web);
        let mut pool = Pool::new(Addresses::default().balancer_network());
        pool.settle(&snapshot.services);
        let own = frontends(&snapshot);
        let balanced = pool.frontends(&snapshot.services, &own);
        assert_eq!(balanced.len(), 1);
        assert_eq!(balanced[0].address.to_string(), "10.195.0.1");
        assert_eq!((balanced[0].port, balanced[0].node_port), (80, None));
        assert_eq!(balanced[0].backends, own[0].backends);
    }
}
