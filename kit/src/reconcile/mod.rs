//! The loop of a controller: what wakes it, and one pass over one object.

pub mod controller;
pub(crate) mod erased;
pub(crate) mod finalizers;
pub(crate) mod follow;
pub(crate) mod in_flight;
pub(crate) mod index;
pub(crate) mod pass;
pub mod run;
pub(crate) mod unserved;
pub(crate) mod watch;
