//! The semantics of the Kubernetes API, without I/O.

/// CEL: rules of custom resources.
pub mod cel;
/// CustomResourceDefinitions and the objects of them.
pub mod crd;
/// Field errors with Kubernetes' types, paths and wording.
pub mod field;
mod go_text;
/// JSON with the error texts of Go's decoder.
pub mod json_syntax;
/// JSONPath of printer columns.
pub mod jsonpath;
/// Which texts may be names, and what `metadata` must look like.
pub mod names;
/// Typed views of OpenAPI schemas of built-in kinds and custom resources.
pub mod openapi;
/// JSON patch, merge patch and strategic merge patch.
pub mod patch;
/// Kubernetes' protobuf form of built-in kinds.
pub mod protobuf;
/// Resource quantities.
pub mod quantity;
/// Schemas of custom resources: pruning, defaulting, validation.
pub mod schema;
/// Label and field selectors.
pub mod selector;
/// Server-side apply: field ownership, merging and conflicts.
pub mod ssa;
/// Tables: what `kubectl get` prints.
pub mod table;
