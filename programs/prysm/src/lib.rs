//! Prysm: what storage is doing, as metrics and messages.
//!
//! A *producer* reads one source and offers what it found in Prometheus' text format: RadosGW's
//! operations log ([`ops_log`]) and its Admin API (`rgw`), disks (`disks`), the node itself (`node`).
//! Some publish messages too (`outlet`). Reading and rendering are pure functions of bytes; only the
//! loops in `command`, and what asks others (`rgw::Admin`, `disks::Tools`), touch the world.

mod audit;
mod bounded;
mod command;
mod disks;
mod error;
mod exposition;
mod nats;
mod node;
mod notify;
pub mod ops_log;
mod outlet;
mod quotas;
mod rgw;
mod sidecar;

pub use command::PrysmCommand;
pub use error::Error;
