//! Pods: a pure state machine decides, a thin executor acts.
//!
//! [`decide()`] takes the wanted pod, what the runtime shows, what probes found and the
//! time, and says what to do, what to report and when to look again. Everything it needs
//! survives a restart of this program in the runtime or in the pod's status.

pub mod backoff;
pub mod conditions;
pub mod container;
pub mod decide;
pub mod env;
mod execute;
pub mod fields;
mod handlers;
mod health;
pub mod host;
#[cfg(test)]
mod machine_tests;
pub mod memory;
pub mod names;
mod observe;
pub mod observed;
mod prober;
mod report;
pub mod resources;
pub mod sandbox;
pub mod security;
mod start;
pub mod status;
mod steps;
pub mod tls;
mod traces;
pub mod view;
pub mod volumes;
pub mod worker;

pub use decide::{Decision, Input, decide};
pub use execute::clean as clean_up;
pub use host::{Claimed, Host, Objects, Reporter, Token};
pub use memory::{Failure, Memory, Probed, Task};
pub use observed::{Container, Observed, Sandbox, State};
pub use worker::Worker;
