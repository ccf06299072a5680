//! Conditions of an object, and the one `Ready` that is computed from them.
//!
//! A controller says how each of its parts is; [`settle`] turns that into the list that is stored:
//! sorted, with transition times kept, and with a `Ready` that nobody sets by hand.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use crate::kinds::Reference;

/// This generation was processed and every required part is up.
pub const READY: &str = "Ready";

/// Reasons of conditions that the kit gives by itself.
pub mod reason {
    pub const READY: &str = "Ready";
    pub const DELETING: &str = "Deleting";
    pub const NOT_REQUIRED: &str = "NotRequired";
    /// A pass that failed did not get to it.
    pub const NOT_REACHED: &str = "NotReached";
    /// Nobody has said anything of it.
    pub const NOT_REPORTED: &str = "NotReported";
}
use reason::{DELETING, NOT_REACHED, NOT_REPORTED, NOT_REQUIRED};

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

/// The state of each part, as reported by a controller.
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

/// Why a pass failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The part that the error belongs to; without one only `Ready` reports it.
    pub part: Option<&'static str>,
    pub reason: String,
    pub message: String,
    pub blocker: Option<Reference>,
}

/// The result of `settle`.
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
                let waits = format!("not checked yet: {why}");
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
            (None, None) => Some(State::new(
                Truth::Unknown,
                NOT_REPORTED,
                "its controller reported nothing about it",
            )),
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
#[path = "conditions_tests.rs"]
mod tests;
