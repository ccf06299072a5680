//! The OpenStack calls that CobaltCore makes, usable on their own.
//!
//! - [`Cloud`] is what `clouds.yaml` says about one cloud: where, who, with which secret.
//! - [`Session`] logs in, keeps the token and carries out calls. It implements the traits
//!   [`Identity`], [`Images`], [`Placement`], [`Compute`], [`Operating`], [`Scheduling`], [`Networking`] and [`Fleet`].
//! - [`Simulator`] implements the first three in memory, with faults on demand, for tests of scale
//!   and of errors; [`SimulatedFleet`] is Nova and Placement with hosts, on a clock of its own.
//! - [`Dial`] decides how a host is reached: plain TCP by default, the network of an embedded
//!   cluster in `c5c3 up`.
//!
//! Nothing in here knows Kubernetes.

mod catalogue;
mod clouds;
mod compute;
mod error;
mod fleet;
mod identity;
mod images;
mod listing;
mod network;
mod operating;
mod placement;
mod scheduling;
mod secret;
mod session;
mod simulator;
mod tls;
mod transport;

#[cfg(test)]
mod session_tests;
#[cfg(test)]
mod test_server;

pub use catalogue::{Catalogue, Interface};
pub use clouds::{Auth, Cloud, CloudsError, DomainName, Scope, UserName};
pub use compute::{
    Address, Compute, ComputeService, Fault as ServerFault, Flavour, KeyPair, Server, ServerDraft,
};
pub use dial::{Beyond, Dial, Stream, Tcp};
pub use error::{Cause, Class, Error, Result};
pub use fleet::{
    Aggregate, Fleet, Guest, HypervisorRecord, Move, MoveProgress, PRIORITY, Service, TestBed, TestDraft,
};
pub use identity::{Assignment, Connect, Entity, Fields, Identified, Identity, Kind};
pub use images::{Content, Image, ImageDraft, Images};
pub use network::{NetworkKind, Networking};
pub use operating::{Action, Hypervisor, Operating, PlacedServer};
pub use placement::{Allocation, Inventories, Inventory, Placement, ResourceProvider, Usages};
pub use scheduling::{Scheduling, SizedServer};
pub use secret::Secret;
pub use session::{Connector, Session};
pub use simulator::{Calls, Fault, SimulatedFleet, Simulator, Violations};
pub use transport::Limits;

/// HTTP as the calls above use it, for other clients of the same kind.
pub mod web {
    pub use crate::tls::Tls;
    pub use crate::transport::{Call, Reply, Transport};
}
