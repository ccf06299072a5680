mod lists;
mod meta;

use serde_json::{Map, Value};

use self::lists::{element_kind, in_order, merge_list, split_by};
use self::meta::Meta;
use super::PatchError;
use super::merge::drop_nulls;
use crate::go_text;
use crate::openapi::ObjectType;

type Fields = Map<String, Value>;

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList";
const SET_ORDER: &str = "$setElementOrder";

/// Merges the text of a patch into an object of a built-in kind: lists merge by
/// the keys that the type declares, and `$` directives delete, replace and sort.
///
/// # Errors
/// The patch is no object, its directives are wrong, or it does not fit the type.
pub fn apply(object: Value, patch: &[u8], ty: &ObjectType) -> Result<Value, PatchError> {
    let bad = || PatchError::BadRequest("invalid JSON document".into());
    let patch = match serde_json::from_slice(patch).map_err(|_| bad())? {
        Value::Object(patch) => patch,
        Value::Null => Fields::new(),
        _ => return Err(bad()),
    };
    let Value::Object(object) = object else {
        return Err(bad());
    };
    merge_fields(object, patch, Meta::root(ty)).map(Value::Object)
}

fn internal(text: impl Into<String>) -> PatchError {
    PatchError::Internal(text.into())
}

fn bad_type(expected: &str, actual: &Value) -> PatchError {
    let actual = match actual {
        Value::Null => "%!s(<nil>)",
        other => go_text::type_name(other),
    };
    internal(format!("expected a {expected}, but received a {actual}"))
}

fn no_merge_key(item: &Value, key: &str) -> PatchError {
    internal(format!(
        "map: {} does not contain declared merge key: {key}",
        go_text::plain(item)
    ))
}

fn unknown_directive(directive: &Value, fields: &Fields) -> PatchError {
    internal(format!(
        "unknown patch type: {} in map: {}",
        go_text::verb_s(directive),
        go_text::plain(&Value::Object(fields.clone()))
    ))
}

const LIST: &str = "[]interface {}";
const MAP: &str = "map[string]interface {}";

fn as_list(value: Value) -> Result<Vec<Value>, PatchError> {
    match value {
        Value::Array(items) => Ok(items),
        other => Err(bad_type(LIST, &other)),
    }
}

/// Merges a patch into the fields of an object or of a list item.
fn merge_fields(mut object: Fields, mut patch: Fields, meta: Meta<'_>) -> Result<Fields, PatchError> {
    match patch.get(DIRECTIVE) {
        None => {}
        Some(Value::String(directive)) if directive == "replace" => {
            patch.remove(DIRECTIVE);
            return Ok(patch);
        }
        Some(Value::String(directive)) if directive == "delete" => return Ok(Fields::new()),
        Some(other) => return Err(unknown_directive(other, &patch)),
    }
    retain_keys(&mut object, &mut patch)?;
    set_orders(&mut object, &mut patch, meta)?;
    for (key, value) in patch {
        if key.starts_with(DELETE_FROM_LIST) {
            let name = directed(&key, DELETE_FROM_LIST, "invalid patch format of primitive list")?;
            delete_from_list(&mut object, name, value, meta)?;
        } else {
            merge_field(&mut object, key, value, meta)?;
        }
    }
    Ok(object)
}

fn merge_field(object: &mut Fields, key: String, value: Value, meta: Meta<'_>) -> Result<(), PatchError> {
    if value.is_null() {
        object.remove(&key);
        return Ok(());
    }
    let merged = match (object.get_mut(&key).map(Value::take), value) {
        (Some(Value::Object(old)), Value::Object(patch)) => {
            let (below, strategy) = meta.field(&key)?;
            Some(Value::Object(if strategy.replace {
                patch
            } else {
                merge_fields(old, patch, below)?
            }))
        }
        (Some(Value::Array(old)), Value::Array(patch)) => {
            let (below, strategy) = meta.list_field(&key)?;
            Some(Value::Array(if strategy.merge {
                merge_list(old, patch, below, strategy.key())?
            } else {
                patch
            }))
        }
        (Some(old), value) if same_scalar_type(&old, &value) => Some(value),
        (_, mut value) => {
            drop_nulls(&mut value);
            without_directives(value)
        }
    };
    match merged {
        Some(value) => object.insert(key, value),
        None => object.remove(&key),
    };
    Ok(())
}

fn same_scalar_type(a: &Value, b: &Value) -> bool {
    !a.is_object() && !a.is_array() && go_text::type_name(a) == go_text::type_name(b)
}

/// A list of scalars to take out of the list beside it.
fn delete_from_list(object: &mut Fields, name: &str, value: Value, meta: Meta<'_>) -> Result<(), PatchError> {
    if value.is_null() {
        object.remove(name);
        return Ok(());
    }
    let Some(current) = object.get_mut(name) else {
        return Ok(());
    };
    match (current.take(), value) {
        (Value::Array(old), Value::Array(patch)) => {
            let (below, strategy) = meta.list_field(name)?;
            let left = if old.is_empty() && patch.is_empty() {
                old
            } else if element_kind(&old, &patch)?.is_map() {
                merge_list(old, patch, below, strategy.key())?
            } else {
                (old.into_iter()).filter(|item| !patch.contains(item)).collect()
            };
            *current = Value::Array(left);
        }
        (Value::Object(old), Value::Object(patch)) => {
            let (below, strategy) = meta.field(name)?;
            *current = Value::Object(if strategy.replace {
                patch
            } else {
                merge_fields(old, patch, below)?
            });
        }
        (old, value) if same_scalar_type(&old, &value) => *current = value,
        (old, _) => *current = old,
    }
    Ok(())
}

/// The name behind a directive, as in `$setElementOrder/containers`.
fn directed<'k>(key: &'k str, directive: &str, problem: &str) -> Result<&'k str, PatchError> {
    match key.split_once('/') {
        Some((prefix, name)) if prefix == directive => Ok(name),
        _ => Err(PatchError::BadRequest(problem.into())),
    }
}

/// `$retainKeys`: fields that are not listed go.
fn retain_keys(object: &mut Fields, patch: &mut Fields) -> Result<(), PatchError> {
    let Some(keys) = patch.remove(RETAIN_KEYS) else {
        return Ok(());
    };
    let bad = || PatchError::BadRequest("invalid patch format of retainKeys".into());
    let Value::Array(keys) = keys else {
        return Err(bad());
    };
    let listed = |name: &str| keys.iter().any(|key| key == name);
    let allowed = |(name, value): (&String, &Value)| {
        value.is_null() || name.starts_with(DELETE_FROM_LIST) || name.starts_with(SET_ORDER) || listed(name)
    };
    if !patch.iter().all(allowed) {
        return Err(bad());
    }
    object.retain(|name, _| listed(name));
    Ok(())
}

/// `$setElementOrder/x`: merges the list `x` and sorts it.
fn set_orders(object: &mut Fields, patch: &mut Fields, meta: Meta<'_>) -> Result<(), PatchError> {
    let directives: Vec<String> = patch
        .keys()
        .filter(|key| key.starts_with(SET_ORDER))
        .cloned()
        .collect();
    for directive in directives {
        let order = as_list(patch.remove(&directive).unwrap_or(Value::Null))?;
        let problem = "invalid patch format of setElementOrder list";
        let name = directed(&directive, SET_ORDER, problem)?;
        let old = object.get(name).cloned().map(as_list).transpose()?;
        let new = patch.get(name).cloned().map(as_list).transpose()?;
        let (below, strategy) = meta.list_field(name)?;
        lists::check_order(new.as_deref().unwrap_or_default(), &order, strategy.key())?;
        let merged = match (&old, &new) {
            (None, None) => continue,
            (Some(old), None) => old.clone(),
            (None, Some(new)) => match without_directives(Value::Array(new.clone())) {
                Some(Value::Array(items)) => items,
                _ => continue,
            },
            (Some(old), Some(new)) if strategy.merge => {
                merge_list(old.clone(), new.clone(), below, strategy.key())?
            }
            (Some(_), Some(new)) => new.clone(),
        };
        let old = old.unwrap_or_default();
        let kind = element_kind(&old, new.as_deref().unwrap_or_default());
        let (listed, others) = split_by(merged, &order, strategy.key())?;
        let sorted = in_order(listed, others, &order, &old, strategy.key(), kind?)?;
        object.insert(name.to_owned(), Value::Array(sorted));
        patch.remove(name);
    }
    Ok(())
}

/// What is left of a new value without directives; nothing if it is one.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(fields) => {
            if fields.contains_key(DIRECTIVE) {
                return None;
            }
            let fields = fields
                .into_iter()
                .filter_map(|(key, item)| Some((key, without_directives(item)?)))
                .collect();
            Some(Value::Object(fields))
        }
        Value::Array(items) => Some(items.into_iter().filter_map(without_directives).collect()),
        scalar => Some(scalar),
    }
}
