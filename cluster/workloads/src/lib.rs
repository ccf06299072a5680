//! The workload controllers and the scheduler of the embedded cluster.
//!
//! Each controller is a pure function from the objects it sees ([`World`]) to what it wants done
//! ([`Decision`]); one engine watches, decides and carries out. Production clusters have
//! Kubernetes' own controllers for this.

mod act;
mod action;
mod cronjob;
mod daemonset;
mod deployment;
mod disruption;
mod endpoints;
mod engine;
mod events;
mod job;
mod legacy_endpoints;
pub mod node_health;
mod pods;
mod proportion;
mod replicaset;
mod revision;
mod rollout;
mod scheduler;
mod statefulset;
mod table;
mod task;
#[cfg(test)]
mod testing;
mod tracking;
mod volume;
mod world;

pub use action::{Action, Decision};
pub use engine::{Clients, Config, run};
pub use volume::PROVISIONER;
pub use world::World;
