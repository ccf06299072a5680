//! Values as Go prints them: clients compare these texts.

use std::fmt::Write as _;

use serde_json::Value;

/// A value inside an error message.
pub fn value(v: &Value) -> String {
    match v {
        Value::String(s) => quote(s),
        Value::Number(n) => match n.as_i64() {
            Some(i) => i.to_string(),
            None => float(n.as_f64().unwrap_or(f64::NAN)),
        },
        Value::Bool(b) => b.to_string(),
        other => json(other),
    }
}

/// `strconv.Quote`.
pub fn quote(s: &str) -> String {
    let mut out = String::with_capacity(s.len() + 2);
    out.push('"');
    for c in s.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\x07' => out.push_str("\\a"),
            '\x08' => out.push_str("\\b"),
            '\x0c' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\x0b' => out.push_str("\\v"),
            c if is_printable(c) => out.push(c),
            c if (c as u32) < 0x80 => {
                let _ = write!(out, "\\x{:02x}", c as u32);
            }
            c if (c as u32) < 0x1_0000 => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => {
                let _ = write!(out, "\\U{:08x}", c as u32);
            }
        }
    }
    out.push('"');
    out
}

/// Close to Go's `unicode.IsPrint`: the space is the only white space that prints.
pub fn is_printable(c: char) -> bool {
    match c {
        ' '..='~' => true,
        '\u{ad}' | '\u{feff}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' => false,
        '\u{2060}'..='\u{206f}' | '\u{e000}'..='\u{f8ff}' | '\u{f0000}'.. => false,
        c if (c as u32) < 0xa1 => false,
        c => !c.is_whitespace() && !c.is_control(),
    }
}

/// `%v` of a float: the shortest digits, an exponent below 1e-4 and from 1e6 on.
pub fn float(f: f64) -> String {
    decimal(f, -4, 6)
}

/// JSON as Go writes it: keys sorted, `<`, `>` and `&` escaped.
pub fn json(v: &Value) -> String {
    let mut out = String::new();
    write_json(&mut out, v);
    out
}

fn write_json(out: &mut String, v: &Value) {
    match v {
        Value::Null => out.push_str("null"),
        Value::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
        Value::Number(n) => match n.as_i64() {
            Some(i) => {
                let _ = write!(out, "{i}");
            }
            None => out.push_str(&json_float(n.as_f64().unwrap_or_default())),
        },
        Value::String(s) => write_json_string(out, s),
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_json(out, item);
            }
            out.push(']');
        }
        Value::Object(map) => {
            out.push('{');
            for (i, (k, item)) in map.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_json_string(out, k);
                out.push(':');
                write_json(out, item);
            }
            out.push('}');
        }
    }
}

fn write_json_string(out: &mut String, s: &str) {
    out.push('"');
    for c in s.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\x08' => out.push_str("\\b"),
            '\x0c' => out.push_str("\\f"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c if (c as u32) < 0x20 => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

fn json_float(f: f64) -> String {
    let text = decimal(f, -6, 21);
    // One-digit exponents lose their zero in JSON.
    match text.rfind("e-0") {
        Some(at) => format!("{}e-{}", &text[..at], &text[at + 3..]),
        None => text,
    }
}

/// The shortest digits that read back, in plain form if the decimal exponent is in `low..high`.
fn decimal(f: f64, low: i32, high: i32) -> String {
    if f.is_nan() {
        return "NaN".to_owned();
    }
    if f.is_infinite() {
        return if f > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    if f == 0.0 {
        return if f.is_sign_negative() { "-0" } else { "0" }.to_owned();
    }
    let scientific = shortest(f);
    let Some((digits, exponent)) = scientific.split_once('e') else {
        return scientific;
    };
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if exponent < low || exponent >= high {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{digits}e{sign}{:02}", exponent.abs());
    }
    let fraction = digits.split_once('.').map_or(0, |(_, d)| d.len() as i32);
    let places = usize::try_from(fraction - exponent).unwrap_or(0);
    format!("{f:.places$}")
}

/// The fewest digits that read back; between two equally near ones the even one, as Go has it.
fn shortest(f: f64) -> String {
    let any = format!("{f:e}");
    let digits = any
        .split(['.', 'e'])
        .nth(1)
        .filter(|_| any.contains('.'))
        .map_or(0, str::len);
    let even = format!("{f:.digits$e}");
    if even.parse() == Ok(f) { even } else { any }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats() {
        for (f, want) in [
            (1.0, "1"),
            (0.1, "0.1"),
            (100_000.0, "100000"),
            (1e6, "1e+06"),
            (1e-5, "1e-05"),
            (123_456_789.5, "1.234567895e+08"),
            (12.5, "12.5"),
            (-0.015, "-0.015"),
            (900_719_925_474_099.2, "9.007199254740992e+14"),
        ] {
            assert_eq!(float(f), want);
        }
        assert_eq!(json(&serde_json::json!(1e-7)), "1e-7");
        assert_eq!(json(&serde_json::json!(1e300)), "1e+300");
    }

    #[test]
    fn quotes() {
        assert_eq!(quote("a\u{0}é\u{200b}"), "\"a\\x00é\\u200b\"");
    }
}
