//! Recognizes our own writes when they come back as watch events, so that they trigger no pass.

use std::collections::HashMap;
use std::sync::Mutex;

use serde_json::Value;

use crate::kinds::Reference;
use crate::lock;

#[derive(Default)]
pub(crate) struct OwnWrites(Mutex<HashMap<Reference, String>>);

impl OwnWrites {
    /// `before` is the object on which the write rested, `after` the answer to it. A write that
    /// changed nothing is answered with the version of somebody else's, whose event is news.
    pub(crate) fn expect(&self, object: &Reference, before: Option<&Value>, after: &Value) {
        let Some(version) = version(after) else { return };
        if before.and_then(self::version) != Some(version) {
            lock(&self.0).insert(object.clone(), version.to_owned());
        }
    }

    pub(crate) fn is_own(&self, object: &Reference, version: Option<&str>) -> bool {
        version.is_some() && lock(&self.0).get(object).map(String::as_str) == version
    }

    pub(crate) fn forget(&self, object: &Reference) {
        lock(&self.0).remove(object);
    }
}

fn version(object: &Value) -> Option<&str> {
    object
        .pointer("/metadata/resourceVersion")
        .and_then(Value::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::Kind;
    use k8s_openapi::api::core::v1::Secret;
    use serde_json::json;

    fn at(version: &str) -> Value {
        json!({"metadata": {"resourceVersion": version}})
    }

    #[test]
    fn own_writes_are_echoes_until_the_next_change() {
        let own_writes = OwnWrites::default();
        let object = Kind::of::<Secret>().named(None, "a");
        own_writes.expect(&object, Some(&at("4")), &at("5"));
        assert!(own_writes.is_own(&object, Some("5")));
        assert!(!own_writes.is_own(&object, Some("6")));
        assert!(!own_writes.is_own(&object, None));
        own_writes.forget(&object);
        assert!(!own_writes.is_own(&object, Some("5")));
        own_writes.expect(&object, None, &at("7"));
        assert!(own_writes.is_own(&object, Some("7")), "we made it");
    }

    #[test]
    fn a_write_that_changed_nothing_has_no_echo() {
        let own_writes = OwnWrites::default();
        let object = Kind::of::<Secret>().named(None, "a");
        own_writes.expect(&object, Some(&at("5")), &at("5"));
        assert!(!own_writes.is_own(&object, Some("5")), "somebody else wrote it");
    }
}
