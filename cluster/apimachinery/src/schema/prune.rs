//! Removal of fields that a schema does not know, and of nulls that it does not allow.

use serde_json::Value;

use super::model::{Additional, Schema};

const META: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Prunes `value`; returns the paths of the unknown fields, sorted.
///
/// `resource_root` keeps apiVersion, kind and metadata whatever the schema says.
pub fn prune(value: &mut Value, schema: &Schema, resource_root: bool) -> Vec<String> {
    let mut pruner = Pruner::default();
    pruner.prune(value, Some(schema), resource_root);
    pruner.unknown.sort();
    pruner.unknown
}

#[derive(Default)]
struct Pruner {
    path: String,
    unknown: Vec<String>,
}

impl Pruner {
    fn below<R>(&mut self, key: &str, f: impl FnOnce(&mut Self) -> R) -> R {
        let len = self.path.len();
        if len > 0 {
            self.path.push('.');
        }
        self.path.push_str(key);
        let result = f(self);
        self.path.truncate(len);
        result
    }

    fn at<R>(&mut self, index: usize, f: impl FnOnce(&mut Self) -> R) -> R {
        let len = self.path.len();
        self.path.push_str(&format!("[{index}]"));
        let result = f(self);
        self.path.truncate(len);
        result
    }

    fn record(&mut self, key: &str) {
        self.below(key, |p| p.unknown.push(p.path.clone()));
    }

    fn prune(&mut self, value: &mut Value, schema: Option<&Schema>, root: bool) {
        if let Some(s) = schema
            && s.preserves_unknown_fields()
        {
            return self.keep(value, s, root);
        }
        match value {
            Value::Object(map) => {
                let Some(s) = schema else {
                    for key in map.keys() {
                        self.record(key);
                    }
                    map.clear();
                    return;
                };
                let embedded = s.embedded_resource || root;
                map.retain(|key, v| {
                    let is_meta = META.contains(&key.as_str());
                    if embedded && is_meta {
                        return true;
                    }
                    if let Some(property) = s.properties.get(key) {
                        self.below(key, |p| p.prune(v, Some(property), false));
                        return true;
                    }
                    match &s.additional_properties {
                        Some(additional) => {
                            let sub = match additional {
                                Additional::Schema(sub) => Some(&**sub),
                                Additional::Allowed(_) => None,
                            };
                            self.below(key, |p| p.prune(v, sub, false));
                            true
                        }
                        None => {
                            if !is_meta || !self.path.is_empty() {
                                self.record(key);
                            }
                            false
                        }
                    }
                });
            }
            Value::Array(items) => {
                let sub = schema.and_then(|s| s.items.as_deref());
                for (i, item) in items.iter_mut().enumerate() {
                    self.at(i, |p| p.prune(item, sub, false));
                }
            }
            _ => {}
        }
    }

    /// Unknown fields stay, what is specified below is pruned again.
    fn keep(&mut self, value: &mut Value, s: &Schema, root: bool) {
        match value {
            Value::Object(map) => {
                let embedded = s.embedded_resource || root;
                for (key, v) in map.iter_mut() {
                    if embedded && META.contains(&key.as_str()) {
                        continue;
                    }
                    if let Some(property) = s.properties.get(key) {
                        self.below(key, |p| p.prune(v, Some(property), false));
                    } else if let Some(additional) = &s.additional_properties {
                        let sub = match additional {
                            Additional::Schema(sub) => Some(&**sub),
                            Additional::Allowed(_) => None,
                        };
                        self.below(key, |p| p.prune(v, sub, false));
                    }
                }
            }
            Value::Array(items) => {
                let Some(sub) = s.items.as_deref() else {
                    return;
                };
                for (i, item) in items.iter_mut().enumerate() {
                    self.at(i, |p| p.keep(item, sub, false));
                }
            }
            _ => {}
        }
    }
}

/// Removes nulls where the schema is neither nullable nor has a default.
pub fn prune_nulls(value: &mut Value, schema: Option<&Schema>) {
    match value {
        Value::Object(map) => map.retain(|key, v| {
            let sub = schema.and_then(|s| s.field(key));
            if v.is_null() && sub.is_some_and(|s| !s.nullable && s.default.is_none()) {
                return false;
            }
            prune_nulls(v, sub);
            true
        }),
        Value::Array(items) => {
            let sub = schema.and_then(|s| s.items.as_deref());
            for item in items {
                prune_nulls(item, sub);
            }
        }
        _ => {}
    }
}
