//! The semantics of the Kubernetes API, without I/O.

/// Field errors with Kubernetes' types, paths and wording.
pub mod field;
/// Which texts may be names, and what `metadata` must look like.
pub mod names;
/// Resource quantities.
pub mod quantity;
/// Label and field selectors.
pub mod selector;
