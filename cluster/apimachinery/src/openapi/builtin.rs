//! The built-in kinds of Kubernetes, as data.

use std::sync::{Arc, LazyLock};

use serde_json::{Map, Value};

use super::{Schema, parse};

static DOCUMENT: LazyLock<Value> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../../data/builtin-schemas.json"))
        .expect("the embedded document is valid JSON (a test reads it)")
});

static SCHEMA: LazyLock<Arc<Schema>> = LazyLock::new(|| {
    Arc::new(
        parse::definitions(builtin_definitions())
            .expect("the embedded definitions are well-formed (a test parses them)"),
    )
});

/// The whole document: `definitions`, `resources`, `defaultColumns` and the
/// version of Kubernetes that they describe.
#[must_use]
pub fn builtin_document() -> &'static Value {
    &DOCUMENT
}

/// OpenAPI definitions of the built-in kinds by name.
#[must_use]
pub fn builtin_definitions() -> &'static Map<String, Value> {
    static EMPTY: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);
    DOCUMENT["definitions"].as_object().unwrap_or(&EMPTY)
}

/// All built-in definitions as one arena.
pub(super) fn builtin_schema() -> &'static Arc<Schema> {
    &SCHEMA
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_resource_has_a_type() {
        let resources = builtin_document()["resources"].as_array().unwrap();
        assert!(resources.len() > 50);
        for resource in resources {
            let definition = resource["definition"].as_str().unwrap();
            let id = builtin_schema().named(definition).expect(definition);
            assert!(builtin_schema().get(id).map.is_some(), "{definition}");
        }
    }
}
