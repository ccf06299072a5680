//! What is reported about the keys of a user of Ceph.

use c5c3_api::conditions::{credential_rotation::ROTATION_SCHEDULED, reason};
use c5c3_kit::{Observed, States};

use super::super::CredentialRotations;
use super::super::report::leaving;
use super::super::schedule::Verdict;
use super::{Facts, user_name};

/// Met while consumers have a key and nothing is wrong with the one that replaces it.
pub(crate) fn states(observed: &Observed<CredentialRotations>, facts: &Facts, verdict: &Verdict) -> States {
    let states = States::default();
    let name = |number: u64| user_name(&observed.object, number);
    let making = making(facts, verdict, &name);
    let find = |number: u64| facts.users.iter().find(|user| user.seen.number == number);
    let Some(current) = verdict.using.and_then(|current| find(current.number)) else {
        let text = making.unwrap_or_else(|| "no key is usable yet".to_owned());
        return states.unmet(ROTATION_SCHEDULED, reason::ROTATING, text);
    };
    let own = name(current.seen.number);
    match making {
        None if current.seen.complete => {
            let older = facts.users.iter().map(|user| user.seen.number);
            let older =
                older.filter(|number| *number < current.seen.number && !verdict.delete.contains(number));
            let older: Vec<String> = older.map(name).collect();
            let moved = facts.current == verdict.using;
            let old = leaving(&older, moved, &facts.holders, verdict.next_deletion);
            let old = old.map(|text| format!("; {text}")).unwrap_or_default();
            let by_hand = by_hand(observed, facts, moved).map(|text| format!("; {text}"));
            let text = format!("client.{own} is in use{old}{}", by_hand.unwrap_or_default());
            states.met(ROTATION_SCHEDULED, reason::CREDENTIAL_VALID, text)
        }
        None => {
            let text = format!("client.{own}: {}; consumers keep using it", current.words);
            states.unmet(ROTATION_SCHEDULED, reason::PROGRESSING, text)
        }
        Some(making) if verdict.late && verdict.make.is_none() => {
            let text = format!("{making}, for more than an hour; client.{own} stays in use");
            states.unmet(ROTATION_SCHEDULED, reason::PROGRESSING, text)
        }
        Some(making) => states.met(
            ROTATION_SCHEDULED,
            reason::ROTATING,
            format!("{making}; client.{own} stays in use"),
        ),
    }
}

/// A user that somebody else made is theirs to delete.
fn by_hand(observed: &Observed<CredentialRotations>, facts: &Facts, moved: bool) -> Option<String> {
    let user = facts.by_hand.as_ref()?;
    let name = &observed.object.spec.target_service_user;
    Some(if user.holders.is_empty() && moved {
        format!("client.{name}, which was created by hand, is no longer used: delete its CephClient")
    } else {
        leaving(&[format!("client.{name}")], moved, &user.holders, None)?
    })
}

/// What becomes of a newer one than that in use.
fn making(facts: &Facts, verdict: &Verdict, name: &impl Fn(u64) -> String) -> Option<String> {
    if let Some((number, _)) = verdict.make {
        return Some(format!("client.{} is being created", name(number)));
    }
    let used = verdict.using.map_or(0, |current| current.number);
    let newest = facts.users.iter().max_by_key(|user| user.seen.number)?;
    let waits = newest.seen.number > used && !newest.seen.complete;
    waits.then(|| format!("client.{}: {}", name(newest.seen.number), newest.words))
}
