//! Values of columns: atoms, sets and maps in the notation of RFC 7047.

use serde_json::{Map, Value, json};

/// Columns of a row by name.
pub type Row = Map<String, Value>;

/// `["uuid", "…"]`.
pub fn uuid(id: &str) -> Value {
    json!(["uuid", id])
}

/// The id in `["uuid", "…"]`.
pub fn uuid_of(value: &Value) -> Option<&str> {
    match value.as_array()?.as_slice() {
        [Value::String(tag), Value::String(id)] if tag == "uuid" => Some(id),
        _ => None,
    }
}

/// The elements of a set; an atom is a set of one.
pub fn elements(value: &Value) -> Vec<Value> {
    match tagged(value, "set") {
        Some(all) => all.clone(),
        None if value.is_null() => Vec::new(),
        None => vec![value.clone()],
    }
}

/// Keys and values of a map. What is no map has none.
pub fn pairs(value: &Value) -> Vec<(Value, Value)> {
    let pair = |entry: &Value| match entry.as_array().map(Vec::as_slice) {
        Some([key, value]) => Some((key.clone(), value.clone())),
        _ => None,
    };
    let all = tagged(value, "map").into_iter().flatten();
    all.filter_map(pair).collect()
}

fn tagged<'a>(value: &'a Value, tag: &str) -> Option<&'a Vec<Value>> {
    match value.as_array()?.as_slice() {
        [Value::String(found), Value::Array(all)] if found == tag => Some(all),
        _ => None,
    }
}

/// A set as it was, with the elements of `difference` in if they were out, and out if they were in.
pub(crate) fn toggled(before: &Value, difference: &Value) -> Value {
    let mut all = elements(before);
    for element in elements(difference) {
        match all.iter().position(|one| *one == element) {
            Some(at) => {
                all.remove(at);
            }
            None => all.push(element),
        }
    }
    match all.len() {
        1 => all.remove(0),
        _ => json!(["set", all]),
    }
}

/// A map as it was, without the pairs of `difference` that it had and with those that it had not.
pub(crate) fn merged(before: &Value, difference: &Value) -> Value {
    let mut all = pairs(before);
    for (key, value) in pairs(difference) {
        match all.iter().position(|(one, _)| *one == key) {
            Some(at) if all[at].1 == value => {
                all.remove(at);
            }
            Some(at) => all[at].1 = value,
            None => all.push((key, value)),
        }
    }
    let all: Vec<Value> = all.into_iter().map(|(key, value)| json!([key, value])).collect();
    json!(["map", all])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_and_maps_change_by_difference() {
        let set = |all: &[i32]| json!(["set", all]);
        assert_eq!(toggled(&set(&[1, 2]), &set(&[2, 3])), set(&[1, 3]));
        assert_eq!(toggled(&json!(1), &set(&[1, 2])), json!(2));
        assert_eq!(toggled(&set(&[]), &json!(5)), json!(5));
        let map = |all: &[(&str, &str)]| json!(["map", all]);
        assert_eq!(
            merged(
                &map(&[("a", "1"), ("b", "2")]),
                &map(&[("a", "1"), ("b", "3"), ("c", "4")])
            ),
            map(&[("b", "3"), ("c", "4")])
        );
    }

    #[test]
    fn odd_values_are_not_read_as_something_else() {
        assert_eq!(uuid_of(&uuid("x")), Some("x"));
        for odd in [json!(["uuid"]), json!(["named-uuid", "x"]), json!(3), json!(null)] {
            assert_eq!(uuid_of(&odd), None);
            assert!(pairs(&odd).is_empty());
        }
    }
}
