//! When a credential is made, used and deleted: no cluster, no clock of its own.
//!
//! What the consumers read names one credential. It moves on only to a newer one that is complete,
//! and stays with what it has as long as that lives: a Keystone that is away for a while moves nobody.
//! A credential is deleted only when a newer one was in use for the grace period, and not before it
//! expired or, when somebody asked for the rotation, before the last consumer moved: a clock that
//! jumps cannot take away what is in use. One that K-ORC gave up on is tried again under the next
//! number, after a pause that grows.

use c5c3_api::c5c3::CredentialRotationSpec;
use jiff::{SignedDuration, Timestamp};

/// The next one is made at least this long before the old one expires.
const LEAST_OVERLAP: SignedDuration = SignedDuration::from_hours(1);
/// Between tries at what K-ORC refuses: the first pause, doubled each time, and the longest.
const FIRST_PAUSE: SignedDuration = SignedDuration::from_mins(1);
const LONGEST_PAUSE: SignedDuration = SignedDuration::from_hours(1);
/// A new one that is not there by then is late.
const PATIENCE: SignedDuration = SignedDuration::from_hours(1);
/// Time between checks of consumers that have not moved on and that no watch reports.
pub const CONSUMERS_LOOK: SignedDuration = SignedDuration::from_secs(5);
/// The same where a watch reports them: for what it may miss.
pub const FOLLOWED_LOOK: SignedDuration = SignedDuration::from_mins(5);

/// A credential as it was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credential {
    pub number: u64,
    pub created: Timestamp,
    pub expires: Timestamp,
    /// K-ORC has made it and its secret is known.
    pub complete: bool,
    pub deleting: bool,
    /// Nobody knows its secret any more.
    pub lost: bool,
    /// Made because somebody asked for it, not because it was time.
    pub on_request: bool,
    /// K-ORC has given up on it.
    pub stopped: bool,
    /// It was in Keystone once: somebody may use it.
    pub made: bool,
}

impl Credential {
    fn is_alive(&self) -> bool {
        !self.deleting && !self.lost
    }
}

/// What the consumers' Secret names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Current {
    pub number: u64,
    pub since: Timestamp,
}

/// What was seen of a rotation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen<'a> {
    pub credentials: &'a [Credential],
    pub current: Option<Current>,
    /// The highest number that was ever given out, as far as anybody remembers.
    pub last: u64,
    /// Somebody wants a new one now.
    pub asked: bool,
    /// Consumers run that started before they could have read the current one.
    pub behind: bool,
    /// A watch reports when they are gone.
    pub followed: bool,
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
    /// When to look again at what is to be deleted.
    pub next_deletion: Option<Timestamp>,
    /// The newest one that K-ORC gave up on, while nothing better is there.
    pub stopped: Option<u64>,
    /// Consumers should have had a newer one for a while.
    pub late: bool,
}

pub fn decide(terms: Terms, seen: &Seen<'_>, now: Timestamp) -> Verdict {
    let alive = || seen.credentials.iter().filter(|c| c.is_alive());
    let newest = alive().filter(|c| !c.stopped).max_by_key(|c| c.number);
    let is_better = |c: &&Credential| newest.is_none_or(|newest| newest.number < c.number);
    let refused = alive().filter(|c| c.stopped).max_by_key(|c| c.number);
    let at = match (newest, refused.filter(is_better)) {
        (_, Some(refused)) => again(seen, refused, now),
        (Some(newest), None) => due(terms, newest),
        (None, None) => now,
    };
    let make = (seen.asked || at <= now).then(|| (next_number(seen), after(now, terms.valid)));
    let next = make.map_or(at, |(_, expires)| before(expires, terms.overlap));

    let using = using(seen, now);
    // Nobody can use one whose secret is lost.
    let lost = seen.credentials.iter().filter(|c| c.lost && !c.deleting);
    let mut delete: Vec<u64> = lost.map(|c| c.number).collect();
    delete.extend(alive().filter(|c| is_useless(seen, c)).map(|c| c.number));
    let mut next_deletion: Option<Timestamp> = None;
    if let Some(using) = using {
        for old in alive().filter(|c| c.number < using.number && !is_useless(seen, c)) {
            let at = deletion(terms, seen, old, using, now);
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
        stopped: refused.map(|c| c.number).filter(|number| {
            let better = |c: &Credential| c.complete && c.number > *number;
            !alive().any(better) && using.is_none_or(|using| using.number <= *number)
        }),
        late: newest.is_some_and(|newest| {
            let moved = using.is_some_and(|using| using.number >= newest.number);
            let since = if moved { due(terms, newest) } else { newest.created };
            after(since, PATIENCE) <= now
        }),
    }
}

/// Never made, and a newer one is there or tells as much. The last one stays for what K-ORC says of it.
fn is_useless(seen: &Seen<'_>, credential: &Credential) -> bool {
    let newer = |c: &Credential| c.is_alive() && c.number > credential.number && (c.complete || c.stopped);
    credential.stopped && !credential.made && seen.credentials.iter().any(newer)
}

/// When K-ORC is asked once more after it gave up on this one.
fn again(seen: &Seen<'_>, refused: &Credential, now: Timestamp) -> Timestamp {
    let made = seen
        .credentials
        .iter()
        .filter(|c| c.made && c.number < refused.number);
    let made = made.map(|c| c.number).max().unwrap_or(0);
    let used = seen.current.map_or(0, |current| current.number).max(made);
    let tries = refused.number.saturating_sub(used).clamp(1, 7);
    let pause = (1..tries).fold(FIRST_PAUSE, |pause, _| pause.saturating_add(pause));
    let pause = pause.min(LONGEST_PAUSE);
    // A clock that went back does not have to come this far again.
    if now.duration_since(refused.created).abs() >= pause {
        return now;
    }
    after(refused.created, pause)
}

/// A newer one that is complete, else the one in use, else any that is complete.
fn using(seen: &Seen<'_>, now: Timestamp) -> Option<Current> {
    let valid = || {
        seen.credentials
            .iter()
            .filter(|c| c.is_alive() && c.expires > now)
    };
    let kept = seen
        .current
        .filter(|current| valid().any(|c| c.number == current.number));
    let newest = valid().filter(|c| c.complete).max_by_key(|c| c.number);
    match (kept, newest) {
        (Some(current), Some(newest)) if newest.number <= current.number => Some(current),
        (kept, None) => kept,
        (_, Some(newest)) => Some(Current {
            number: newest.number,
            since: now,
        }),
    }
}

/// When an old one can go; a time to look again while that is not known.
fn deletion(terms: Terms, seen: &Seen<'_>, old: &Credential, using: Current, now: Timestamp) -> Timestamp {
    let disused = after(using.since, terms.grace);
    let expired = after(old.expires, terms.grace).max(disused);
    if !replaced_on_request(seen.credentials, old.number, using.number) || expired <= now {
        return expired;
    }
    // Who is behind is known of the current one only, not of one that becomes it in this pass.
    if seen.current != Some(using) {
        return after(now, CONSUMERS_LOOK);
    }
    if seen.behind {
        let look = if seen.followed {
            FOLLOWED_LOOK
        } else {
            CONSUMERS_LOOK
        };
        return after(now, look);
    }
    disused
}

/// The old one was replaced on request: it need not be kept until it expires.
pub fn replaced_on_request(credentials: &[Credential], old: u64, using: u64) -> bool {
    let between = |c: &&Credential| c.number > old && c.number <= using;
    credentials.iter().filter(between).any(|c| c.on_request)
}

/// A shorter interval in the spec holds for a credential that was made with a longer one.
fn due(terms: Terms, credential: &Credential) -> Timestamp {
    let ends = credential.expires.min(after(credential.created, terms.valid));
    before(ends, terms.overlap)
}

/// Names are not used twice.
fn next_number(seen: &Seen<'_>) -> u64 {
    let known = seen.credentials.iter().map(|c| c.number).max().unwrap_or(0);
    let used = seen.current.map_or(0, |current| current.number);
    known.max(used).max(seen.last).saturating_add(1)
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
