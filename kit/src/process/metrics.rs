//! Prometheus metrics of every controller.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use futures::future::BoxFuture;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::lock;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Passes {
    controller: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByController {
    controller: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Errors {
    controller: &'static str,
    reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Writes {
    controller: &'static str,
    kind: String,
    verb: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Watches {
    controller: &'static str,
    kind: String,
}

/// Buckets from a millisecond to half a minute.
const BUCKETS: [f64; 12] = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0];

/// Updates metrics whose values are kept elsewhere.
pub type Refresh = Box<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>;

/// Cheap to clone; every clone counts into the same numbers.
#[derive(Clone)]
pub struct Metrics {
    registry: Arc<Mutex<Registry>>,
    passes: Family<Passes, Counter>,
    duration: Family<ByController, Histogram, fn() -> Histogram>,
    errors: Family<Errors, Counter>,
    queue: Family<ByController, Gauge>,
    writes: Family<Writes, Counter>,
    watch_errors: Family<Watches, Counter>,
    refresh: Arc<OnceLock<Refresh>>,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("c5c3");
        let metrics = Metrics {
            registry: Arc::default(),
            passes: Family::default(),
            duration: Family::new_with_constructor(|| Histogram::new(BUCKETS)),
            errors: Family::default(),
            queue: Family::default(),
            writes: Family::default(),
            watch_errors: Family::default(),
            refresh: Arc::default(),
        };
        registry.register("reconcile", "Reconcile passes", metrics.passes.clone());
        registry.register(
            "reconcile_duration_seconds",
            "Duration of a pass",
            metrics.duration.clone(),
        );
        registry.register(
            "reconcile_errors",
            "Failed passes by reason",
            metrics.errors.clone(),
        );
        registry.register("queue_depth", "Objects waiting for a pass", metrics.queue.clone());
        registry.register("api_writes", "Writes to the API server", metrics.writes.clone());
        registry.register(
            "watch_errors",
            "Watches that were restarted",
            metrics.watch_errors.clone(),
        );
        *lock(&metrics.registry) = registry;
        metrics
    }
}

impl Metrics {
    /// Adds metrics of a program's own.
    pub fn extend(&self, add: impl FnOnce(&mut Registry)) {
        add(&mut lock(&self.registry));
    }

    /// Called before every scrape, so that values are fetched only when they are read. The first one
    /// set is kept.
    pub fn refresh_with(&self, refresh: Refresh) {
        let _ = self.refresh.set(refresh);
    }

    pub(crate) async fn refreshed(&self) {
        if let Some(refresh) = self.refresh.get() {
            refresh().await;
        }
    }

    pub fn passed(&self, controller: &'static str, took: Duration, failure: Option<&str>) {
        let outcome = if failure.is_some() { "error" } else { "success" };
        self.passes.get_or_create(&Passes { controller, outcome }).inc();
        self.duration
            .get_or_create(&ByController { controller })
            .observe(took.as_secs_f64());
        if let Some(reason) = failure {
            let reason = reason.to_owned();
            self.errors.get_or_create(&Errors { controller, reason }).inc();
        }
    }

    pub fn wrote(&self, controller: &'static str, kind: &str, verb: &'static str) {
        let kind = kind.to_owned();
        self.writes
            .get_or_create(&Writes {
                controller,
                kind,
                verb,
            })
            .inc();
    }

    pub fn queue(&self, controller: &'static str, depth: usize) {
        let depth = i64::try_from(depth).unwrap_or(i64::MAX);
        self.queue.get_or_create(&ByController { controller }).set(depth);
    }

    pub fn watch_failed(&self, controller: &'static str, kind: &str) {
        let kind = kind.to_owned();
        self.watch_errors
            .get_or_create(&Watches { controller, kind })
            .inc();
    }

    /// The text that Prometheus scrapes.
    pub fn render(&self) -> String {
        let mut text = String::new();
        // Writing to a String does not fail.
        let _ = encode(&mut text, &lock(&self.registry));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_names_every_metric() {
        let metrics = Metrics::default();
        metrics.passed("a", Duration::from_millis(2), None);
        metrics.passed("a", Duration::from_millis(2), Some("SourceMissing"));
        metrics.wrote("a", "Secret", "apply");
        metrics.queue("a", 3);
        metrics.watch_failed("a", "Secret");
        let text = metrics.render();
        for line in [
            "c5c3_reconcile_total{controller=\"a\",outcome=\"success\"} 1",
            "c5c3_reconcile_errors_total{controller=\"a\",reason=\"SourceMissing\"} 1",
            "c5c3_reconcile_duration_seconds_count{controller=\"a\"} 2",
            "c5c3_api_writes_total{controller=\"a\",kind=\"Secret\",verb=\"apply\"} 1",
            "c5c3_queue_depth{controller=\"a\"} 3",
            "c5c3_watch_errors_total{controller=\"a\",kind=\"Secret\"} 1",
        ] {
            assert!(text.contains(line), "{line} is missing from\n{text}");
        }
    }
}
