//! Writes after which an object does not read as it was sent: the server wrote a quantity its own
//! way, or filled in a default. While both sides stay the same, sending again is pointless.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Mutex;

use serde_json::Value;

use crate::kinds::{Key, Reference};
use crate::lock;

#[derive(Default)]
pub struct Rewritten(Mutex<HashMap<Reference, Entry>>);

struct Entry {
    owner: Key,
    /// As it was sent, and as it is.
    digests: (u64, u64),
}

impl Rewritten {
    pub fn forget(&self, object: &Reference) {
        lock(&self.0).remove(object);
    }

    pub fn forget_all_of(&self, owner: &Key) {
        lock(&self.0).retain(|_, entry| entry.owner != *owner);
    }

    /// `live` is the part that only a writer changes: see [`still`].
    pub fn holds(&self, object: &Reference, wanted: &Value, live: &Value) -> bool {
        let digests = lock(&self.0).get(object).map(|entry| entry.digests);
        digests == Some((digest(wanted), digest(live)))
    }

    pub fn remember(&self, owner: &Key, object: &Reference, wanted: &Value, live: &Value) {
        let entry = Entry {
            owner: owner.clone(),
            digests: (digest(wanted), digest(live)),
        };
        lock(&self.0).insert(object.clone(), entry);
    }
}

fn digest(value: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.to_string().hash(&mut hasher);
    hasher.finish()
}

/// What only a writer changes of an object: not the status, not the versions.
pub fn still(live: &Value) -> Value {
    let mut live = live.clone();
    if let Some(fields) = live.as_object_mut() {
        fields.remove("status");
        if let Some(Value::Object(meta)) = fields.get_mut("metadata") {
            meta.remove("managedFields");
            meta.remove("resourceVersion");
            meta.remove("generation");
        }
    }
    live
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::Kind;
    use k8s_openapi::api::core::v1::Secret;
    use serde_json::json;

    #[test]
    fn what_the_server_rewrites_is_sent_once() {
        let rewritten = Rewritten::default();
        let (owner, object) = (Key::new(None, "a"), Kind::of::<Secret>().named(None, "b"));
        let wanted = json!({"spec": {"cpu": "1000m"}});
        let live = |cpu: &str, version: &str, ready: i64| {
            still(
                &json!({"metadata": {"resourceVersion": version}, "spec": {"cpu": cpu}, "status": {"ready": ready}}),
            )
        };
        assert!(!rewritten.holds(&object, &wanted, &live("1", "5", 0)));
        rewritten.remember(&owner, &object, &wanted, &live("1", "5", 0));
        assert!(
            rewritten.holds(&object, &wanted, &live("1", "6", 1)),
            "only the status moved"
        );
        assert!(
            !rewritten.holds(&object, &wanted, &live("2", "7", 1)),
            "somebody changed it"
        );
        assert!(!rewritten.holds(&object, &json!({"spec": {"cpu": "2"}}), &live("1", "6", 1)));
        rewritten.forget_all_of(&owner);
        assert!(!rewritten.holds(&object, &wanted, &live("1", "5", 0)));
    }

    #[test]
    fn an_object_that_went_is_forgotten_though_its_owner_stays() {
        let rewritten = Rewritten::default();
        let owner = Key::new(None, "a");
        let [one, two] = ["one", "two"].map(|name| Kind::of::<Secret>().named(None, name));
        for object in [&one, &two] {
            rewritten.remember(&owner, object, &json!(1), &json!(2));
        }
        rewritten.forget(&one);
        assert!(!rewritten.holds(&one, &json!(1), &json!(2)));
        assert!(rewritten.holds(&two, &json!(1), &json!(2)));
        assert_eq!(lock(&rewritten.0).len(), 1);
    }
}
