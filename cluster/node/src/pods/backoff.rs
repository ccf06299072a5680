//! How long a container that ended waits for its restart.

use jiff::{SignedDuration, Timestamp};

const FIRST: SignedDuration = SignedDuration::from_secs(10);
const LONGEST: SignedDuration = SignedDuration::from_secs(300);
/// A run this long forgives earlier ends.
const FORGIVING: SignedDuration = SignedDuration::from_mins(10);

/// Waiting time after `streak` short runs before this end: none for the first, then ten
/// seconds, doubled each time up to five minutes.
pub fn delay(streak: u32) -> SignedDuration {
    match streak {
        0 => SignedDuration::ZERO,
        n => FIRST
            .checked_mul(1 << (n - 1).min(10))
            .map_or(LONGEST, |d| d.min(LONGEST)),
    }
}

/// The streak after a run from `started` to `finished`.
pub fn streak(before: u32, started: Option<Timestamp>, finished: Option<Timestamp>) -> u32 {
    match (started, finished) {
        (Some(from), Some(to)) if to.duration_since(from) >= FORGIVING => 0,
        _ => before,
    }
}

/// Waiting time after `count` failures to make something at all.
pub fn retry(count: u32) -> SignedDuration {
    let first = SignedDuration::from_secs(1);
    first
        .checked_mul(1 << count.saturating_sub(1).min(10))
        .map_or(LONGEST, |d| d.min(SignedDuration::from_mins(2)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays() {
        let seconds: Vec<i64> = (0..8).map(|n| delay(n).as_secs()).collect();
        assert_eq!(seconds, [0, 10, 20, 40, 80, 160, 300, 300]);
        assert_eq!(delay(u32::MAX), LONGEST);
        assert_eq!(retry(1).as_secs(), 1);
        assert_eq!(retry(u32::MAX).as_secs(), 120);
    }

    #[test]
    fn a_long_run_forgives() {
        let t = Timestamp::UNIX_EPOCH;
        let short = t + SignedDuration::from_secs(3);
        let long = t + SignedDuration::from_mins(11);
        assert_eq!(streak(5, Some(t), Some(short)), 5);
        assert_eq!(streak(5, Some(t), Some(long)), 0);
        assert_eq!(streak(5, None, Some(long)), 5);
    }
}
