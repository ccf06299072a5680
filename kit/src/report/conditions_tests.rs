//! What is said of the parts becomes one list and one `Ready`.

use super::*;
use proptest::prelude::*;

const PARTS: &[Part] = &[
    Part::required("DatabaseReady"),
    Part::elsewhere("AgentReady"),
    Part::required("CacheReady"),
    Part::informative("Progressing"),
];

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("small numbers are times")
}

fn agent(status: &str) -> Condition {
    Condition {
        type_: "AgentReady".into(),
        status: status.into(),
        reason: "Seen".into(),
        message: "from the node".into(),
        last_transition_time: Time(at(1)),
        observed_generation: Some(1),
    }
}

fn all_met() -> States {
    States::default()
        .met("DatabaseReady", "Up", "")
        .not_required("CacheReady", "caching is off")
        .unmet("Progressing", "Idle", "")
}

fn reported(states: &States, previous: &[Condition], now: i64) -> Vec<Condition> {
    let ending = Ending {
        states: Some(states),
        ..Ending::default()
    };
    settle(PARTS, ending, previous, 3, at(now)).conditions
}

fn named<'a>(list: &'a [Condition], name: &str) -> &'a Condition {
    list.iter().find(|c| c.type_ == name).expect(name)
}

#[test]
fn ready_points_to_the_object_behind_its_reason() {
    let database = crate::Kind::of::<k8s_openapi::api::core::v1::Secret>().named(Some("ns"), "db");
    let settled = |states: &States, failure: Option<&Failure>| {
        let ending = Ending {
            states: Some(states),
            failure,
            ..Ending::default()
        };
        settle(PARTS, ending, &[agent("True")], 3, at(10)).blocker
    };
    let waiting = all_met()
        .unmet("CacheReady", "Waiting", "Secret db is missing")
        .because_of("CacheReady", Some(database.clone()));
    assert_eq!(settled(&waiting, None), Some(database.clone()));
    assert_eq!(
        settled(&all_met().because_of("CacheReady", Some(database.clone())), None),
        None
    );
    let chosen = waiting.blocked_by("Invalid", "x").blocking(None);
    assert_eq!(settled(&chosen, None), None);
    let failure = Failure {
        part: None,
        reason: "SecretMissing".into(),
        message: String::new(),
        blocker: Some(database.clone()),
    };
    assert_eq!(settled(&chosen, Some(&failure)), Some(database));
}

#[test]
fn ready_needs_every_required_part_and_no_informative_one() {
    let list = reported(&all_met(), &[agent("True")], 10);
    assert_eq!(named(&list, READY).status, "True");
    assert_eq!(named(&list, READY).observed_generation, Some(3));
    assert!(list.iter().all(|c| c.type_ != "AgentReady"), "not ours to write");
}

#[test]
fn the_first_part_that_is_false_is_the_blocker() {
    let states = all_met()
        .unknown("DatabaseReady", "Starting", "no answer yet")
        .unmet("CacheReady", "CrashLoop", "memcached-0 restarts");
    let list = reported(&states, &[agent("True")], 10);
    let ready = named(&list, READY);
    assert_eq!(
        (ready.status.as_str(), ready.reason.as_str()),
        ("False", "CrashLoop")
    );
    assert_eq!(ready.message, "memcached-0 restarts");
}

#[test]
fn a_part_written_elsewhere_that_is_missing_makes_ready_unknown() {
    let list = reported(&all_met(), &[], 10);
    let ready = named(&list, READY);
    assert_eq!(ready.status, "Unknown");
    assert_eq!(ready.message, "AgentReady is not reported yet");
}

#[test]
fn transition_time_changes_with_the_status_only() {
    let first = reported(&all_met(), &[agent("True")], 10);
    let mut before = first.clone();
    before.push(agent("True"));
    let same = reported(
        &all_met().met("DatabaseReady", "StillUp", "new words"),
        &before,
        20,
    );
    assert_eq!(named(&same, "DatabaseReady").last_transition_time, Time(at(10)));
    let down = reported(&all_met().unmet("DatabaseReady", "Down", ""), &before, 20);
    assert_eq!(named(&down, "DatabaseReady").last_transition_time, Time(at(20)));
    assert_eq!(named(&down, READY).last_transition_time, Time(at(20)));
}

#[test]
fn a_failed_pass_keeps_what_it_did_not_look_at() {
    let before = reported(&all_met(), &[agent("True")], 10);
    let failure = Failure {
        part: Some("CacheReady"),
        reason: "Api".into(),
        message: "connection refused".into(),
        blocker: None,
    };
    let ending = Ending {
        failure: Some(&failure),
        ..Ending::default()
    };
    let list = settle(PARTS, ending, &before, 4, at(20)).conditions;
    assert_eq!(named(&list, "DatabaseReady"), named(&before, "DatabaseReady"));
    assert_eq!(named(&list, "CacheReady").status, "False");
    assert_eq!(named(&list, READY).message, "connection refused");
    assert_eq!(named(&list, READY).observed_generation, Some(4));
}

#[test]
fn a_message_without_end_is_cut() {
    let list = reported(
        &all_met().unmet("CacheReady", "Keys", "ä".repeat(40_000)),
        &[agent("True")],
        10,
    );
    for name in ["CacheReady", READY] {
        let message = &named(&list, name).message;
        assert!(
            message.len() <= LONGEST && message.ends_with(" …"),
            "{}",
            message.len()
        );
    }
}

#[test]
fn a_first_pass_that_fails_sets_every_condition() {
    let failure = Failure {
        part: None,
        reason: "Malformed".into(),
        message: "bad".into(),
        blocker: None,
    };
    let ending = Ending {
        failure: Some(&failure),
        ..Ending::default()
    };
    let list = settle(PARTS, ending, &[], 1, at(5)).conditions;
    assert_eq!(named(&list, "DatabaseReady").reason, NOT_REACHED);
    assert_eq!(named(&list, READY).reason, "Malformed");
}

#[test]
fn a_report_cannot_hide_an_error() {
    let failure = Failure {
        part: Some("DatabaseReady"),
        reason: "Timeout".into(),
        message: "no answer".into(),
        blocker: None,
    };
    let states = all_met();
    let ending = Ending {
        states: Some(&states),
        failure: Some(&failure),
        deleting: None,
    };
    let list = settle(PARTS, ending, &[agent("True")], 1, at(5)).conditions;
    assert_eq!(named(&list, "DatabaseReady").reason, "Timeout");
    assert_eq!(named(&list, READY).status, "False");
}

#[test]
fn a_blocker_names_the_cause_and_never_makes_ready_true() {
    let states = all_met()
        .unmet("CacheReady", "Waiting", "waits for the database")
        .blocked_by("Invalid", "unknown release");
    let list = reported(&states, &[agent("True")], 10);
    let ready = named(&list, READY);
    assert_eq!(
        (ready.status.as_str(), ready.message.as_str()),
        ("False", "unknown release")
    );
    let list = reported(&all_met().blocked_by("Invalid", "x"), &[agent("True")], 10);
    assert_eq!(named(&list, READY).status, "False");
}

fn truth() -> impl Strategy<Value = Truth> {
    prop_oneof![Just(Truth::True), Just(Truth::False), Just(Truth::Unknown)]
}

proptest! {
    #[test]
    fn ready_is_true_exactly_when_all_required_parts_are(
        database in truth(), cache in truth(), progressing in truth(), node in truth(), fails: bool,
    ) {
        let states = States::default()
            .with("DatabaseReady", State::new(database, "R", ""))
            .with("CacheReady", State::new(cache, "R", ""))
            .with("Progressing", State::new(progressing, "R", ""));
        let failure = Failure { part: None, reason: "Oops".into(), message: String::new(), blocker: None };
        let ending = Ending { states: Some(&states), failure: fails.then_some(&failure), deleting: None };
        let before = [agent(node.as_str())];
        let list = settle(PARTS, ending, &before, 1, at(9)).conditions;
        let all = [database, cache, node].iter().all(|t| *t == Truth::True);
        prop_assert_eq!(named(&list, READY).status == "True", all && !fails);
        prop_assert!(list.windows(2).all(|w| w[0].type_ < w[1].type_));
        prop_assert!(list.iter().all(|c| !c.reason.is_empty()));
        // Settling again later changes nothing.
        let mut live = list.clone();
        live.push(before[0].clone());
        prop_assert_eq!(settle(PARTS, ending, &live, 1, at(99)).conditions, list);
    }
}
