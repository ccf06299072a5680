//! The pipeline: filters in order, then weighers, then the sum of their opinions.
//!
//! Weighers do not see each other's opinions, so they could run at the same time; one after another
//! on one core they cost less than handing them to threads would, and the sum is always made in the
//! order of their declaration.

mod compile;
pub mod defaults;
mod explain;
mod filters;
mod params;
mod weighers;

#[cfg(test)]
mod filter_tests;
#[cfg(test)]
mod property_tests;
#[cfg(test)]
mod room_tests;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod weigher_tests;

pub use compile::{Compiled, PipelineDraft, StepDraft, compile};
pub use explain::Explanation;
pub use filters::{Filter, NAMES as FILTERS};
pub use weighers::{NAMES as WEIGHERS, Weigher};

use crate::fleet::Fleet;
use crate::fleet::names::{NONE, QuickMap};
use crate::request::Request;

/// Why a step has no opinion. The run goes on without it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Skipped(pub String);

/// A pipeline whose steps are there.
#[derive(Clone, Debug, Default)]
pub struct Pipeline {
    pub name: String,
    pub ignore_preselection: bool,
    pub create_decisions: bool,
    pub filters: Vec<Filter>,
    pub weighers: Vec<(Weigher, f64)>,
}

/// What all steps of a run see.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    pub fleet: &'a Fleet,
    pub request: &'a Request<'a>,
}

impl Context<'_> {
    /// Nothing can be said of hosts while no source knows any.
    fn needs_fleet(&self) -> Result<(), Skipped> {
        if self.fleet.is_empty() {
            return Err(Skipped("no host is known yet".to_owned()));
        }
        Ok(())
    }
}

/// A host in a run: its number in the fleet, or [`NONE`], and its place in the question.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    pub host: u32,
    pub slot: u32,
    pub weight: f64,
}

/// What became of one step.
#[derive(Clone, Debug, PartialEq)]
pub enum StepOutcome {
    /// It had something to say: hosts before and after it.
    Ran {
        before: usize,
        after: usize,
    },
    /// It had nothing to say about this question.
    NotConcerned,
    Skipped(String),
}

/// The result, still in numbers; [`Explanation`] puts it into words.
pub struct Outcome<'a> {
    pub context: Context<'a>,
    pub pipeline: &'a Pipeline,
    /// Best first.
    pub ordered: Vec<Candidate>,
    /// Dropped hosts, with the filter that did it.
    pub dropped: Vec<(Candidate, u32)>,
    pub filters: Vec<StepOutcome>,
    pub weighers: Vec<StepOutcome>,
    /// Opinions of each weigher that had one, in the order of `survivors`.
    pub opinions: Vec<(u32, Vec<f64>)>,
    /// Slots in the order of opinions.
    pub survivors: Vec<u32>,
    /// Weights before any opinion, in the same order.
    pub before: Vec<f64>,
    /// How many hosts there were at the start.
    pub asked: usize,
    /// Hosts beyond those asked about, by slot after theirs.
    pub added: Vec<u32>,
}

impl Outcome<'_> {
    pub fn name(&self, candidate: &Candidate) -> &str {
        match candidate.host {
            NONE => {
                let asked = self.context.request.hosts.get(candidate.slot as usize);
                asked.map_or("", |(name, _)| name)
            }
            host => self.context.fleet.hosts.name(host),
        }
    }

    pub fn hosts(&self) -> impl Iterator<Item = &str> {
        self.ordered.iter().map(|candidate| self.name(candidate))
    }
}

/// Runs a pipeline. Pure: the same world and question always give the same order.
pub fn run<'a>(pipeline: &'a Pipeline, context: Context<'a>) -> Outcome<'a> {
    let (mut candidates, added) = candidates(pipeline, context);
    let asked = candidates.len();
    let mut dropped = Vec::new();
    let mut filters_done = Vec::with_capacity(pipeline.filters.len());
    for (number, filter) in (0..).zip(&pipeline.filters) {
        let count = candidates.len();
        let mut survivors = filters::Survivors {
            candidates: &mut candidates,
            dropped: &mut dropped,
            filter: number,
        };
        filters_done.push(match filter.apply(context, &mut survivors) {
            Ok(true) => StepOutcome::Ran {
                before: count,
                after: candidates.len(),
            },
            Ok(false) => StepOutcome::NotConcerned,
            Err(why) => StepOutcome::Skipped(why.0),
        });
    }
    // Without weighers the caller's own order must survive, which tanh would flatten. Filters do not
    // look at weights, so only those of hosts that are left are needed.
    if !pipeline.weighers.is_empty() {
        for candidate in &mut candidates {
            candidate.weight = candidate.weight.tanh();
        }
    }
    let before = candidates.iter().map(|candidate| candidate.weight).collect();
    let survivors = candidates.iter().map(|candidate| candidate.slot).collect();
    let mut opinions = Vec::new();
    let mut weighers_done = Vec::with_capacity(pipeline.weighers.len());
    for (number, (weigher, multiplier)) in (0..).zip(&pipeline.weighers) {
        let mut scores = vec![0.0; candidates.len()];
        let said = weigher.weigh(context, &candidates, &mut scores);
        weighers_done.push(match said {
            Ok(true) if scores.iter().all(|score| score.is_finite()) => {
                for (candidate, score) in candidates.iter_mut().zip(&scores) {
                    candidate.weight += multiplier * score.tanh();
                }
                opinions.push((number, scores));
                StepOutcome::Ran {
                    before: candidates.len(),
                    after: candidates.len(),
                }
            }
            Ok(true) => StepOutcome::Skipped("a weigher returned a value that is not a number".to_owned()),
            Ok(false) => StepOutcome::NotConcerned,
            Err(why) => StepOutcome::Skipped(why.0),
        });
    }
    let mut outcome = Outcome {
        context,
        pipeline,
        ordered: Vec::new(),
        dropped,
        filters: filters_done,
        weighers: weighers_done,
        opinions,
        survivors,
        before,
        added,
        asked,
    };
    sort(&outcome, &mut candidates);
    let most = context.request.options.max_candidates;
    if most > 0 {
        candidates.truncate(most);
    }
    outcome.ordered = candidates;
    outcome
}

/// Those asked about, and all others where pipeline and caller both want that.
fn candidates(pipeline: &Pipeline, context: Context<'_>) -> (Vec<Candidate>, Vec<u32>) {
    let Context { fleet, request } = context;
    // A host that is named twice is one host.
    let mut seen = vec![false; fleet.len()];
    let mut strangers: QuickMap<&str, ()> = QuickMap::default();
    let mut candidates = Vec::with_capacity(request.hosts.len());
    for (slot, (name, weight)) in (0..).zip(&request.hosts) {
        let host = fleet.hosts.find(name);
        let again = match host {
            NONE => strangers.insert(name, ()).is_some(),
            host => std::mem::replace(&mut seen[host as usize], true),
        };
        if !again {
            candidates.push(Candidate {
                host,
                slot,
                weight: *weight,
            });
        }
    }
    let mut added = Vec::new();
    if pipeline.ignore_preselection && request.options.allow_other_hosts {
        added.extend((0..).zip(&seen).filter(|(_, seen)| !**seen).map(|(host, _)| host));
        let first = u32::try_from(request.hosts.len()).unwrap_or(NONE);
        candidates.extend((first..).zip(&added).map(|(slot, host)| Candidate {
            host: *host,
            slot,
            weight: 0.0,
        }));
    }
    (candidates, added)
}

/// Best first; equals by name. Known hosts have numbers in the order of their names.
fn sort(outcome: &Outcome<'_>, candidates: &mut [Candidate]) {
    candidates.sort_unstable_by(|one, other| {
        let by_name = || match (one.host, other.host) {
            (NONE, _) | (_, NONE) => outcome.name(one).cmp(outcome.name(other)),
            (one, other) => one.cmp(&other),
        };
        other.weight.total_cmp(&one.weight).then_with(by_name)
    });
}
