//! Discovery documents: pure functions of a registry snapshot.

use crate::{registry::Registry, serve::Document};

/// Answers `/api`, `/api/v1`, `/apis`, `/apis/<group>` and `/apis/<group>/<version>` in the legacy and
/// the aggregated form, as `accept` asks. `None`: no such path.
pub fn document(_registry: &Registry, _path: &str, _accept: &str) -> Option<Document> {
    None
}
