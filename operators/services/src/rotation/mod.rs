//! Key sets as Secrets: made once, rotated on their schedule, missed rotations made up for once.

use std::fmt;
use std::str::FromStr;

use croner::Cron;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;

use crate::error::Error;
use crate::facts::{Facts, KeySecret, SecretData};
use crate::keys::{self, Keys};
use crate::names::{Names, ROTATED, STAGED};
use crate::shape::KeySet;

/// A staged key becomes primary when every pod has had time to see it: a kubelet brings a changed
/// Secret into running pods within two of its sync periods.
const SETTLED: SignedDuration = SignedDuration::from_mins(5);

/// So many rotations to come are looked at to find how soon a key is gone.
const FORESEEN: usize = 24;

/// A key set as it should be now.
#[derive(Clone, PartialEq)]
pub struct Planned {
    pub name: &'static str,
    pub part: &'static str,
    pub secret: Secret,
    pub count: usize,
    /// When the last rotation was; none when the first key still encrypts.
    pub rotated: Option<Timestamp>,
    pub next: Timestamp,
    /// The rotation is due and waits.
    pub held: bool,
    /// What is not as good as it could be.
    pub warning: Option<String>,
}

impl fmt::Debug for Planned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {} keys, next rotation {}",
            self.name, self.count, self.next
        )
    }
}

/// What tells one rotation from another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mark {
    /// The number of the key that encrypts now.
    pub primary: u32,
    pub at: String,
    /// From then on every pod encrypts with it.
    pub settled: Timestamp,
}

/// None before the first rotation, when everything is encrypted by the first key.
pub(crate) fn mark(
    names: &Names,
    set: &KeySet,
    facts: &Facts,
    now: Timestamp,
) -> Result<Option<Mark>, Error> {
    let Some(stored) = facts.key_secrets.get(set.name) else {
        return Ok(None);
    };
    let primary = primary(&parse(names, set, &stored.data)?);
    let at = stored.staged.as_ref().or(stored.rotated.as_ref());
    Ok((primary > 1).then(|| Mark {
        primary,
        at: at.cloned().unwrap_or_default(),
        settled: after(times(stored, now).1, SETTLED),
    }))
}

/// When a stored set was rotated, and since when its staged key is there. A set that was restored
/// from a backup may lack the marks, and a clock that has jumped may have left them in the future:
/// they count from now.
fn times(stored: &KeySecret, now: Timestamp) -> (Timestamp, Timestamp) {
    let read = |text: &Option<String>| text.as_ref().and_then(|text| text.parse::<Timestamp>().ok());
    let rotated = read(&stored.rotated).unwrap_or(now).min(now);
    // A person may set back the first to have the set rotated; the second tells how long pods had time.
    (rotated, read(&stored.staged).unwrap_or(rotated).min(now))
}

fn after(time: Timestamp, pause: SignedDuration) -> Timestamp {
    time.checked_add(pause).unwrap_or(Timestamp::MAX)
}

/// Rotations for which a key decrypts after it was primary: staged and primary are the other two.
fn rotations(set: &KeySet) -> usize {
    set.most.max(3) - 2
}

/// Between two rotations, whoever asks for them: keys settle, and none is pushed out while what it
/// encrypted is to be readable.
fn pause(set: &KeySet) -> SignedDuration {
    let readable = set.readable.unwrap_or(0).div_ceil(rotations(set) as u64);
    SETTLED.max(SignedDuration::from_secs(
        i64::try_from(readable).unwrap_or(i64::MAX),
    ))
}

fn primary(keys: &Keys) -> u32 {
    keys.keys().last().copied().unwrap_or(0)
}

fn parse(names: &Names, set: &KeySet, data: &SecretData) -> Result<Keys, Error> {
    keys::parse(data.iter().map(|(name, value)| (name, value.as_slice()))).map_err(|error| Error::BadKeys {
        secret: names.suffixed(set.name),
        part: set.part,
        error,
    })
}

/// `free`: nothing of an earlier rotation is unfinished.
pub(crate) fn plan(
    names: &Names,
    set: &KeySet,
    facts: &Facts,
    random: [[u8; 32]; 2],
    now: Timestamp,
    free: bool,
) -> Result<Planned, Error> {
    let name = names.suffixed(set.name);
    let bad = |error| Error::BadKeys {
        secret: name.clone(),
        part: set.part,
        error,
    };
    let warning = check_reach(set, now)?;
    let mut held = false;
    let (keys, rotated, staged) = match facts.key_secrets.get(set.name) {
        None => (keys::first(random[0], random[1]), now, now),
        Some(stored) => {
            let keys = parse(names, set, &stored.data)?;
            let (rotated, staged) = times(stored, now);
            let due = due(set, rotated, staged)? <= now;
            held = due && !free;
            if due && free {
                (keys::rotate(&keys, random[0], set.most).map_err(bad)?, now, now)
            } else {
                (keys, rotated, staged)
            }
        }
    };
    Ok(Planned {
        name: set.name,
        part: set.part,
        secret: secret(names, &name, &keys, rotated, staged),
        count: keys.len(),
        rotated: (primary(&keys) > 1).then_some(staged),
        next: due(set, rotated, staged)?,
        held,
        warning,
    })
}

/// The first time of the schedule after a rotation, when the key staged by it has settled.
fn due(set: &KeySet, rotated: Timestamp, staged: Timestamp) -> Result<Timestamp, Error> {
    Ok(next(set, &schedule(set)?, rotated)?.max(after(staged, pause(set))))
}

fn bad_schedule(set: &KeySet, reason: &impl ToString) -> Error {
    Error::BadSchedule {
        schedule: set.schedule.clone(),
        part: set.part,
        reason: reason.to_string(),
    }
}

fn schedule(set: &KeySet) -> Result<Cron, Error> {
    Cron::from_str(&set.schedule).map_err(|error| bad_schedule(set, &error))
}

fn next(set: &KeySet, cron: &Cron, time: Timestamp) -> Result<Timestamp, Error> {
    cron.find_next_occurrence(&time.to_zoned(TimeZone::UTC), false)
        .map(|next| next.timestamp())
        .map_err(|error| bad_schedule(set, &error))
}

/// A schedule by which keys would go while what they encrypted is to be readable is refused. The
/// answer warns of one by which they go while it may still be asked for.
fn check_reach(set: &KeySet, now: Timestamp) -> Result<Option<String>, Error> {
    let Some(readable) = set.readable else {
        return Ok(None);
    };
    let cron = schedule(set)?;
    let mut times = vec![next(set, &cron, now)?];
    while times.len() < FORESEEN + rotations(set) {
        let last = times.last().copied().unwrap_or(now);
        // The calendar has an end.
        let Ok(following) = next(set, &cron, last) else {
            break;
        };
        times.push(following.max(after(last, SETTLED)));
    }
    let kept = times.windows(rotations(set) + 1).filter_map(|window| {
        let (first, last) = (window.first()?, window.last()?);
        u64::try_from(last.duration_since(*first).as_secs()).ok()
    });
    match kept.min() {
        Some(kept) if kept < readable => Err(Error::KeysTooFew {
            schedule: set.schedule.clone(),
            most: set.most,
            kept,
            readable,
            part: set.part,
        }),
        Some(kept) if kept < readable.saturating_add(set.lingers) => Ok(Some(format!(
            "a key is dropped after {kept} s, but services may use an expired token for another {} s ([token] allow_expired_window): keep more keys or rotate less often, or long operations may fail",
            set.lingers
        ))),
        _ => Ok(None),
    }
}

fn secret(names: &Names, name: &str, keys: &Keys, rotated: Timestamp, staged: Timestamp) -> Secret {
    let data = keys.iter();
    let data = data.map(|(number, text)| (number.to_string(), ByteString(text.as_bytes().to_vec())));
    let marks = [(ROTATED, rotated), (STAGED, staged)];
    let mut metadata = names.metadata(name);
    metadata.annotations = Some(marks.map(|(mark, at)| (mark.to_owned(), at.to_string())).into());
    Secret {
        type_: Some("Opaque".to_owned()),
        metadata,
        data: Some(data.collect()),
        ..Secret::default()
    }
}

#[cfg(test)]
mod tests;
