//! Keys are made once, rotated when due, and never taken while they are needed.

use std::collections::BTreeMap;

use super::*;
use kube::ResourceExt;

fn set() -> KeySet {
    KeySet {
        name: "fernet-keys",
        path: "/k",
        part: "FernetKeysReady",
        schedule: "0 0 * * *".into(),
        most: 3,
        readable: None,
        lingers: 0,
        status: None,
        migrate: None,
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
    let data = planned.secret.data.iter().flatten();
    let data = data
        .map(|(name, value)| (name.clone(), value.0.clone()))
        .collect();
    let mark = |name: &str| planned.secret.annotations().get(name).cloned();
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
    assert_eq!(back.secret.data, later.secret.data, "not a key was touched");
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
    assert_eq!(twice.secret.data, once.secret.data);
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
    assert_eq!(held.secret.data, once.secret.data);
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
        "rotation schedule \"0 0,1 * * *\" with 3 keys drops a key after 3600 s, but what it encrypted must stay readable for 7200 s: keep more keys, rotate less often or, for tokens, shorten [token] expiration"
    );
    assert_eq!(asked("0 0,1 * * *", 4, 7200), None);
    // No schedule rotates more often than keys settle.
    assert!(asked("* * * * *", 3, 3600).is_some_and(|text| text.contains("after 300 s")));
    assert_eq!(asked("* * * * *", 16, 3600), None);
}

#[test]
fn an_expired_token_may_be_asked_for_and_its_key_be_gone() {
    let warned = |most: usize, lingers: u64| {
        let set = KeySet {
            most,
            readable: Some(3600),
            lingers,
            ..set()
        };
        check_reach(&set, at("2026-01-01T12:00:00Z")).expect("allowed")
    };
    assert_eq!(warned(3, 0), None);
    let text = warned(3, 172_800).expect("warned");
    assert!(text.starts_with("a key is dropped after 86400 s"), "{text}");
    assert_eq!(warned(5, 172_800), None);
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
