//! Objects of a service, from its spec and what was observed. Pure.

mod configuration;
mod database;
mod job;
mod messaging;
mod network;
mod pod;
mod policy;
mod secrets;
mod workload;

pub use configuration::{Configuration, configuration};
pub use database::{database_objects, database_ready};
pub use job::{Outcome, Steps, not_starting, statuses};
pub use messaging::{messaging_objects, messaging_ready};
pub use network::network_objects;
pub use secrets::mask;
pub use workload::{claims, deployment, deployment_name};
