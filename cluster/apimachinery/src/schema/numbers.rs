//! Number checks; integers are compared as integers, as Kubernetes does.

use serde_json::{Number, Value};

use super::failure::Failure;
use super::model::Schema;
use crate::field::text;

/// Range of the type, multipleOf, minimum and maximum.
pub(super) fn validate(
    n: &Number,
    s: &Schema,
    types: &[&str],
    format: &str,
    path: &str,
    fail: &mut dyn FnMut(Failure),
) {
    let number = match n.as_i64() {
        Some(i) => Num::Int(i),
        None => Num::Float(n.as_f64().unwrap_or(f64::NAN)),
    };
    let (type_, format) = match types {
        ["integer"] if matches!(format, "int32" | "int64") => ("integer", format),
        ["integer"] => ("integer", ""),
        ["number"] if matches!(format, "float" | "double") => ("number", format),
        ["number"] => ("number", ""),
        _ => ("", ""),
    };
    let range = |value: Num, prefix: &str| out_of_range(value, type_, format, prefix, path);
    if let Some(message) = range(number, "Checked") {
        fail(Failure::unnamed(message));
    }
    if let Some(factor) = s.multiple_of {
        let bad_factor = range(Num::Float(factor), "MultipleOf");
        let native = bad_factor.is_none();
        if let Some(message) = bad_factor {
            fail(Failure::unnamed(message));
        }
        if let Some(failure) = multiple_of(number, factor, native, path) {
            fail(failure);
        }
    }
    let mut bound = |limit: f64, exclusive: bool, upper: bool| {
        let prefix = if upper {
            "Maximum boundary"
        } else {
            "Minimum boundary"
        };
        let bad_limit = range(Num::Float(limit), prefix);
        let native = bad_limit.is_none();
        if let Some(message) = bad_limit {
            fail(Failure::unnamed(message));
        }
        if let Some(failure) = beyond(number, limit, exclusive, upper, native, path) {
            fail(failure);
        }
    };
    if let Some(min) = s.minimum {
        bound(min, s.exclusive_minimum, false);
    }
    if let Some(max) = s.maximum {
        bound(max, s.exclusive_maximum, true);
    }
}

#[derive(Clone, Copy)]
enum Num {
    Int(i64),
    Float(f64),
}

impl Num {
    fn float(self) -> f64 {
        match self {
            Self::Int(i) => i as f64,
            Self::Float(f) => f,
        }
    }

    fn json(self) -> Value {
        match self {
            Self::Int(i) => Value::from(i),
            Self::Float(f) => Value::from(f),
        }
    }
}

/// A number that does not fit the type and format.
fn out_of_range(n: Num, type_: &str, format: &str, prefix: &str, path: &str) -> Option<String> {
    let fits = match (type_, format, n) {
        ("integer", "int32", Num::Int(i)) => i32::try_from(i).is_ok(),
        ("integer", _, Num::Int(_)) => true,
        // The text of a float must read as an integer: no point, no exponent.
        ("integer", "int32", Num::Float(f)) => go_decimal(f).parse::<i32>().is_ok(),
        ("integer", _, Num::Float(f)) => go_decimal(f).parse::<i64>().is_ok(),
        (_, "float", n) => (n.float() as f32).is_finite(),
        _ => true,
    };
    if fits {
        return None;
    }
    Some(if format.is_empty() {
        format!("{prefix} value must be of type {type_} (default format) in {path}")
    } else {
        format!("{prefix} value must be of type {type_} with format {format} in {path}")
    })
}

/// A float with all its digits, never with an exponent.
fn go_decimal(f: f64) -> String {
    format!("{f}")
}

fn multiple_of(n: Num, factor: f64, native: bool, path: &str) -> Option<Failure> {
    if let (true, Num::Int(i)) = (native, n) {
        let factor = factor as i64;
        if factor <= 0 {
            let message = format!("factor MultipleOf declared for {path} must be positive: {factor}");
            return Some(Failure::other(path, factor, message));
        }
        return (i % factor != 0).then(|| {
            let message = format!("{path} in body should be a multiple of {factor}");
            Failure::other(path, i, message)
        });
    }
    let data = n.float();
    let shown = text::float(factor);
    if factor <= 0.0 {
        let message = format!("factor MultipleOf declared for {path} must be positive: {shown}");
        return Some(Failure::other(path, factor, message));
    }
    let times = if factor < 1.0 {
        1.0 / factor * data
    } else {
        data / factor
    };
    (!is_json_integer(times)).then(|| {
        let message = format!("{path} in body should be a multiple of {shown}");
        Failure::other(path, data, message)
    })
}

fn beyond(n: Num, limit: f64, exclusive: bool, upper: bool, native: bool, path: &str) -> Option<Failure> {
    let (wrong, shown, value) = match (n, native) {
        (Num::Int(i), true) => {
            let limit = limit as i64;
            let wrong = match (upper, exclusive) {
                (true, false) => i > limit,
                (true, true) => i >= limit,
                (false, false) => i < limit,
                (false, true) => i <= limit,
            };
            (wrong, limit.to_string(), n.json())
        }
        _ => {
            let f = n.float();
            let wrong = match (upper, exclusive) {
                (true, false) => f > limit,
                (true, true) => f >= limit,
                (false, false) => f < limit,
                (false, true) => f <= limit,
            };
            (wrong, text::float(limit), Value::from(f))
        }
    };
    let words = match (upper, exclusive) {
        (true, false) => "less than or equal to",
        (true, true) => "less than",
        (false, false) => "greater than or equal to",
        (false, true) => "greater than",
    };
    wrong.then(|| Failure::other(path, value, format!("{path} in body should be {words} {shown}")))
}

/// Whether a float is an integer that JSON carries without loss, with a little tolerance.
pub(super) fn is_json_integer(f: f64) -> bool {
    const LARGEST: f64 = 9_007_199_254_740_991.0;
    const EPSILON: f64 = 1e-9;
    if !f.is_finite() || f.abs() > LARGEST {
        return false;
    }
    let rounded = f.round();
    let difference = (f - rounded).abs();
    difference == 0.0 || (rounded != 0.0 && difference < EPSILON * rounded.abs())
}

/// Whether a value is the enum value; numbers are converted as Go converts them.
pub(super) fn enum_matches(value: &Value, allowed: &Value) -> bool {
    match (value, allowed) {
        (Value::Null, _) | (_, Value::Null) => false,
        (Value::Number(v), Value::Number(a)) => match (v.as_i64(), a.as_i64()) {
            (Some(v), Some(a)) => v == a,
            (Some(v), None) => a.as_f64() == Some(v as f64),
            // A float becomes an integer by losing its fraction.
            (None, Some(a)) => v.as_f64().is_some_and(|v| v as i64 == a),
            (None, None) => v.as_f64() == a.as_f64(),
        },
        // An integer converts to the text with that code point.
        (Value::Number(v), Value::String(a)) => v.as_i64().is_some_and(|v| {
            let c = u32::try_from(v)
                .ok()
                .and_then(char::from_u32)
                .unwrap_or('\u{fffd}');
            a.chars().eq([c])
        }),
        (v, a) => v == a,
    }
}
