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
mod pins;
mod pod;
mod policy;
mod schema;
mod secrets;
pub(crate) mod standing;
#[cfg(test)]
mod steps_tests;
mod uwsgi;
mod workload;

pub use certificates::certificates;
pub use claims::{claims, next_unshared, unshared};
#[cfg(test)]
pub(crate) use configuration::options;
pub use configuration::{Configuration, Configured, address_option, configuration, naming_key};
pub use database::{database_objects, database_ready};
pub use hanging::{hanging, next_hanging};
pub use job::{
    Outcome, Steps, has_failed, has_title, is_complete, last_word, last_words, not_starting, orphan_at_work,
    runs_now, statuses, unplaced,
};
pub use messaging::{messaging_objects, messaging_ready};
pub use network::network_objects;
pub use ovn::{OVN_CHECK, caller as ovn_caller, is_given as ovn_is_given, ovn};
pub use schema::setup_title;
pub use secrets::hidden;
pub use workload::{CEPH_CHECK, KEYS_CHECK, image, is_scaled, resized, workload, workload_name};
