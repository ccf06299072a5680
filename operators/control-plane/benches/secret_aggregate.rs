//! What a thousand SecretAggregates cost: memory of the operator, writes in an idle minute, and the
//! time from a changed source to a changed target, beside the time that the API server alone needs
//! from a write to the watch event of it.
//!
//! The operator is this program again, as a process of its own, so that its memory is its own.
//! `C5C3_BENCH_AGGREGATES` and `C5C3_BENCH_IDLE_SECONDS` change the size.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use c5c3_api::c5c3::{SecretAggregate, SecretAggregateSpec, SecretSource};
use c5c3_api::common::LocalRef;
use c5c3_control_plane::{Settings, run};
use c5c3_kit::{Clusters, Metrics, Stop};
use futures::stream::{BoxStream, StreamExt};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::runtime::{WatchStreamExt, watcher};
use serde_json::json;
use test_harness::{TestCluster, within};

const SAMPLES: usize = 200;
/// The argument that makes this program the operator.
const OPERATOR: &str = "operator";

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
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [role, kubeconfig, namespace] = arguments.as_slice()
        && role == OPERATOR
    {
        return operate(kubeconfig, namespace).await;
    }
    let count = setting("C5C3_BENCH_AGGREGATES", 1000);
    let cluster = TestCluster::start_listening().await;
    cluster.install(definition()).await;
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

    let operator = Operator::start(&cluster, &namespace);
    tokio::time::sleep(Duration::from_secs(2)).await;
    println!(
        "memory of the operator with 0 aggregates: {} KiB",
        operator.resident()
    );

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
        "memory of the operator with {count} aggregates: {} KiB",
        operator.resident()
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

/// As users install it.
fn definition() -> &'static CustomResourceDefinition {
    let kinds = c5c3_api::registry();
    let found = kinds.iter().find(|kind| kind.kind == "SecretAggregate");
    found.expect("the API has the kind").crd()
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

/// The operator in a process of its own, ended with the bench.
struct Operator(Child);

impl Operator {
    fn start(cluster: &TestCluster, namespace: &str) -> Self {
        let program = std::env::current_exe().expect("this program");
        let mut command = Command::new(program);
        command.arg(OPERATOR).arg(cluster.kubeconfig()).arg(namespace);
        Operator(command.spawn().expect("the operator starts"))
    }

    /// Resident memory in KiB.
    fn resident(&self) -> u64 {
        let path = format!("/proc/{}/status", self.0.id());
        let status = std::fs::read_to_string(path).unwrap_or_default();
        let line = status.lines().find(|line| line.starts_with("VmRSS:"));
        let number = line.and_then(|line| line.split_whitespace().nth(1));
        number
            .and_then(|text| text.parse().ok())
            .expect("the operator runs")
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn operate(kubeconfig: &str, namespace: &str) {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let clusters = Clusters::connect(Some(Path::new(kubeconfig)), None, &[])
        .await
        .expect("a cluster");
    let stop = Stop::on_signal().expect("signals");
    let settings = Settings {
        namespace: Some(namespace.to_owned()),
        ..Settings::default()
    };
    run(clusters, Metrics::default(), settings, stop)
        .await
        .expect("it runs");
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
