//! Cortex: which host is the best one for a server, a volume or a share.
//!
//! - [`engine`] is the pure core: a pipeline of filters and weighers over a packed picture of the
//!   [`fleet`], the same answer for the same world, every decision in words.
//! - [`request`] reads what Nova, Cinder and Manila ask.

pub mod controllers;
pub mod deschedule;
pub mod engine;
pub mod fleet;
pub mod plan;
pub mod request;
pub mod service;
pub mod sources;
