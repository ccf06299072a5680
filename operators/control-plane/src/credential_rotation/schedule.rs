//! When a credential is made, used and deleted: no cluster, no clock of its own.
//!
//! What the consumers read names one credential. It moves on only to one that is complete, and a
//! credential is deleted only when it expired, a newer one is in use, and that for as long as the
//! grace period: a clock that jumps cannot take away what is in use.

use c5c3_api::c5c3::CredentialRotationSpec;
use jiff::{SignedDuration, Timestamp};

/// The next one is made at least this long before the old one expires.
const LEAST_OVERLAP: SignedDuration = SignedDuration::from_hours(1);

/// A credential as it was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credential {
    pub number: u64,
    pub created: Timestamp,
    pub expires: Timestamp,
    /// K-ORC has made it and its Secret is complete.
    pub complete: bool,
    pub deleting: bool,
}

/// What the consumers' Secret names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Current {
    pub number: u64,
    pub since: Timestamp,
}

/// All days of a spec as spans of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    pub valid: SignedDuration,
    pub overlap: SignedDuration,
    pub grace: SignedDuration,
}

impl Terms {
    pub fn of(spec: &CredentialRotationSpec) -> Self {
        let days = |count: i32| SignedDuration::from_hours(i64::from(count) * 24);
        Terms {
            valid: days(spec.schedule.interval_days),
            overlap: days(spec.schedule.pre_rotation_days).max(LEAST_OVERLAP),
            grace: days(spec.grace_period_days),
        }
    }
}

/// What to do now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Make this one, valid until then.
    pub make: Option<(u64, Timestamp)>,
    /// Consumers use this one; `None` leaves them with what they have.
    pub using: Option<Current>,
    pub delete: Vec<u64>,
    /// When the next one is due.
    pub next: Timestamp,
    /// When the next one can be deleted.
    pub next_deletion: Option<Timestamp>,
}

/// `last`: the highest number that was ever given out, as far as anybody remembers.
pub fn decide(
    terms: Terms,
    credentials: &[Credential],
    current: Option<Current>,
    last: u64,
    now: Timestamp,
) -> Verdict {
    let alive = |c: &&Credential| !c.deleting;
    let newest = credentials.iter().filter(alive).max_by_key(|c| c.number);
    let make = newest
        .is_none_or(|newest| due(terms, newest) <= now)
        .then(|| (next_number(credentials, current, last), after(now, terms.valid)));
    let next = match (make, newest) {
        (Some((_, expires)), _) => before(expires, terms.overlap),
        (None, Some(newest)) => due(terms, newest),
        (None, None) => now,
    };

    let usable = credentials
        .iter()
        .filter(alive)
        .filter(|c| c.complete && c.expires > now)
        .max_by_key(|c| c.number);
    let using = usable.map(|best| match current {
        Some(current) if current.number == best.number => current,
        _ => Current {
            number: best.number,
            since: now,
        },
    });

    let mut delete = Vec::new();
    let mut next_deletion: Option<Timestamp> = None;
    if let Some(in_use) = using {
        for old in credentials
            .iter()
            .filter(alive)
            .filter(|c| c.number < in_use.number)
        {
            let at = after(old.expires, terms.grace).max(after(in_use.since, terms.grace));
            if at <= now {
                delete.push(old.number);
            } else {
                next_deletion = Some(next_deletion.map_or(at, |first| first.min(at)));
            }
        }
    }
    Verdict {
        make,
        using,
        delete,
        next,
        next_deletion,
    }
}

/// A shorter interval in the spec holds for a credential that was made with a longer one.
fn due(terms: Terms, credential: &Credential) -> Timestamp {
    let ends = credential.expires.min(after(credential.created, terms.valid));
    before(ends, terms.overlap)
}

/// Names are not used twice.
fn next_number(credentials: &[Credential], current: Option<Current>, last: u64) -> u64 {
    let seen = credentials.iter().map(|c| c.number).max().unwrap_or(0);
    let used = current.map_or(0, |current| current.number);
    seen.max(used).max(last).saturating_add(1)
}

fn after(time: Timestamp, span: SignedDuration) -> Timestamp {
    time.saturating_add(span).unwrap_or(Timestamp::MAX)
}

fn before(time: Timestamp, span: SignedDuration) -> Timestamp {
    time.saturating_sub(span).unwrap_or(Timestamp::MIN)
}

#[cfg(test)]
#[path = "schedule_tests.rs"]
mod tests;
