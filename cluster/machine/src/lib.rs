//! Embedded clusters on this machine: API server, workload controllers and nodes in one process
//! that runs on its own; nodes outlive it.

mod bootstrap;
mod claim;
pub mod connect;
pub mod daemon;
pub mod detect;
pub mod down;
pub mod identity;
#[cfg(test)]
mod independence_tests;
mod mark;
pub mod nodes;
pub mod plan;
mod pods;
mod power;
pub mod preflight;
pub mod program;
pub mod settings;
mod site;
mod supervise;
mod tasks;
pub mod up;

pub use embedded_node::traits::Traits;
pub use plan::Plan;
pub use settings::{NodeEntry, Settings};
