//! Functions of strings.

use super::format;
use super::value::{Fault, Result, Value};
use crate::schema::regexp;

pub(super) fn call<'a>(function: &str, args: &[Value<'a>]) -> Result<'a> {
    let Some(Value::String(s)) = args.first() else {
        return Err(Fault::no_such_overload());
    };
    let s: &str = s;
    match (function, &args[1..]) {
        ("contains", [Value::String(part)]) => Ok(Value::Bool(s.contains(&**part))),
        ("startsWith", [Value::String(part)]) => Ok(Value::Bool(s.starts_with(&**part))),
        ("endsWith", [Value::String(part)]) => Ok(Value::Bool(s.ends_with(&**part))),
        ("matches", [Value::String(pattern)]) => match regexp::cached(pattern) {
            Ok(regex) => Ok(Value::Bool(regex.is_match(s))),
            Err(e) => Err(Fault::new(format!("error parsing regexp: {e}"))),
        },
        ("find", [Value::String(pattern)]) => {
            let regex = legal(pattern)?;
            Ok(Value::string(regex.find(s).map_or("", |m| m.as_str())))
        }
        ("findAll", [Value::String(pattern), limit @ ..]) => {
            let regex = legal(pattern)?;
            let limit = match limit {
                [Value::Int(n)] => usize::try_from(*n).unwrap_or(usize::MAX),
                _ => usize::MAX,
            };
            let found = regex.find_iter(s).take(limit).map(|m| Value::string(m.as_str()));
            Ok(Value::list(found.collect()))
        }
        ("charAt", [Value::Int(i)]) => {
            let place = position(s, *i)?;
            let c = s.chars().nth(place).map(String::from);
            Ok(Value::string(c.unwrap_or_default()))
        }
        ("indexOf", [Value::String(part)]) => index_of(s, part, 0),
        ("indexOf", [Value::String(part), Value::Int(from)]) => index_of(s, part, *from),
        ("lastIndexOf", [Value::String(part)]) => last_index_of(s, part, None),
        ("lastIndexOf", [Value::String(part), Value::Int(from)]) => last_index_of(s, part, Some(*from)),
        ("lowerAscii", []) => Ok(Value::string(s.to_ascii_lowercase())),
        ("upperAscii", []) => Ok(Value::string(s.to_ascii_uppercase())),
        ("replace", [Value::String(from), Value::String(to)]) => Ok(Value::string(s.replace(&**from, to))),
        ("replace", [Value::String(from), Value::String(to), Value::Int(n)]) => {
            Ok(Value::string(match usize::try_from(*n) {
                Ok(n) => s.replacen(&**from, to, n),
                Err(_) => s.replace(&**from, to),
            }))
        }
        ("split", [Value::String(separator)]) => Ok(split(s, separator, None)),
        ("split", [Value::String(separator), Value::Int(n)]) => {
            Ok(split(s, separator, usize::try_from(*n).ok()))
        }
        ("substring", [Value::Int(start)]) => {
            let start = position(s, *start)?;
            Ok(Value::string(s.chars().skip(start).collect::<String>()))
        }
        ("substring", [Value::Int(start), Value::Int(end)]) => {
            if start > end {
                let message = format!("invalid substring range. start: {start}, end: {end}");
                return Err(Fault::new(message));
            }
            let (from, to) = (position(s, *start)?, position(s, *end)?);
            Ok(Value::string(
                s.chars().skip(from).take(to - from).collect::<String>(),
            ))
        }
        ("trim", []) => Ok(Value::string(s.trim())),
        ("format", [list]) => format::format(s, &list.items()?).map(Value::string),
        ("strings.quote", []) => Ok(Value::string(quote(s))),
        // Functions that read a text into a type of Kubernetes take no target.
        _ => Err(Fault::no_such_overload()),
    }
}

fn legal(pattern: &str) -> std::result::Result<regex::Regex, Fault> {
    regexp::cached(pattern).map_err(|e| Fault::new(format!("Illegal regex: error parsing regexp: {e}")))
}

/// A place in a text in code points; its end is one as well.
fn position(s: &str, i: i64) -> std::result::Result<usize, Fault> {
    usize::try_from(i)
        .ok()
        .filter(|i| *i <= s.chars().count())
        .ok_or_else(|| Fault::new(format!("index out of range: {i}")))
}

fn index_of<'a>(s: &str, part: &str, from: i64) -> Result<'a> {
    let Ok(start) = usize::try_from(from) else {
        return Err(Fault::new(format!("index out of range: {from}")));
    };
    let chars: Vec<char> = s.chars().collect();
    let wanted: Vec<char> = part.chars().collect();
    if wanted.is_empty() {
        return Ok(int(start.min(chars.len())));
    }
    let found = chars
        .windows(wanted.len())
        .enumerate()
        .skip(start)
        .find(|(_, window)| *window == wanted);
    Ok(found.map_or(Value::Int(-1), |(i, _)| int(i)))
}

fn last_index_of<'a>(s: &str, part: &str, from: Option<i64>) -> Result<'a> {
    let chars: Vec<char> = s.chars().collect();
    let wanted: Vec<char> = part.chars().collect();
    let start = match from {
        Some(from) => usize::try_from(from).map_err(|_| Fault::new(format!("index out of range: {from}")))?,
        None => chars.len(),
    };
    if wanted.is_empty() {
        return Ok(int(start.min(chars.len())));
    }
    if from.is_some() && start >= chars.len() {
        return Ok(Value::Int(-1));
    }
    let found = chars
        .windows(wanted.len())
        .enumerate()
        .rfind(|(i, window)| *i <= start && *window == wanted);
    Ok(found.map_or(Value::Int(-1), |(i, _)| int(i)))
}

fn int<'a>(n: usize) -> Value<'a> {
    Value::Int(i64::try_from(n).unwrap_or(i64::MAX))
}

/// `limit`: at most so many parts; none: all of them.
fn split<'a>(s: &str, separator: &str, limit: Option<usize>) -> Value<'a> {
    let parts: Vec<Value<'a>> = match (separator, limit) {
        (_, Some(0)) => Vec::new(),
        ("", limit) => {
            let chars: Vec<char> = s.chars().collect();
            let singles = limit.map_or(chars.len(), |n| (n - 1).min(chars.len()));
            let mut parts: Vec<Value<'a>> = chars[..singles]
                .iter()
                .map(|c| Value::string(c.to_string()))
                .collect();
            if singles < chars.len() {
                parts.push(Value::string(chars[singles..].iter().collect::<String>()));
            }
            parts
        }
        (separator, Some(n)) => s.splitn(n, separator).map(Value::string).collect(),
        (separator, None) => s.split(separator).map(Value::string).collect(),
    };
    Value::list(parts)
}

fn quote(s: &str) -> String {
    let mut out = String::from("\"");
    for c in s.chars() {
        match c {
            '\x07' => out.push_str("\\a"),
            '\x08' => out.push_str("\\b"),
            '\x0c' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\x0b' => out.push_str("\\v"),
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Go's `ParseFloat`.
pub(super) fn parse_double(s: &str) -> Option<f64> {
    let unsigned = s.strip_prefix(['+', '-']).unwrap_or(s).to_ascii_lowercase();
    match unsigned.as_str() {
        "inf" | "infinity" | "nan" => {}
        other => {
            let starts = other.starts_with(|c: char| c.is_ascii_digit() || c == '.');
            if !starts {
                return None;
            }
        }
    }
    s.parse().ok()
}

/// A scalar as text.
pub(super) fn to_string(value: &Value<'_>) -> Option<String> {
    Some(match value {
        Value::String(s) => s.to_string(),
        Value::Bool(b) => b.to_string(),
        Value::Int(i) => i.to_string(),
        Value::Uint(u) => u.to_string(),
        Value::Double(f) => crate::field::text::float(*f),
        Value::Bytes(b) => String::from_utf8_lossy(b).into_owned(),
        Value::Duration(nanos) => {
            let seconds = *nanos as f64 / 1e9;
            format!("{}s", go_plain(seconds))
        }
        Value::Timestamp(t) => t.to_string(),
        Value::Type(name) => name.to_string(),
        Value::Ip(ip) => ip.to_string(),
        Value::Cidr(ip, bits) => format!("{ip}/{bits}"),
        _ => return None,
    })
}

/// A float with all digits and no exponent.
fn go_plain(f: f64) -> String {
    format!("{f}")
}
