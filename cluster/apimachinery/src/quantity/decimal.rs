//! Decimal numbers without a limit of digits: `unscaled × 10^-scale`.

use std::cmp::Ordering;

use num_bigint::{BigInt, Sign};

/// More digits than this are never computed: a few bytes of input must not cost memory without end.
pub(super) const MAX_SHIFT: i64 = 10_000;

#[derive(Clone, Debug)]
pub(super) struct Decimal {
    pub unscaled: BigInt,
    pub scale: i32,
}

impl Decimal {
    pub(super) fn new(unscaled: impl Into<BigInt>, scale: i32) -> Self {
        Self {
            unscaled: unscaled.into(),
            scale,
        }
    }

    /// Reads an optional sign and digits with at most one point.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let digits = format!("{whole}{fraction}");
        let bare = digits.strip_prefix(['+', '-']).unwrap_or(&digits);
        if bare.is_empty() || !bare.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        Some(Self {
            unscaled: digits.parse().ok()?,
            scale: i32::try_from(fraction.len()).ok()?,
        })
    }

    pub(super) fn sign(&self) -> i32 {
        match self.unscaled.sign() {
            Sign::Minus => -1,
            Sign::NoSign => 0,
            Sign::Plus => 1,
        }
    }

    /// The same number at another scale, rounded away from zero. `None`: too many digits.
    pub(super) fn round_up(&self, scale: i32) -> Option<Self> {
        let shift = i64::from(scale) - i64::from(self.scale);
        if shift >= 0 {
            return Some(Self {
                unscaled: self.shifted(shift)?,
                scale,
            });
        }
        if -shift > self.digits() + 1 {
            return Some(Self::new(self.sign(), scale));
        }
        let divisor = pow10(-shift)?;
        let mut unscaled = &self.unscaled / &divisor;
        if &unscaled * divisor != self.unscaled {
            unscaled += self.sign();
        }
        Some(Self { unscaled, scale })
    }

    /// The sum. Where the smaller operand is beyond all digits of the larger, the larger one.
    pub(super) fn plus(&self, other: &Self) -> Self {
        let scale = self.scale.max(other.scale);
        match (self.round_up(scale), other.round_up(scale)) {
            (Some(a), Some(b)) => Self {
                unscaled: a.unscaled + b.unscaled,
                scale,
            },
            (None, _) => self.clone(),
            (_, None) => other.clone(),
        }
    }

    pub(super) fn negated(&self) -> Self {
        Self {
            unscaled: -self.unscaled.clone(),
            scale: self.scale,
        }
    }

    pub(super) fn compare(&self, other: &Self) -> Ordering {
        let by_sign = self.sign().cmp(&other.sign());
        if by_sign != Ordering::Equal || self.sign() == 0 {
            return by_sign;
        }
        let by_size = self.magnitude().cmp(&other.magnitude());
        if by_size != Ordering::Equal {
            return if self.sign() > 0 {
                by_size
            } else {
                by_size.reverse()
            };
        }
        // Equal magnitudes: scales differ by less than the digits that are there.
        let scale = self.scale.max(other.scale);
        match (self.round_up(scale), other.round_up(scale)) {
            (Some(a), Some(b)) => a.unscaled.cmp(&b.unscaled),
            _ => by_size,
        }
    }

    fn digits(&self) -> i64 {
        self.unscaled.magnitude().to_string().len() as i64
    }

    fn magnitude(&self) -> i64 {
        self.digits() - i64::from(self.scale)
    }

    fn shifted(&self, shift: i64) -> Option<BigInt> {
        if self.sign() == 0 {
            return Some(BigInt::ZERO);
        }
        Some(&self.unscaled * pow10(shift)?)
    }
}

fn pow10(exponent: i64) -> Option<BigInt> {
    let exponent = u32::try_from(exponent).ok()?;
    (i64::from(exponent) <= MAX_SHIFT).then(|| BigInt::from(10).pow(exponent))
}

/// Divides by `factor` as often as nothing remains; zero has no factors.
pub(super) fn remove_factors(mut number: BigInt, factor: u32) -> (BigInt, i32) {
    let mut times = 0;
    while number.sign() != Sign::NoSign {
        let quotient = &number / factor;
        if &quotient * factor != number {
            break;
        }
        number = quotient;
        times += 1;
    }
    (number, times)
}

/// The low 64 bits with the sign of the number, as Go cuts a big integer.
pub(super) fn wrap_i64(number: &BigInt) -> i64 {
    let low = number.iter_u64_digits().next().unwrap_or(0).cast_signed();
    if number.sign() == Sign::Minus {
        low.wrapping_neg()
    } else {
        low
    }
}
