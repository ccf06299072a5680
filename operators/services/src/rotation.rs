//! Key sets as Secrets: made once, rotated on their schedule, missed rotations made up for once.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use base64::Engine;
use croner::Cron;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::error::Error;
use crate::facts::{Facts, KeySecret, SecretData};
use crate::keys::{self, Keys};
use crate::names::{Names, ROTATED, STAGED};
use crate::subject::KeySet;

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
    pub secret: Value,
    pub count: usize,
    /// When the last rotation was; none when the first key still encrypts.
    pub rotated: Option<Timestamp>,
    pub next: Timestamp,
    /// The rotation is due and waits.
    pub held: bool,
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
pub struct Mark {
    /// The number of the key that encrypts now.
    pub primary: u32,
    pub at: String,
    /// From then on every pod encrypts with it.
    pub settled: Timestamp,
}

/// None before the first rotation, when everything is encrypted by the first key.
pub fn mark(names: &Names, set: &KeySet, facts: &Facts, now: Timestamp) -> Result<Option<Mark>, Error> {
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
pub fn plan(
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
    check_reach(set, now)?;
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

/// A schedule by which keys would go while what they encrypted is to be readable is refused.
fn check_reach(set: &KeySet, now: Timestamp) -> Result<(), Error> {
    let Some(readable) = set.readable else {
        return Ok(());
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
        _ => Ok(()),
    }
}

fn secret(names: &Names, name: &str, keys: &Keys, rotated: Timestamp, staged: Timestamp) -> Value {
    let engine = base64::engine::general_purpose::STANDARD;
    let data: BTreeMap<String, String> = keys
        .iter()
        .map(|(number, text)| (number.to_string(), engine.encode(text)))
        .collect();
    let mut metadata = names.metadata(name);
    metadata["annotations"] = json!({ROTATED: rotated.to_string(), STAGED: staged.to_string()});
    json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": metadata, "data": data})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set() -> KeySet {
        KeySet {
            name: "fernet-keys",
            path: "/k",
            part: "FernetKeysReady",
            schedule: "0 0 * * *".into(),
            most: 3,
            readable: None,
            status: None,
            migrate: None,
        }
    }

    fn names() -> Names {
        Names {
            namespace: "openstack".into(),
            name: "keystone".into(),
            service: "keystone",
            controller: "keystone",
        }
    }

    fn at(text: &str) -> Timestamp {
        text.parse().expect("a time")
    }

    fn stored(planned: &Planned) -> Facts {
        let engine = base64::engine::general_purpose::STANDARD;
        let data = planned.secret["data"].as_object().expect("data").iter();
        let data = data
            .map(|(k, v)| {
                (
                    k.clone(),
                    engine.decode(v.as_str().expect("text")).expect("base64"),
                )
            })
            .collect();
        let mark = |name: &str| {
            let marks = &planned.secret["metadata"]["annotations"];
            marks[name].as_str().map(str::to_owned)
        };
        let stored = KeySecret {
            data,
            rotated: mark(ROTATED),
            staged: mark(STAGED),
        };
        Facts {
            key_secrets: BTreeMap::from([("fernet-keys", stored)]),
            ..Facts::default()
        }
    }

    fn planned(facts: &Facts, byte: u8, time: &str) -> Planned {
        let random = [[byte; 32], [byte + 1; 32]];
        plan(&names(), &set(), facts, random, at(time), true).expect("plans")
    }

    #[test]
    fn keys_are_made_once_and_rotated_when_due() {
        let first = planned(&Facts::default(), 1, "2026-01-01T12:00:00Z");
        assert_eq!((first.count, first.next), (2, at("2026-01-02T00:00:00Z")));
        let same = planned(&stored(&first), 3, "2026-01-01T23:59:59Z");
        assert_eq!(
            same, first,
            "nothing is due: nothing changes, whatever the random bytes"
        );
        let later = planned(&stored(&first), 3, "2026-01-02T00:00:00Z");
        assert_eq!((later.count, later.next), (3, at("2026-01-03T00:00:00Z")));
    }

    #[test]
    fn a_week_of_missed_rotations_is_one_and_a_clock_that_jumped_is_none() {
        let first = planned(&Facts::default(), 1, "2026-01-01T12:00:00Z");
        let later = planned(&stored(&first), 3, "2026-01-08T09:00:00Z");
        assert_eq!(later.count, 3);
        assert_eq!(planned(&stored(&later), 5, "2026-01-08T09:00:01Z"), later);
        // The mark lies in the future: it counts from now, once, and the schedule goes on.
        let back = planned(&stored(&later), 5, "2025-12-01T12:00:00Z");
        assert_eq!(back.secret["data"], later.secret["data"], "not a key was touched");
        assert_eq!(back.next, at("2025-12-02T00:00:00Z"));
        assert_eq!(planned(&stored(&back), 5, "2025-12-01T12:00:01Z"), back);
    }

    #[test]
    fn two_quick_rotations_by_hand_leave_the_pods_their_time() {
        let mut facts = stored(&planned(&Facts::default(), 1, "2026-01-01T12:00:00Z"));
        let long_ago = |facts: &mut Facts| {
            let keys = facts.key_secrets.get_mut("fernet-keys").expect("there");
            keys.rotated = Some("2020-01-01T00:00:00Z".into());
        };
        long_ago(&mut facts);
        let early = planned(&facts, 3, "2026-01-01T12:04:59Z");
        assert_eq!((early.count, early.next), (2, at("2026-01-01T12:05:00Z")));
        let once = planned(&facts, 3, "2026-01-01T12:05:00Z");
        assert_eq!(once.count, 3);
        let mut facts = stored(&once);
        long_ago(&mut facts);
        let twice = planned(&facts, 5, "2026-01-01T12:06:00Z");
        assert_eq!(twice.secret["data"], once.secret["data"]);
        assert_eq!(twice.next, at("2026-01-01T12:10:00Z"));
        // A second rotation would push out the key of tokens that are still good.
        let tokens = KeySet {
            readable: Some(3600),
            ..set()
        };
        let random = [[5; 32], [6; 32]];
        let held = plan(
            &names(),
            &tokens,
            &facts,
            random,
            at("2026-01-01T12:30:00Z"),
            true,
        )
        .expect("plans");
        assert_eq!(held.secret["data"], once.secret["data"]);
        assert_eq!(held.next, at("2026-01-01T13:05:00Z"));
    }

    #[test]
    fn a_token_does_not_outlive_its_key() {
        let asked = |schedule: &str, most: usize, readable: u64| {
            let set = KeySet {
                schedule: schedule.into(),
                most,
                readable: Some(readable),
                ..set()
            };
            check_reach(&set, at("2026-01-01T12:00:00Z"))
                .err()
                .map(|error| error.to_string())
        };
        assert_eq!(asked("0 0 * * 0", 3, 3600), None);
        assert_eq!(asked("0 * * * *", 3, 3600), None);
        assert_eq!(
            asked("0 0,1 * * *", 3, 7200).expect("refused"),
            "rotation schedule \"0 0,1 * * *\" with 3 keys: a key is gone after 3600 s, and what it encrypted is to be readable for 7200 s: use more keys, a rarer schedule or, for tokens, a shorter [token] expiration"
        );
        assert_eq!(asked("0 0,1 * * *", 4, 7200), None);
        // No schedule rotates more often than keys settle.
        assert!(asked("* * * * *", 3, 3600).is_some_and(|text| text.contains("after 300 s")));
        assert_eq!(asked("* * * * *", 16, 3600), None);
    }

    #[test]
    fn a_rotation_waits_until_the_one_before_is_finished() {
        let first = planned(&Facts::default(), 1, "2026-01-01T12:00:00Z");
        let facts = stored(&first);
        let random = [[7; 32], [8; 32]];
        let held = plan(
            &names(),
            &set(),
            &facts,
            random,
            at("2026-01-09T00:00:00Z"),
            false,
        )
        .expect("plans");
        assert!(held.held);
        assert_eq!(held.secret, first.secret, "not a key was touched");
        let now = at("2026-01-09T00:00:00Z");
        assert_eq!(mark(&names(), &set(), &facts, now).expect("sound"), None);
        let second = planned(&facts, 3, "2026-01-09T00:00:00Z");
        assert_eq!(
            mark(&names(), &set(), &stored(&second), now).expect("sound"),
            Some(Mark {
                primary: 2,
                at: "2026-01-09T00:00:00Z".to_owned(),
                settled: at("2026-01-09T00:05:00Z"),
            })
        );
    }

    #[test]
    fn a_staged_key_settles_before_it_becomes_primary() {
        let often = KeySet {
            schedule: "* * * * *".into(),
            ..set()
        };
        let random = [[1; 32], [2; 32]];
        let none = Facts::default();
        let first = plan(&names(), &often, &none, random, at("2026-01-01T12:00:30Z"), true).expect("plans");
        assert_eq!(
            first.next,
            at("2026-01-01T12:05:30Z"),
            "not already a minute later"
        );
    }

    #[test]
    fn damaged_keys_stop_everything_and_are_named() {
        let mut facts = stored(&planned(&Facts::default(), 1, "2026-01-01T12:00:00Z"));
        let keys = facts.key_secrets.get_mut("fernet-keys").expect("there");
        keys.data.insert("1".into(), b"short".to_vec());
        let error = plan(
            &names(),
            &set(),
            &facts,
            [[3; 32], [4; 32]],
            at("2026-02-01T00:00:00Z"),
            true,
        )
        .expect_err("refused");
        assert!(
            error
                .to_string()
                .starts_with("Secret keystone-fernet-keys: key 1 is not 32 bytes"),
            "{error}"
        );
    }
}
