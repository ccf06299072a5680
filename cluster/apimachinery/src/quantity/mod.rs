//! Resource quantities: `100m`, `1.5Gi`, `12e6`. Reading, printing and arithmetic give the same
//! text and the same numbers as Kubernetes, its rounding and its overflows included.

mod amount;
mod decimal;
mod syntax;

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use num_bigint::BigInt;
use serde_json::Value;

use amount::{Amount, Small};
use decimal::{Decimal, MAX_SHIFT};
use syntax::{Parts, Suffix};

/// How a quantity is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Never read from text.
    #[default]
    Unset,
    /// `12e6`
    DecimalExponent,
    /// `12Mi`
    BinarySi,
    /// `12M`
    DecimalSi,
}

impl Format {
    pub fn name(self) -> &'static str {
        match self {
            Self::Unset => "",
            Self::DecimalExponent => "DecimalExponent",
            Self::BinarySi => "BinarySI",
            Self::DecimalSi => "DecimalSI",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Format,
    #[error("unable to parse numeric part of quantity")]
    Numeric,
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

/// An amount of something.
#[derive(Clone, Debug)]
pub struct Quantity {
    amount: Amount,
    format: Format,
    /// Input that is near enough to the canonical form to be printed again.
    text: Option<String>,
}

impl Default for Quantity {
    fn default() -> Self {
        Self::new(0, Format::Unset)
    }
}

const NANO: i32 = -9;
const MILLI: i32 = -3;

impl Quantity {
    pub fn new(value: i64, format: Format) -> Self {
        Self {
            amount: Amount::integer(value),
            format,
            text: None,
        }
    }

    pub fn from_milli(value: i64, format: Format) -> Self {
        Self {
            amount: Amount::Small(Small { value, scale: MILLI }),
            format,
            text: None,
        }
    }

    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        if text.is_empty() {
            return Err(QuantityError::Format);
        }
        if text == "0" {
            return Ok(Self {
                text: Some(text.to_string()),
                ..Self::new(0, Format::DecimalSi)
            });
        }
        let parts = syntax::split(text)?;
        let suffix = syntax::interpret(parts.suffix).ok_or(QuantityError::Suffix)?;
        match Self::small(text, &parts, &suffix)? {
            Some(quantity) => Ok(quantity),
            None => Self::big(&parts, &suffix),
        }
    }

    /// Reads a JSON value: a string, a number, or null for zero.
    pub fn from_json(value: &Value) -> Result<Self, QuantityError> {
        match value {
            Value::String(text) => Self::parse(text.trim()),
            other => Self::from_json_text(&other.to_string()),
        }
    }

    /// Reads JSON text, so that `1e3` keeps the form in which it was written.
    pub fn from_json_text(json: &str) -> Result<Self, QuantityError> {
        if json == "null" {
            return Ok(Self::default());
        }
        let inner = json
            .strip_prefix('"')
            .and_then(|rest| rest.strip_suffix('"'))
            .unwrap_or(json);
        Self::parse(inner.trim())
    }

    /// The reading for amounts that fit a machine integer with certainty.
    fn small(text: &str, parts: &Parts<'_>, suffix: &Suffix) -> Result<Option<Self>, QuantityError> {
        let digits = i64::try_from(parts.whole.len() + parts.fraction.len()).unwrap_or(i64::MAX);
        let binary = suffix.format == Format::BinarySi;
        let (fits, exponent, mantissa) = if binary {
            // Three tenths of the power of two is about the number of its decimal digits.
            let room = 15 - digits - i64::from(suffix.exponent) * 3 / 10 - 1;
            let fits = parts.fraction.is_empty() && room >= 0;
            (fits, 0, 1_i64.checked_shl(suffix.exponent.unsigned_abs()))
        } else {
            (digits <= 18, suffix.exponent, Some(1))
        };
        let scale = i64::from(exponent) - parts.fraction.len() as i64;
        let Some(scale) = i32::try_from(scale).ok().filter(|s| fits && *s >= NANO) else {
            return Ok(None);
        };
        let shifted = format!("{}{}", parts.whole, parts.fraction);
        let magnitude: i64 = shifted.parse().map_err(|_| QuantityError::Numeric)?;
        let Some(value) = mantissa.and_then(|m| magnitude.checked_mul(m)) else {
            return Ok(None);
        };
        let keep = if binary {
            suffix.exponent % 10 == 0 && magnitude & 0x07 != 0
        } else {
            scale % 3 == 0 && !shifted.ends_with("000") && !shifted.starts_with('0')
        };
        Ok(Some(Self {
            amount: Amount::Small(Small {
                value: if parts.positive { value } else { -value },
                scale,
            }),
            format: suffix.format,
            text: keep.then(|| text.to_string()),
        }))
    }

    fn big(parts: &Parts<'_>, suffix: &Suffix) -> Result<Self, QuantityError> {
        let mut number = Decimal::parse(parts.value).ok_or(QuantityError::Numeric)?;
        let mut format = suffix.format;
        if format == Format::BinarySi {
            number.unscaled <<= suffix.exponent;
        } else {
            let scale = i64::from(number.scale) - i64::from(suffix.exponent);
            if scale < -MAX_SHIFT {
                return Err(QuantityError::Numeric);
            }
            number.scale = i32::try_from(scale).unwrap_or(i32::MAX);
        }
        let negative = number.sign() < 0;
        if negative {
            number = number.negated();
        }
        if number.sign() != 0 {
            number = number.round_up(-NANO).ok_or(QuantityError::Numeric)?;
        }
        if format == Format::BinarySi {
            let largest = Decimal::new(i64::MAX, 0);
            if number.compare(&largest) == Ordering::Greater {
                number = largest;
            }
            // Below one there is no binary suffix to print.
            if number.sign() > 0 && number.compare(&Decimal::new(1, 0)) == Ordering::Less {
                format = Format::DecimalSi;
            }
        }
        if negative {
            number = number.negated();
        }
        Ok(Self {
            amount: Amount::Big(number),
            format,
            text: None,
        })
    }

    pub fn format(&self) -> Format {
        self.format
    }

    pub fn is_zero(&self) -> bool {
        self.sign() == 0
    }

    pub fn sign(&self) -> i32 {
        self.amount.sign()
    }

    /// The exact integer, where the amount is held as one without decimals.
    pub fn as_i64(&self) -> Option<i64> {
        match &self.amount {
            Amount::Small(small) => small.as_i64(),
            Amount::Big(_) => None,
        }
    }

    pub fn as_f64(&self) -> f64 {
        self.amount.approximate()
    }

    /// Whole units, rounded up.
    pub fn value(&self) -> i64 {
        self.amount.scaled_value(0)
    }

    /// Thousandths, rounded up.
    pub fn milli_value(&self) -> i64 {
        self.amount.scaled_value(MILLI)
    }

    /// The computed canonical form; `to_string` may keep the input instead.
    pub fn canonical(&self) -> String {
        if self.is_zero() {
            return "0".to_string();
        }
        let binary = (self.format == Format::BinarySi && !self.within_1024())
            .then(|| self.amount.canonical_1024())
            .flatten();
        if let Some((mantissa, power)) = binary {
            let exponent = power.saturating_mul(10);
            return format!("{mantissa}{}", syntax::binary_suffix(exponent));
        }
        let (mantissa, exponent): (BigInt, i32) = self.amount.canonical();
        let suffix = match self.format {
            Format::DecimalSi | Format::BinarySi => syntax::decimal_suffix(exponent).to_string(),
            Format::DecimalExponent | Format::Unset if exponent == 0 => String::new(),
            Format::DecimalExponent | Format::Unset => format!("e{exponent}"),
        };
        format!("{mantissa}{suffix}")
    }

    fn within_1024(&self) -> bool {
        self.amount.compare(&Amount::integer(-1024)) == Ordering::Greater
            && self.amount.compare(&Amount::integer(1024)) == Ordering::Less
    }

    /// The sum, in the format of the left side unless that is zero.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            amount: self.amount.plus(&other.amount),
            format: if self.is_zero() { other.format } else { self.format },
            text: None,
        }
    }

    #[must_use]
    pub fn minus(&self, other: &Self) -> Self {
        let negated = Self {
            amount: other.amount.negated(),
            format: other.format,
            text: None,
        };
        self.plus(&negated)
    }

    #[must_use]
    pub fn negated(&self) -> Self {
        Self {
            amount: self.amount.negated(),
            format: self.format,
            text: None,
        }
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.text {
            Some(text) => f.pad(text),
            None => f.pad(&self.canonical()),
        }
    }
}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

/// Amounts compare; the way they are written does not count.
impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.amount.compare(&other.amount)
    }
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Quantity {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn exponents_without_end_cost_nothing() {
        for text in ["1e2147483647", "-1e-2147483648", "1e-99999", "0.1e99"] {
            let quantity = Quantity::parse(text).expect(text);
            let one = Quantity::new(1, Format::DecimalSi);
            let _ = (quantity.canonical(), quantity.value(), quantity.as_f64());
            let _ = (quantity.plus(&one).canonical(), quantity.cmp(&one));
        }
        assert_eq!(
            Quantity::parse("1234567890123456789e99999").err(),
            Some(QuantityError::Numeric)
        );
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,24}") {
            let _ = Quantity::parse(&text);
        }

        #[test]
        fn canonical_form_reads_back_as_the_same_amount(
            text in "[+-]?[0-9]{1,12}(\\.[0-9]{0,9})?(|m|u|n|k|M|G|T|Ki|Mi|Gi|e3|E-2)"
        ) {
            let first = Quantity::parse(&text).expect("matches the grammar");
            let again = Quantity::parse(&first.canonical()).expect("canonical form is a quantity");
            prop_assert_eq!(first.canonical(), again.canonical());
            prop_assert_eq!(&first, &again);
            prop_assert!(first.minus(&again).is_zero());
        }

        #[test]
        fn adding_then_subtracting_is_nothing(a in any::<i32>(), b in -999_999_i64..999_999) {
            let a = Quantity::new(i64::from(a), Format::DecimalSi);
            let b = Quantity::from_milli(b, Format::DecimalSi);
            prop_assert_eq!(a.plus(&b).minus(&b), a);
        }
    }
}
