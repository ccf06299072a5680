//! The two representations of an amount: a machine integer with a power of ten where that is
//! enough, a decimal without limits otherwise. Which one is in use shows in results (an integer
//! overflows to zero, a decimal wraps), so both behave as they do in Kubernetes.

use std::cmp::Ordering;

use num_bigint::BigInt;

use super::decimal::{Decimal, remove_factors, wrap_i64};

/// `value × 10^scale`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Small {
    pub value: i64,
    pub scale: i32,
}

#[derive(Clone, Debug)]
pub(super) enum Amount {
    Small(Small),
    Big(Decimal),
}

impl Small {
    fn decimal(self) -> Decimal {
        Decimal::new(self.value, self.scale.saturating_neg())
    }

    /// The exact integer; `None` with decimals (even zero ones) or on overflow.
    pub(super) fn as_i64(self) -> Option<i64> {
        (self.scale >= 0)
            .then(|| scale_up(self.value, self.scale))
            .flatten()
    }

    /// The integer at `scale`, rounded away from zero. Overflow wraps at the powers of ten that
    /// Kubernetes multiplies in one step, and is zero at the others.
    fn at_scale(self, scale: i32) -> i64 {
        if self.scale < scale {
            return scale_down(self.value, i64::from(scale) - i64::from(self.scale)).0;
        }
        let by = self.scale.saturating_sub(scale);
        match scale_up(self.value, by) {
            Some(value) => value,
            None if matches!(by, 1 | 2 | 3 | 6 | 9) && self.value != i64::MIN => {
                self.value.wrapping_mul(10_i64.pow(by.unsigned_abs()))
            }
            None => 0,
        }
    }

    fn plus(self, other: Self) -> Option<Self> {
        if other.value == 0 {
            return Some(self);
        }
        if self.value == 0 {
            return Some(other);
        }
        let (fine, coarse) = if self.scale <= other.scale {
            (self, other)
        } else {
            (other, self)
        };
        let raised = scale_up(coarse.value, coarse.scale.checked_sub(fine.scale)?)?;
        Some(Self {
            value: raised.checked_add(fine.value)?,
            scale: fine.scale,
        })
    }
}

impl Amount {
    pub(super) fn integer(value: i64) -> Self {
        Self::Small(Small { value, scale: 0 })
    }

    pub(super) fn decimal(&self) -> Decimal {
        match self {
            Self::Small(small) => small.decimal(),
            Self::Big(big) => big.clone(),
        }
    }

    pub(super) fn sign(&self) -> i32 {
        match self {
            Self::Small(small) => small.value.signum() as i32,
            Self::Big(big) => big.sign(),
        }
    }

    pub(super) fn compare(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Small(a), Self::Small(b)) if a.scale == b.scale => a.value.cmp(&b.value),
            _ => self.decimal().compare(&other.decimal()),
        }
    }

    pub(super) fn plus(&self, other: &Self) -> Self {
        if let (Self::Small(a), Self::Small(b)) = (self, other)
            && let Some(sum) = a.plus(*b)
        {
            return Self::Small(sum);
        }
        Self::Big(self.decimal().plus(&other.decimal()))
    }

    pub(super) fn negated(&self) -> Self {
        match self {
            Self::Small(small) => match small.value.checked_neg() {
                Some(value) => Self::Small(Small { value, ..*small }),
                None => Self::Big(small.decimal().negated()),
            },
            Self::Big(big) => Self::Big(big.negated()),
        }
    }

    /// Mantissa and an exponent that is a multiple of three.
    pub(super) fn canonical(&self) -> (BigInt, i32) {
        let decimal = self.decimal();
        let (mut mantissa, times) = remove_factors(decimal.unscaled, 10);
        let mut exponent = times.saturating_sub(decimal.scale);
        while exponent % 3 != 0 {
            mantissa *= 10;
            exponent -= 1;
        }
        (mantissa, exponent)
    }

    /// Mantissa and power of 1024, if the amount is a whole number.
    pub(super) fn canonical_1024(&self) -> Option<(BigInt, i32)> {
        let decimal = self.decimal();
        let whole = decimal.round_up(0)?;
        (whole.compare(&decimal) == Ordering::Equal).then(|| remove_factors(whole.unscaled, 1024))
    }

    /// The integer at a power of ten, rounded up, with Go's overflow.
    pub(super) fn scaled_value(&self, scale: i32) -> i64 {
        match self {
            Self::Small(small) => small.at_scale(scale),
            Self::Big(big) => big_at_scale(big, scale),
        }
    }

    pub(super) fn approximate(&self) -> f64 {
        let (base, exponent) = match self {
            Self::Small(small) => (small.value as f64, small.scale),
            Self::Big(big) => (nearest(&big.unscaled), big.scale.saturating_neg()),
        };
        if exponent == 0 {
            base
        } else {
            base * pow10_f64(exponent)
        }
    }
}

fn nearest(number: &BigInt) -> f64 {
    // Decimal text is read with correct rounding, at any length.
    number.to_string().parse().unwrap_or(f64::NAN)
}

fn big_at_scale(big: &Decimal, scale: i32) -> i64 {
    let drop = i64::from(big.scale) + i64::from(scale);
    let low = wrap_i64(&big.unscaled);
    if drop == 0 {
        return low;
    }
    if drop < 0 {
        let factor = pow10_f64(i32::try_from(-drop).unwrap_or(i32::MAX));
        // A float beyond the range converts to the smallest integer on x86.
        let factor = if factor < i64::MAX as f64 {
            factor as i64
        } else {
            i64::MIN
        };
        return low.wrapping_mul(factor);
    }
    if big.unscaled < BigInt::from(i64::MAX) && drop < 19 {
        let divisor = 10_i64.pow(u32::try_from(drop).unwrap_or(0));
        return (low / divisor).wrapping_add(i64::from(low % divisor != 0));
    }
    let negative = big.sign() < 0;
    let magnitude = if negative { big.negated() } else { big.clone() };
    // Floor and one more if anything remains is the ceiling.
    let Some(up) = magnitude.round_up(-scale) else {
        return 0;
    };
    if negative {
        let exact = up.compare(&magnitude) == Ordering::Equal;
        let floor = wrap_i64(&-up.unscaled);
        floor.wrapping_add(i64::from(!exact))
    } else {
        wrap_i64(&up.unscaled)
    }
}

/// `value × 10^by`; `None` on overflow.
pub(super) fn scale_up(value: i64, by: i32) -> Option<i64> {
    if value == 0 {
        return Some(0);
    }
    let factor = 10_i64.checked_pow(u32::try_from(by).ok()?)?;
    value.checked_mul(factor)
}

/// `value / 10^by` rounded away from zero, and whether it was exact.
fn scale_down(value: i64, by: i64) -> (i64, bool) {
    let Some(divisor) = u32::try_from(by).ok().and_then(|by| 10_i64.checked_pow(by)) else {
        return (value.signum(), value == 0);
    };
    let exact = value % divisor == 0;
    let rounded = value / divisor + if exact { 0 } else { value.signum() };
    (rounded, exact)
}

/// Powers of ten composed as Go composes them, so that the last bit agrees.
fn pow10_f64(exponent: i32) -> f64 {
    let power = |n: i32| format!("1e{n}").parse::<f64>().unwrap_or(f64::NAN);
    match exponent {
        0..=308 => power(exponent / 32 * 32) * power(exponent % 32),
        -323..=-1 => {
            let n = -exponent;
            power(-(n / 32 * 32)) / power(n % 32)
        }
        n if n > 0 => f64::INFINITY,
        _ => 0.0,
    }
}
