//! Counters for `/metrics`.

use std::{
    fmt::Write as _,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicI64, AtomicU64},
    },
};

use prometheus_client::{
    encoding::{EncodeLabelSet, text},
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

use crate::store::Store;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Call {
    cluster: String,
    verb: String,
    group: String,
    resource: String,
    subresource: String,
    code: u16,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Written {
    cluster: String,
    group: String,
    kind: String,
    verb: String,
    user: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Verb {
    verb: String,
}

pub struct Metrics {
    registry: Registry,
    /// Figures of what else lives in this process, as text.
    others: OnceLock<Box<dyn Fn() -> String + Send + Sync>>,
    requests: Family<Call, Counter<u64, AtomicU64>>,
    seconds: Family<Verb, Histogram>,
    writes: Family<Written, Counter<u64, AtomicU64>>,
    pub watches: Gauge<i64, AtomicI64>,
    pub dropped_watches: Counter<u64, AtomicU64>,
}

fn duration_histogram() -> Histogram {
    Histogram::new([0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0])
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::default();
        let requests = Family::default();
        let seconds = Family::new_with_constructor(duration_histogram as fn() -> Histogram);
        let writes = Family::default();
        let watches = Gauge::default();
        let dropped_watches = Counter::default();
        registry.register(
            "apiserver_request",
            "Requests by verb, resource and code",
            requests.clone(),
        );
        registry.register(
            "apiserver_request_duration_seconds",
            "Time to answer, watches excluded",
            seconds.clone(),
        );
        registry.register(
            "apiserver_writes",
            "Objects written by kind and user",
            writes.clone(),
        );
        registry.register("apiserver_watches", "Open watches", watches.clone());
        registry.register(
            "apiserver_watches_dropped",
            "Watches ended because the reader fell behind the history",
            dropped_watches.clone(),
        );
        Self {
            registry,
            others: OnceLock::new(),
            requests,
            seconds,
            writes,
            watches,
            dropped_watches,
        }
    }
}

/// What is timed: all but watches.
const VERBS: [&str; 11] = [
    "get",
    "list",
    "create",
    "update",
    "patch",
    "delete",
    "deletecollection",
    // Of paths that are no resource.
    "post",
    "put",
    "head",
    "options",
];

impl Metrics {
    pub fn request(
        &self,
        cluster: &str,
        attributes: &crate::identity::Attributes,
        code: u16,
        elapsed: std::time::Duration,
    ) {
        // Paths that are no resource come from anyone and without bound: they share one series.
        let call = Call {
            cluster: cluster.to_owned(),
            verb: attributes.verb.to_string(),
            group: attributes.group.clone(),
            resource: attributes.resource.clone(),
            subresource: attributes.subresource.clone(),
            code,
        };
        // Unknown resources would let a client grow the series without bound.
        if code != 404 && code != 400 && code != 403 && code != 401 {
            self.requests.get_or_create(&call).inc();
        }
        // A method that nobody knows is a word of the client's own.
        if VERBS.contains(&attributes.verb.as_str()) {
            self.seconds
                .get_or_create(&Verb {
                    verb: attributes.verb.to_string(),
                })
                .observe(elapsed.as_secs_f64());
        }
    }

    /// Shows these figures too. Only the first who asks is heard.
    pub fn join(&self, others: Box<dyn Fn() -> String + Send + Sync>) {
        let _ = self.others.set(others);
    }

    /// One object written.
    pub fn wrote(&self, cluster: &str, group: &str, kind: &str, verb: &crate::verb::Verb, user: &str) {
        let written = Written {
            cluster: cluster.to_owned(),
            group: group.to_owned(),
            kind: kind.to_owned(),
            verb: verb.to_string(),
            user: user.to_owned(),
        };
        self.writes.get_or_create(&written).inc();
    }

    /// The text format of Prometheus.
    pub fn render(&self, store: &Store) -> String {
        let mut out = String::new();
        let _ = writeln!(out, "# HELP apiserver_storage_objects Objects by resource.");
        let _ = writeln!(out, "# TYPE apiserver_storage_objects gauge");
        let mut collections = store.collections();
        collections.sort();
        for collection in collections {
            let _ = writeln!(
                out,
                "apiserver_storage_objects{{cluster={:?},group={:?},resource={:?}}} {}",
                collection.cluster,
                collection.group,
                collection.resource,
                store.count(&collection)
            );
        }
        let _ = writeln!(out, "# HELP apiserver_storage_revision Newest revision.");
        let _ = writeln!(out, "# TYPE apiserver_storage_revision gauge");
        let _ = writeln!(out, "apiserver_storage_revision {}", store.revision());
        // What ends the text of the others does not end ours.
        let others = self.others.get().map(|others| others()).unwrap_or_default();
        out.push_str(others.trim_end().trim_end_matches("# EOF"));
        let mut rest = String::new();
        if text::encode(&mut rest, &self.registry).is_ok() {
            out.push_str(&rest);
        }
        out
    }
}

/// Counts a watch as open for as long as it lives.
pub struct OpenWatch(Arc<Metrics>);

impl OpenWatch {
    pub fn new(metrics: &Arc<Metrics>) -> Self {
        metrics.watches.inc();
        Self(metrics.clone())
    }
}

impl Drop for OpenWatch {
    fn drop(&mut self) {
        self.0.watches.dec();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{History, Redb};

    #[test]
    fn figures_of_others_stand_among_ours_and_the_text_ends_once() {
        let metrics = Metrics::default();
        metrics.join(Box::new(|| "c5c3_queue_depth 3\n# EOF\n".to_owned()));
        metrics.join(Box::new(|| "never 1\n".to_owned()));
        let directory = tempfile::tempdir().expect("a directory");
        let disk = Redb::open(&directory.path().join("store.redb")).expect("a store");
        let store = Store::open(Box::new(disk), History::default()).expect("opens");
        let text = metrics.render(&store);
        assert!(text.contains("\nc5c3_queue_depth 3\n#"), "{text}");
        assert!(!text.contains("never"), "{text}");
        assert_eq!(text.matches("# EOF").count(), 1, "{text}");
        assert!(text.ends_with("# EOF\n"), "{text}");
    }
}
