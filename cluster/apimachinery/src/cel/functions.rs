//! Functions of the language itself, and the way to those of the libraries.

use std::cmp::Ordering;

use jiff::{SignedDuration, Timestamp, tz::TimeZone};

use super::value::{Fault, Key, Result, Value};
use super::{kube, lists, strings};
use crate::schema::time;

/// Calls a function; the target of a member call is the first argument.
pub(super) fn call<'a>(function: &str, member: bool, args: &[Value<'a>]) -> Result<'a> {
    match (function, args) {
        ("_==_", [a, b]) => a.equals(b).map(Value::Bool),
        // What cannot be compared differs.
        ("_!=_", [a, b]) => Ok(Value::Bool(!matches!(a.equals(b), Ok(true)))),
        ("_<_" | "_<=_" | "_>_" | "_>=_", [a, b]) => compare(function, a, b),
        ("_+_" | "_-_" | "_*_" | "_/_" | "_%_", [a, b]) => arithmetic(function, a, b),
        ("!_", [Value::Bool(b)]) => Ok(Value::Bool(!b)),
        ("-_", [Value::Int(i)]) => i.checked_neg().map(Value::Int).ok_or_else(overflow),
        ("-_", [Value::Double(f)]) => Ok(Value::Double(-f)),
        ("@in", [item, container]) => contains(item, container),
        ("size", [value]) => match value.size() {
            Some(n) => Ok(Value::Int(i64::try_from(n).unwrap_or(i64::MAX))),
            None => Err(Fault::no_such_overload()),
        },
        ("type", [value]) => Ok(Value::Type(value.type_name().into())),
        ("dyn", [value]) => Ok(value.clone()),
        ("bool" | "int" | "uint" | "double" | "string" | "bytes" | "duration" | "timestamp", [v]) => {
            convert(function, v)
        }
        ("optional.of", [value]) => Ok(Value::some(value.clone())),
        ("optional.ofNonZeroValue", [value]) => Ok(if is_zero(value) {
            Value::Optional(None)
        } else {
            Value::some(value.clone())
        }),
        ("optional.none", []) => Ok(Value::Optional(None)),
        ("value", [Value::Optional(inner)]) => match inner.as_deref() {
            Some(Value::Invalid(reason)) => Err(Fault::new(&**reason)),
            Some(v) => Ok(v.clone()),
            None => Err(Fault::new("optional.none() dereference")),
        },
        ("hasValue", [Value::Optional(inner)]) => Ok(Value::Bool(inner.is_some())),
        ("cel.@mapInsert", _) => map_insert(args),
        _ if function.starts_with("get")
            && matches!(args.first(), Some(Value::Timestamp(_) | Value::Duration(_))) =>
        {
            time_part(function, args)
        }
        _ => match args.first() {
            Some(Value::String(_)) if member => strings::call(function, args),
            Some(value) if member && value.is_list() => lists::call(function, args),
            _ if function.starts_with("sets.")
                || function == "lists.range"
                || function == "optional.unwrap" =>
            {
                lists::call(function, args)
            }
            _ if matches!(function, "matches" | "strings.quote") => strings::call(function, args),
            _ => kube::call(function, args),
        },
    }
}

/// What a call costs at run time.
pub(super) fn cost(function: &str, args: &[Value<'_>]) -> u64 {
    let size = |i: usize| args.get(i).and_then(Value::size).unwrap_or(1) as f64;
    let text = |n: f64| (n * 0.1).ceil() as u64;
    match function {
        "startsWith" | "endsWith" => text(size(1)),
        "@in" if args.get(1).is_some_and(Value::is_list) => size(1) as u64,
        "_==_" | "_!=_" | "_<_" | "_<=_" | "_>_" | "_>=_" => text(size(0).min(size(1))),
        "_+_" if matches!(args.first(), Some(Value::String(_) | Value::Bytes(_))) => text(size(0) + size(1)),
        "matches" | "find" | "findAll" => text(1.0 + size(0)).saturating_mul((size(1) * 0.25).ceil() as u64),
        "contains" => text(size(0)).saturating_mul(text(size(1))),
        "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => match args.first() {
            Some(Value::String(s)) => text(s.len() as f64),
            _ => size(0) as u64,
        },
        "url" | "lowerAscii" | "upperAscii" | "substring" | "trim" | "cidr" | "isIP" | "isCIDR" | "ip"
        | "quantity" | "isQuantity" | "semver" | "isSemver" | "bytes" | "format" | "strings.quote" => {
            text(size(0))
        }
        "replace" | "split" | "ip.isCanonical" => (size(0) * 0.2).ceil() as u64,
        "join" => args
            .first()
            .and_then(|list| list.items().ok())
            .map_or(1, |items| {
                2 * items
                    .iter()
                    .map(|i| text(i.size().unwrap_or(1) as f64))
                    .sum::<u64>()
            }),
        "validate" => text(1.0 + size(1)).saturating_mul(32),
        "slice" | "reverse" | "flatten" => 11 + size(0) as u64,
        "lists.range" => match args.first() {
            Some(Value::Int(n)) => 11 + u64::try_from(*n).unwrap_or(0),
            _ => 11,
        },
        "distinct" | "sort" | "@sortByAssociatedKeys" => 11 + (2.0 * size(0) * size(0)) as u64,
        "sets.contains" | "sets.equivalent" | "sets.intersects" => 1 + (size(0) * size(1)) as u64,
        _ => 1,
    }
}

fn overflow() -> Fault {
    Fault::new("integer overflow")
}

fn compare<'a>(function: &str, a: &Value<'a>, b: &Value<'a>) -> Result<'a> {
    let Some(order) = a.compare(b)? else {
        return Err(Fault::new("NaN values cannot be ordered"));
    };
    Ok(Value::Bool(match function {
        "_<_" => order == Ordering::Less,
        "_<=_" => order != Ordering::Greater,
        "_>_" => order == Ordering::Greater,
        _ => order != Ordering::Less,
    }))
}

fn arithmetic<'a>(function: &str, a: &Value<'a>, b: &Value<'a>) -> Result<'a> {
    let zero = || {
        Fault::new(if function == "_/_" {
            "division by zero"
        } else {
            "modulus by zero"
        })
    };
    match (a, b) {
        (_, Value::Invalid(reason)) => Err(Fault::new(&**reason)),
        (Value::Int(a), Value::Int(b)) => match function {
            "_+_" => a.checked_add(*b),
            "_-_" => a.checked_sub(*b),
            "_*_" => a.checked_mul(*b),
            _ if *b == 0 => return Err(zero()),
            "_/_" => a.checked_div(*b),
            _ => a.checked_rem(*b),
        }
        .map(Value::Int)
        .ok_or_else(overflow),
        (Value::Uint(a), Value::Uint(b)) => match function {
            "_+_" => a.checked_add(*b),
            "_-_" => a.checked_sub(*b),
            "_*_" => a.checked_mul(*b),
            _ if *b == 0 => return Err(zero()),
            "_/_" => a.checked_div(*b),
            _ => a.checked_rem(*b),
        }
        .map(Value::Uint)
        .ok_or_else(|| Fault::new("unsigned integer overflow")),
        (Value::Double(a), Value::Double(b)) => Ok(Value::Double(match function {
            "_+_" => a + b,
            "_-_" => a - b,
            "_*_" => a * b,
            "_/_" => a / b,
            _ => return Err(Fault::no_such_overload()),
        })),
        (Value::String(a), Value::String(b)) if function == "_+_" => Ok(Value::string(format!("{a}{b}"))),
        (Value::Bytes(a), Value::Bytes(b)) if function == "_+_" => {
            Ok(Value::Bytes([&**a, &**b].concat().into()))
        }
        (Value::Duration(_) | Value::Timestamp(_), _) => time_arithmetic(function, a, b),
        (a, b) if function == "_+_" && a.is_list() && b.is_list() => lists::concat(a, b),
        _ => Err(Fault::no_such_overload()),
    }
}

fn time_arithmetic<'a>(function: &str, a: &Value<'a>, b: &Value<'a>) -> Result<'a> {
    let moved = |t: &Timestamp, nanos: i64| {
        t.checked_add(SignedDuration::from_nanos(nanos))
            .map(Value::Timestamp)
            .map_err(|_| Fault::new("timestamp overflow"))
    };
    let long = || Fault::new("duration overflow");
    match (function, a, b) {
        ("_+_", Value::Duration(a), Value::Duration(b)) => {
            a.checked_add(*b).map(Value::Duration).ok_or_else(long)
        }
        ("_-_", Value::Duration(a), Value::Duration(b)) => {
            a.checked_sub(*b).map(Value::Duration).ok_or_else(long)
        }
        ("_+_", Value::Timestamp(t), Value::Duration(d))
        | ("_+_", Value::Duration(d), Value::Timestamp(t)) => moved(t, *d),
        ("_-_", Value::Timestamp(t), Value::Duration(d)) => moved(t, d.checked_neg().ok_or_else(long)?),
        ("_-_", Value::Timestamp(a), Value::Timestamp(b)) => i64::try_from(a.duration_since(*b).as_nanos())
            .map(Value::Duration)
            .map_err(|_| long()),
        _ => Err(Fault::no_such_overload()),
    }
}

fn contains<'a>(item: &Value<'a>, container: &Value<'a>) -> Result<'a> {
    if container.is_map() {
        return Ok(Value::Bool(container.find(item)?.is_some()));
    }
    let mut failed = None;
    for other in container.items()? {
        match other.equals(item) {
            Ok(true) => return Ok(Value::Bool(true)),
            Ok(false) => {}
            Err(fault) => failed = failed.or(Some(fault)),
        }
    }
    failed.map_or(Ok(Value::Bool(false)), Err)
}

fn convert<'a>(function: &str, value: &Value<'a>) -> Result<'a> {
    let to = match function {
        "duration" => "google.protobuf.Duration",
        "timestamp" => "google.protobuf.Timestamp",
        other => other,
    };
    if value.type_name() == to {
        return Ok(value.clone());
    }
    let failed = || {
        let from = value.type_name();
        Fault::new(format!("type conversion error from '{from}' to '{to}'"))
    };
    match (function, value) {
        ("bool", Value::String(s)) => match &**s {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Value::Bool(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Value::Bool(false)),
            _ => Err(failed()),
        },
        ("int", Value::String(s)) => s.parse().map(Value::Int).map_err(|_| failed()),
        ("int", Value::Uint(u)) => i64::try_from(*u).map(Value::Int).map_err(|_| overflow()),
        ("int", Value::Double(f)) => {
            let inside = f.is_finite() && *f > -9.223_372_036_854_776e18 && *f < 9.223_372_036_854_776e18;
            if inside {
                Ok(Value::Int(*f as i64))
            } else {
                Err(overflow())
            }
        }
        ("int", Value::Timestamp(t)) => Ok(Value::Int(t.as_second())),
        ("int", Value::Duration(d)) => Ok(Value::Int(*d)),
        ("uint", Value::String(s)) => s.parse().map(Value::Uint).map_err(|_| failed()),
        ("uint", Value::Int(i)) => u64::try_from(*i)
            .map(Value::Uint)
            .map_err(|_| Fault::new("unsigned integer overflow")),
        ("uint", Value::Double(f)) => {
            let inside = *f >= 0.0 && *f < 1.844_674_407_370_955_2e19;
            if inside {
                Ok(Value::Uint(*f as u64))
            } else {
                Err(Fault::new("unsigned integer overflow"))
            }
        }
        ("double", Value::String(s)) => strings::parse_double(s).map(Value::Double).ok_or_else(failed),
        ("double", Value::Int(i)) => Ok(Value::Double(*i as f64)),
        ("double", Value::Uint(u)) => Ok(Value::Double(*u as f64)),
        ("bytes", Value::String(s)) => Ok(Value::Bytes(s.as_bytes().into())),
        ("duration", Value::String(s)) => time::parse_duration(s).map(Value::Duration).ok_or_else(failed),
        ("timestamp", Value::String(s)) => time::parse_rfc3339(s).map(Value::Timestamp).ok_or_else(failed),
        ("timestamp", Value::Int(i)) => Timestamp::from_second(*i)
            .map(Value::Timestamp)
            .map_err(|_| Fault::new("timestamp overflow")),
        ("string", Value::Bytes(b)) => std::str::from_utf8(b)
            .map(Value::string)
            .map_err(|_| Fault::new("invalid UTF-8 in bytes, cannot convert to string")),
        ("string", value) => strings::to_string(value).map(Value::string).ok_or_else(failed),
        _ => Err(Fault::no_such_overload()),
    }
}

fn is_zero(value: &Value<'_>) -> bool {
    match value {
        Value::Null | Value::Bool(false) | Value::Optional(None) => true,
        Value::Int(0) | Value::Uint(0) | Value::Duration(0) => true,
        Value::Double(f) => *f == 0.0,
        value => value.size() == Some(0),
    }
}

fn map_insert<'a>(args: &[Value<'a>]) -> Result<'a> {
    let (Some(Value::Map(map)), more) = (args.first(), &args[1.min(args.len())..]) else {
        return Err(Fault::no_such_overload());
    };
    let mut map = (**map).clone();
    let added: Vec<(Value<'a>, Value<'a>)> = match more {
        [key, value] => vec![(key.clone(), value.clone())],
        [entries] => entries
            .keys()
            .into_iter()
            .map(|key| entries.index(&key).map(|value| (key, value)))
            .collect::<std::result::Result<_, _>>()?,
        _ => return Err(Fault::no_such_overload()),
    };
    for (key, value) in added {
        let shown = key.shown();
        let key = Key::of(&key).ok_or_else(|| Fault::new("unsupported key type"))?;
        if map.insert(key, value).is_some() {
            return Err(Fault::new(format!("insert failed: key {shown} already exists")));
        }
    }
    Ok(Value::Map(map.into()))
}

fn time_part<'a>(function: &str, args: &[Value<'a>]) -> Result<'a> {
    let (stamp, zone) = match args {
        [Value::Duration(nanos)] => {
            let unit = match function {
                "getHours" => 3_600_000_000_000,
                "getMinutes" => 60_000_000_000,
                "getSeconds" => 1_000_000_000,
                "getMilliseconds" => 1_000_000,
                _ => return Err(Fault::no_such_overload()),
            };
            return Ok(Value::Int(nanos / unit));
        }
        [Value::Timestamp(t)] => (t, TimeZone::UTC),
        [Value::Timestamp(t), Value::String(name)] => (t, time_zone(name)?),
        _ => return Err(Fault::no_such_overload()),
    };
    let zoned = stamp.to_zoned(zone);
    Ok(Value::Int(match function {
        "getFullYear" => i64::from(zoned.year()),
        "getMonth" => i64::from(zoned.month()) - 1,
        "getDayOfYear" => i64::from(zoned.day_of_year()) - 1,
        "getDayOfMonth" => i64::from(zoned.day()) - 1,
        "getDate" => i64::from(zoned.day()),
        "getDayOfWeek" => i64::from(zoned.weekday().to_sunday_zero_offset()),
        "getHours" => i64::from(zoned.hour()),
        "getMinutes" => i64::from(zoned.minute()),
        "getSeconds" => i64::from(zoned.second()),
        "getMilliseconds" => i64::from(zoned.millisecond()),
        _ => return Err(Fault::no_such_overload()),
    }))
}

/// A zone by its name, or an offset such as `-08:00`.
fn time_zone(name: &str) -> std::result::Result<TimeZone, Fault> {
    if let Some((hours, minutes)) = name.split_once(':') {
        let bad = || Fault::new(format!("invalid timezone: {name}"));
        let negative = hours.starts_with('-');
        let h: i32 = hours.trim_start_matches(['-', '+']).parse().map_err(|_| bad())?;
        let m: i32 = minutes.parse().map_err(|_| bad())?;
        let seconds = h.saturating_mul(3600).saturating_add(m.saturating_mul(60));
        let offset = jiff::tz::Offset::from_seconds(if negative { -seconds } else { seconds });
        return offset.map(TimeZone::fixed).map_err(|_| bad());
    }
    if name.is_empty() || name == "UTC" {
        return Ok(TimeZone::UTC);
    }
    TimeZone::get(name).map_err(|_| Fault::new(format!("unknown time zone {name}")))
}
