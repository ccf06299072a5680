//! How an item of a set or list-map is known.

use serde_json::Value;

use crate::field::text;
use crate::openapi::{ListKind, ListType, Schema};
use crate::ssa::path::PathElement;

/// The step to a list item, or why there is none.
pub(super) fn element_of(schema: &Schema, list: &ListType, item: &Value) -> Result<PathElement, String> {
    match &list.kind {
        ListKind::Atomic => Err("invalid indexing of non-associative list".into()),
        ListKind::Set => match item {
            Value::Object(_) => Err("associative list without keys has an element that's a map type".into()),
            Value::Array(_) => Err("not supported: associative list with lists as elements".into()),
            Value::Null => Err("associative list without keys has an element that's an explicit null".into()),
            scalar => Ok(PathElement::Value(scalar.clone())),
        },
        ListKind::Map(keys) => {
            let object = match item {
                Value::Object(object) => object,
                Value::Null => {
                    return Err("associative list with keys may not have a null element".into());
                }
                _ => {
                    return Err("associative list with keys may not have non-map elements".into());
                }
            };
            let element = schema.get(list.element).map.as_ref();
            let mut found = Vec::with_capacity(keys.len());
            for key in keys {
                if let Some(value) = object.get(&**key) {
                    found.push((key.clone(), value.clone()));
                    continue;
                }
                let Some(element) = element else {
                    return Err(format!(
                        "couldn't find default value for {key}: \
                         associative list may not have non-map types"
                    ));
                };
                if let Some(default) = element.field(key).and_then(|field| field.default.as_ref()) {
                    found.push((key.clone(), default.clone()));
                }
            }
            if found.is_empty() {
                let keys: Vec<_> = keys.iter().map(|key| text::quote(key)).collect();
                return Err(format!(
                    "associative list with keys has an element that omits all key fields [{}] \
                     (and doesn't have default values for any key fields)",
                    keys.join(" ")
                ));
            }
            found.sort_by(|a, b| a.0.cmp(&b.0));
            Ok(PathElement::Key(found.into()))
        }
    }
}
