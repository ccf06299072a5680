//! How long a client waits before it connects again.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(250);
const LONGEST: Duration = Duration::from_secs(8);

/// After so many failures in a row.
pub fn pause(failures: u32) -> Duration {
    cut(failures, rand::random())
}

/// Doubling, then cut by up to half so that many do not come back together.
fn cut(failures: u32, chance: f64) -> Duration {
    let doubled = FIRST.saturating_mul(1 << failures.saturating_sub(1).min(10));
    doubled.min(LONGEST).mul_f64(1.0 - chance.clamp(0.0, 1.0) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_limit() {
        assert_eq!(cut(1, 0.0), FIRST);
        assert_eq!(cut(3, 0.0), FIRST * 4);
        assert_eq!(cut(u32::MAX, 0.0), LONGEST);
        assert_eq!(cut(1, 1.0), FIRST / 2);
    }
}
