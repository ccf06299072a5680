//! What a controller wants done. Decisions are lists of these; nothing else touches the API.

use std::path::PathBuf;

use jiff::Timestamp;
use kube::{Resource, ResourceExt};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::table::Key;

/// The object that an action is about.
#[derive(Debug, Clone, PartialEq)]
pub struct Target {
    pub kind: String,
    pub key: Key,
    pub uid: String,
}

impl Target {
    pub fn of<K: Resource<DynamicType = ()> + ResourceExt>(object: &K) -> Self {
        Self {
            kind: K::kind(&()).into_owned(),
            key: crate::table::key_of(object),
            uid: object.uid().unwrap_or_default(),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// See [`Action::create`].
    Create(Value),
    /// A JSON merge patch.
    Patch {
        target: Target,
        subresource: Option<&'static str>,
        body: Value,
    },
    /// `grace` 0 removes at once; none leaves it to the object.
    Delete {
        target: Target,
        grace: Option<u32>,
    },
    Bind {
        target: Target,
        node: String,
    },
    Event {
        target: Target,
        warning: bool,
        reason: &'static str,
        message: String,
    },
    /// The directory of a released volume; what follows waits until it is gone.
    RemoveDirectory {
        path: PathBuf,
        then: Box<Action>,
    },
}

impl Action {
    pub fn create<K: Resource<DynamicType = ()> + Serialize>(object: &K) -> Self {
        Self::Create(to_value(object))
    }

    /// A patch of the version that was seen, and of no other: what others wrote meanwhile must
    /// not be lost.
    pub fn replace<K>(object: &K, subresource: Option<&'static str>, mut body: Value) -> Self
    where
        K: Resource<DynamicType = ()> + ResourceExt,
    {
        body["metadata"] = json!({"uid": object.uid(), "resourceVersion": object.resource_version()});
        Self::Patch {
            target: Target::of(object),
            subresource,
            body,
        }
    }
}

/// What to do now, and when to look again though nothing changed.
#[derive(Debug, Default, PartialEq)]
pub struct Decision {
    pub actions: Vec<Action>,
    pub again_at: Option<Timestamp>,
}

impl Decision {
    pub fn push(&mut self, action: Action) {
        self.actions.push(action);
    }

    /// Look again at `at`, or earlier if that was asked for already.
    pub fn again(&mut self, at: Timestamp) {
        self.again_at = Some(self.again_at.map_or(at, |earlier| earlier.min(at)));
    }

    /// Writes the status if it says something else than before.
    pub fn status<K, S>(&mut self, object: &K, before: Option<&S>, wanted: &S)
    where
        K: Resource<DynamicType = ()> + ResourceExt,
        S: Serialize,
    {
        if let Some(body) = status_diff(before, wanted) {
            self.push(Action::Patch {
                target: Target::of(object),
                subresource: Some("status"),
                body,
            });
        }
    }

    /// The same for a status that others write too: what they wrote meanwhile is a conflict,
    /// and leads to another look.
    pub fn shared_status<K, S>(&mut self, object: &K, before: Option<&S>, wanted: &S)
    where
        K: Resource<DynamicType = ()> + ResourceExt,
        S: Serialize,
    {
        if let Some(body) = status_diff(before, wanted) {
            self.push(Action::replace(object, Some("status"), body));
        }
    }
}

fn status_diff<S: Serialize>(before: Option<&S>, wanted: &S) -> Option<Value> {
    let before = before.map_or_else(|| json!({}), to_value);
    merge_diff(&before, &to_value(wanted)).map(|patch| json!({"status": patch}))
}

/// Kubernetes types serialise without fail: their maps have string keys.
pub(crate) fn to_value<T: Serialize>(object: &T) -> Value {
    serde_json::to_value(object).unwrap_or_default()
}

/// A text of an object; empty where there is none.
pub(crate) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// The JSON merge patch that turns `from` into `to`.
pub(crate) fn merge_diff(from: &Value, to: &Value) -> Option<Value> {
    if from == to {
        return None;
    }
    let (Value::Object(from), Value::Object(to)) = (from, to) else {
        return Some(to.clone());
    };
    let mut patch = Map::new();
    for (name, old) in from {
        match to.get(name) {
            None => {
                patch.insert(name.clone(), Value::Null);
            }
            Some(new) => {
                if let Some(diff) = merge_diff(old, new) {
                    patch.insert(name.clone(), diff);
                }
            }
        }
    }
    for (name, new) in to {
        if !from.contains_key(name) {
            patch.insert(name.clone(), new.clone());
        }
    }
    Some(Value::Object(patch))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_diff_removes_changes_and_adds() {
        let from = json!({"a": 1, "b": {"c": 1, "d": 2}, "e": [1]});
        let to = json!({"b": {"c": 1, "d": 3}, "e": [2], "f": true});
        let diff = merge_diff(&from, &to).expect("they differ");
        assert_eq!(diff, json!({"a": null, "b": {"d": 3}, "e": [2], "f": true}));
        assert_eq!(merge_diff(&to, &to), None);
    }
}
