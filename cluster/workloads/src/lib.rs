//! The workload controllers and the scheduler of the embedded cluster.
//!
//! Each controller is a pure function from the objects it sees ([`World`]) to what it wants done
//! ([`Decision`]); one engine watches, decides and carries out. Production clusters have
//! Kubernetes' own controllers for this.

mod action;
mod apps;
mod batch;
mod engine;
pub mod node_health;
mod pods;
mod scheduler;
mod services;
mod table;
#[cfg(test)]
mod testing;
mod volume;
mod world;

pub use action::{Action, Decision};
pub use engine::{Clients, Config, run};
pub use world::World;
