//! Pure: what was done about a host, and why, as its status keeps it.

use c5c3_api::common::Time;
use c5c3_api::conditions::hypervisor::HOST_FAILED;
use c5c3_api::hypervisor::HistoryEntry;
use jiff::{SignedDuration, Timestamp};

use super::view::{Action, Step, View};

/// Most entries; the oldest go.
const MOST: usize = 50;
/// What is done again and again for one reason is told once in this time.
const AGAIN: SignedDuration = SignedDuration::from_hours(1);

/// The history after a pass in which these actions were carried out, each with its words.
pub(crate) fn after<'a>(
    view: &View,
    step: &Step,
    done: impl Iterator<Item = (&'a Action, String)>,
) -> Vec<HistoryEntry> {
    let mut history = view.before.history.clone();
    // An eviction is an object of its own: that it begins is told here, how it goes is told there.
    if let Some(why) = step.evict.as_ref().filter(|_| view.eviction.is_none()) {
        add(
            &mut history,
            view.now,
            "started to move all servers away".to_owned(),
            why,
        );
    }
    for (action, words) in done {
        if let Some(why) = reason(action, step) {
            add(&mut history, view.now, words, &why);
        }
    }
    let surplus = history.len().saturating_sub(MOST);
    history.drain(..surplus);
    history
}

/// Why it was done; `None`: it is daily business.
fn reason(action: &Action, step: &Step) -> Option<String> {
    let of_failure = || Some(step.states.get(HOST_FAILED)?.message.clone());
    let of_server = |server: &str| {
        let told = step.status.reactions.iter().find(|one| one.server == server)?;
        told.message.clone()
    };
    match action {
        Action::ForceDown { .. } | Action::PowerOff { .. } | Action::Evacuate { .. } => of_failure(),
        Action::Restart { server } | Action::Move { server } => of_server(server),
        Action::Disable { reason, .. } => Some(reason.clone()),
        Action::Enable { .. } => Some("nothing keeps the host out of service any more".to_owned()),
        _ => None,
    }
}

fn add(history: &mut Vec<HistoryEntry>, now: Timestamp, action: String, why: &str) {
    let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
    let recent = |one: &&HistoryEntry| now.duration_since(one.time.0) < AGAIN;
    let same = |one: &HistoryEntry| one.action == action && one.reason == why;
    if history.iter().filter(recent).any(same) {
        return;
    }
    history.push(HistoryEntry {
        time: Time(now),
        action,
        reason: why.to_owned(),
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::golden::base::{now, world};
    use c5c3_api::hypervisor::OnboardingPhase;
    use c5c3_kit::States;

    fn cut() -> Action {
        Action::PowerOff { host: "node1".into() }
    }

    fn step(why: &str) -> Step {
        Step {
            states: States::default().met(HOST_FAILED, "Fencing", why),
            ..Step::default()
        }
    }

    #[test]
    fn each_deed_is_told_once_with_its_reason() {
        let mut view = world(OnboardingPhase::Succeeded);
        let cuts = [cut()];
        let done = || cuts.iter().map(|action| (action, "powered off node1".to_owned()));
        view.before.history = after(&view, &step("it is silent"), done());
        let told: Vec<_> = view
            .before
            .history
            .iter()
            .map(|one| one.reason.as_str())
            .collect();
        assert_eq!(told, ["it is silent"]);
        view.now += SignedDuration::from_mins(5);
        assert_eq!(after(&view, &step("it is silent"), done()), view.before.history);
        view.now += SignedDuration::from_hours(1);
        assert_eq!(
            after(&view, &step("it is silent"), done()).len(),
            2,
            "another time"
        );
    }

    #[test]
    fn the_newest_fifty_are_kept_and_daily_business_is_not_told() {
        let mut view = world(OnboardingPhase::Succeeded);
        for number in 0..60 {
            let cuts = [cut()];
            let done = cuts.iter().map(|action| (action, "powered off".to_owned()));
            view.before.history = after(&view, &step(&format!("{number}")), done);
        }
        let (first, last) = (view.before.history.first(), view.before.history.last());
        let reason = |one: Option<&HistoryEntry>| one.map(|one| one.reason.clone());
        assert_eq!(view.before.history.len(), 50);
        assert_eq!(
            (reason(first), reason(last)),
            (Some("10".into()), Some("59".into()))
        );
        assert_eq!(view.before.history[0].time.0, now());
        let daily = [Action::DeleteTest { server: "t".into() }];
        let done = daily.iter().map(|action| (action, "deleted".to_owned()));
        assert_eq!(after(&view, &step("x"), done), view.before.history);
    }
}
