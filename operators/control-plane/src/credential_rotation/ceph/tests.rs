use c5c3_api::c5c3::{CredentialRotationSpec, RotationSchedule, RotationType};
use c5c3_kit::Applied;
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::{CREDENTIAL, Facts as AllFacts};
use super::*;

fn at(minute: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_mins(minute)
}

fn rotation(grace: i32) -> CredentialRotation {
    let ceph = CephClientRotation {
        cluster_ref: Some(LocalRef::new("storage")),
        namespace: "rook-ceph".to_owned(),
        caps: [("mon".to_owned(), "profile rbd".to_owned())].into(),
    };
    let mut object = CredentialRotation::new(
        "ceph-cinder",
        CredentialRotationSpec {
            target_service_user: "cinder".to_owned(),
            rotation_type: RotationType::CephClient,
            ceph_client: Some(ceph),
            schedule: RotationSchedule {
                interval_days: 90,
                pre_rotation_days: 7,
            },
            grace_period_days: grace,
        },
    );
    object.metadata.namespace = Some("openstack".to_owned());
    object.metadata.uid = Some("3f2a9c1d-0000-4000-8000-000000000000".to_owned());
    object
}

fn user(number: u64, created: i64, ready: bool) -> Made {
    let client = json!({
        "apiVersion": "ceph.rook.io/v1", "kind": "CephClient",
        "metadata": {"name": format!("cinder-{number}"), "creationTimestamp": at(created).to_string()},
        "spec": {"caps": {"mon": "profile rbd"}},
        "status": {"phase": if ready { "Ready" } else { "Progressing" }},
    });
    let client = serde_json::from_value(client).expect("a CephClient");
    let key = ready.then(|| Hidden(format!("KEY{number}")));
    made(&rotation(0), &client, key).expect("one of ours")
}

fn since(number: u64, minute: i64) -> Option<Current> {
    let since = at(minute);
    Some(Current { number, since })
}

fn observed(
    users: Vec<Made>,
    current: Option<Current>,
    holders: &[&str],
    now: i64,
) -> Observed<CredentialRotations> {
    let ceph = Facts {
        users,
        current,
        holders: holders.iter().map(|holder| (*holder).to_owned()).collect(),
        by_hand: None,
        owned: Vec::new(),
    };
    Observed {
        object: rotation(0),
        facts: AllFacts {
            ceph: Some(ceph),
            ..AllFacts::default()
        },
        now: at(now),
    }
}

fn asking(mut observed: Observed<CredentialRotations>) -> Observed<CredentialRotations> {
    observed.object.metadata.annotations = Some([(ROTATE_NOW.to_owned(), "leak".to_owned())].into());
    observed
}

fn wanted(observed: &Observed<CredentialRotations>) -> Vec<Value> {
    let decision = observed.decide().expect("decides");
    let all = decision.wanted().iter().map(|wanted| wanted.object().clone());
    all.collect()
}

/// Names of the users that are wanted, and the sections of the keyring.
fn outcome(observed: &Observed<CredentialRotations>) -> (Vec<String>, Option<Vec<String>>) {
    let all = wanted(observed);
    let users = all.iter().filter(|object| object["kind"] == "CephClient");
    let name = |object: &Value| object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let keyring = all
        .iter()
        .find(|object| object["kind"] == "Secret")
        .map(|secret| {
            let bytes: k8s_openapi::ByteString =
                serde_json::from_value(secret["data"]["keyring"].clone()).expect("bytes");
            let text = String::from_utf8(bytes.0).expect("text");
            let sections = text
                .lines()
                .filter_map(|line| line.strip_prefix("[client.")?.strip_suffix(']'));
            sections.map(str::to_owned).collect()
        });
    (users.map(name).collect(), keyring)
}

fn message(observed: &Observed<CredentialRotations>) -> (String, String) {
    let report = observed.report(&Applied::rehearse(Decision::hold()));
    let state = report
        .states()
        .get(c5c3_api::conditions::credential_rotation::ROTATION_SCHEDULED)
        .expect("reported");
    (state.truth.as_str().to_owned(), state.message.clone())
}

#[test]
fn a_key_is_replaced_step_by_step() {
    let held = ["Deployment cinder-volume-ceph"];
    for (what, seen, users, keyring, truth, words) in [
        (
            "nothing is there",
            observed(vec![], None, &[], 0),
            vec!["cinder-1"],
            None,
            "False",
            "client.cinder-1 is being created",
        ),
        (
            "Rook makes the first",
            observed(vec![user(1, 0, false)], None, &[], 1),
            vec!["cinder-1"],
            None,
            "False",
            "client.cinder-1: its CephClient is Progressing",
        ),
        (
            "the first is used",
            observed(vec![user(1, 0, true)], None, &[], 1),
            vec!["cinder-1"],
            Some(vec!["cinder-1"]),
            "True",
            "client.cinder-1 is in use",
        ),
        (
            "nothing to do",
            observed(vec![user(1, 0, true)], since(1, 1), &[], 2),
            vec!["cinder-1"],
            Some(vec!["cinder-1"]),
            "True",
            "client.cinder-1 is in use",
        ),
        (
            "somebody asks",
            asking(observed(vec![user(1, 0, true)], since(1, 1), &[], 10)),
            vec!["cinder-1", "cinder-2"],
            Some(vec!["cinder-1"]),
            "True",
            "client.cinder-2 is being created; client.cinder-1 stays in use",
        ),
        (
            "Rook makes the second",
            observed(vec![user(1, 0, true), user(2, 10, false)], since(1, 1), &[], 11),
            vec!["cinder-1", "cinder-2"],
            Some(vec!["cinder-1"]),
            "True",
            "client.cinder-2: its CephClient is Progressing; client.cinder-1 stays in use",
        ),
        (
            "consumers move on",
            observed(vec![user(1, 0, true), user(2, 10, true)], since(1, 1), &[], 12),
            vec!["cinder-2", "cinder-1"],
            Some(vec!["cinder-2", "cinder-1"]),
            "True",
            "client.cinder-2 is in use; consumers are switching away from cinder-1",
        ),
        (
            "one has not",
            observed(vec![user(1, 0, true), user(2, 10, true)], since(2, 12), &held, 13),
            vec!["cinder-2", "cinder-1"],
            Some(vec!["cinder-2", "cinder-1"]),
            "True",
            "client.cinder-2 is in use; cinder-1 is still used by Deployment cinder-volume-ceph",
        ),
        (
            "all have",
            observed(vec![user(1, 0, true), user(2, 10, true)], since(2, 12), &[], 14),
            vec!["cinder-2"],
            Some(vec!["cinder-2"]),
            "True",
            "client.cinder-2 is in use",
        ),
        (
            "it is time",
            observed(vec![user(2, 0, true)], since(2, 1), &[], 83 * 24 * 60),
            vec!["cinder-2", "cinder-3"],
            Some(vec!["cinder-2"]),
            "True",
            "client.cinder-3 is being created; client.cinder-2 stays in use",
        ),
        (
            "a key that is years old is used on",
            observed(
                vec![user(2, 0, true), user(3, 998 * 24 * 60, false)],
                since(2, 1),
                &[],
                999 * 24 * 60,
            ),
            vec!["cinder-3", "cinder-2"],
            Some(vec!["cinder-2"]),
            "False",
            "client.cinder-3: its CephClient is Progressing, for more than an hour; client.cinder-2 stays in use",
        ),
    ] {
        let (mut found, found_keyring) = outcome(&seen);
        found.sort();
        let mut users: Vec<&str> = users;
        users.sort_unstable();
        assert_eq!(found, users, "{what}");
        let found_keyring: Option<Vec<&str>> = found_keyring
            .as_ref()
            .map(|all| all.iter().map(String::as_str).collect());
        assert_eq!(found_keyring, keyring, "{what}");
        assert_eq!(message(&seen), (truth.to_owned(), words.to_owned()), "{what}");
    }
}

#[test]
fn a_grace_period_is_kept() {
    let mut seen = observed(vec![user(1, 0, true), user(2, 10, true)], since(2, 12), &[], 14);
    seen.object = rotation(1);
    assert_eq!(outcome(&seen).0, ["cinder-2", "cinder-1"]);
    let (_, words) = message(&seen);
    assert!(
        words.ends_with("no pod uses cinder-1 any more; deletion at 1970-01-02T00:12:00Z"),
        "{words}"
    );
    seen.now = at(12 + 24 * 60);
    assert_eq!(outcome(&seen).0, ["cinder-2"]);
}

#[test]
fn all_of_it_is_where_ceph_is() {
    let seen = observed(vec![user(1, 0, true)], None, &[], 1);
    let decision = seen.decide().expect("decides");
    for wanted in decision.wanted() {
        assert_eq!(wanted.cluster(), "storage");
        assert_eq!(wanted.object()["metadata"]["namespace"], "rook-ceph");
    }
    let secret = &wanted(&seen)[1];
    assert_eq!(secret["metadata"]["name"], "ceph-client-cinder");
    assert_eq!(secret["metadata"]["annotations"][CREDENTIAL], "cinder-1");
    let seen = observed(vec![user(1, 0, false)], None, &[], 1);
    let kept: Vec<String> = seen
        .decide()
        .expect("decides")
        .kept()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(kept.len(), 1);
    assert!(kept[0].contains("rook-ceph/ceph-client-cinder"), "{kept:?}");
}

#[test]
fn a_request_is_honoured_once_and_remembered_on_what_was_made() {
    let asked = asking(observed(vec![user(1, 0, true)], since(1, 1), &[], 10));
    let made = &wanted(&asked)[1];
    assert_eq!(made["metadata"]["annotations"][ROTATE_NOW], "leak");
    let mut second = user(2, 10, true);
    second.request = Some("leak".to_owned());
    let again = asking(observed(
        vec![user(1, 0, true), second],
        since(2, 12),
        &["Pod a"],
        14,
    ));
    assert_eq!(outcome(&again).0, ["cinder-2", "cinder-1"]);
    assert_eq!(wanted(&again)[0]["metadata"]["annotations"][ROTATE_NOW], "leak");
}

#[test]
fn one_that_was_made_by_hand_gives_way() {
    let with = |current: Option<Current>, holders: &[&str]| {
        let mut seen = observed(vec![user(1, 0, true)], current, &[], 2);
        let ceph = seen.facts.ceph.as_mut().expect("there");
        ceph.by_hand = Some(ByHand {
            key: Hidden("HAND".to_owned()),
            holders: holders.iter().map(|holder| (*holder).to_owned()).collect(),
        });
        seen
    };
    for (current, holders, words) in [
        (None, &[][..], "consumers are switching away from client.cinder"),
        (
            since(1, 1),
            &["Pod a"][..],
            "client.cinder is still used by Pod a",
        ),
        (
            since(1, 1),
            &[][..],
            "client.cinder, which was created by hand, is no longer used: delete its CephClient",
        ),
    ] {
        let seen = with(current, holders);
        // Whoever works with it finds its key as long as it is there.
        let (users, keyring) = outcome(&seen);
        assert_eq!(users, ["cinder-1"]);
        assert_eq!(keyring.expect("a keyring"), ["cinder-1", "cinder"]);
        assert_eq!(message(&seen).1, format!("client.cinder-1 is in use; {words}"));
    }
}

#[test]
fn many_holders_are_counted() {
    let held = ["Pod a", "Pod b", "Pod c", "Pod d", "Pod e", "Pod f"];
    let (_, words) = message(&observed(
        vec![user(1, 0, true), user(2, 10, true)],
        since(2, 12),
        &held,
        13,
    ));
    assert!(
        words.ends_with("is still used by Pod a, Pod b, Pod c, Pod d and 2 more"),
        "{words}"
    );
}

#[test]
fn no_key_is_told() {
    let seen = observed(
        vec![user(1, 0, true), user(2, 10, true)],
        since(2, 12),
        &["Pod a"],
        13,
    );
    let report = seen.report(&Applied::rehearse(Decision::hold()));
    assert!(!format!("{report:?}").contains("KEY"));
}

/// A small world: Rook makes users after a while, and consumers take the first user of the keyring after another.
#[derive(Debug, Clone)]
enum Happens {
    Asked,
    RookMakes,
    ConsumerReads,
    Pass,
}

fn happens() -> impl Strategy<Value = Happens> {
    prop_oneof![
        Just(Happens::Asked),
        Just(Happens::RookMakes),
        Just(Happens::ConsumerReads),
        Just(Happens::Pass),
        Just(Happens::Pass),
    ]
}

proptest! {
    /// Whatever the order of things: the user of a consumer is there, and in the keyring that it reads.
    #[test]
    fn nobody_is_ever_left_without_a_key(steps in proptest::collection::vec(happens(), 1..80)) {
        let mut users: Vec<Made> = Vec::new();
        let mut current: Option<Current> = None;
        let mut keyring: Vec<String> = Vec::new();
        let mut consumer: Option<String> = None;
        let (mut request, mut honoured) = (0, None::<String>);
        for (minute, step) in steps.into_iter().enumerate() {
            let minute = i64::try_from(minute).expect("small");
            match step {
                Happens::Asked => request += 1,
                Happens::RookMakes => {
                    if let Some(waiting) = users.iter_mut().find(|user| !user.seen.complete) {
                        let number = waiting.seen.number;
                        let request = waiting.request.clone();
                        *waiting = Made { request, ..user(number, minute, true) };
                    }
                }
                Happens::ConsumerReads => consumer = keyring.first().cloned().or(consumer),
                Happens::Pass => {
                    let used = consumer.iter().map(String::as_str);
                    let newest = current.map(|current| format!("cinder-{}", current.number));
                    let held: Vec<&str> = used.filter(|used| Some(*used) != newest.as_deref()).collect();
                    let mut seen = observed(users.clone(), current, &held, minute);
                    seen.object.metadata.annotations = Some([(ROTATE_NOW.to_owned(), format!("r{request}"))].into());
                    seen.object.status = Some(CredentialRotationStatus {
                        rotate_now: honoured.clone(),
                        ..CredentialRotationStatus::default()
                    });
                    let (names, sections) = outcome(&seen);
                    let report = seen.report(&Applied::rehearse(Decision::hold()));
                    honoured = report.status_fields().get("rotateNow").and_then(Value::as_str).map(str::to_owned);
                    let decision = wanted(&seen);
                    users = names.iter().map(|name| {
                        let number = super::super::facts::number("cinder", name).expect("a number");
                        let known = users.iter().find(|user| user.seen.number == number).cloned();
                        let asked = decision.iter().find(|object| object["metadata"]["name"] == name.as_str());
                        let asked = asked.and_then(|object| object["metadata"]["annotations"][ROTATE_NOW].as_str());
                        known.unwrap_or_else(|| Made { request: asked.map(str::to_owned), ..user(number, minute, false) })
                    }).collect();
                    if let Some(sections) = sections {
                        let first = super::super::facts::number("cinder", &sections[0]).expect("a number");
                        if current.is_none_or(|current| current.number != first) {
                            current = since(first, minute);
                        }
                        keyring = sections;
                    }
                }
            }
            if let Some(consumer) = &consumer {
                let there = users.iter().any(|user| format!("cinder-{}", user.seen.number) == *consumer);
                prop_assert!(there, "{consumer} is gone");
                prop_assert!(keyring.contains(consumer), "{consumer} is not among {keyring:?}");
            }
            prop_assert!(users.len() <= 40);
        }
    }
}
