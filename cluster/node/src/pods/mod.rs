//! Pods: a pure state machine decides, a thin executor acts.
//!
//! [`decide()`] takes the wanted pod, what the runtime shows, what probes found and the
//! time, and says what to do, what to report and when to look again. Everything it needs
//! survives a restart of this program in the runtime or in the pod's status.

pub mod backoff;
pub mod decide;
mod execute;
pub mod host;
#[cfg(test)]
mod machine_tests;
pub mod memory;
pub mod observe;
pub mod probes;
pub mod start;
pub mod status;
mod steps;
pub mod volumes;
pub mod worker;

pub use decide::{Decision, Input, decide};
pub use execute::clean as clean_up;
pub use host::{Claimed, Host, Objects, Reporter, Token};
pub use memory::{Failure, Memory, Probed, Task};
pub use observe::observed::{Container, Observed, Sandbox, State};
pub use worker::Worker;
