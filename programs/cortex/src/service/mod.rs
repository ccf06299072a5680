//! What requests are answered from: the current view of the cloud, pipelines, and recent decisions.

pub mod figures;
pub mod http;
mod memory;
mod world;

pub use memory::{Memory, Remembered};
pub use world::{Source, World};

use std::sync::Arc;
use std::time::Instant;

use c5c3_api::cortex::SchedulingDomain;
use jiff::Timestamp;
use rand::seq::SliceRandom;
use serde_json::Value;

use crate::engine::{self, Context, Explanation, Outcome};
use crate::request::{BadRequest, Intent, Request};
use figures::Figures;

/// Nova takes only the first host of an evacuation: shuffled, a lost host's servers spread.
const SHUFFLED: usize = 3;

/// Answers questions. Everything in it is shared.
#[derive(Debug, Default)]
pub struct Scheduler {
    pub world: World,
    pub memory: Memory,
    pub figures: Figures,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    #[error(transparent)]
    Bad(#[from] BadRequest),
    #[error("pipeline {0} cannot be used: {1}")]
    Unusable(String, String),
    #[error("there is no pipeline {0}")]
    Missing(String),
}

/// An answer, and whether a Decision is to be kept of it.
#[derive(Debug)]
pub struct Answer {
    /// `{"hosts": […]}`, written straight from the names that are known.
    pub body: Vec<u8>,
    pub remembered: Option<Arc<Remembered>>,
    pub create_decision: bool,
}

impl Scheduler {
    pub fn answer(&self, domain: SchedulingDomain, body: &[u8]) -> Result<Answer, Refusal> {
        let started = Instant::now();
        let request = Request::parse(domain, body)?;
        let name = request.pipeline()?;
        let compiled = self
            .world
            .pipeline(domain, &name)
            .ok_or_else(|| Refusal::Missing(name.clone()))?;
        if let Some((step, why)) = compiled.broken_filters.first() {
            return Err(Refusal::Unusable(name, format!("{step}: {why}")));
        }
        let fleet = self.world.fleet();
        let context = Context {
            fleet: &fleet,
            request: &request,
        };
        let mut outcome = engine::run(&compiled.pipeline, context);
        self.figures.ran(&outcome, started.elapsed());
        for shadow in self.world.shadows(domain) {
            let other = engine::run(&shadow.pipeline, context);
            let same = other.hosts().next() == outcome.hosts().next();
            self.figures.compared(&shadow.pipeline.name, same);
        }
        let forget = request.options.skip_history || request.options.read_only;
        let remembered = (!forget).then(|| {
            let remembered = Arc::new(Remembered {
                at: Timestamp::now(),
                domain,
                resource: request.spec.instance.clone(),
                intent: request.spec.intent,
                explanation: Explanation::of(&outcome),
            });
            self.memory.add(remembered.clone());
            remembered
        });
        if request.spec.intent == Intent::Evacuate {
            let most = outcome.ordered.len().min(SHUFFLED);
            outcome.ordered[..most].shuffle(&mut rand::rng());
        }
        let create_decision = compiled.pipeline.create_decisions;
        self.memory.record(domain, body);
        Ok(Answer {
            body: written(&outcome),
            remembered,
            create_decision,
        })
    }

    /// What the last decisions about a server, volume or share were, newest first.
    pub fn why(&self, resource: &str) -> Vec<Value> {
        let found = self.memory.of(resource).into_iter();
        found.filter_map(|one| serde_json::to_value(&*one).ok()).collect()
    }
}

fn written(outcome: &Outcome<'_>) -> Vec<u8> {
    let mut body = br#"{"hosts":["#.to_vec();
    for (number, host) in outcome.hosts().enumerate() {
        if number > 0 {
            body.push(b',');
        }
        // Writing to a vector cannot fail, and every text is JSON.
        let _ = serde_json::to_writer(&mut body, host);
    }
    body.extend(b"]}");
    body
}
