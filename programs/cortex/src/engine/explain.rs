//! Explains a decision in words.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;

use super::{Candidate, Outcome, StepOutcome};

/// Hosts whose opinions are kept, and hosts that are named: a decision stays a small object however
/// large the fleet is.
const TOLD: usize = 10;
/// Hosts whose order is kept.
const ORDERED: usize = 100;

/// A host that was dropped.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Dropped {
    pub host: String,
    pub step: &'static str,
    pub reason: String,
}

/// What one step said about the best hosts, or why it said nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Said {
    pub step: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skipped: Option<String>,
    /// Opinions before tanh and multiplier.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub activations: BTreeMap<String, f64>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    pub pipeline: String,
    pub text: String,
    pub ordered_hosts: Vec<String>,
    pub steps: Vec<Said>,
    /// Some of the hosts that were dropped, with the reason of each.
    pub dropped: Vec<Dropped>,
}

impl Explanation {
    pub fn of(outcome: &Outcome<'_>) -> Self {
        Explanation {
            pipeline: outcome.pipeline.name.clone(),
            text: text(outcome),
            ordered_hosts: outcome.hosts().take(ORDERED).map(str::to_owned).collect(),
            steps: steps(outcome),
            dropped: outcome
                .dropped
                .iter()
                .take(TOLD)
                .map(|drop| dropped(outcome, drop))
                .collect(),
        }
    }
}

fn dropped(outcome: &Outcome<'_>, (candidate, filter): &(Candidate, u32)) -> Dropped {
    // Filters count their drops by their own number.
    let filter = &outcome.pipeline.filters[*filter as usize];
    Dropped {
        host: outcome.name(candidate).to_owned(),
        step: filter.name(),
        reason: filter.reason(outcome.context, candidate.host),
    }
}

fn steps(outcome: &Outcome<'_>) -> Vec<Said> {
    let mut all = Vec::new();
    let best = &outcome.ordered[..outcome.ordered.len().min(TOLD)];
    for (filter, done) in outcome.pipeline.filters.iter().zip(&outcome.filters) {
        let mut said = Said {
            step: filter.name(),
            ..Said::default()
        };
        match done {
            StepOutcome::Ran { .. } => {
                let kept = best.iter().map(|host| (outcome.name(host).to_owned(), 0.0));
                said.activations = kept.collect();
            }
            StepOutcome::NotConcerned => continue,
            StepOutcome::Skipped(why) => said.skipped = Some(why.clone()),
        }
        all.push(said);
    }
    for (number, ((weigher, _), done)) in (0..).zip(outcome.pipeline.weighers.iter().zip(&outcome.weighers)) {
        let mut said = Said {
            step: weigher.name(),
            ..Said::default()
        };
        match done {
            StepOutcome::Ran { .. } => {
                let named = best
                    .iter()
                    .map(|host| (outcome.name(host).to_owned(), opinion(outcome, number, host)));
                said.activations = named.collect();
            }
            StepOutcome::NotConcerned => continue,
            StepOutcome::Skipped(why) => said.skipped = Some(why.clone()),
        }
        all.push(said);
    }
    all
}

/// What a weigher said about a host; 0 where it said nothing.
fn opinion(outcome: &Outcome<'_>, weigher: u32, host: &Candidate) -> f64 {
    let said = outcome.opinions.iter().find(|(number, _)| *number == weigher);
    // Slots of survivors are in ascending order: filters keep the order, and slots start so.
    let at = outcome.survivors.binary_search(&host.slot).ok();
    said.zip(at)
        .and_then(|((_, opinions), at)| opinions.get(at).copied())
        .unwrap_or_default()
}

fn text(outcome: &Outcome<'_>) -> String {
    let asked = outcome.asked;
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = match outcome.ordered.first() {
        Some(best) => write!(text, "{} is the best of {}", outcome.name(best), hosts(asked)),
        None if asked == 0 => write!(text, "no host was asked about"),
        None => write!(text, "none of {} is left", hosts(asked)),
    };
    let mut counts = Vec::new();
    for (filter, done) in outcome.pipeline.filters.iter().zip(&outcome.filters) {
        if let StepOutcome::Ran { before, after } = done
            && before > after
        {
            counts.push(format!("{} dropped {}", filter.name(), before - after));
        }
    }
    if !counts.is_empty() {
        let _ = write!(text, "; {}", counts.join(", "));
    }
    if outcome.ordered.is_empty() {
        let reasons = outcome.dropped.iter().take(TOLD).map(|drop| {
            let dropped = dropped(outcome, drop);
            format!("{} {}", dropped.host, dropped.reason)
        });
        let reasons: Vec<String> = reasons.collect();
        if !reasons.is_empty() {
            let _ = write!(text, ": {}", reasons.join("; "));
        }
    }
    if let [best, next, ..] = &outcome.ordered[..] {
        let _ = write!(text, ". {}", lead(outcome, best, next));
    }
    let skipped = outcome
        .pipeline
        .filters
        .iter()
        .map(super::Filter::name)
        .zip(&outcome.filters);
    let names = outcome
        .pipeline
        .weighers
        .iter()
        .map(|(weigher, _)| weigher.name());
    for (name, done) in skipped.chain(names.zip(&outcome.weighers)) {
        if let StepOutcome::Skipped(why) = done {
            let _ = write!(text, ". {name} was skipped: {why}");
        }
    }
    text
}

fn hosts(count: usize) -> String {
    match count {
        1 => "1 host".to_owned(),
        count => format!("{count} hosts"),
    }
}

/// By how much the best leads the next, and which steps made the difference.
fn lead(outcome: &Outcome<'_>, best: &Candidate, next: &Candidate) -> String {
    let second = outcome.name(next);
    let by = best.weight - next.weight;
    if by == 0.0 {
        return format!("It and {second} weigh the same; names decide");
    }
    let mut parts = Vec::new();
    let slot = |host: &Candidate| {
        let at = outcome.survivors.binary_search(&host.slot).ok();
        at.and_then(|at| outcome.before.get(at).copied())
            .unwrap_or_default()
    };
    let before = slot(best) - slot(next);
    if before != 0.0 {
        parts.push(("the caller's own weight", before));
    }
    for (number, (weigher, multiplier)) in (0..).zip(&outcome.pipeline.weighers) {
        let part =
            multiplier * (opinion(outcome, number, best).tanh() - opinion(outcome, number, next).tanh());
        if part != 0.0 {
            parts.push((weigher.name(), part));
        }
    }
    parts.sort_by(|(_, one), (_, other)| other.abs().total_cmp(&one.abs()));
    let parts: Vec<String> = parts
        .iter()
        .map(|(name, part)| format!("{name} {part:+.3}"))
        .collect();
    format!("It leads {second} by {by:.3}: {}", parts.join(", "))
}
