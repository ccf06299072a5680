use serde_json::{Map, Value};

use super::PatchError;

/// Merges the text of a patch into an object. A patch that is a list replaces
/// the whole document.
///
/// # Errors
/// The patch is neither an object nor a list.
pub fn apply(mut object: Value, patch: &[u8]) -> Result<Value, PatchError> {
    let bad = || PatchError::BadRequest("Invalid JSON Patch".into());
    match serde_json::from_slice(patch).map_err(|_| bad())? {
        Value::Object(patch) => {
            if let Value::Object(fields) = &mut object {
                merge_fields(fields, patch);
                return Ok(object);
            }
            let mut patch = Value::Object(patch);
            drop_nulls(&mut patch);
            Ok(patch)
        }
        mut list @ Value::Array(_) => {
            drop_nulls(&mut list);
            Ok(list)
        }
        _ => Err(bad()),
    }
}

fn merge_fields(object: &mut Map<String, Value>, patch: Map<String, Value>) {
    for (key, value) in patch {
        if value.is_null() {
            object.remove(&key);
            continue;
        }
        match (object.get_mut(&key), value) {
            (Some(Value::Object(current)), Value::Object(patch)) => merge_fields(current, patch),
            // In place of an object the value stays as it is, nulls and all.
            (Some(current @ Value::Object(_)), value) => *current = value,
            (_, mut value) => {
                drop_nulls(&mut value);
                object.insert(key, value);
            }
        }
    }
}

/// Fields that are null go; items of lists stay.
pub(super) fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, item| !item.is_null());
            map.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}
