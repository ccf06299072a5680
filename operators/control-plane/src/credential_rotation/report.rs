//! What is reported about a rotation.

use c5c3_api::conditions::{credential_rotation::ROTATION_SCHEDULED, reason};
use c5c3_api::foreign::korc::{ApplicationCredential, User};
use c5c3_kit::{Kind, Observed, Reference, States};
use jiff::Timestamp;
use kube::ResourceExt;

use super::facts::{Facts, Stored, credential_name};
use super::schedule::{self, Verdict};
use super::{CredentialRotations, held_back, whole_second};

/// Met while consumers have a credential and nothing is wrong with the one that replaces it.
pub(crate) fn states(observed: &Observed<CredentialRotations>, verdict: &Verdict) -> States {
    let Observed { object, facts, .. } = observed;
    let states = States::default();
    let making = making(observed, verdict);
    let waits = held_back(observed, verdict).is_some();
    let current = verdict.using.and_then(|current| facts.find(current.number));
    let Some(current) = current else {
        let refused = refused(observed, verdict);
        let why = match (waits, &refused) {
            (true, _) => reason::WAITING,
            (false, Some(_)) => reason::FAILED,
            (false, None) => reason::ROTATING,
        };
        let text: Vec<String> = making.into_iter().chain(refused).collect();
        let text = if text.is_empty() {
            "no credential is usable yet".to_owned()
        } else {
            text.join("; ")
        };
        return states.unmet(ROTATION_SCHEDULED, why, text);
    };
    let own = credential_name(&object.name_any(), current.seen.number);
    let valid = format!("{own} is valid until {}", current.seen.expires);
    if let Some(refused) = refused(observed, verdict) {
        let making = making.map(|making| format!("{making}; ")).unwrap_or_default();
        let text = format!("{making}{refused}; {valid} and stays in use");
        return states.unmet(ROTATION_SCHEDULED, reason::FAILED, text);
    }
    match making {
        None if current.seen.complete => {
            let old = retiring(observed, verdict).map(|text| format!("; {text}"));
            let text = format!("{valid}{}", old.unwrap_or_default());
            states.met(ROTATION_SCHEDULED, reason::CREDENTIAL_VALID, text)
        }
        None => {
            let text = format!("{own}: {}; consumers keep using it", trouble(facts, current));
            states.unmet(ROTATION_SCHEDULED, reason::PROGRESSING, text)
        }
        // One that was just asked for is late only if what it replaces waited for something.
        Some(making) if verdict.late && (waits || verdict.make.is_none()) => {
            let why = if waits {
                reason::WAITING
            } else {
                reason::PROGRESSING
            };
            let text = format!("{making}, for more than an hour; {valid} and stays in use");
            states.unmet(ROTATION_SCHEDULED, why, text)
        }
        Some(making) => states.met(
            ROTATION_SCHEDULED,
            reason::ROTATING,
            format!("{making}; {valid} and stays in use"),
        ),
    }
}

/// What it waits for: the user that cannot log in yet, or the newest credential that K-ORC has not made.
pub(crate) fn behind(observed: &Observed<CredentialRotations>, verdict: &Verdict) -> Option<Reference> {
    let Observed { object, facts, .. } = observed;
    if held_back(observed, verdict).is_some() {
        return Some(Kind::of::<User>().named(None, &object.spec.target_service_user));
    }
    let pending = facts.credentials.iter().filter(|stored| !stored.seen.complete);
    let newest = pending.max_by_key(|stored| stored.seen.number)?;
    let own = credential_name(&object.name_any(), newest.seen.number);
    Some(Kind::of::<ApplicationCredential>().named(None, &own))
}

/// What K-ORC said of the one that it gave up on, and when it is asked for the next.
fn refused(observed: &Observed<CredentialRotations>, verdict: &Verdict) -> Option<String> {
    let Observed { object, facts, now } = observed;
    let refused = facts.find(verdict.stopped?)?;
    let own = credential_name(&object.name_any(), refused.seen.number);
    let newer = facts
        .credentials
        .iter()
        .any(|c| c.seen.number > refused.seen.number);
    let next = if verdict.make.is_none() && !newer && verdict.next > *now {
        format!(", next attempt at {}", whole_second(verdict.next))
    } else {
        String::new()
    };
    Some(format!("K-ORC has given up on {own}: {}{next}", refused.words))
}

/// Why one is not complete.
fn trouble<'a>(facts: &'a Facts, stored: &'a Stored) -> &'a str {
    match &facts.cloud {
        Some(Err(problem)) => problem,
        _ => &stored.words,
    }
}

/// What becomes of a newer one than that in use.
fn making(observed: &Observed<CredentialRotations>, verdict: &Verdict) -> Option<String> {
    let Observed { object, facts, .. } = observed;
    let name = object.name_any();
    if let Some((number, _)) = verdict.make {
        let own = credential_name(&name, number);
        return Some(match held_back(observed, verdict) {
            Some(words) => format!("{own} is waiting: {words}"),
            None => format!("{own} is being created"),
        });
    }
    let used = verdict.using.map_or(0, |current| current.number);
    let trying = facts.credentials.iter().filter(|stored| !stored.seen.stopped);
    let newest = trying.max_by_key(|stored| stored.seen.number)?;
    (newest.seen.number > used && !newest.seen.complete).then(|| {
        format!(
            "{}: {}",
            credential_name(&name, newest.seen.number),
            trouble(facts, newest)
        )
    })
}

/// What becomes of older ones that were replaced on request.
fn retiring(observed: &Observed<CredentialRotations>, verdict: &Verdict) -> Option<String> {
    let Observed { object, facts, .. } = observed;
    let current = verdict.using?;
    let seen: Vec<_> = facts
        .credentials
        .iter()
        .map(|stored| stored.seen.clone())
        .collect();
    let old: Vec<String> = seen
        .iter()
        .filter(|old| old.number < current.number && !verdict.delete.contains(&old.number))
        .filter(|old| schedule::replaced_on_request(&seen, old.number, current.number))
        .map(|old| credential_name(&object.name_any(), old.number))
        .collect();
    leaving(
        &old,
        facts.current == Some(current),
        &facts.behind,
        verdict.next_deletion,
    )
}

/// Holders that are named.
const NAMED: usize = 4;

/// How older ones go. `moved`: consumers were told about the new one, and `behind` is who still uses these.
pub(crate) fn leaving(
    old: &[String],
    moved: bool,
    behind: &[String],
    at: Option<Timestamp>,
) -> Option<String> {
    if old.is_empty() {
        return None;
    }
    let old = old.join(", ");
    if !moved {
        return Some(format!("consumers are switching away from {old}"));
    }
    Some(match (behind, at) {
        ([], Some(at)) => format!("no pod uses {old} any more; deletion at {}", whole_second(at)),
        ([], None) => format!("no pod uses {old} any more"),
        (users, _) => {
            let named: Vec<&str> = users.iter().take(NAMED).map(String::as_str).collect();
            let more = match users.len().saturating_sub(NAMED) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            format!("{old} is still used by {}{more}", named.join(", "))
        }
    })
}
