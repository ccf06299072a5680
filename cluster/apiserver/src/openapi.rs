//! OpenAPI documents: pure functions of a registry snapshot.

use crate::{registry::Registry, serve::Document};

/// Answers `/openapi/v3`, `/openapi/v3/…` and `/openapi/v2`. `None`: no such path.
pub fn document(_registry: &Registry, _path: &str, _accept: &str) -> Option<Document> {
    None
}
