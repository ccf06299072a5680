//! The few things that are special to one kind.

mod service;

pub use service::ServiceNetwork;
