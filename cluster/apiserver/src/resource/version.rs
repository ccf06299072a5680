//! Versions: objects are stored in one and read in any. CRDs convert by name alone; of the built-in
//! kinds only events have two forms.

use serde_json::{Map, Value};

use crate::{
    registry::{Kind, Schema},
    store::Stored,
};

/// The stored bytes are what a reader of this kind expects.
pub(super) fn is_current(kind: &Kind, stored: &Stored) -> bool {
    if kind.group == "events.k8s.io" {
        return false;
    }
    match &kind.schema {
        Schema::Builtin(_) => true,
        Schema::Custom(schema) => {
            kind.version == kind.storage_version && stored.revision > schema.defaults_since
        }
    }
}

/// The object as `kind`'s version shows it.
pub(super) fn read(kind: &Kind, stored: &Stored) -> Value {
    let mut object = stored.value();
    if is_current(kind, stored) {
        return object;
    }
    if kind.is_event() {
        return event_to_new(object);
    }
    object["apiVersion"] = kind.api_version().into();
    if let Schema::Custom(schema) = &kind.schema {
        schema.complete(&mut object);
    }
    object
}

/// The object as it is stored.
pub(super) fn write(kind: &Kind, mut object: Value) -> Value {
    if kind.group == "events.k8s.io" {
        return event_to_core(object);
    }
    object["apiVersion"] = kind.storage_api_version().into();
    object
}

/// Fields of core/v1 and their names in events.k8s.io/v1.
const EVENT_FIELDS: [(&str, &str); 7] = [
    ("count", "deprecatedCount"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("source", "deprecatedSource"),
    ("message", "note"),
    ("involvedObject", "regarding"),
    ("reportingComponent", "reportingController"),
];

fn event_to_new(object: Value) -> Value {
    rename(object, "events.k8s.io/v1", |name| {
        EVENT_FIELDS
            .iter()
            .find(|(core, _)| *core == name)
            .map(|(_, new)| *new)
    })
}

fn event_to_core(object: Value) -> Value {
    rename(object, "v1", |name| {
        EVENT_FIELDS
            .iter()
            .find(|(_, new)| *new == name)
            .map(|(core, _)| *core)
    })
}

fn rename(object: Value, api_version: &str, name: impl Fn(&str) -> Option<&'static str>) -> Value {
    let Value::Object(map) = object else { return object };
    let mut renamed: Map<String, Value> = map
        .into_iter()
        .map(|(key, value)| match name(&key) {
            Some(new) => (new.to_owned(), value),
            None => (key, value),
        })
        .collect();
    renamed.insert("apiVersion".into(), api_version.into());
    Value::Object(renamed)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn events_go_both_ways() {
        let core = json!({"apiVersion": "v1", "kind": "Event", "message": "m", "count": 2, "reason": "r",
            "involvedObject": {"kind": "Pod"}, "reportingComponent": "c"});
        let new = event_to_new(core.clone());
        assert_eq!(new["note"], "m");
        assert_eq!(new["regarding"]["kind"], "Pod");
        assert_eq!(event_to_core(new), core);
    }
}
