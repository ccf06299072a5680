//! The written form of a quantity: sign, digits, suffix.

use super::{Format, QuantityError};

#[derive(Debug, PartialEq)]
pub(super) struct Parts<'a> {
    pub positive: bool,
    /// Sign, digits and point as written.
    pub value: &'a str,
    /// Digits before the point, without leading zeros, at least `0`.
    pub whole: &'a str,
    pub fraction: &'a str,
    pub suffix: &'a str,
}

/// Takes a quantity apart. Any part may be missing, even all digits.
pub(super) fn split(text: &str) -> Result<Parts<'_>, QuantityError> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let positive = !text.starts_with('-');
    let number = unsigned.trim_start_matches('0');
    if number.is_empty() {
        return Ok(Parts {
            positive,
            value: "0",
            whole: "0",
            fraction: "",
            suffix: "",
        });
    }
    let (whole, rest) = number.split_at(span(number, |b| b.is_ascii_digit()));
    let (fraction, suffix) = match rest.strip_prefix('.') {
        Some(rest) => rest.split_at(span(rest, |b| b.is_ascii_digit())),
        None => ("", rest),
    };
    if !is_suffix(suffix) {
        return Err(QuantityError::Format);
    }
    Ok(Parts {
        positive,
        // The suffix is the end of the text.
        value: &text[..text.len() - suffix.len()],
        whole: if whole.is_empty() { "0" } else { whole },
        fraction,
        suffix,
    })
}

fn is_suffix(suffix: &str) -> bool {
    let rest = &suffix[span(suffix, |b| b"eEinumkKMGTP".contains(&b))..];
    let digits = rest.strip_prefix(['+', '-']).unwrap_or(rest);
    digits.bytes().all(|b| b.is_ascii_digit())
}

fn span(text: &str, belongs: impl Fn(u8) -> bool) -> usize {
    text.bytes().take_while(|b| belongs(*b)).count()
}

#[derive(Debug, PartialEq)]
pub(super) struct Suffix {
    pub exponent: i32,
    pub format: Format,
}

const DECIMAL: [(&str, i32); 10] = [
    ("n", -9),
    ("u", -6),
    ("m", -3),
    ("", 0),
    ("k", 3),
    ("M", 6),
    ("G", 9),
    ("T", 12),
    ("P", 15),
    ("E", 18),
];

const BINARY: [(&str, i32); 6] = [
    ("Ki", 10),
    ("Mi", 20),
    ("Gi", 30),
    ("Ti", 40),
    ("Pi", 50),
    ("Ei", 60),
];

pub(super) fn interpret(suffix: &str) -> Option<Suffix> {
    let find = |table: &[(&str, i32)]| table.iter().find(|(s, _)| *s == suffix).map(|(_, e)| *e);
    let (exponent, format) = if let Some(exponent) = find(&DECIMAL) {
        (exponent, Format::DecimalSi)
    } else if let Some(exponent) = find(&BINARY) {
        (exponent, Format::BinarySi)
    } else {
        let digits = suffix.strip_prefix(['e', 'E'])?;
        // Kubernetes keeps the low 32 bits of a longer exponent.
        let exponent = digits.parse::<i64>().ok()? as i32;
        (exponent, Format::DecimalExponent)
    };
    Some(Suffix { exponent, format })
}

/// The suffix of a power of ten; none where there is no letter for it.
pub(super) fn decimal_suffix(exponent: i32) -> &'static str {
    lookup(&DECIMAL, exponent)
}

pub(super) fn binary_suffix(exponent: i32) -> &'static str {
    lookup(&BINARY, exponent)
}

fn lookup(table: &[(&'static str, i32)], exponent: i32) -> &'static str {
    table.iter().find(|(_, e)| *e == exponent).map_or("", |(s, _)| s)
}
