//! Prysm: what storage is doing, as metrics.
//!
//! A *producer* reads one source on the host where it runs and offers what it found in Prometheus'
//! text format: RadosGW's operations log ([`ops_log`]) and the node itself (`node`).
//! Reading and rendering are pure functions of bytes; only the loops in `command` touch the world.

mod command;
mod error;
mod exposition;
mod node;
pub mod ops_log;

pub use command::PrysmCommand;
pub use error::Error;
