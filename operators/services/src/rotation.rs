//! Key sets as Secrets: made once, rotated on their schedule, missed rotations made up for once.

use std::collections::BTreeMap;
use std::str::FromStr;

use base64::Engine;
use croner::Cron;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::error::Error;
use crate::facts::{Facts, SecretData};
use crate::keys::{self, Keys};
use crate::names::{Names, ROTATED};
use crate::subject::KeySet;

/// A staged key becomes primary when every pod has had time to see it: a kubelet brings a changed
/// Secret into running pods within two of its sync periods.
const SETTLED: SignedDuration = SignedDuration::from_mins(5);

/// A key set as it should be now.
#[derive(Debug, Clone, PartialEq)]
pub struct Planned {
    pub name: &'static str,
    pub part: &'static str,
    pub secret: Value,
    pub count: usize,
    pub rotated: Timestamp,
    pub next: Timestamp,
    /// The rotation is due and waits.
    pub held: bool,
    /// The number of the key that encrypts now. The first has number 1.
    pub primary: u32,
}

/// What of a stored key set tells one rotation from another: the number of the primary key and the
/// time. None before the first rotation, when everything is encrypted by the first key.
pub fn mark(names: &Names, set: &KeySet, facts: &Facts) -> Result<Option<(u32, String)>, Error> {
    let Some((data, rotated)) = facts.key_secrets.get(set.name) else {
        return Ok(None);
    };
    let keys = parse(names, set, data)?;
    let primary = primary(&keys);
    Ok((primary > 1).then(|| (primary, rotated.clone().unwrap_or_default())))
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
    let mut held = false;
    let (keys, rotated) = match facts.key_secrets.get(set.name) {
        None => (keys::first(random[0], random[1]), now),
        Some((data, rotated)) => {
            let keys = parse(names, set, data)?;
            // A set that was restored from a backup may lack the mark: it counts from now.
            let rotated = rotated.as_ref().and_then(|text| text.parse().ok()).unwrap_or(now);
            // A clock that went back must not rotate twice.
            let due = due(set, rotated)? <= now;
            held = due && !free;
            if due && free {
                (keys::rotate(&keys, random[0], set.most).map_err(bad)?, now)
            } else {
                (keys, rotated)
            }
        }
    };
    let next = due(set, rotated)?;
    Ok(Planned {
        name: set.name,
        part: set.part,
        secret: secret(names, &name, &keys, rotated),
        count: keys.len(),
        rotated,
        next,
        held,
        primary: primary(&keys),
    })
}

/// The first time of the schedule after a rotation, when the key staged by it has settled.
fn due(set: &KeySet, rotated: Timestamp) -> Result<Timestamp, Error> {
    let bad = |reason: String| Error::BadSchedule {
        schedule: set.schedule.clone(),
        part: set.part,
        reason,
    };
    let cron = Cron::from_str(&set.schedule).map_err(|error| bad(error.to_string()))?;
    let next = cron
        .find_next_occurrence(&rotated.to_zoned(TimeZone::UTC), false)
        .map_err(|error| bad(error.to_string()))?;
    let settled = rotated.checked_add(SETTLED).unwrap_or(Timestamp::MAX);
    Ok(next.timestamp().max(settled))
}

fn secret(names: &Names, name: &str, keys: &Keys, rotated: Timestamp) -> Value {
    let engine = base64::engine::general_purpose::STANDARD;
    let data: BTreeMap<String, String> = keys
        .iter()
        .map(|(number, text)| (number.to_string(), engine.encode(text)))
        .collect();
    let mut metadata = names.metadata(name);
    metadata["annotations"] = json!({ROTATED: rotated.to_string()});
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
        let rotated = planned.secret["metadata"]["annotations"][ROTATED]
            .as_str()
            .map(str::to_owned);
        Facts {
            key_secrets: BTreeMap::from([("fernet-keys", (data, rotated))]),
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
    fn a_week_of_missed_rotations_is_one_and_a_clock_that_went_back_is_none() {
        let first = planned(&Facts::default(), 1, "2026-01-01T12:00:00Z");
        let later = planned(&stored(&first), 3, "2026-01-08T09:00:00Z");
        assert_eq!(later.count, 3);
        assert_eq!(planned(&stored(&later), 5, "2026-01-08T09:00:01Z"), later);
        assert_eq!(planned(&stored(&later), 5, "2025-12-01T00:00:00Z"), later);
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
        assert_eq!(mark(&names(), &set(), &facts).expect("sound"), None);
        let second = planned(&facts, 3, "2026-01-09T00:00:00Z");
        assert_eq!(
            mark(&names(), &set(), &stored(&second)).expect("sound"),
            Some((2, "2026-01-09T00:00:00Z".to_owned()))
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
        keys.0.insert("1".into(), b"short".to_vec());
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
