//! Field ownership of a kind's endpoints.

use apimachinery::ssa::{FieldManager, FieldSet, Version};

use crate::registry::Kind;

/// The field manager of one endpoint of a kind.
pub(crate) fn manager(kind: &Kind, subresource: &str) -> FieldManager {
    let reset: Vec<&str> = kind
        .reset_fields_of(subresource)
        .iter()
        .map(String::as_str)
        .collect();
    let reset = FieldSet::of_fields(&reset);
    let versions = kind
        .types
        .iter()
        .map(|(api_version, ty)| Version {
            api_version: api_version.clone(),
            ty: ty.clone(),
            reset: reset.clone(),
        })
        .collect();
    FieldManager::new(&kind.group, &kind.version, &kind.kind, subresource, versions)
}
