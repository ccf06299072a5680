//! Laws of patches.

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{json as json_patch, merge, strategic};
use crate::openapi::ObjectType;

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0..3i64).prop_map(Value::from),
        "[a-c/~]{0,2}".prop_map(Value::from),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            btree_map("[a-c/~]{0,2}", inner, 0..4).prop_map(|map| json!(map)),
        ]
    })
}

fn object() -> impl Strategy<Value = Value> {
    btree_map("[a-c/~]{0,2}", value(), 0..4).prop_map(|map| json!(map))
}

fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.iter().any(has_null),
        Value::Object(map) => map.values().any(has_null),
        _ => false,
    }
}

fn null_in_list(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().any(has_null),
        Value::Object(map) => map.values().any(null_in_list),
        _ => false,
    }
}

/// The merge patch from one object to another without nulls.
fn difference(old: &Map<String, Value>, new: &Map<String, Value>) -> Value {
    let mut patch = Map::new();
    for (key, value) in new {
        match (old.get(key), value) {
            (Some(old), new) if old == new => {}
            (Some(Value::Object(old)), Value::Object(new)) => {
                patch.insert(key.clone(), difference(old, new));
            }
            _ => {
                patch.insert(key.clone(), value.clone());
            }
        }
    }
    for key in old.keys().filter(|key| !new.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    Value::Object(patch)
}

/// Paths of all values inside an object.
fn paths(value: &Value, prefix: &str, out: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let path = format!("{prefix}/{}", key.replace('~', "~0").replace('/', "~1"));
                paths(value, &path, out);
                out.push(path);
            }
        }
        Value::Array(items) => {
            for (i, value) in items.iter().enumerate() {
                let path = format!("{prefix}/{i}");
                paths(value, &path, out);
                out.push(path);
            }
        }
        _ => {}
    }
}

fn json_apply(object: &Value, patch: &Value) -> Result<Value, super::PatchError> {
    json_patch::apply(object.clone(), patch.to_string().as_bytes())
}

fn merge_apply(object: &Value, patch: &Value) -> Value {
    merge::apply(object.clone(), patch.to_string().as_bytes()).expect("an object merges")
}

proptest! {
    #[test]
    fn merging_twice_is_merging_once(old in object(), patch in object()) {
        // A list with nulls in it keeps them only where it replaces an object.
        prop_assume!(!null_in_list(&patch));
        let once = merge_apply(&old, &patch);
        prop_assert_eq!(merge_apply(&once, &patch), once);
    }

    #[test]
    fn a_difference_leads_to_the_other(old in object(), new in object()) {
        prop_assume!(!has_null(&old) && !has_null(&new));
        let patch = difference(old.as_object().unwrap(), new.as_object().unwrap());
        prop_assert_eq!(merge_apply(&old, &patch), new);
    }

    #[test]
    fn every_value_tests_as_itself_and_replaces_itself(object in object()) {
        let mut all = Vec::new();
        paths(&object, "", &mut all);
        for path in all {
            let value = object.pointer(&path).cloned().unwrap_or(Value::Null);
            for op in ["test", "replace"] {
                let patch = json!([{"op": op, "path": path, "value": value}]);
                prop_assert_eq!(json_apply(&object, &patch).unwrap(), object.clone());
            }
        }
    }

    #[test]
    fn remove_undoes_add(object in object(), value in value(), at in any::<prop::sample::Index>()) {
        let mut all = Vec::new();
        paths(&object, "", &mut all);
        let places: Vec<String> = all
            .iter()
            .filter(|path| object.pointer(path).is_some_and(Value::is_array))
            .map(|path| format!("{path}/0"))
            .chain(std::iter::once("/new".to_owned()))
            .collect();
        let path = &places[at.index(places.len())];
        let patch = json!([
            {"op": "add", "path": path, "value": value},
            {"op": "remove", "path": path},
        ]);
        prop_assert_eq!(json_apply(&object, &patch).unwrap(), object);
    }

    #[test]
    fn move_is_copy_and_remove(object in object(), at in any::<prop::sample::Index>()) {
        let mut all = Vec::new();
        paths(&object, "", &mut all);
        prop_assume!(!all.is_empty());
        let from = &all[at.index(all.len())];
        let moved = json_apply(&object, &json!([{"op": "move", "from": from, "path": "/new"}]));
        let copied = json_apply(&object, &json!([
            {"op": "copy", "from": from, "path": "/new"},
            {"op": "remove", "path": from},
        ]));
        prop_assert_eq!(moved, copied);
    }

    #[test]
    fn no_patch_panics(object in object(), patch in value(), text in ".{0,40}") {
        let pod = ObjectType::builtin("core.v1.Pod").expect("a pod");
        for bytes in [patch.to_string().into_bytes(), text.into_bytes()] {
            let _ = json_patch::apply(object.clone(), &bytes);
            let _ = merge::apply(object.clone(), &bytes);
            let _ = strategic::apply(object.clone(), &bytes, &pod);
        }
    }
}
