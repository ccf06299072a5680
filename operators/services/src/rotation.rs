//! Key sets as Secrets: made once, rotated on their schedule, missed rotations made up for once.

use std::collections::BTreeMap;
use std::str::FromStr;

use base64::Engine;
use croner::Cron;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Value, json};

use crate::error::Error;
use crate::facts::Facts;
use crate::keys::{self, Keys};
use crate::names::{Names, ROTATED};
use crate::subject::KeySet;

/// A key set as it should be now.
#[derive(Debug, Clone, PartialEq)]
pub struct Planned {
    pub part: &'static str,
    pub secret: Value,
    pub count: usize,
    pub rotated: Timestamp,
    pub next: Timestamp,
}

pub fn plan(
    names: &Names,
    set: &KeySet,
    facts: &Facts,
    random: [[u8; 32]; 2],
    now: Timestamp,
) -> Result<Planned, Error> {
    let name = names.suffixed(set.name);
    let bad = |error| Error::BadKeys {
        secret: name.clone(),
        part: set.part,
        error,
    };
    let (keys, rotated) = match facts.key_secrets.get(set.name) {
        None => (keys::first(random[0], random[1]), now),
        Some((data, rotated)) => {
            let keys = keys::parse(data.iter().map(|(name, value)| (name, value.as_slice()))).map_err(bad)?;
            // A set that was restored from a backup may lack the mark: it counts from now.
            let rotated = rotated.as_ref().and_then(|text| text.parse().ok()).unwrap_or(now);
            // A clock that went back must not rotate twice.
            if due(set, rotated)? <= now {
                (keys::rotate(&keys, random[0], set.most).map_err(bad)?, now)
            } else {
                (keys, rotated)
            }
        }
    };
    let next = due(set, rotated)?;
    Ok(Planned {
        part: set.part,
        secret: secret(names, &name, &keys, rotated),
        count: keys.len(),
        rotated,
        next,
    })
}

/// The first time of the schedule after a rotation.
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
    Ok(next.timestamp())
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
        }
    }

    fn names() -> Names {
        Names {
            namespace: "openstack".into(),
            name: "keystone".into(),
            service: "keystone",
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
        plan(&names(), &set(), facts, [[byte; 32], [byte + 1; 32]], at(time)).expect("plans")
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
