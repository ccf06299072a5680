//! Objects of a service, from its spec and what was observed. Pure.

mod configuration;
mod database;
mod job;
mod pod;
mod workload;

pub use configuration::{Configuration, configuration};
pub use database::database_objects;
pub use job::{Outcome, job, mask, outcome};
pub use workload::{claims, deployment, network_objects};
