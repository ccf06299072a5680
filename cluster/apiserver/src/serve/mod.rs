//! HTTP: from a request to a verb on a resource, and back. One tower service serves the TLS listener
//! and the in-process clients alike.

mod body;
mod connections;
mod flow;
mod in_process;
mod lanes;
pub mod listener;
mod metrics;
mod query;
mod route;

pub use body::{Body, BoxError, Document, bytes, empty, full, json, status, stream, wrap};
pub use connections::Connections;
pub use flow::{ApiService, Call, Core, Home, Limits, Warnings};
pub use in_process::InProcess;
pub use lanes::{Lanes, Place};
pub use metrics::{Metrics, OpenWatch};
pub use query::Query;
pub use route::{ResourcePath, Route, Target, route};
