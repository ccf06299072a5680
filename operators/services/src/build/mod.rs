//! Objects of a service, from its spec and what was observed. Pure.

mod cache;
mod certificates;
mod claims;
mod configuration;
mod database;
mod hanging;
mod job;
mod messaging;
mod network;
mod ovn;
mod pod;
mod policy;
mod schema;
mod secrets;
#[cfg(test)]
mod steps_tests;
mod uwsgi;
mod workload;

pub use certificates::certificates;
pub use claims::{claims, next_unshared, unshared};
#[cfg(test)]
pub(crate) use configuration::options;
pub use configuration::{Configuration, Configured, address_option, configuration, naming_key};
pub use database::{Account, database_objects, database_ready};
pub use hanging::{hanging, next_hanging};
pub use job::{
    Outcome, Steps, has_failed, is_complete, last_word, last_words, not_starting, orphan_at_work, runs_now,
    statuses, unplaced,
};
pub use messaging::{PORT as BUS_PORT, messaging_objects, messaging_ready};
pub use network::network_objects;
pub(crate) use ovn::{AUTHORITY as OVN_AUTHORITY, CERTIFICATE as OVN_CERTIFICATE, KEY as OVN_KEY};
pub use ovn::{OVN_CHECK, caller as ovn_caller, ovn};
pub use schema::setup_title;
pub use secrets::hidden;
pub(crate) use uwsgi::HOST;
pub use workload::{CEPH_CHECK, KEYS_CHECK, image, is_scaled, resized, workload, workload_name};
