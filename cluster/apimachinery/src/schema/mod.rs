//! Schemas of custom resources: pruning, defaulting and validation as the
//! API server of Kubernetes does them.

pub mod builtin;
mod correlate;
pub mod default;
mod email;
mod failure;
pub mod formats;
pub mod listtype;
pub mod model;
mod numbers;
pub mod objectmeta;
#[cfg(test)]
mod properties;
pub mod prune;
pub mod regexp;
mod structural;
pub mod time;
mod uri;
pub mod validate;

pub use correlate::Correlation;
pub use model::{Additional, Rule, Schema};
pub use structural::Structural;
pub use uri::is_request_uri;
