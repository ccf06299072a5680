//! The loop on an API server, with a small kind made for it.

mod clusters;
mod deletion;
mod errors;
mod leadership;
mod objects;
mod parade;
mod races;
mod stopping;
