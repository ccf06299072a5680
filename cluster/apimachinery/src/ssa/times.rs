//! Writes that change nothing but the time of an entry.

use serde_json::Value;

/// Takes back new times in `managedFields` if the object is otherwise the same
/// as the live one, so that nothing is left to write. Call it before
/// strategies change the object.
pub fn keep_times(live: &Value, new: &mut Value) {
    if same_but_times(live, new)
        && let Some(managed) = live["metadata"].get("managedFields")
    {
        new["metadata"]["managedFields"] = managed.clone();
    }
}

fn same_but_times(live: &Value, new: &Value) -> bool {
    let (Some(old), Some(new_map)) = (live.as_object(), new.as_object()) else {
        return false;
    };
    old.len() == new_map.len()
        && old.iter().zip(new_map).all(|((key, old), (new_key, new))| {
            key == new_key
                && match (key.as_str(), old, new) {
                    ("metadata", Value::Object(old), Value::Object(new)) => {
                        old.len() == new.len()
                            && old.iter().zip(new).all(|((key, old), (new_key, new))| {
                                key == new_key
                                    && match key.as_str() {
                                        "managedFields" => same_entries(old, new),
                                        _ => old == new,
                                    }
                            })
                    }
                    _ => old == new,
                }
        })
}

fn same_entries(old: &Value, new: &Value) -> bool {
    let (Some(old), Some(new)) = (old.as_array(), new.as_array()) else {
        return old == new;
    };
    old.len() == new.len()
        && old.iter().zip(new).all(|(old, new)| match (old, new) {
            (Value::Object(old), Value::Object(new)) => {
                let others =
                    |map: &serde_json::Map<String, Value>| map.len() - usize::from(map.contains_key("time"));
                others(old) == others(new)
                    && old
                        .iter()
                        .all(|(key, value)| key == "time" || new.get(key) == Some(value))
            }
            _ => old == new,
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(time: &str, mode: &str) -> Value {
        json!({
            "metadata": {"name": "a", "managedFields": [
                {"manager": "m", "time": time, "fieldsV1": {"f:spec": {}}},
            ]},
            "spec": {"mode": mode},
        })
    }

    #[test]
    fn only_times_are_taken_back() {
        let live = object("2026-01-01T00:00:00Z", "x");
        let mut same = object("2026-01-02T00:00:00Z", "x");
        keep_times(&live, &mut same);
        assert_eq!(same, live);
        let mut changed = object("2026-01-02T00:00:00Z", "y");
        keep_times(&live, &mut changed);
        assert_eq!(changed, object("2026-01-02T00:00:00Z", "y"));
    }
}
