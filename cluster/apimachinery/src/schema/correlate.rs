//! The old value that belongs to each new value of an update.

use std::cell::Cell;

use serde_json::Value;

use super::listtype::MapList;
use super::model::Schema;

/// A new value with the old one at the same place.
pub struct Correlation<'a> {
    pub new: &'a Value,
    pub old: &'a Value,
    pub schema: &'a Schema,
    old_items: Option<MapList<'a>>,
    unchanged: Cell<Option<bool>>,
}

impl<'a> Correlation<'a> {
    pub fn new(new: &'a Value, old: &'a Value, schema: &'a Schema) -> Self {
        let old_items = match old {
            Value::Array(items) if schema.list_type.is_some() => MapList::new(schema, items),
            _ => None,
        };
        Self {
            new,
            old,
            schema,
            old_items,
            unchanged: Cell::new(None),
        }
    }

    /// The field `name`, if both objects have it and the schema knows it.
    pub fn key(&self, name: &str) -> Option<Correlation<'a>> {
        let (old, new) = (self.old.as_object()?, self.new.as_object()?);
        let (old, new) = (old.get(name)?, new.get(name)?);
        Some(Correlation::new(new, old, self.schema.field(name)?))
    }

    /// The item at `index` of the new list; only lists of type map correlate.
    pub fn index(&self, index: usize) -> Option<Correlation<'a>> {
        let new = self.new.as_array()?.get(index)?;
        let old = self.old_items.as_ref()?.get(new)?;
        Some(Correlation::new(new, old, self.schema.items.as_deref()?))
    }

    /// Whether the value is the same as before; list maps compare without order.
    pub fn unchanged(&self) -> bool {
        if let Some(known) = self.unchanged.get() {
            return known;
        }
        let result = match (self.new, self.old) {
            (Value::Array(new), Value::Array(old)) => {
                new.len() == old.len()
                    && if self.old_items.is_some() {
                        (0..new.len()).all(|i| self.index(i).is_some_and(|c| c.unchanged()))
                    } else {
                        new == old
                    }
            }
            (Value::Object(new), Value::Object(old)) => {
                new.len() == old.len() && new.keys().all(|k| self.key(k).is_some_and(|c| c.unchanged()))
            }
            (new, old) => new == old,
        };
        self.unchanged.set(Some(result));
        result
    }
}
