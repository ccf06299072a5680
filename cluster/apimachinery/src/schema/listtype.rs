//! Uniqueness in lists of type set and map.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value};

use super::model::Schema;
use crate::field::{FieldError, Path, text};

/// Duplicates in lists of type set and map below an object.
pub fn validate(object: &Value, schema: &Schema, path: &Path, errors: &mut Vec<FieldError>) {
    match object {
        Value::Object(map) => {
            for (key, v) in map {
                if let Some(sub) = schema.additional_schema() {
                    validate(v, sub, &path.key(key), errors);
                }
                if let Some(sub) = schema.properties.get(key) {
                    validate(v, sub, &path.child(key), errors);
                }
            }
        }
        Value::Array(items) => {
            match schema.list_type.as_deref() {
                Some("set") => {
                    for i in repeated(items) {
                        errors.push(FieldError::duplicate(path.index(i), items[i].clone()));
                    }
                }
                Some("map") => list_map(items, schema, path, errors),
                _ => {}
            }
            if let Some(sub) = schema.items.as_deref() {
                for (i, item) in items.iter().enumerate() {
                    validate(item, sub, &path.index(i), errors);
                }
            }
        }
        _ => {}
    }
}

/// Whether a schema has a list of type set or map at all.
pub fn applies(schema: &Schema) -> bool {
    matches!(schema.list_type.as_deref(), Some("set" | "map"))
        || schema.items.as_deref().is_some_and(applies)
        || schema.additional_schema().is_some_and(applies)
        || schema.properties.values().any(applies)
}

/// Indices of the second appearance of each item.
fn repeated(items: &[Value]) -> Vec<usize> {
    if items.len() <= 1 {
        return Vec::new();
    }
    let mut seen: HashMap<String, usize> = HashMap::with_capacity(items.len());
    let mut second = Vec::new();
    for (i, item) in items.iter().enumerate() {
        let times = seen.entry(identity(item)).or_default();
        *times += 1;
        if *times == 2 {
            second.push(i);
        }
    }
    second
}

fn identity(value: &Value) -> String {
    match value {
        // A float is never the same as an integer.
        Value::Number(n) if n.as_i64().is_none() => format!("f{n}"),
        other => text::json(other),
    }
}

fn list_map(items: &[Value], schema: &Schema, path: &Path, errors: &mut Vec<FieldError>) {
    for (i, item) in items.iter().enumerate() {
        if !item.is_null() && !item.is_object() {
            errors.push(FieldError::invalid(
                path.index(i),
                item.clone(),
                "must be an object for an array of list-type map",
            ));
            return;
        }
    }
    let keys: Vec<Value> = items
        .iter()
        .map(|item| {
            let mut key = Map::new();
            for name in &schema.list_map_keys {
                if let Some(v) = item.get(name) {
                    key.insert(name.clone(), v.clone());
                }
            }
            Value::Object(key)
        })
        .collect();
    for i in repeated(&keys) {
        errors.push(FieldError::duplicate(path.index(i), keys[i].clone()));
    }
}

/// The items of an old list of type map by their keys.
pub struct MapList<'a> {
    keys: &'a [String],
    items: BTreeMap<String, &'a Value>,
}

impl<'a> MapList<'a> {
    /// `None` if the schema is not a list of type map.
    pub fn new(schema: &'a Schema, items: &'a [Value]) -> Option<Self> {
        if schema.type_ != "array"
            || schema.list_type.as_deref() != Some("map")
            || schema.list_map_keys.is_empty()
        {
            return None;
        }
        let mut list = Self {
            keys: &schema.list_map_keys,
            items: BTreeMap::new(),
        };
        for item in items {
            if let Some(key) = list.key(item) {
                list.items.entry(key).or_insert(item);
            }
        }
        Some(list)
    }

    pub fn get(&self, item: &Value) -> Option<&'a Value> {
        self.items.get(&self.key(item)?).copied()
    }

    fn key(&self, item: &Value) -> Option<String> {
        let map = item.as_object()?;
        let mut out = String::new();
        for name in self.keys {
            match map.get(name)? {
                v @ (Value::Bool(_) | Value::Number(_) | Value::String(_)) => {
                    out.push('\0');
                    out.push_str(&identity(v));
                }
                _ => return None,
            }
        }
        Some(out)
    }
}
