//! The address plan of one cluster. Every cluster has a fabric of its own, so two
//! clusters on one machine may use the same plan.

use std::net::Ipv4Addr;

/// Highest node index: the node's last address octet and the pods' third.
pub const MAX_NODES: u8 = 250;

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
}

fn data() -> [u8; 2] {
    [10, 194]
}

impl Default for Addresses {
    fn default() -> Self {
        Self {
            nodes: [10, 190],
            pods: [10, 191],
            services: [10, 192],
            data: data(),
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
}
