//! When values are equal, and which comes first.

use std::cmp::Ordering;

use serde_json::Value as Json;

use super::value::{Fault, Value, item_schema};
use crate::schema::Schema;

impl<'a> Value<'a> {
    pub(super) fn equals(&self, other: &Value<'a>) -> std::result::Result<bool, Fault> {
        Ok(match (self, other) {
            (Self::Invalid(reason), _) | (_, Self::Invalid(reason)) => {
                return Err(Fault::new(&**reason));
            }
            (Self::Null, Self::Null) => true,
            (Self::Bool(a), Self::Bool(b)) => a == b,
            (Self::String(a), Self::String(b)) | (Self::Type(a), Self::Type(b)) => a == b,
            (Self::Bytes(a), Self::Bytes(b)) => a == b,
            (Self::Duration(a), Self::Duration(b)) => a == b,
            (Self::Timestamp(a), Self::Timestamp(b)) => a == b,
            (Self::Quantity(a), Self::Quantity(b)) => a.cmp(b) == Ordering::Equal,
            (Self::Ip(a), Self::Ip(b)) => a == b,
            (Self::Cidr(a, n), Self::Cidr(b, m)) => a == b && n == m,
            (Self::Url(a), Self::Url(b)) => a.text == b.text,
            (Self::Semver(a), Self::Semver(b)) => a.compare(b) == Ordering::Equal,
            (Self::Format(a), Self::Format(b)) => a == b,
            (Self::Optional(a), Self::Optional(b)) => match (a, b) {
                (Some(a), Some(b)) => a.equals(b)?,
                (a, b) => a.is_none() && b.is_none(),
            },
            (Self::Unknown(a), Self::Unknown(b)) => a == b,
            (a, b) if a.is_list() && b.is_list() => a.lists_equal(b)?,
            (a, b) if a.is_map() && b.is_map() => a.maps_equal(b)?,
            (a, b) => matches!(a.compare_numbers(b), Some(Ordering::Equal)),
        })
    }

    fn lists_equal(&self, other: &Value<'a>) -> std::result::Result<bool, Fault> {
        if self.size() != other.size() {
            return Ok(false);
        }
        if let Self::JsonList(raw, schema) = self {
            match schema.list_type.as_deref() {
                Some("set") => return Ok(same_set(&self.items()?, &other.items()?)),
                Some("map") => {
                    if let Self::JsonList(other_raw, _) = other {
                        return same_list_map(raw, other_raw, schema);
                    }
                }
                _ => {}
            }
        }
        for (a, b) in self.items()?.iter().zip(&other.items()?) {
            if !a.equals(b)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn maps_equal(&self, other: &Value<'a>) -> std::result::Result<bool, Fault> {
        if self.size() != other.size() {
            return Ok(false);
        }
        match self {
            Self::JsonMap(map, schema) => {
                for (key, value) in *map {
                    if schema.field(key).is_some() {
                        let name = Self::string(key.as_str());
                        match (self.find(&name)?, other.find(&name)?) {
                            (None, None) => {}
                            (Some(a), Some(b)) => {
                                if !a.equals(&b)? {
                                    return Ok(false);
                                }
                            }
                            _ => return Ok(false),
                        }
                    } else if let Self::JsonMap(other, _) = other
                        && other.get(key).is_some_and(|o| o != value)
                    {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            _ => {
                for key in self.keys() {
                    match (self.find(&key)?, other.find(&key)?) {
                        (Some(a), Some(b)) if a.equals(&b)? => {}
                        _ => return Ok(false),
                    }
                }
                Ok(true)
            }
        }
    }

    fn compare_numbers(&self, other: &Value<'a>) -> Option<Ordering> {
        let wide = |v: &Self| match v {
            Self::Int(i) => Some(i128::from(*i)),
            Self::Uint(u) => Some(i128::from(*u)),
            _ => None,
        };
        match (self, other) {
            (Self::Double(a), Self::Double(b)) => a.partial_cmp(b),
            (Self::Double(a), b) => a.partial_cmp(&(wide(b)? as f64)),
            (a, Self::Double(b)) => (wide(a)? as f64).partial_cmp(b),
            (a, b) => Some(wide(a)?.cmp(&wide(b)?)),
        }
    }

    /// Order, for types that have one.
    pub(super) fn compare(&self, other: &Value<'a>) -> std::result::Result<Option<Ordering>, Fault> {
        Ok(match (self, other) {
            (_, Self::Invalid(reason)) => return Err(Fault::new(&**reason)),
            (Self::Bool(a), Self::Bool(b)) => Some(a.cmp(b)),
            (Self::String(a), Self::String(b)) => Some(a.cmp(b)),
            (Self::Bytes(a), Self::Bytes(b)) => Some(a.cmp(b)),
            (Self::Duration(a), Self::Duration(b)) => Some(a.cmp(b)),
            (Self::Timestamp(a), Self::Timestamp(b)) => Some(a.cmp(b)),
            (
                Self::Int(_) | Self::Uint(_) | Self::Double(_),
                Self::Int(_) | Self::Uint(_) | Self::Double(_),
            ) => self.compare_numbers(other),
            _ => return Err(Fault::no_such_overload()),
        })
    }
}

/// The same elements, in any order; what cannot be compared is not the same.
fn same_set<'a>(a: &[Value<'a>], b: &[Value<'a>]) -> bool {
    let all_in = |items: &[Value<'a>], others: &[Value<'a>]| {
        items
            .iter()
            .all(|item| others.iter().any(|o| matches!(item.equals(o), Ok(true))))
    };
    all_in(a, b) && all_in(b, a)
}

/// The same items by their keys, in any order.
fn same_list_map<'a>(a: &'a [Json], b: &'a [Json], schema: &'a Schema) -> std::result::Result<bool, Fault> {
    let sub = item_schema(schema)?;
    let key = |item: &Json| -> Vec<Json> {
        schema
            .list_map_keys
            .iter()
            .map(|k| item.get(k).cloned().unwrap_or(Json::Null))
            .collect()
    };
    let mut seen = Vec::new();
    for item in b {
        let wanted = key(item);
        // Of several items with one key the last counts.
        let Some(twin) = a.iter().rev().find(|i| key(i) == wanted) else {
            return Ok(false);
        };
        if !Value::of_json(twin, sub)?.equals(&Value::of_json(item, sub)?)? {
            return Ok(false);
        }
        if !seen.contains(&wanted) {
            seen.push(wanted);
        }
    }
    Ok(a.iter().all(|item| seen.contains(&key(item))))
}
