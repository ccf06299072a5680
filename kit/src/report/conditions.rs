//! Conditions of an object, and the one `Ready` that is computed from them.
//!
//! A controller says how each of its parts is; [`settle`] turns that into the list that is stored:
//! sorted, with transition times kept, and with a `Ready` that nobody sets by hand.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use crate::kinds::Reference;

pub use c5c3_api::conditions::READY;
use c5c3_api::conditions::reason::{self, DELETING, NOT_REACHED, NOT_REPORTED, NOT_REQUIRED};

/// One condition that a controller declares. The order of the declaration is the order of
/// importance: of several parts that are not well, the first is named as the blocker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    pub name: &'static str,
    pub role: Role,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Written by this controller; `Ready` needs it.
    Required,
    /// Written by somebody else; `Ready` needs it.
    Elsewhere,
    /// Written by this controller; says nothing about `Ready`.
    Informative,
}

impl Part {
    pub const fn required(name: &'static str) -> Self {
        Part {
            name,
            role: Role::Required,
        }
    }

    pub const fn elsewhere(name: &'static str) -> Self {
        Part {
            name,
            role: Role::Elsewhere,
        }
    }

    pub const fn informative(name: &'static str) -> Self {
        Part {
            name,
            role: Role::Informative,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Truth {
    True,
    False,
    Unknown,
}

impl Truth {
    pub fn as_str(self) -> &'static str {
        match self {
            Truth::True => "True",
            Truth::False => "False",
            Truth::Unknown => "Unknown",
        }
    }

    fn of(condition: &Condition) -> Self {
        match condition.status.as_str() {
            "True" => Truth::True,
            "False" => Truth::False,
            _ => Truth::Unknown,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    pub truth: Truth,
    pub reason: String,
    pub message: String,
    /// The object that keeps it from being true.
    pub blocker: Option<Reference>,
}

impl State {
    pub fn new(truth: Truth, reason: &str, message: impl Into<String>) -> Self {
        State {
            truth,
            reason: reason.to_owned(),
            message: message.into(),
            blocker: None,
        }
    }
}

/// How each part is, as a controller reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct States {
    parts: BTreeMap<&'static str, State>,
    blocker: Option<State>,
}

impl States {
    pub fn met(self, part: &'static str, reason: &str, message: impl Into<String>) -> Self {
        self.with(part, State::new(Truth::True, reason, message))
    }

    pub fn unmet(self, part: &'static str, reason: &str, message: impl Into<String>) -> Self {
        self.with(part, State::new(Truth::False, reason, message))
    }

    pub fn unknown(self, part: &'static str, reason: &str, message: impl Into<String>) -> Self {
        self.with(part, State::new(Truth::Unknown, reason, message))
    }

    pub fn not_required(self, part: &'static str, message: impl Into<String>) -> Self {
        self.with(part, State::new(Truth::True, NOT_REQUIRED, message))
    }

    pub fn with(mut self, part: &'static str, state: State) -> Self {
        self.parts.insert(part, state);
        self
    }

    /// The object that keeps this part from being met. Programs follow it; people read the message.
    pub fn because_of(mut self, part: &'static str, blocker: Option<Reference>) -> Self {
        if let Some(state) = self
            .parts
            .get_mut(part)
            .filter(|state| state.truth != Truth::True)
        {
            state.blocker = blocker;
        }
        self
    }

    /// What keeps `Ready` from being true, where the first part that is not well does not name the
    /// cause. It can only make `Ready` false, never true.
    pub fn blocked_by(mut self, reason: &str, message: impl Into<String>) -> Self {
        self.blocker = Some(State::new(Truth::False, reason, message));
        self
    }

    /// The object behind what [`blocked_by`](Self::blocked_by) tells.
    pub fn blocking(mut self, blocker: Option<Reference>) -> Self {
        if let Some(state) = &mut self.blocker {
            state.blocker = blocker;
        }
        self
    }

    pub fn get(&self, part: &str) -> Option<&State> {
        self.parts.get(part)
    }

    pub fn blocker(&self) -> Option<&State> {
        self.blocker.as_ref()
    }
}

/// Why a pass did not get through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The part that the error belongs to; without one only `Ready` tells of it.
    pub part: Option<&'static str>,
    pub reason: String,
    pub message: String,
    pub blocker: Option<Reference>,
}

/// What `settle` makes of a pass.
#[derive(Clone, Debug, PartialEq)]
pub struct Settled {
    /// This controller's parts and `Ready`, sorted by type.
    pub conditions: Vec<Condition>,
    /// The object that keeps `Ready` from being true.
    pub blocker: Option<Reference>,
}

/// What is known when a pass ends.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ending<'a> {
    /// What the controller reported, when it got that far.
    pub states: Option<&'a States>,
    pub failure: Option<&'a Failure>,
    /// The object is being deleted; the text names what is still there.
    pub deleting: Option<&'a str>,
}

/// The conditions to store.
///
/// `previous` are all conditions of the live object, those of other writers too.
pub fn settle(
    parts: &[Part],
    ending: Ending<'_>,
    previous: &[Condition],
    generation: i64,
    now: Timestamp,
) -> Settled {
    let find = |name: &str| previous.iter().find(|c| c.type_ == name);
    let stamp = |name: &str, state: State| {
        let status = state.truth.as_str();
        let since = find(name)
            .filter(|c| c.status == status)
            .map_or_else(|| Time(now), |c| c.last_transition_time.clone());
        Condition {
            type_: name.to_owned(),
            status: status.to_owned(),
            reason: state.reason,
            message: bounded(state.message),
            last_transition_time: since,
            observed_generation: Some(generation),
        }
    };

    let mut own: Vec<Condition> = Vec::with_capacity(parts.len() + 1);
    for part in parts.iter().filter(|p| p.role != Role::Elsewhere) {
        own.push(match (state_of(part, ending), find(part.name)) {
            (Some(state), _) => stamp(part.name, state),
            // Not looked at in this pass: it stays as it was, at the generation it was seen.
            (None, Some(before)) => before.clone(),
            (None, None) => {
                let why = ending.failure.map_or("", |f| f.reason.as_str());
                let waits = format!("not looked at yet: {why}");
                stamp(part.name, State::new(Truth::Unknown, NOT_REACHED, waits))
            }
        });
    }
    let ready = ready(parts, ending, |name| {
        own.iter().find(|c| c.type_ == name).or_else(|| find(name))
    });
    let blocker = ready.blocker.clone();
    own.push(stamp(READY, ready));
    own.sort_by(|a, b| a.type_.cmp(&b.type_));
    Settled {
        conditions: own,
        blocker,
    }
}

/// Longest message, in bytes: more than anybody reads, and well below what the API takes. One that
/// is refused would take every other condition with it.
const LONGEST: usize = 4096;

fn bounded(message: String) -> String {
    if message.len() <= LONGEST {
        return message;
    }
    format!("{} …", crate::report::events::shortened(&message, LONGEST - 4))
}

fn state_of(part: &Part, ending: Ending<'_>) -> Option<State> {
    let failed = ending.failure.filter(|f| f.part == Some(part.name)).map(failed);
    match (ending.states, failed) {
        (Some(states), failed) => match (states.get(part.name), failed) {
            // A report may say more than the error does, but it may not hide it.
            (Some(said), Some(failed)) if said.truth == Truth::True => Some(failed),
            (Some(said), _) => Some(said.clone()),
            (None, Some(failed)) => Some(failed),
            // A pass that failed need not have looked at it.
            (None, None) if ending.failure.is_some() => None,
            (None, None) => Some(State::new(Truth::Unknown, NOT_REPORTED, "nothing is known of it")),
        },
        (None, failed) => failed,
    }
}

fn failed(failure: &Failure) -> State {
    State {
        blocker: failure.blocker.clone(),
        ..State::new(Truth::False, &failure.reason, failure.message.clone())
    }
}

fn ready<'c>(parts: &[Part], ending: Ending<'_>, find: impl Fn(&str) -> Option<&'c Condition>) -> State {
    if let Some(left) = ending.deleting {
        return State::new(Truth::False, DELETING, left);
    }
    if let Some(failure) = ending.failure {
        return failed(failure);
    }
    if let Some(blocker) = ending.states.and_then(States::blocker) {
        return blocker.clone();
    }
    let required = || parts.iter().filter(|p| p.role != Role::Informative);
    for truth in [Truth::False, Truth::Unknown] {
        for part in required() {
            let condition = find(part.name);
            if condition.map_or(Truth::Unknown, Truth::of) != truth {
                continue;
            }
            return match condition {
                Some(c) => State {
                    blocker: ending
                        .states
                        .and_then(|states| states.get(part.name)?.blocker.clone()),
                    ..State::new(truth, &c.reason, c.message.clone())
                },
                None => State::new(truth, NOT_REPORTED, format!("{} is not reported yet", part.name)),
            };
        }
    }
    State::new(Truth::True, reason::READY, "")
}

#[cfg(test)]
mod tests {
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
}
