//! The address plan of a logical cluster. Those of one fabric share the nodes' network and the
//! data network and have pods, services and balancers of their own. Another state directory has
//! another fabric, and may use the same plan.

use std::net::Ipv4Addr;

/// Highest node index: the node's last address octet and the pods' third.
pub const MAX_NODES: u8 = 250;

/// Logical clusters of one fabric.
pub const MAX_CLUSTERS: usize = 6;
/// So far apart are the second octets of pods and services of two clusters.
const STEP: u8 = 10;

/// Ranges of nodes, pods and services.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Addresses {
    /// First two octets of the nodes' /24, e.g. `[10, 190]`.
    pub nodes: [u8; 2],
    /// First two octets of the pods' /16; each node has one /24 of it.
    pub pods: [u8; 2],
    /// First two octets of the services' /16.
    pub services: [u8; 2],
    /// First two octets of the data network's /24, where addresses of guests are.
    #[serde(default = "data")]
    pub data: [u8; 2],
    /// First three octets of the balancers' /24: addresses of Services that every cluster of the
    /// fabric reaches.
    #[serde(default = "balancers")]
    pub balancers: [u8; 3],
}

fn data() -> [u8; 2] {
    [10, 194]
}

fn balancers() -> [u8; 3] {
    [10, 195, 0]
}

impl Default for Addresses {
    fn default() -> Self {
        Self {
            nodes: [10, 190],
            pods: [10, 191],
            services: [10, 192],
            data: data(),
            balancers: balancers(),
        }
    }
}

/// An IPv4 network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    pub address: Ipv4Addr,
    pub prefix: u8,
}

impl Network {
    pub fn contains(&self, address: Ipv4Addr) -> bool {
        let mask = u32::MAX.checked_shl(32 - u32::from(self.prefix)).unwrap_or(0);
        u32::from(address) & mask == u32::from(self.address) & mask
    }
}

impl std::fmt::Display for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

impl Addresses {
    /// The plan of another logical cluster of the same fabric; this one is the first.
    pub fn nth(&self, position: usize) -> Option<Self> {
        let number = u8::try_from(position).ok().filter(|_| position < MAX_CLUSTERS)?;
        let step = number.checked_mul(STEP)?;
        let second = |[first, second]: [u8; 2]| Some([first, second.checked_add(step)?]);
        Some(Self {
            pods: second(self.pods)?,
            services: second(self.services)?,
            balancers: [
                self.balancers[0],
                self.balancers[1],
                self.balancers[2].checked_add(number)?,
            ],
            ..*self
        })
    }

    pub fn node(&self, index: u8) -> Ipv4Addr {
        Ipv4Addr::new(self.nodes[0], self.nodes[1], 0, index)
    }

    pub fn node_network(&self) -> Network {
        Network {
            address: self.node(0),
            prefix: 24,
        }
    }

    /// The pods of one node.
    pub fn pod_network(&self, index: u8) -> Network {
        Network {
            address: Ipv4Addr::new(self.pods[0], self.pods[1], index, 0),
            prefix: 24,
        }
    }

    /// The bridge of a node, gateway of its pods.
    pub fn pod_gateway(&self, index: u8) -> Ipv4Addr {
        Ipv4Addr::new(self.pods[0], self.pods[1], index, 1)
    }

    pub fn all_pods(&self) -> Network {
        Network {
            address: Ipv4Addr::new(self.pods[0], self.pods[1], 0, 0),
            prefix: 16,
        }
    }

    pub fn service_network(&self) -> Network {
        Network {
            address: Ipv4Addr::new(self.services[0], self.services[1], 0, 0),
            prefix: 16,
        }
    }

    /// Addresses of this cluster's own balancers.
    pub fn balancer_network(&self) -> Network {
        let [a, b, c] = self.balancers;
        Network {
            address: Ipv4Addr::new(a, b, c, 0),
            prefix: 24,
        }
    }

    /// Those of every cluster of the fabric.
    pub fn all_balancers(&self) -> Network {
        Network {
            address: Ipv4Addr::new(self.balancers[0], self.balancers[1], 0, 0),
            prefix: 16,
        }
    }

    /// Addresses that only rules of a node lead on from: of Services and balancers.
    pub fn virtual_networks(&self) -> [Network; 2] {
        [self.service_network(), self.all_balancers()]
    }

    /// Whether a node of this cluster has a way to the address.
    pub fn reaches(&self, address: Ipv4Addr) -> bool {
        let own = [self.node_network(), self.all_pods()];
        let mut all = own.into_iter().chain(self.virtual_networks());
        all.any(|network| network.contains(address))
    }

    pub fn data_network(&self) -> Network {
        Network {
            address: Ipv4Addr::new(self.data[0], self.data[1], 0, 0),
            prefix: 24,
        }
    }

    /// The fabric's own address on the data network.
    pub fn data_gateway(&self) -> Ipv4Addr {
        Ipv4Addr::new(self.data[0], self.data[1], 0, 1)
    }

    /// The `kubernetes` Service of the default namespace.
    pub fn api_service(&self) -> Ipv4Addr {
        Ipv4Addr::new(self.services[0], self.services[1], 0, 1)
    }

    /// What pods have in resolv.conf.
    pub fn dns_service(&self) -> Ipv4Addr {
        Ipv4Addr::new(self.services[0], self.services[1], 0, 10)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_do_not_overlap() {
        let plan = Addresses::default();
        assert_eq!(plan.node(3).to_string(), "10.190.0.3");
        assert_eq!(plan.pod_network(3).to_string(), "10.191.3.0/24");
        assert_eq!(plan.pod_gateway(3).to_string(), "10.191.3.1");
        assert_eq!(plan.service_network().to_string(), "10.192.0.0/16");
        assert_eq!(plan.dns_service().to_string(), "10.192.0.10");
        assert!(plan.service_network().contains(plan.dns_service()));
        assert!(!plan.service_network().contains(plan.node(3)));
    }

    #[test]
    fn clusters_of_a_fabric_do_not_overlap() {
        let first = Addresses::default();
        assert_eq!(first.nth(0), Some(first));
        let all: Vec<Addresses> = (0..MAX_CLUSTERS).filter_map(|n| first.nth(n)).collect();
        assert_eq!(all.len(), MAX_CLUSTERS);
        assert_eq!(first.nth(MAX_CLUSTERS), None);
        let mut networks = vec![first.node_network(), first.data_network()];
        for plan in &all {
            assert_eq!(plan.node_network(), first.node_network());
            assert!(first.all_balancers().contains(plan.balancer_network().address));
            networks.extend([plan.all_pods(), plan.service_network(), plan.balancer_network()]);
        }
        for (i, a) in networks.iter().enumerate() {
            for b in &networks[i + 1..] {
                assert!(!a.contains(b.address) && !b.contains(a.address), "{a} {b}");
            }
        }
    }
}
