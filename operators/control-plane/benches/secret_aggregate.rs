//! What a thousand SecretAggregates cost: memory of the operator's process, writes in an idle minute,
//! and the time from a changed source to a changed target, beside the time that the API server alone
//! needs from a write to the watch event of it.
//!
//! With the embedded server, the memory is that of server and operator together.
//! `C5C3_BENCH_AGGREGATES` and `C5C3_BENCH_IDLE_SECONDS` change the size.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use c5c3_api::c5c3::{SecretAggregate, SecretAggregateSpec, SecretSource};
use c5c3_api::common::LocalRef;
use c5c3_control_plane::{Settings, run};
use c5c3_kit::{Clusters, Metrics, Stop};
use futures::stream::{BoxStream, StreamExt};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::CustomResourceExt;
use kube::api::{Api, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::runtime::{WatchStreamExt, watcher};
use serde_json::json;
use test_harness::{TestCluster, within};

const SAMPLES: usize = 200;

fn setting(name: &str, default: usize) -> usize {
    std::env::var(name)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}

#[tokio::main]
async fn main() {
    // `cargo test --benches` only asks whether this starts.
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let count = setting("C5C3_BENCH_AGGREGATES", 1000);
    let cluster = TestCluster::start().await;
    cluster.install(&SecretAggregate::crd()).await;
    let namespace = cluster.namespace("bench").await;
    let secrets: Api<Secret> = Api::namespaced(cluster.client(), &namespace);
    let aggregates: Api<SecretAggregate> = Api::namespaced(cluster.client(), &namespace);
    println!(
        "server: {}",
        if cluster.is_embedded() {
            "embedded, in this process"
        } else {
            "C5C3_TEST_KUBECONFIG"
        }
    );

    let (_stopper, stop) = Stop::channel();
    let metrics = Metrics::default();
    let settings = Settings {
        namespace: Some(namespace.clone()),
    };
    tokio::spawn(run(
        Clusters::of(cluster.client()),
        metrics.clone(),
        settings,
        stop,
    ));
    tokio::time::sleep(Duration::from_secs(1)).await;
    println!("memory of the process with 0 aggregates: {} KiB", resident());

    let start = Instant::now();
    for i in 0..count {
        secrets
            .create(&PostParams::default(), &source(i))
            .await
            .expect("a source");
        aggregates
            .create(&PostParams::default(), &aggregate(i))
            .await
            .expect("an aggregate");
    }
    println!(
        "{count} sources and {count} aggregates created in {:.1} s",
        start.elapsed().as_secs_f64()
    );
    within(
        Duration::from_secs(600),
        Duration::from_secs(1),
        "all are Ready",
        async || {
            let list = aggregates.list(&ListParams::default()).await.expect("readable");
            (list.items.iter().filter(|a| is_ready(a)).count() == count).then_some(())
        },
    )
    .await;
    println!(
        "all Ready {:.1} s after the first was created",
        start.elapsed().as_secs_f64()
    );
    tokio::time::sleep(Duration::from_secs(3)).await;
    println!(
        "memory of the process with {count} aggregates: {} KiB",
        resident()
    );

    let idle = Duration::from_secs(setting("C5C3_BENCH_IDLE_SECONDS", 60) as u64);
    let before = cluster.writes().await;
    tokio::time::sleep(idle).await;
    let after = cluster.writes().await;
    println!(
        "writes in {} s of idleness, counted by the server: {}",
        idle.as_secs(),
        written(&before, &after)
    );

    let mut bare = Vec::with_capacity(SAMPLES);
    let mut whole = Vec::with_capacity(SAMPLES);
    let mut events = changes(secrets.clone());
    for sample in 0..SAMPLES {
        let i = sample % count;
        let value = format!("value-{sample}");
        let start = Instant::now();
        let patch = json!({"stringData": {format!("key-{i}"): &value}});
        let name = format!("source-{i}");
        let params = PatchParams::default();
        secrets
            .patch(&name, &params, &Patch::Merge(&patch))
            .await
            .expect("patched");
        let (mut source_seen, mut target_seen) = (None, None);
        while source_seen.is_none() || target_seen.is_none() {
            let secret = tokio::time::timeout(Duration::from_secs(30), events.next())
                .await
                .expect("an event in 30 s")
                .expect("the watch goes on");
            let data = secret.data.unwrap_or_default();
            if data
                .get(&format!("key-{i}"))
                .is_none_or(|v| v.0 != value.as_bytes())
            {
                continue;
            }
            let name = secret.metadata.name.unwrap_or_default();
            if name == format!("source-{i}") {
                source_seen.get_or_insert(start.elapsed());
            } else if name == format!("target-{i}") {
                target_seen.get_or_insert(start.elapsed());
            }
        }
        bare.extend(source_seen);
        whole.extend(target_seen);
    }
    println!(
        "baseline, write to watch event of the same Secret: {}",
        percentiles(bare)
    );
    println!(
        "source changed to target changed:                  {}",
        percentiles(whole)
    );
}

fn source(i: usize) -> Secret {
    Secret {
        metadata: named(format!("source-{i}")),
        data: Some(BTreeMap::from([(
            format!("key-{i}"),
            ByteString(b"first".to_vec()),
        )])),
        ..Secret::default()
    }
}

fn aggregate(i: usize) -> SecretAggregate {
    let from = |name: String| SecretSource {
        secret_ref: LocalRef::new(name),
        keys: Vec::new(),
    };
    let spec = SecretAggregateSpec {
        sources: vec![from(format!("source-{i}"))],
        target: LocalRef::new(format!("target-{i}")),
    };
    SecretAggregate::new(&format!("aggregate-{i}"), spec)
}

fn named(name: String) -> ObjectMeta {
    ObjectMeta {
        name: Some(name),
        ..ObjectMeta::default()
    }
}

fn is_ready(object: &SecretAggregate) -> bool {
    let mut conditions = object.status.iter().flat_map(|status| &status.conditions);
    conditions.any(|c| c.type_ == "Ready" && c.status == "True")
}

fn changes(secrets: Api<Secret>) -> BoxStream<'static, Secret> {
    let watched = watcher(secrets, watcher::Config::default())
        .default_backoff()
        .applied_objects();
    watched.filter_map(|event| async move { event.ok() }).boxed()
}

/// Resident memory in KiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().nth(1));
    number.and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn written(before: &BTreeMap<String, u64>, after: &BTreeMap<String, u64>) -> String {
    let total: u64 = ["secrets", "secretaggregates", "events"]
        .iter()
        .map(|resource| after.get(*resource).unwrap_or(&0) - before.get(*resource).unwrap_or(&0))
        .sum();
    total.to_string()
}

fn percentiles(mut times: Vec<Duration>) -> String {
    times.sort();
    let at = |part: f64| {
        let position = ((times.len() as f64 - 1.0) * part).round() as usize;
        times.get(position).map_or(0.0, Duration::as_secs_f64) * 1000.0
    };
    format!(
        "p50 {:.2} ms, p99 {:.2} ms ({} samples)",
        at(0.5),
        at(0.99),
        times.len()
    )
}
