//! The ways to change an object in part: JSON patch, merge patch and strategic
//! merge patch, with the semantics and error texts of Kubernetes.
//!
//! All of them work out the new object; its ownership counts as an update
//! ([`crate::ssa::FieldManager::update`]). Server-side apply is in
//! [`crate::ssa`].

/// JSON patch (RFC 6902) as Kubernetes reads it.
pub mod json;
/// JSON merge patch (RFC 7386).
pub mod merge;
/// Strategic merge patch, for built-in kinds.
pub mod strategic;

#[cfg(test)]
mod laws;

use thiserror::Error;

/// Why a patch was refused.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum PatchError {
    /// The patch itself cannot be read: HTTP 400.
    #[error("{0}")]
    BadRequest(String),
    /// The patch does not fit the object: HTTP 422, reason `Invalid`. Kubernetes
    /// answers with [`PatchError::REJECTED`] and keeps this text for itself.
    #[error("{0}")]
    Unprocessable(String),
    /// Too many operations: HTTP 413.
    #[error("{0}")]
    TooLarge(String),
    /// The patch does not fit the type of the object: Kubernetes answers HTTP 500.
    #[error("{0}")]
    Internal(String),
}

impl PatchError {
    /// The message of a Status for [`PatchError::Unprocessable`].
    pub const REJECTED: &str = "the server rejected our request due to an error in our request";
}
