//! Services: what they are ([`frontends`]), the rules of a node ([`table`]), and the loop
//! that follows the API and keeps every node's rules, names and loopback listeners.

mod balancers;
mod conntrack;
mod exchange;
pub mod expose;
mod follow;
pub mod frontends;
mod inside;
mod pool;
pub mod table;

pub use exchange::Exchange;
pub use follow::{Member, Network, Settings};
pub use inside::Inside;
