//! Metrics for Prometheus.

use std::time::Duration;

use c5c3_kit::Metrics;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;

use crate::engine::{Outcome, StepOutcome};

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Asked {
    path: &'static str,
    code: u16,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OfPipeline {
    pipeline: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OfStep {
    pipeline: String,
    step: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Compared {
    pipeline: String,
    same: &'static str,
}

fn seconds() -> Histogram {
    Histogram::new([
        0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1.0,
    ])
}

#[derive(Clone, Debug)]
pub struct Figures {
    requests: Family<Asked, Histogram, fn() -> Histogram>,
    runs: Family<OfPipeline, Histogram, fn() -> Histogram>,
    dropped: Family<OfStep, Counter>,
    skipped: Family<OfStep, Counter>,
    empty: Family<OfPipeline, Counter>,
    shadows: Family<Compared, Counter>,
    pub decisions_lost: Counter,
}

impl Default for Figures {
    fn default() -> Self {
        Figures {
            requests: Family::new_with_constructor(seconds),
            runs: Family::new_with_constructor(seconds),
            dropped: Family::default(),
            skipped: Family::default(),
            empty: Family::default(),
            shadows: Family::default(),
            decisions_lost: Counter::default(),
        }
    }
}

impl Figures {
    pub fn register(&self, metrics: &Metrics) {
        metrics.extend(|registry| {
            registry.register(
                "cortex_scheduler_api_request_duration_seconds",
                "Time to answer a request",
                self.requests.clone(),
            );
            registry.register(
                "cortex_filter_weigher_pipeline_run_duration_seconds",
                "Time to run a pipeline, including reading the request",
                self.runs.clone(),
            );
            registry.register(
                "cortex_filter_weigher_pipeline_hosts_dropped",
                "Hosts that a filter dropped",
                self.dropped.clone(),
            );
            registry.register(
                "cortex_filter_weigher_pipeline_steps_skipped",
                "Runs in which a step was skipped",
                self.skipped.clone(),
            );
            registry.register(
                "cortex_filter_weigher_pipeline_no_host",
                "Runs after which no host was left",
                self.empty.clone(),
            );
            registry.register(
                "cortex_shadow_pipeline_compared",
                "Runs of a shadow pipeline, and whether it chose the same host",
                self.shadows.clone(),
            );
            registry.register(
                "cortex_decisions_lost",
                "Decisions that were not stored because the API server was too slow",
                self.decisions_lost.clone(),
            );
        });
    }

    pub fn answered(&self, path: &'static str, code: u16, took: Duration) {
        let asked = Asked { path, code };
        self.requests.get_or_create(&asked).observe(took.as_secs_f64());
    }

    pub fn ran(&self, outcome: &Outcome<'_>, took: Duration) {
        let pipeline = &outcome.pipeline.name;
        let of_pipeline = OfPipeline {
            pipeline: pipeline.clone(),
        };
        self.runs.get_or_create(&of_pipeline).observe(took.as_secs_f64());
        if outcome.ordered.is_empty() {
            self.empty.get_or_create(&of_pipeline).inc();
        }
        let step = |step: &'static str| OfStep {
            pipeline: pipeline.clone(),
            step,
        };
        let filters = outcome.pipeline.filters.iter().map(crate::engine::Filter::name);
        let weighers = outcome
            .pipeline
            .weighers
            .iter()
            .map(|(weigher, _)| weigher.name());
        let done = outcome.filters.iter().chain(&outcome.weighers);
        for (name, done) in filters.chain(weighers).zip(done) {
            match done {
                StepOutcome::Ran { before, after } if before > after => {
                    let count = (before - after) as u64;
                    self.dropped.get_or_create(&step(name)).inc_by(count);
                }
                StepOutcome::Skipped(_) => {
                    self.skipped.get_or_create(&step(name)).inc();
                }
                _ => {}
            }
        }
    }

    pub fn compared(&self, pipeline: &str, same: bool) {
        let compared = Compared {
            pipeline: pipeline.to_owned(),
            same: if same { "yes" } else { "no" },
        };
        self.shadows.get_or_create(&compared).inc();
    }
}
