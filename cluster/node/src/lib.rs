//! Embedded nodes: several Kubernetes nodes on one machine, each an init process in
//! namespaces of its own with its own containerd. This crate does what a kubelet, a
//! service proxy and a DNS server do, and brings such a cluster up and down.
//!
//! No packet of a node leaves the machine: nodes are joined by a bridge in a network
//! namespace without a default route, and the machine's own routes, firewall and
//! interfaces are never touched.

pub mod addresses;
pub mod cgroups;
pub mod containerd;
pub mod cri;
pub mod enter;
pub mod error;
pub mod fabric;
pub mod images;
pub mod init;
pub mod layout;
mod links;
pub mod netns;
pub mod node;
pub mod pods;
pub mod process;

pub use addresses::Addresses;
pub use error::{Error, Result};
pub use layout::Layout;
