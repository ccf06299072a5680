//! Pure: single servers in trouble on a host that is healthy. The agent reports them; they are restarted where
//! they are, with growing pauses, then taken to another host, then left to a person, who is told.
//!
//! Nobody else may be surprised: a server that its owner stopped, or that Nova is busy with, is left alone.

use std::time::Duration;

use c5c3_api::common::Time;
use c5c3_api::conditions::hypervisor::INSTANCES_WELL;
use c5c3_api::conditions::reason;
use c5c3_api::hypervisor::{Instance, InstanceTrouble, OnboardingPhase, Reaction, ReactionState, Trouble};
use c5c3_kit::Note;
use jiff::{SignedDuration, Timestamp};
use openstack_client::{Guest, Service};

use super::failover;
use super::view::{Action, NodeView, Step, View};

/// Seconds before each restart, counted from the one before.
const PAUSES: [i64; 3] = [0, 30, 120];
/// So long a restart or a move has to help.
const PATIENCE: i64 = 120;
/// A disk may answer again by itself.
const PERSISTS: i64 = 60;
/// Time without trouble after which restarts are counted from zero.
const FORGET: i64 = 3600;
/// So long it is told what was done.
const KEEP: i64 = 24 * 3600;
/// A server that was down for so long before anybody looked may have been stopped meanwhile.
const LATE: i64 = 300;
/// Seconds after a request that Nova refused, times the refusals so far.
const REFUSED: i64 = 10;
/// Refusals in a row after which a server is left to a person.
const REFUSALS: i32 = 10;
/// Most servers that are reported and looked after in one pass.
const MOST: usize = 32;

/// Does the operator look after single servers of this host?
fn applies(view: &View) -> bool {
    let phase = view.before.onboarding.as_ref().map(|one| one.phase);
    view.spec.lifecycle_enabled
        && failover::applies(&view.spec)
        && !view.leaving()
        && phase == Some(OnboardingPhase::Succeeded)
        && matches!(view.node, NodeView::There { ready: true, .. })
        && view.service().is_some_and(Service::up)
        && view.libvirt() == Some(true)
}

fn is_open(state: ReactionState) -> bool {
    matches!(
        state,
        ReactionState::Waiting | ReactionState::Restarting | ReactionState::Moving
    )
}

/// Servers of which Nova has to be asked.
pub(crate) fn concerned(view: &View) -> Vec<String> {
    if !applies(view) {
        return Vec::new();
    }
    let troubled = view.before.instances.iter().filter(|one| one.trouble.is_some());
    let known = view.before.reactions.iter();
    let open = known.filter(|one| one.state != ReactionState::Recovered);
    let mut all: Vec<String> = open.map(|one| one.server.clone()).collect();
    all.extend(troubled.map(|one| one.id.clone()));
    let mut seen = std::collections::BTreeSet::new();
    all.retain(|server| seen.insert(server.clone()));
    all.truncate(MOST);
    all
}

/// One server, from all sides.
struct Case<'a> {
    now: Timestamp,
    /// Name of the host in Nova.
    host: &'a str,
    /// Could another host take it?
    elsewhere: bool,
    instance: Option<&'a Instance>,
    guest: &'a Guest,
    before: Option<&'a Reaction>,
    /// Why Nova did not take the last request.
    refused: Option<&'a str>,
}

/// What is reported about a server, and done for it.
type Answer = (Reaction, Option<Action>, Option<SignedDuration>);

pub(crate) fn react(view: &View, service: &Service, step: &mut Step) {
    if !applies(view) {
        return;
    }
    let mut told: Vec<Reaction> = Vec::new();
    for guest in view.troubled.iter().filter(|guest| !is_test(view, guest)) {
        let case = Case {
            now: view.now,
            host: &service.host,
            elsewhere: view.nova.heard > 1,
            instance: view.before.instances.iter().find(|one| one.id == guest.id),
            guest,
            before: view.before.reactions.iter().find(|one| one.server == guest.id),
            refused: view.refused.get(&guest.id).map(String::as_str),
        };
        let Some((reaction, action, wait)) = case.answer() else {
            continue;
        };
        step.notes.extend(noted(case.before, &reaction));
        step.actions.extend(action);
        if let Some(wait) = wait {
            let wait = Duration::try_from(wait)
                .unwrap_or_default()
                .max(Duration::from_secs(1));
            step.again = step.again.min(wait);
        }
        told.push(reaction);
    }
    // What is over is told for a day; a server that Nova has no more is no matter any more.
    let is_old = |one: &Reaction| passed(one.changed.as_ref(), view.now) > SignedDuration::from_secs(KEEP);
    let known = view.before.reactions.iter();
    for one in known.filter(|one| one.state == ReactionState::Recovered && !is_old(one)) {
        if told.iter().all(|new| new.server != one.server) {
            told.push(one.clone());
        }
    }
    // Of too many the oldest that are over go.
    told.sort_by_key(|one| {
        let changed = one.changed.as_ref().map(|time| time.0);
        (!is_open(one.state), std::cmp::Reverse(changed))
    });
    told.truncate(MOST);
    told.sort_by(|a, b| a.server.cmp(&b.server));
    report(&told, step);
    step.status.reactions = told;
}

fn is_test(view: &View, guest: &Guest) -> bool {
    view.tests.iter().any(|test| test.id == guest.id)
}

fn passed(since: Option<&Time>, now: Timestamp) -> SignedDuration {
    since.map_or(SignedDuration::ZERO, |since| now.duration_since(since.0))
}

fn seconds(count: i64) -> SignedDuration {
    SignedDuration::from_secs(count)
}

impl Case<'_> {
    fn answer(&self) -> Option<Answer> {
        let before = self.before;
        let asked = |one: &&Reaction| {
            // A server that arrived elsewhere is confirmed or started again until it is done.
            let here = self.guest.host == self.host;
            here && matches!(one.state, ReactionState::Restarting | ReactionState::Moving)
        };
        if let Some((words, asked)) = self.refused.zip(before.filter(asked)) {
            return Some(self.refused(words, asked));
        }
        if let Some(moving) = before.filter(|one| one.state == ReactionState::Moving) {
            return Some(self.on_its_way(moving));
        }
        let trouble = self.instance.and_then(|instance| instance.trouble.as_ref());
        match (trouble, before) {
            // A domain that is left of a server which runs elsewhere.
            _ if self.guest.host != self.host => {
                let unsettled = before.filter(|one| one.state != ReactionState::Recovered);
                unsettled.map(|one| self.over(one, "it is on another host"))
            }
            (Some(trouble), _) => self.troubled(trouble),
            (None, Some(one)) if is_open(one.state) => Some(self.after(one)),
            (None, Some(one)) if one.state == ReactionState::GivenUp => Some(self.left(one)),
            (None, _) => None,
        }
    }

    fn told(&self, trouble: Trouble, state: ReactionState, message: impl Into<String>) -> Reaction {
        let before = self.before;
        Reaction {
            server: self.guest.id.clone(),
            name: self.guest.name.clone(),
            trouble,
            state,
            attempts: before.map_or(0, |one| one.attempts),
            refusals: before.map_or(0, |one| one.refusals),
            since: before.and_then(|one| one.since.clone()),
            changed: before.and_then(|one| one.changed.clone()),
            message: Some(message.into()),
        }
    }

    fn now(&self) -> Option<Time> {
        Some(Time(
            Timestamp::from_second(self.now.as_second()).unwrap_or(self.now),
        ))
    }

    fn over(&self, before: &Reaction, how: &str) -> Answer {
        let reaction = Reaction {
            refusals: 0,
            changed: self.now(),
            ..self.told(before.trouble, ReactionState::Recovered, how)
        };
        (reaction, None, None)
    }

    /// Nova did not even begin: that is no attempt.
    fn refused(&self, words: &str, asked: &Reaction) -> Answer {
        let refusals = asked.refusals + 1;
        let restarted = i32::from(asked.state == ReactionState::Restarting);
        let kept = |reaction: Reaction| Reaction {
            attempts: (asked.attempts - restarted).max(0),
            refusals,
            changed: self.now(),
            ..reaction
        };
        if refusals >= REFUSALS {
            let why = format!("Nova refused {refusals} requests in a row: {words}");
            let (reaction, action, wait) = self.give_up(asked.trouble, why);
            return (kept(reaction), action, wait);
        }
        let why = format!("Nova refused the request: {words}");
        let waits = self.told(asked.trouble, ReactionState::Waiting, why);
        (kept(waits), None, Some(seconds(REFUSED * i64::from(refusals))))
    }

    /// The agent sees no trouble any more.
    fn after(&self, before: &Reaction) -> Answer {
        let runs = self.instance.is_some_and(|instance| instance.active);
        if self.guest.task.is_some() {
            return (before.clone(), None, Some(seconds(2)));
        }
        match (runs, self.guest.status.as_str()) {
            (true, _) => self.over(before, "it is running again"),
            (false, "SHUTOFF") => self.over(before, "its owner stopped it"),
            // Between two looks of the agent.
            (false, _) if passed(before.changed.as_ref(), self.now) < seconds(PATIENCE) => {
                (before.clone(), None, Some(seconds(5)))
            }
            (false, status) => self.give_up(before.trouble, format!("it is {status} and not running")),
        }
    }

    /// One that was left to a person.
    fn left(&self, before: &Reaction) -> Answer {
        let runs = self.instance.is_some_and(|instance| instance.active);
        match (runs, self.guest.status.as_str(), &self.guest.task) {
            (true, _, None) => self.over(before, "it was fixed by someone else"),
            (false, "SHUTOFF", None) => self.over(before, "its owner stopped it"),
            _ => (before.clone(), None, None),
        }
    }

    fn troubled(&self, trouble: &InstanceTrouble) -> Option<Answer> {
        let (kind, since) = (trouble.kind, passed(trouble.since.as_ref(), self.now));
        let before = self.before;
        if before.is_some_and(|one| one.state == ReactionState::GivenUp) {
            return before.map(|one| (one.clone(), None, None));
        }
        if self.guest.task.is_some() {
            // What comes of it is seen soon.
            let busy = || self.told(kind, ReactionState::Waiting, "Nova is busy with it");
            let now = before.cloned().unwrap_or_else(|| Reaction {
                since: trouble.since.clone(),
                ..busy()
            });
            let now = Reaction { refusals: 0, ..now };
            return Some((now, None, Some(seconds(2))));
        }
        if !matches!(
            self.guest.status.as_str(),
            "ACTIVE" | "SHUTOFF" | "PAUSED" | "ERROR"
        ) {
            return before.map(|one| (one.clone(), None, None));
        }
        let fresh = before.is_none_or(|one| one.state == ReactionState::Recovered);
        let forgotten =
            fresh && passed(before.and_then(|one| one.changed.as_ref()), self.now) > seconds(FORGET);
        let attempts = before.filter(|_| !forgotten).map_or(0, |one| one.attempts);
        let began = |reaction: Reaction| Reaction {
            attempts,
            refusals: 0,
            since: trouble.since.clone(),
            ..reaction
        };
        if fresh && self.guest.status == "SHUTOFF" && since > seconds(LATE) {
            let why = "it had been down for more than five minutes when this was noticed, and may have been stopped on purpose: start it if it should run";
            let (reaction, action, wait) = self.give_up(kind, why);
            return Some((began(reaction), action, wait));
        }
        if kind == Trouble::IoError && since < seconds(PERSISTS) {
            let waits = self.told(
                kind,
                ReactionState::Waiting,
                "a disk does not answer; it may recover by itself",
            );
            return Some((began(waits), None, Some(seconds(PERSISTS) - since)));
        }
        let pleaded = before.filter(|one| one.state == ReactionState::Waiting && one.refusals > 0);
        if let Some(pleaded) = pleaded {
            let left =
                seconds(REFUSED * i64::from(pleaded.refusals)) - passed(pleaded.changed.as_ref(), self.now);
            if left > SignedDuration::ZERO {
                return Some((pleaded.clone(), None, Some(left)));
            }
            // The pause before a restart was over when Nova was asked the first time.
            let may_restart = usize::try_from(attempts).is_ok_and(|tried| tried < PAUSES.len());
            return Some(if may_restart {
                self.restart(kind, attempts, trouble)
            } else {
                self.last_resort(kind, attempts, trouble)
            });
        }
        let last = before
            .filter(|one| one.attempts > 0 && !forgotten)
            .and_then(|one| one.changed.as_ref());
        let pause = usize::try_from(attempts)
            .ok()
            .and_then(|tried| PAUSES.get(tried).copied());
        let left = last.map_or(SignedDuration::ZERO, |last| {
            seconds(pause.unwrap_or(PATIENCE)) - passed(Some(last), self.now)
        });
        if left > SignedDuration::ZERO {
            let waits = match before.filter(|one| is_open(one.state)) {
                Some(one) => one.clone(),
                None => Reaction {
                    changed: last.cloned(),
                    ..self.told(
                        kind,
                        ReactionState::Waiting,
                        "it failed again; it will be restarted after a pause",
                    )
                },
            };
            return Some((began(waits), None, Some(left)));
        }
        Some(match pause {
            Some(_) => self.restart(kind, attempts, trouble),
            None => self.last_resort(kind, attempts, trouble),
        })
    }

    fn restart(&self, kind: Trouble, attempts: i32, trouble: &InstanceTrouble) -> Answer {
        let (number, most) = (attempts + 1, PAUSES.len());
        let open = self.before.filter(|one| is_open(one.state));
        let reaction = Reaction {
            attempts: number,
            // A request that Nova takes shows in the server's task; only then the count begins anew.
            refusals: open.map_or(0, |one| one.refusals),
            since: trouble.since.clone(),
            changed: self.now(),
            ..self.told(
                kind,
                ReactionState::Restarting,
                format!("restart {number} of {most} on its host"),
            )
        };
        let server = self.guest.id.clone();
        (reaction, Some(Action::Restart { server }), Some(seconds(5)))
    }

    /// It does not stay up here.
    fn last_resort(&self, kind: Trouble, attempts: i32, trouble: &InstanceTrouble) -> Answer {
        let (mut reaction, action, wait) = match self.guest.status.as_str() {
            "ACTIVE" | "SHUTOFF" if self.elsewhere => {
                let why =
                    format!("{attempts} restarts on its host did not help: it is being moved to another one");
                let moving = Reaction {
                    changed: self.now(),
                    ..self.told(kind, ReactionState::Moving, why)
                };
                let server = self.guest.id.clone();
                (moving, Some(Action::Move { server }), Some(seconds(5)))
            }
            "ACTIVE" | "SHUTOFF" => self.give_up(
                kind,
                format!("{attempts} restarts did not help, and there is no other host"),
            ),
            status => self.give_up(
                kind,
                format!(
                    "{attempts} restarts did not help, and Nova cannot move a server that is {status}{}",
                    self.fault()
                ),
            ),
        };
        (reaction.attempts, reaction.since) = (attempts, trouble.since.clone());
        (reaction, action, wait)
    }

    fn fault(&self) -> String {
        self.guest
            .fault
            .as_ref()
            .map(|fault| format!(" ({fault})"))
            .unwrap_or_default()
    }

    fn on_its_way(&self, moving: &Reaction) -> Answer {
        let waited = passed(moving.changed.as_ref(), self.now);
        let soon = Some(seconds(5));
        let server = self.guest.id.clone();
        let arrived = self.guest.host != self.host;
        match self.guest.status.as_str() {
            _ if self.guest.task.is_some() => (moving.clone(), None, soon),
            "VERIFY_RESIZE" => (moving.clone(), Some(Action::Confirm { server }), soon),
            "ACTIVE" if arrived => self.over(moving, "it is running on another host"),
            // One that was down when it left is down when it arrives.
            "SHUTOFF" if arrived => (moving.clone(), Some(Action::Restart { server }), soon),
            "ERROR" => self.give_up(moving.trouble, format!("its move failed{}", self.fault())),
            _ if waited > seconds(PATIENCE) => {
                self.give_up(moving.trouble, "Nova did not move it to another host")
            }
            _ => (moving.clone(), None, soon),
        }
    }

    fn give_up(&self, kind: Trouble, why: impl Into<String>) -> Answer {
        let reaction = Reaction {
            changed: self.now(),
            ..self.told(kind, ReactionState::GivenUp, why)
        };
        (reaction, None, None)
    }
}

fn words(trouble: Trouble) -> &'static str {
    match trouble {
        Trouble::Crashed => "crashed",
        Trouble::Watchdog => "was paused by its watchdog",
        Trouble::IoError => "is paused because a disk does not answer",
    }
}

/// Events: that it began, and how it ended.
fn noted(before: Option<&Reaction>, after: &Reaction) -> Vec<Note> {
    let Reaction { name, server, .. } = after;
    let message = after.message.clone().unwrap_or_default();
    let was = before.map(|one| one.state);
    let mut notes = Vec::new();
    let begins =
        was.is_none_or(|was| was == ReactionState::Recovered) && after.state != ReactionState::Recovered;
    if begins {
        let text = format!("server {name} ({server}) {}: {message}", words(after.trouble));
        notes.push(Note::warning("InstanceTrouble", text));
    }
    match after.state {
        state if was == Some(state) => {}
        ReactionState::Recovered => {
            notes.push(Note::normal(
                "InstanceRecovered",
                format!("server {name} ({server}): {message}"),
            ));
        }
        ReactionState::GivenUp => {
            notes.push(Note::warning(
                "InstanceGivenUp",
                format!("server {name} ({server}): {message}"),
            ));
        }
        _ => {}
    }
    notes
}

fn report(reactions: &[Reaction], step: &mut Step) {
    let named = |wanted: &dyn Fn(ReactionState) -> bool| {
        let some = reactions.iter().filter(|one| wanted(one.state));
        let texts = some.map(|one| format!("{} ({})", one.name, one.message.as_deref().unwrap_or_default()));
        texts.collect::<Vec<_>>().join(", ")
    };
    let lost = named(&|state| state == ReactionState::GivenUp);
    let open = named(&is_open);
    let states = std::mem::take(&mut step.states);
    step.states = match (lost.is_empty(), open.is_empty()) {
        (true, true) => states.met(INSTANCES_WELL, reason::READY, ""),
        (true, false) => states.unmet(INSTANCES_WELL, reason::RECOVERING, open),
        (false, _) => states.unmet(
            INSTANCES_WELL,
            reason::FAILED,
            format!("needs manual repair: {lost}"),
        ),
    };
}
