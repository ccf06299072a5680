//! The loop on an API server, with a small kind made for it.

mod clusters;
mod deletion;
mod errors;
mod leadership;
mod missing_kinds;
mod objects;
mod parade;
mod races;
mod stopping;
mod unserved;
