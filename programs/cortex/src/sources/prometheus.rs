//! Series of Prometheus, and what they say about hosts, servers and projects.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde::Deserialize;

use super::web::{self, WebError};
use crate::fleet::{Contention, Noise, Server, Steal};

/// One series: its labels and its values, oldest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    pub labels: BTreeMap<String, String>,
    pub values: Vec<f64>,
}

#[derive(Debug, thiserror::Error)]
pub enum PrometheusError {
    #[error(transparent)]
    Web(#[from] WebError),
    #[error("cannot understand the answer of Prometheus: {0}")]
    Answer(String),
}

/// A query over a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    pub url: String,
    pub query: String,
    pub range: Duration,
    pub step: Duration,
}

#[derive(Deserialize)]
struct Answer {
    data: Data,
}

#[derive(Deserialize)]
struct Data {
    result: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    metric: BTreeMap<String, String>,
    values: Vec<(f64, String)>,
}

fn escaped(text: &str) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(byte);
    text.bytes()
        .map(|byte| {
            if plain(&byte) {
                char::from(byte).to_string()
            } else {
                format!("%{byte:02X}")
            }
        })
        .collect()
}

pub async fn read(query: &Query, now: Timestamp) -> Result<Vec<Series>, PrometheusError> {
    let end = now.as_second();
    let range = i64::try_from(query.range.as_secs()).unwrap_or(i64::MAX);
    let url = format!(
        "{}/api/v1/query_range?query={}&start={}&end={end}&step={}",
        query.url.trim_end_matches('/'),
        escaped(&query.query),
        end.saturating_sub(range),
        query.step.as_secs().max(1),
    );
    parse(&web::get(&url).await?)
}

pub fn parse(body: &[u8]) -> Result<Vec<Series>, PrometheusError> {
    let answer: Answer =
        serde_json::from_slice(body).map_err(|error| PrometheusError::Answer(error.to_string()))?;
    let rows = answer.data.result.into_iter();
    Ok(rows
        .map(|row| Series {
            labels: row.metric,
            // NaN is Prometheus' word for nothing.
            values: row
                .values
                .iter()
                .filter_map(|(_, value)| value.parse().ok())
                .filter(|value: &f64| value.is_finite())
                .collect(),
        })
        .collect())
}

fn label<'a>(series: &'a Series, names: &[&str]) -> Option<&'a String> {
    names.iter().find_map(|name| series.labels.get(*name))
}

const HOST: [&str; 4] = ["compute_host", "host", "node", "hostsystem"];
const SERVER: [&str; 4] = ["instance_uuid", "server", "domain", "uuid"];

fn largest(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

fn mean(values: &[f64]) -> f64 {
    if values.is_empty() {
        0.0
    } else {
        values.iter().sum::<f64>() / values.len() as f64
    }
}

/// Contention of hosts.
pub fn contention(all: &[Series]) -> BTreeMap<String, Contention> {
    let mut hosts: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for series in all {
        if let Some(host) = label(series, &HOST) {
            hosts.entry(host.clone()).or_default().extend(&series.values);
        }
    }
    let of = |values: Vec<f64>| Contention {
        avg: mean(&values),
        max: largest(&values),
    };
    hosts
        .into_iter()
        .map(|(host, values)| (host, of(values)))
        .collect()
}

/// Time that servers waited, with the hosts on which they are now.
pub fn steal(all: &[Series], servers: &BTreeMap<String, Server>) -> Vec<Steal> {
    let mut found: BTreeMap<&String, f64> = BTreeMap::new();
    for series in all {
        if let Some(server) = label(series, &SERVER) {
            let most = found.entry(server).or_default();
            *most = most.max(largest(&series.values));
        }
    }
    let known = found.into_iter().filter_map(|(id, max_pct)| {
        let server = servers.get(id)?;
        Some(Steal {
            server: id.clone(),
            host: server.host.clone(),
            max_pct,
        })
    });
    known.collect()
}

/// Use of processors by the projects' servers on each host.
pub fn noise(all: &[Series], servers: &BTreeMap<String, Server>) -> Vec<Noise> {
    let mut sums: BTreeMap<(&String, &String), Vec<f64>> = BTreeMap::new();
    for series in all {
        if let Some(server) = label(series, &SERVER).and_then(|id| servers.get(id)) {
            let key = (&server.project, &server.host);
            sums.entry(key).or_default().push(mean(&series.values));
        }
    }
    let of = |((project, host), values): ((&String, &String), Vec<f64>)| Noise {
        project: project.clone(),
        host: host.clone(),
        avg_cpu: mean(&values),
    };
    sums.into_iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &str = r#"{"status":"success","data":{"resultType":"matrix","result":[
        {"metric":{"compute_host":"a","domain":"s1"},"values":[[1,"10"],[2,"30"],[3,"NaN"]]},
        {"metric":{"compute_host":"a","domain":"gone"},"values":[[1,"20"]]}]}}"#;

    #[test]
    fn series_become_features() {
        let all = parse(BODY.as_bytes()).expect("parses");
        assert_eq!(all[0].values, [10.0, 30.0]);
        assert_eq!(contention(&all)["a"], Contention { avg: 20.0, max: 30.0 });
        let server = Server {
            host: "b".into(),
            project: "p".into(),
            ..Server::default()
        };
        let servers = [("s1".to_owned(), server)].into();
        let steal = steal(&all, &servers);
        assert_eq!(
            (steal.len(), steal[0].host.as_str(), steal[0].max_pct),
            (1, "b", 30.0)
        );
        assert_eq!(noise(&all, &servers)[0].avg_cpu, 20.0);
        assert!(parse(b"{}").is_err());
        assert_eq!(escaped("rate(x[5m]) / 2"), "rate%28x%5B5m%5D%29%20%2F%202");
    }
}
