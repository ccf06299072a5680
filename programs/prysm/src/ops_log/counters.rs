//! Counts entries by the chosen families. Users and buckets are names that tenants make up, so
//! the number of series is bounded; what is beyond the bound is counted together as `other`.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::entry::Entry;
use super::families::{Amount, Family};
use crate::exposition::{Page, Type};

/// Series in one message: NATS takes no message of more than a mebibyte.
const IN_A_MESSAGE: usize = 1000;

/// Between label values in a key: no name of RadosGW holds it.
const BETWEEN: char = '\u{1f}';
const OTHER: &str = "other";

#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Series of one family.
    pub series: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { series: 10_000 }
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Series {
    count: u64,
    /// Of a histogram: entries by bucket, the last one for those beyond, and their sum.
    buckets: Box<[u64]>,
    sum: f64,
}

struct Counted {
    family: &'static Family,
    series: HashMap<Box<str>, Series>,
    /// Entries that were counted as `other`.
    folded: u64,
}

/// All counters of a producer.
pub struct Counters {
    pod: String,
    limits: Limits,
    ignore_anonymous: bool,
    families: Vec<Counted>,
    pub entries: u64,
    pub ignored: u64,
    totals: Totals,
    key: String,
}

/// Of all entries that count.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    requests: u64,
    bytes_sent: u64,
    bytes_received: u64,
    errors: u64,
}

impl Counters {
    pub fn new(families: Vec<&'static Family>, pod: &str, limits: Limits, ignore_anonymous: bool) -> Self {
        let counted = |family| Counted {
            family,
            series: HashMap::new(),
            folded: 0,
        };
        Counters {
            pod: pod.to_owned(),
            limits,
            ignore_anonymous,
            families: families.into_iter().map(counted).collect(),
            entries: 0,
            ignored: 0,
            totals: Totals::default(),
            key: String::new(),
        }
    }

    /// `false`: it is one of those that are not counted.
    pub fn count(&mut self, entry: &Entry<'_>) -> bool {
        self.entries += 1;
        if self.ignore_anonymous && entry.is_anonymous() {
            self.ignored += 1;
            return false;
        }
        self.totals.requests += 1;
        self.totals.bytes_sent = self.totals.bytes_sent.saturating_add(entry.bytes_sent);
        self.totals.bytes_received = self.totals.bytes_received.saturating_add(entry.bytes_received);
        self.totals.errors += u64::from(entry.is_error());
        for counted in &mut self.families {
            let family = counted.family;
            let Some(amount) = family.measure.amount(entry) else {
                continue;
            };
            self.key.clear();
            for label in family.labels {
                push(&mut self.key, label.value(entry, &self.pod));
            }
            let full = counted.series.len() >= self.limits.series;
            if full && !counted.series.contains_key(self.key.as_str()) {
                counted.folded += 1;
                self.key.clear();
                for _ in family.labels {
                    push(&mut self.key, OTHER);
                }
            }
            let series = match counted.series.get_mut(self.key.as_str()) {
                Some(series) => series,
                None => counted.series.entry(self.key.as_str().into()).or_default(),
            };
            series.add(amount, family.measure.buckets());
        }
        true
    }

    /// `malformed` is what the decoder could not read.
    pub fn render(&self, page: &mut Page, malformed: u64) {
        for (name, help, value) in [
            (
                "prysm_ops_log_entries_total",
                "Entries of the log that were read.",
                self.entries,
            ),
            (
                "prysm_ops_log_ignored_total",
                "Entries of anonymous requests, which are not counted.",
                self.ignored,
            ),
            (
                "prysm_ops_log_malformed_total",
                "Parts of the log that are not valid entries.",
                malformed,
            ),
        ] {
            page.family(name, Type::Counter, help);
            page.sample(name, [], value);
        }
        let dropped = "prysm_series_dropped_total";
        page.family(
            dropped,
            Type::Counter,
            "Entries counted as `other` because a metric has reached its maximum number of series.",
        );
        for counted in &self.families {
            page.sample(dropped, [("family", counted.family.name)], counted.folded);
        }
        for counted in &self.families {
            counted.render(page);
        }
    }

    /// The same as messages: first the sums, then the series of each family.
    pub fn messages(&self) -> Vec<Value> {
        let totals = self.totals;
        let mut messages = vec![json!({
            "pod": self.pod, "total_requests": totals.requests, "bytes_sent": totals.bytes_sent,
            "bytes_received": totals.bytes_received, "errors": totals.errors,
        })];
        for counted in &self.families {
            let samples: Vec<Value> = counted
                .series
                .iter()
                .map(|(key, series)| counted.sample(key, series))
                .collect();
            let parts = samples.chunks(IN_A_MESSAGE);
            messages.extend(
                parts.map(|part| json!({"pod": self.pod, "family": counted.family.name, "samples": part})),
            );
        }
        messages
    }
}

fn push(key: &mut String, value: &str) {
    key.push_str(value);
    key.push(BETWEEN);
}

impl Series {
    fn add(&mut self, amount: Amount, buckets: &[f64]) {
        match amount {
            Amount::Count(count) => self.count = self.count.saturating_add(count),
            Amount::Seconds(seconds) => {
                if self.buckets.is_empty() {
                    self.buckets = vec![0; buckets.len() + 1].into();
                }
                let index = buckets.partition_point(|bound| *bound < seconds);
                if let Some(bucket) = self.buckets.get_mut(index) {
                    *bucket += 1;
                }
                self.count += 1;
                self.sum += seconds;
            }
        }
    }
}

impl Counted {
    fn labels<'a>(&self, key: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        let names = self.family.labels.iter().map(|label| label.name());
        names.zip(key.split(BETWEEN))
    }

    fn sample(&self, key: &str, series: &Series) -> Value {
        let labels: serde_json::Map<String, Value> = self
            .labels(key)
            .map(|(name, value)| (name.to_owned(), value.into()))
            .collect();
        let mut sample = json!({"labels": labels, "count": series.count});
        if !series.buckets.is_empty() {
            sample["sum"] = series.sum.into();
        }
        sample
    }

    fn render(&self, page: &mut Page) {
        let (family, bounds) = (self.family, self.family.measure.buckets());
        let kind = if bounds.is_empty() {
            Type::Counter
        } else {
            Type::Histogram
        };
        page.family(family.name, kind, family.help);
        let texts: Vec<String> = bounds
            .iter()
            .map(f64::to_string)
            .chain(["+Inf".to_owned()])
            .collect();
        // Sorted, so that two pages can be compared by eye.
        let mut all: Vec<_> = self.series.iter().collect();
        all.sort_by_key(|(key, _)| *key);
        for (key, series) in all {
            let labels = || self.labels(key);
            if bounds.is_empty() {
                page.sample(family.name, labels(), series.count);
                continue;
            }
            let name = format!("{}_bucket", family.name);
            let mut below = 0;
            for (bound, count) in texts.iter().zip(series.buckets.iter()) {
                below += count;
                page.sample(&name, labels().chain([("le", bound.as_str())]), below);
            }
            page.sample(&format!("{}_sum", family.name), labels(), series.sum);
            page.sample(&format!("{}_count", family.name), labels(), series.count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::families::choose;
    use super::*;

    fn counters(names: &[&str], series: usize) -> Counters {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        Counters::new(
            choose(&names).expect("families"),
            "rgw-0",
            Limits { series },
            true,
        )
    }

    fn entry(user: &str, bucket: &str, status: &str, sent: u64, millis: u64) -> Entry<'static> {
        Entry {
            bucket: bucket.to_owned().into(),
            remote_addr: "10.0.0.9".into(),
            user: user.to_owned().into(),
            operation: "get_obj".into(),
            uri: "GET /b/k HTTP/1.1".into(),
            http_status: status.to_owned().into(),
            bytes_sent: sent,
            bytes_received: 0,
            total_time: millis,
        }
    }

    fn rendered(counters: &Counters, malformed: u64) -> String {
        let mut page = Page::default();
        counters.render(&mut page, malformed);
        page.text()
    }

    fn has(page: &str, line: &str) {
        assert!(page.lines().any(|each| each == line), "{line}\nis not in\n{page}");
    }

    #[test]
    fn requests_bytes_and_errors_are_added_up_by_their_labels() {
        let mut counters = counters(
            &[
                "radosgw_total_requests_per_tenant",
                "radosgw_bytes_sent",
                "radosgw_errors_per_status",
            ],
            100,
        );
        counters.count(&entry("acme$ann", "b", "200", 10, 1));
        counters.count(&entry("acme$bob", "b", "200", 5, 1));
        counters.count(&entry("acme$ann", "b", "404", 1, 1));
        counters.count(&entry("anonymous", "b", "200", 99, 1));
        let page = rendered(&counters, 7);
        has(
            &page,
            r#"radosgw_total_requests_per_tenant{pod="rgw-0",tenant="acme",method="GET",http_status="200"} 2"#,
        );
        has(
            &page,
            r#"radosgw_bytes_sent{pod="rgw-0",user="ann",tenant="acme",bucket="b"} 11"#,
        );
        has(
            &page,
            r#"radosgw_errors_per_status{pod="rgw-0",http_status="404"} 1"#,
        );
        has(&page, "prysm_ops_log_entries_total 4");
        has(&page, "prysm_ops_log_ignored_total 1");
        has(&page, "prysm_ops_log_malformed_total 7");

        let messages = counters.messages();
        assert_eq!(messages[0]["total_requests"], 3);
        assert_eq!(
            (&messages[0]["bytes_sent"], &messages[0]["errors"]),
            (&16.into(), &1.into())
        );
        let sent = messages
            .iter()
            .find(|message| message["family"] == "radosgw_bytes_sent");
        let samples = sent
            .and_then(|message| message["samples"].as_array())
            .expect("samples");
        assert!(
            samples
                .iter()
                .any(|sample| sample["labels"]["user"] == "ann" && sample["count"] == 11)
        );
    }

    #[test]
    fn the_buckets_of_a_histogram_add_up() {
        let mut counters = counters(&["radosgw_requests_duration_per_method"], 100);
        for millis in [5, 6, 100, 60_000, 0] {
            counters.count(&entry("a$b", "b", "200", 0, millis));
        }
        let page = rendered(&counters, 0);
        let name = "radosgw_requests_duration_per_method";
        has(&page, &format!(r#"{name}_bucket{{method="GET",le="0.005"}} 1"#));
        has(&page, &format!(r#"{name}_bucket{{method="GET",le="0.1"}} 3"#));
        has(&page, &format!(r#"{name}_bucket{{method="GET",le="10"}} 3"#));
        has(&page, &format!(r#"{name}_bucket{{method="GET",le="+Inf"}} 4"#));
        has(&page, &format!(r#"{name}_count{{method="GET"}} 4"#));
    }

    #[test]
    fn series_are_bounded_sums_stay_right_and_the_rest_is_named() {
        let mut counters = counters(&["radosgw_bytes_sent_per_bucket"], 2);
        for bucket in ["a", "b", "c", "d", "a"] {
            counters.count(&entry("t$u", bucket, "200", 1, 0));
        }
        let page = rendered(&counters, 0);
        has(
            &page,
            r#"radosgw_bytes_sent_per_bucket{pod="rgw-0",tenant="t",bucket="a"} 2"#,
        );
        has(
            &page,
            r#"radosgw_bytes_sent_per_bucket{pod="other",tenant="other",bucket="other"} 2"#,
        );
        has(
            &page,
            r#"prysm_series_dropped_total{family="radosgw_bytes_sent_per_bucket"} 2"#,
        );
        assert!(counters.families[0].series.len() <= 3);
    }
}
