//! Keys of Ceph. cephx knows one key for a user, so a new key is a new user with the same rights: a CephClient
//! `cinder-2` beside `cinder-1`. Consumers read one keyring, in which the user to be used comes first; the key of the
//! user before stays in it until nobody works with it any more, and then the user goes.

mod facts;
mod holders;
mod report;

use c5c3_api::c5c3::{CephClientRotation, CredentialRotation, CredentialRotationStatus};
use c5c3_api::common::{LocalRef, Time};
use c5c3_api::conditions::credential_rotation::ROTATION_SCHEDULED;
use c5c3_api::foreign::rook::{CephClient, CephClientSpec};
use c5c3_kit::clusters::ClusterName;
use c5c3_kit::{Decision, HOME, Kind, Observed, Reference, Report, Wanted};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;

use super::facts::{ROTATE_NOW, credential_name, encoded};
use super::schedule::{CONSUMERS_LOOK, Credential, Current, Seen, Terms, Verdict, decide};
use super::{
    Abandon, CredentialRotations, Hidden, asked, marks, request, requested, rotate_now, secret, whole_second,
};

pub(crate) use facts::observe;

/// A user of Ceph that was made here.
#[derive(Clone)]
pub struct Made {
    pub seen: Credential,
    pub key: Option<Hidden>,
    /// The request for which it was made.
    pub request: Option<String>,
    /// What Rook says about it.
    pub words: String,
}

#[derive(Clone)]
pub struct ByHand {
    pub key: Hidden,
    pub holders: Vec<String>,
}

#[derive(Clone, Default)]
pub struct Facts {
    pub users: Vec<Made>,
    pub current: Option<Current>,
    /// Who may still work with a user before the current one.
    pub holders: Vec<String>,
    /// A user of the name without a number, which somebody else made: it is in use before the first of ours.
    pub by_hand: Option<ByHand>,
    pub owned: Vec<Reference>,
}

/// Of those who are rotated in Ceph.
pub(crate) fn target(object: &CredentialRotation) -> Option<&CephClientRotation> {
    object.spec.ceph_client.as_ref()
}

/// The Secret beside the users that has the keyring.
pub(crate) fn stable_secret(object: &CredentialRotation) -> String {
    format!("ceph-client-{}", object.spec.target_service_user)
}

fn user_name(object: &CredentialRotation, number: u64) -> String {
    credential_name(&object.spec.target_service_user, number)
}

fn place(ceph: &CephClientRotation) -> ClusterName {
    let other = ceph.cluster_ref.as_ref();
    other.map_or(HOME, |cluster| cluster.name.clone().into())
}

pub(crate) fn verdict(observed: &Observed<CredentialRotations>, facts: &Facts) -> Verdict {
    let object = &observed.object;
    let credentials: Vec<Credential> = facts.users.iter().map(|user| user.seen.clone()).collect();
    let status = object.status.as_ref();
    let last = status
        .and_then(|status| status.current_credential_ref.as_ref())
        .and_then(|reference| super::facts::number(&object.spec.target_service_user, &reference.name));
    let seen = Seen {
        credentials: &credentials,
        current: facts.current,
        last: last.unwrap_or(0),
        asked: request(observed).is_some(),
        behind: !facts.holders.is_empty(),
        // They may be in any cluster, and guests are no objects at all.
        followed: false,
    };
    decide(Terms::of(&object.spec), &seen, observed.now)
}

/// Users that stay, the one to be used first, then the others from the newest on.
fn staying<'f>(facts: &'f Facts, verdict: &Verdict) -> Vec<&'f Made> {
    let using = verdict.using.map(|current| current.number);
    let stays = |user: &&Made| !user.seen.deleting && !verdict.delete.contains(&user.seen.number);
    let mut all: Vec<&Made> = facts.users.iter().filter(stays).collect();
    all.sort_by_key(|user| {
        (
            Some(user.seen.number) != using,
            std::cmp::Reverse(user.seen.number),
        )
    });
    all
}

pub(crate) fn decision(
    observed: &Observed<CredentialRotations>,
    ceph: &CephClientRotation,
    facts: &Facts,
    verdict: &Verdict,
) -> Decision<Abandon> {
    let object = &observed.object;
    if observed.deleting() {
        return Decision::want([]);
    }
    let there = |object: Wanted| object.in_cluster(place(ceph));
    let client = |number, request| there(Wanted::of(&client(object, ceph, number, request)));
    let staying = staying(facts, verdict);
    let mut wanted: Vec<Wanted> = staying
        .iter()
        .map(|user| client(user.seen.number, user.request.as_ref()))
        .collect();
    if let Some((number, _)) = verdict.make {
        wanted.push(client(number, request(observed).as_ref()));
    }
    let keyring = |current| keyring(object, ceph, &staying, facts.by_hand.as_ref(), current);
    match verdict.using.and_then(keyring) {
        Some(keyring) => Decision::want(wanted.into_iter().chain([there(Wanted::of(&keyring))])),
        // As long as it is not whole, consumers keep what they have.
        None => {
            let secret = Kind::of::<Secret>().in_cluster(place(ceph));
            Decision::want(wanted).keep(secret.named(Some(&ceph.namespace), &stable_secret(object)))
        }
    }
}

fn client(
    object: &CredentialRotation,
    ceph: &CephClientRotation,
    number: u64,
    request: Option<&String>,
) -> CephClient {
    CephClient {
        metadata: ObjectMeta {
            annotations: requested(request.cloned()),
            ..metadata(ceph, user_name(object, number))
        },
        spec: CephClientSpec {
            caps: ceph.caps.clone(),
            ..CephClientSpec::default()
        },
        status: None,
    }
}

/// Of what is made where Ceph is.
fn metadata(ceph: &CephClientRotation, name: String) -> ObjectMeta {
    ObjectMeta {
        namespace: Some(ceph.namespace.clone()),
        name: Some(name),
        ..ObjectMeta::default()
    }
}

/// All in one value: a store hands it on whole or not at all.
fn keyring(
    object: &CredentialRotation,
    ceph: &CephClientRotation,
    staying: &[&Made],
    by_hand: Option<&ByHand>,
    current: Current,
) -> Option<Secret> {
    let first = staying
        .first()
        .filter(|user| user.seen.number == current.number)?;
    let Hidden(key) = first.key.as_ref().filter(|_| first.seen.complete)?;
    let section = |name: &str, Hidden(key): &Hidden| format!("[client.{name}]\n\tkey = {key}\n");
    let of_ours = |user: &&Made| Some(section(&user_name(object, user.seen.number), user.key.as_ref()?));
    let of_others = by_hand.map(|user| section(&object.spec.target_service_user, &user.key));
    let sections: Vec<String> = staying.iter().filter_map(of_ours).chain(of_others).collect();
    let user = user_name(object, current.number);
    let metadata = ObjectMeta {
        annotations: Some(marks(user.clone(), current.since)),
        ..metadata(ceph, stable_secret(object))
    };
    let keyring = encoded(&sections.concat());
    let data = [
        ("keyring", keyring),
        ("userID", encoded(&user)),
        ("userKey", encoded(key)),
    ];
    Some(secret(metadata, data))
}

pub(crate) fn report(observed: &Observed<CredentialRotations>, facts: &Facts, verdict: &Verdict) -> Report {
    let object = &observed.object;
    if observed.deleting() {
        return Report::default().left(facts.owned.iter().map(ToString::to_string));
    }
    let find = |number: u64| facts.users.iter().find(|user| user.seen.number == number);
    let current = verdict.using.and_then(|current| find(current.number));
    let before = object.status.clone().unwrap_or_default();
    // What it waits for is the newest user that Rook has not made.
    let pending = facts.users.iter().filter(|user| !user.seen.complete);
    let pending = pending.max_by_key(|user| user.seen.number).zip(target(object));
    let behind = pending.map(|(user, ceph)| {
        let kind = Kind::of::<CephClient>().in_cluster(place(ceph));
        kind.named(Some(&ceph.namespace), &user_name(object, user.seen.number))
    });
    let states = report::states(observed, facts, verdict).because_of(ROTATION_SCHEDULED, behind);
    let report = Report::new(states).status(&CredentialRotationStatus {
        last_rotation: current.map(|current| Time(current.seen.created)),
        next_rotation: Some(Time(whole_second(verdict.next))),
        current_credential_ref: current.map(|user| LocalRef::new(user_name(object, user.seen.number))),
        rotate_now: asked(object).or(before.rotate_now),
        ..CredentialRotationStatus::default()
    });
    // Nobody tells when the last one has moved on from a user of others.
    let moved = facts.current == verdict.using;
    let waits = facts
        .by_hand
        .as_ref()
        .filter(|user| !moved || !user.holders.is_empty());
    let look = waits.and_then(|_| observed.now.checked_add(CONSUMERS_LOOK).ok());
    super::again(
        report,
        &[Some(verdict.next), verdict.next_deletion, look],
        observed.now,
    )
}

/// What was asked for and is not made yet.
pub(crate) fn is_honoured(object: &CredentialRotation, facts: &Facts, asked: &String) -> bool {
    rotate_now(object) == Some(asked)
        || facts
            .users
            .iter()
            .any(|user| user.request.as_ref() == Some(asked))
}

/// Kinds that are made where Ceph is.
pub(crate) fn owns(cluster: ClusterName) -> [Kind; 2] {
    let clients = Kind::of::<CephClient>().everywhere();
    [clients, Kind::of::<Secret>()].map(|kind| kind.in_cluster(cluster.clone()))
}

/// Of a user as it is now.
fn made(object: &CredentialRotation, client: &CephClient, key: Option<Hidden>) -> Option<Made> {
    let number = super::facts::number(&object.spec.target_service_user, &client.name_any())?;
    let phase = client.status.as_ref().and_then(|status| status.phase.as_deref());
    let ready = phase == Some("Ready");
    let created = client.metadata.creation_timestamp.as_ref();
    Some(Made {
        seen: Credential {
            number,
            created: created.map_or(jiff::Timestamp::UNIX_EPOCH, |time| time.0),
            // Keys of Ceph do not expire: one goes when nobody works with it any more.
            expires: jiff::Timestamp::MAX,
            on_request: true,
            complete: ready && key.is_some(),
            deleting: client.metadata.deletion_timestamp.is_some(),
            // Rook recreates a lost key, and comes back to what it could not do.
            lost: false,
            stopped: false,
            made: ready,
        },
        words: match (phase, &key) {
            (Some("Ready"), None) => format!("Secret {} has no key yet", client.secret()),
            (Some(phase), _) => format!("its CephClient is {phase}"),
            (None, _) => "Rook has not created it yet".to_owned(),
        },
        request: client.annotations().get(ROTATE_NOW).cloned(),
        key,
    })
}

#[cfg(test)]
mod tests;
