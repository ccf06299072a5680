//! `'%s and %d'.format([a, b])`.

use super::strings::to_string;
use super::types::Type;
use super::value::{Fault, Value};

type Text = std::result::Result<String, Fault>;

pub(super) fn format(template: &str, args: &[Value<'_>]) -> Text {
    let mut out = String::with_capacity(template.len());
    let mut args = args.iter().enumerate();
    let mut chars = template.chars().peekable();
    let mut seen = 0;
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        if chars.peek() == Some(&'%') {
            chars.next();
            out.push('%');
            continue;
        }
        let Some((i, arg)) = args.next() else {
            return Err(Fault::new(format!("index {seen} out of range")));
        };
        seen = i + 1;
        let mut precision = None;
        if chars.peek() == Some(&'.') {
            chars.next();
            let mut digits = String::new();
            while let Some(d) = chars.next_if(char::is_ascii_digit) {
                digits.push(d);
            }
            precision = Some(
                digits
                    .parse::<usize>()
                    .ok()
                    .filter(|p| *p <= 1000)
                    .ok_or_else(|| {
                        Fault::new("could not parse formatting clause: error while parsing precision")
                    })?,
            );
        }
        let Some(clause) = chars.next() else {
            return Err(Fault::new("unexpected end of string"));
        };
        let text = one(clause, precision, arg).map_err(|e| match e {
            Fault::Error(message) => Fault::new(format!("error during formatting: {message}")),
            other => other,
        })?;
        out.push_str(&text);
    }
    Ok(out)
}

/// Whether arguments of these types can be formatted; else why, and which one is wrong.
pub(super) fn check(template: &str, types: &[&Type]) -> std::result::Result<(), (Option<usize>, String)> {
    let mut chars = template.chars().peekable();
    let mut used = 0;
    while let Some(c) = chars.next() {
        if c != '%' || chars.next_if_eq(&'%').is_some() {
            continue;
        }
        let Some(t) = types.get(used) else {
            return Err((None, format!("index {used} out of range")));
        };
        if chars.next_if_eq(&'.').is_some() {
            while chars.next_if(char::is_ascii_digit).is_some() {}
        }
        let given = match t {
            Type::Duration => "google.protobuf.Duration".to_owned(),
            Type::Timestamp => "google.protobuf.Timestamp".to_owned(),
            Type::List(_) => "list".to_owned(),
            Type::Map(..) => "map".to_owned(),
            other => other.to_string(),
        };
        let bad = |what: &str| {
            let message = format!("error during formatting: {what}, was given {given}");
            Err((Some(used), message))
        };
        let clause = chars.next();
        if !matches!(t, Type::Dyn) {
            match (clause, t) {
                (Some('d'), Type::Int | Type::Uint) => {}
                (Some('d'), _) => return bad("decimal clause can only be used on integers"),
                (Some('f'), Type::Double | Type::String) => {}
                (Some('f'), _) => return bad("fixed-point clause can only be used on doubles"),
                (Some('e'), Type::Double | Type::String) => {}
                (Some('e'), _) => return bad("scientific clause can only be used on doubles"),
                (Some('b'), Type::Int | Type::Uint | Type::Bool) => {}
                (Some('b'), _) => return bad("only integers and bools can be formatted as binary"),
                (Some('o'), Type::Int | Type::Uint) => {}
                (Some('o'), _) => return bad("octal clause can only be used on integers"),
                (Some('x' | 'X'), Type::Int | Type::Uint | Type::String | Type::Bytes) => {}
                (Some('x' | 'X'), _) => {
                    return bad("only integers, byte buffers, and strings can be formatted as hex");
                }
                (Some('s'), Type::Object(_) | Type::Struct(_) | Type::Opaque(_) | Type::Optional(_)) => {
                    return bad(
                        "string clause can only be used on strings, bools, bytes, ints, doubles, maps, \
                         lists, types, durations, and timestamps",
                    );
                }
                _ => {}
            }
        }
        match clause {
            None => return Err((None, "unexpected end of string".to_owned())),
            Some('s' | 'd' | 'f' | 'e' | 'b' | 'o' | 'x' | 'X') => {}
            Some(other) => {
                let message =
                    format!("could not parse formatting clause: unrecognized formatting clause \"{other}\"");
                return Err((None, message));
            }
        }
        used += 1;
    }
    if types.len() > used {
        let message = format!(
            "too many arguments supplied to string.format (expected {used}, got {})",
            types.len()
        );
        return Err((None, message));
    }
    Ok(())
}

fn one(clause: char, precision: Option<usize>, arg: &Value<'_>) -> Text {
    let given = arg.type_name();
    let refuse = |what: &str| Err(Fault::new(format!("{what}, was given {given}")));
    match (clause, arg) {
        ('s', value) => plain(value),
        ('d', Value::Int(i)) => Ok(i.to_string()),
        ('d', Value::Uint(u)) => Ok(u.to_string()),
        ('d', _) => refuse("decimal clause can only be used on integers"),
        ('f' | 'e', value) => {
            let number = match value {
                Value::Double(f) => Some(*f),
                Value::String(s) => match &**s {
                    "NaN" => Some(f64::NAN),
                    "Infinity" => Some(f64::INFINITY),
                    "-Infinity" => Some(f64::NEG_INFINITY),
                    _ => None,
                },
                _ => None,
            };
            match (number, clause) {
                (Some(f), 'f') => Ok(fixed(f, precision.unwrap_or(6))),
                (Some(f), _) => Ok(scientific(f)),
                (None, 'f') => refuse("fixed-point clause can only be used on doubles"),
                (None, _) => refuse("scientific clause can only be used on doubles"),
            }
        }
        ('b', Value::Int(i)) => Ok(signed(*i, |n| format!("{n:b}"))),
        ('b', Value::Uint(u)) => Ok(format!("{u:b}")),
        ('b', Value::Bool(b)) => Ok(u8::from(*b).to_string()),
        ('b', _) => refuse("only integers and bools can be formatted as binary"),
        ('o', Value::Int(i)) => Ok(signed(*i, |n| format!("{n:o}"))),
        ('o', Value::Uint(u)) => Ok(format!("{u:o}")),
        ('o', _) => refuse("octal clause can only be used on integers"),
        ('x' | 'X', value) => {
            let hex = match value {
                Value::Int(i) => signed(*i, |n| format!("{n:x}")),
                Value::Uint(u) => format!("{u:x}"),
                Value::String(s) => hex::encode(s.as_bytes()),
                Value::Bytes(bytes) => hex::encode(bytes),
                _ => return refuse("only integers, byte buffers, and strings can be formatted as hex"),
            };
            Ok(if clause == 'X' { hex.to_uppercase() } else { hex })
        }
        (other, _) => Err(Fault::new(format!("unrecognized formatting clause \"{other}\""))),
    }
}

fn signed(i: i64, digits: impl Fn(u64) -> String) -> String {
    let sign = if i < 0 { "-" } else { "" };
    format!("{sign}{}", digits(i.unsigned_abs()))
}

/// A value as `%s` writes it.
fn plain(value: &Value<'_>) -> Text {
    match value {
        Value::Null => Ok("null".to_owned()),
        value if value.is_list() => {
            let items: std::result::Result<Vec<String>, Fault> = value.items()?.iter().map(quoted).collect();
            Ok(format!("[{}]", items?.join(", ")))
        }
        value if value.is_map() => {
            let mut entries = Vec::new();
            for key in value.keys() {
                entries.push(format!("{}:{}", quoted(&key)?, quoted(&value.index(&key)?)?));
            }
            entries.sort();
            Ok(format!("{{{}}}", entries.join(", ")))
        }
        value => to_string(value).ok_or_else(|| {
            Fault::new(format!(
                "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, \
                 types, durations, and timestamps, was given {}",
                value.type_name()
            ))
        }),
    }
}

/// A value inside a list or map.
fn quoted(value: &Value<'_>) -> Text {
    let text = plain(value)?;
    Ok(match value {
        Value::String(_) => crate::field::text::quote(&text),
        Value::Bytes(_) => format!("b{}", crate::field::text::quote(&text)),
        Value::Double(f) => format!("{f:.6}"),
        Value::Timestamp(_) => format!("timestamp({})", crate::field::text::quote(&text)),
        Value::Duration(_) => format!("duration({})", crate::field::text::quote(&text)),
        _ => text,
    })
}

/// With the separators of the English language.
fn fixed(f: f64, precision: usize) -> String {
    if f.is_nan() {
        return "NaN".to_owned();
    }
    if f.is_infinite() {
        return if f > 0.0 { "∞" } else { "-∞" }.to_owned();
    }
    let text = format!("{:.precision$}", f.abs());
    let (whole, fraction) = text
        .split_once('.')
        .map_or((text.as_str(), None), |(w, f)| (w, Some(f)));
    let mut grouped = String::new();
    for (i, digit) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    let sign = if f < 0.0 { "-" } else { "" };
    match fraction {
        Some(fraction) => format!("{sign}{grouped}.{fraction}"),
        None => format!("{sign}{grouped}"),
    }
}

/// `2.5` as `2.500000 × 10⁰⁰`.
fn scientific(f: f64) -> String {
    if !f.is_finite() {
        return fixed(f, 0);
    }
    let text = format!("{f:.6e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let power: i32 = exponent.parse().unwrap_or_default();
    const RAISED: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    let mut raised = String::new();
    if power < 0 {
        raised.push('⁻');
    }
    for digit in format!("{:02}", power.abs()).bytes() {
        raised.push(RAISED[usize::from(digit - b'0')]);
    }
    format!("{mantissa} × 10{raised}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clauses() {
        let args = [
            Value::Double(1234.5),
            Value::Int(-255),
            Value::string("q"),
            Value::Int(5),
            Value::Double(2.5),
        ];
        let text = format("%.2f|%x|%s|%b|%e", &args).expect("formats");
        assert_eq!(text, "1,234.50|-ff|q|101|2.500000 × 10⁰⁰");
        assert!(format("%d", &[Value::string("x")]).is_err());
        assert!(format("%s %s", &[Value::Int(1)]).is_err());
    }
}
