//! Embedded nodes: several Kubernetes nodes on one machine, each an init process in
//! namespaces of its own with its own containerd. This crate does what a kubelet, a
//! service proxy and a DNS server do; the crate `machine` joins them to clusters.
//!
//! No packet of a node leaves the machine: nodes are joined by a bridge in a network
//! namespace without a default route, and the machine's own routes, firewall and
//! interfaces are never touched.

#[cfg(test)]
extern crate self as embedded_node;

pub mod addresses;
pub mod beneath;
pub mod cgroups;
pub mod containerd;
pub mod cri;
pub mod dns;
pub mod enter;
pub mod error;
pub mod fabric;
pub mod images;
pub mod init;
pub mod kubelet;
pub mod layout;
pub mod limits;
mod links;
pub mod names;
pub mod netns;
pub mod network;
pub mod node;
pub mod pods;
pub mod process;
pub mod streams;
pub mod traits;

pub use addresses::Addresses;
pub use error::{Error, Result};
pub use layout::Layout;
pub use names::Names;
