//! Functions of lists and sets.

use std::cmp::Ordering;

use super::strings;
use super::value::{Fault, Result, Value};

type Items<'a> = Vec<Value<'a>>;

pub(super) fn call<'a>(function: &str, args: &[Value<'a>]) -> Result<'a> {
    if matches!(function, "isSorted" | "sum" | "max" | "min")
        && matches!(
            args.first().map(Value::items).transpose()?.as_deref(),
            Some([Value::Invalid(_), ..])
        )
    {
        return Err(Fault::new(format!("no such overload: {function}(list)")));
    }
    match (function, args) {
        ("isSorted", [list]) => is_sorted(&list.items()?),
        ("sum", [list]) => sum(&list.items()?),
        ("max" | "min", [list]) => extreme(function, list.items()?),
        ("indexOf" | "lastIndexOf", [list, wanted]) => Ok(Value::Int(position(
            &list.items()?,
            wanted,
            function == "indexOf",
        ))),
        ("join", [list]) => join(list, ""),
        ("join", [list, Value::String(separator)]) => join(list, separator),
        ("sets.contains", [list, wanted]) => Ok(Value::Bool(all_in(&wanted.items()?, &list.items()?))),
        ("sets.equivalent", [a, b]) => {
            let (a, b) = (a.items()?, b.items()?);
            Ok(Value::Bool(all_in(&a, &b) && all_in(&b, &a)))
        }
        ("sets.intersects", [a, b]) => {
            let b = b.items()?;
            Ok(Value::Bool(a.items()?.iter().any(|item| is_in(item, &b))))
        }
        ("slice", [list, Value::Int(start), Value::Int(end)]) => slice(&list.items()?, *start, *end),
        ("flatten", [list]) => Ok(Value::list(flatten(list.items()?, 1)?)),
        ("flatten", [_, Value::Int(depth)]) if *depth < 0 => Err(Fault::new("level must be non-negative")),
        ("flatten", [list, Value::Int(depth)]) => Ok(Value::list(flatten(list.items()?, *depth)?)),
        ("lists.range", [Value::Int(n)]) if *n < 0 => Err(Fault::new(format!(
            "lists.range: size must be non-negative, got {n}"
        ))),
        ("lists.range", [Value::Int(n)]) => Ok(Value::list((0..*n).map(Value::Int).collect())),
        ("reverse", [list]) => {
            let mut items = list.items()?;
            items.reverse();
            Ok(Value::list(items))
        }
        ("distinct", [list]) => {
            let mut unique: Items<'a> = Vec::new();
            for item in list.items()? {
                if !is_in(&item, &unique) {
                    unique.push(item);
                }
            }
            Ok(Value::list(unique))
        }
        ("sort", [list]) => {
            let items = list.items()?;
            sort_by(&items, &items)
        }
        ("@sortByAssociatedKeys", [list, keys]) => sort_by(&list.items()?, &keys.items()?),
        ("first", [list]) => Ok(list
            .items()?
            .into_iter()
            .next()
            .map_or(Value::Optional(None), Value::some)),
        ("last", [list]) => Ok(list
            .items()?
            .into_iter()
            .next_back()
            .map_or(Value::Optional(None), Value::some)),
        ("optional.unwrap" | "unwrapOpt", [list]) => {
            let mut present = Vec::new();
            for item in list.items()? {
                match item {
                    Value::Optional(inner) => present.extend(inner.map(|v| (*v).clone())),
                    _ => return Err(Fault::no_such_overload()),
                }
            }
            Ok(Value::list(present))
        }
        _ => Err(Fault::no_such_overload()),
    }
}

fn is_sorted<'a>(items: &[Value<'a>]) -> Result<'a> {
    for pair in items.windows(2) {
        if pair[0].compare(&pair[1])? == Some(Ordering::Greater) {
            return Ok(Value::Bool(false));
        }
    }
    Ok(Value::Bool(true))
}

/// `max` or `min`.
fn extreme<'a>(function: &str, items: Items<'a>) -> Result<'a> {
    let better = if function == "max" {
        Ordering::Less
    } else {
        Ordering::Greater
    };
    let mut items = items.into_iter();
    let mut best = items
        .next()
        .ok_or_else(|| Fault::new(format!("{function} called on empty list")))?;
    for item in items {
        if best.compare(&item)? == Some(better) {
            best = item;
        }
    }
    Ok(best)
}

/// The first or the last place of an item, or -1.
fn position(items: &[Value<'_>], wanted: &Value<'_>, first: bool) -> i64 {
    // What cannot be compared is not it.
    let is_it = |item: &Value<'_>| matches!(item.equals(wanted), Ok(true));
    let found = if first {
        items.iter().position(is_it)
    } else {
        items.iter().rposition(is_it)
    };
    found.map_or(-1, |at| i64::try_from(at).unwrap_or(i64::MAX))
}

/// `a + b`; lists of type set and map merge.
pub(super) fn concat<'a>(a: &Value<'a>, b: &Value<'a>) -> Result<'a> {
    let mut items = a.items()?;
    let more = b.items()?;
    let Value::JsonList(_, schema) = a else {
        items.extend(more);
        return Ok(Value::list(items));
    };
    match schema.list_type.as_deref() {
        Some("set") => {
            for item in more {
                if !is_in(&item, &items) {
                    items.push(item);
                }
            }
        }
        Some("map") => {
            let keys: Vec<Value<'a>> = schema
                .list_map_keys
                .iter()
                .map(|k| Value::string(k.as_str()))
                .collect();
            'more: for item in more {
                for place in &mut items {
                    if same_keys(place, &item, &keys)? {
                        *place = item;
                        continue 'more;
                    }
                }
                items.push(item);
            }
        }
        _ => items.extend(more),
    }
    Ok(Value::list(items))
}

fn same_keys<'a>(a: &Value<'a>, b: &Value<'a>, keys: &[Value<'a>]) -> std::result::Result<bool, Fault> {
    for key in keys {
        let same = match (a.find(key)?, b.find(key)?) {
            (Some(a), Some(b)) => a.equals(&b)?,
            (a, b) => a.is_none() && b.is_none(),
        };
        if !same {
            return Ok(false);
        }
    }
    Ok(true)
}

/// What cannot be compared is not in a list.
fn is_in<'a>(item: &Value<'a>, list: &[Value<'a>]) -> bool {
    list.iter().any(|other| matches!(item.equals(other), Ok(true)))
}

fn all_in<'a>(items: &[Value<'a>], list: &[Value<'a>]) -> bool {
    items.iter().all(|item| is_in(item, list))
}

fn sum<'a>(items: &[Value<'a>]) -> Result<'a> {
    let mut items = items.iter();
    let Some(first) = items.next() else {
        // The zero of the item's type is not known here; integers are what sums are made of.
        return Ok(Value::Int(0));
    };
    let mut total = first.clone();
    for item in items {
        total = super::functions::call("_+_", false, &[total, item.clone()])?;
    }
    Ok(total)
}

fn join<'a>(list: &Value<'a>, separator: &str) -> Result<'a> {
    let mut parts = Vec::new();
    for item in list.items()? {
        match item {
            Value::String(s) => parts.push(s),
            other => {
                let shown = strings::to_string(&other).unwrap_or_default();
                return Err(Fault::new(format!("join: invalid input: {shown}")));
            }
        }
    }
    Ok(Value::string(parts.join(separator)))
}

fn slice<'a>(items: &[Value<'a>], start: i64, end: i64) -> Result<'a> {
    let bad = |why: &str| Err(Fault::new(format!("cannot slice({start}, {end}), {why}")));
    let (Ok(from), Ok(to)) = (usize::try_from(start), usize::try_from(end)) else {
        return bad("negative indexes not supported");
    };
    if from > to {
        return bad("start index must be less than or equal to end index");
    }
    match items.get(from..to) {
        Some(part) => Ok(Value::list(part.to_vec())),
        None => bad(&format!("list is length {}", items.len())),
    }
}

fn flatten<'a>(items: Items<'a>, depth: i64) -> std::result::Result<Items<'a>, Fault> {
    let mut flat = Vec::with_capacity(items.len());
    for item in items {
        if item.is_list() && depth > 0 {
            flat.extend(flatten(item.items()?, depth - 1)?);
        } else {
            flat.push(item);
        }
    }
    Ok(flat)
}

fn sort_by<'a>(items: &[Value<'a>], keys: &[Value<'a>]) -> Result<'a> {
    if items.len() != keys.len() {
        return Err(Fault::no_such_overload());
    }
    let mut order: Vec<usize> = (0..items.len()).collect();
    for pair in keys.windows(2) {
        pair[0].compare(&pair[1])?;
    }
    order.sort_by(|a, b| {
        keys[*a]
            .compare(&keys[*b])
            .ok()
            .flatten()
            .unwrap_or(Ordering::Equal)
    });
    Ok(Value::list(order.into_iter().map(|i| items[i].clone()).collect()))
}
