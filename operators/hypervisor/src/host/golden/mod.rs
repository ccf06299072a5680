//! The table of all transitions: worlds and what follows from each, in one snapshot to read.

pub(crate) mod base;
mod complaints;
mod failures;
mod fields;
mod guests;
mod nodes;
mod worlds;

use std::fmt::Write;

use super::transition;
use super::view::{Step, View};

fn worlds() -> Vec<(&'static str, View)> {
    let all = worlds::worlds().into_iter().chain(failures::worlds());
    let all = all.chain(guests::worlds()).chain(complaints::worlds());
    all.chain(nodes::worlds()).collect()
}

fn described(view: &View, step: &Step) -> String {
    let mut text = String::new();
    let phase = step.status.onboarding.as_ref();
    if let Some(one) = phase {
        let from = view
            .before
            .onboarding
            .as_ref()
            .map(|before| before.phase)
            .unwrap_or_default();
        let _ = writeln!(
            text,
            "  phase       {from:?} -> {:?}, try {}",
            one.phase, one.attempt
        );
    }
    for action in &step.actions {
        let _ = writeln!(text, "  do          {action:?}");
    }
    if let Some(why) = &step.evict {
        let _ = writeln!(text, "  evict       {why}");
    }
    for part in super::Hosts::parts() {
        if let Some(state) = step.states.get(part) {
            let _ = writeln!(
                text,
                "  {part:<19} {:<7} {} {}",
                state.truth.as_str(),
                state.reason,
                state.message
            );
        }
    }
    for one in &step.status.reactions {
        let _ = writeln!(
            text,
            "  server      {} {:?} {:?}, {} restarts: {}",
            one.name,
            one.trouble,
            one.state,
            one.attempts,
            one.message.as_deref().unwrap_or_default()
        );
    }
    for note in &step.notes {
        let kind = if note.warning { "Warning" } else { "Normal" };
        let _ = writeln!(text, "  event       {kind} {}: {}", note.reason, note.text);
    }
    if let Some(blocker) = step.states.blocker() {
        let _ = writeln!(text, "  not ready   {} {}", blocker.reason, blocker.message);
    }
    if !step.left.is_empty() {
        let _ = writeln!(text, "  left        {}", step.left.join(", "));
    }
    let _ = writeln!(text, "  again       {:?}", step.again);
    text
}

#[test]
fn every_transition() {
    let mut text = String::new();
    for (name, view) in worlds() {
        let step = transition(&view);
        let _ = writeln!(text, "{name}\n{}", described(&view, &step));
    }
    insta::assert_snapshot!(text);
}

#[test]
fn every_world_is_told_in_full_and_looked_at_again() {
    for (name, view) in worlds() {
        let step = transition(&view);
        for part in super::Hosts::parts() {
            assert!(
                step.states.get(part).is_some(),
                "{name}: nothing is said of {part}"
            );
        }
        assert!(!step.again.is_zero(), "{name}: never looked at again");
        assert_eq!(transition(&view), step, "{name}");
    }
}
