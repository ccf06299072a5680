//! Load on the API over HTTPS, as any client makes it: durable creates, a long list, event latency, start
//! time and memory.
//!
//! `cargo bench -p apiserver --bench load`; with `C5C3_TEST_KUBECONFIG` (see `scripts/with-kube-apiserver`)
//! the same load goes to that server too, and the figures stand side by side. `LOAD_OBJECTS` (10,000) and
//! `LOAD_SECONDS` (5) make it shorter or longer.

use std::{
    error::Error,
    io::{BufRead, BufReader, Write},
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use apiserver::{Config, Server};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{
    Api, Client,
    api::{ListParams, ObjectMeta, PostParams, WatchEvent, WatchParams},
    config::{KubeConfigOptions, Kubeconfig},
};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const SERVE: &str = "LOAD_SERVE";
const NAMESPACE: &str = "load";
const CREATES: &str = "load-creates";
const CLIENTS: [usize; 3] = [1, 16, 64];
const WATCHERS: usize = 100;

fn number(name: &str, default: usize) -> usize {
    std::env::var(name)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}

fn main() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    if let Ok(directory) = std::env::var(SERVE) {
        return runtime.block_on(serve(Path::new(&directory)));
    }
    // `cargo test --benches` only wants to see that it runs.
    if !std::env::args().any(|argument| argument == "--bench") {
        return Ok(());
    }
    runtime.block_on(measure())
}

/// The server under load, in a process of its own: prints how long it took to start.
async fn serve(directory: &Path) -> Result<()> {
    let started = Instant::now();
    let server = Server::start(Config {
        state_dir: directory.into(),
        listen: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))),
        ..Config::default()
    })
    .await?;
    println!(
        "{} {}",
        started.elapsed().as_micros(),
        server.kubeconfig_path().display()
    );
    std::io::stdout().flush()?;
    // Ends with its parent, which holds the other end of standard input.
    tokio::task::spawn_blocking(|| std::io::stdin().read_line(&mut String::new())).await??;
    server.shutdown().await;
    Ok(())
}

struct Process {
    child: Child,
    start: Duration,
    kubeconfig: String,
}

impl Process {
    fn start(directory: &Path) -> Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .env(SERVE, directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().ok_or("no output")?).read_line(&mut line)?;
        let (micros, kubeconfig) = line.trim().split_once(' ').ok_or("the server did not start")?;
        Ok(Self {
            child,
            start: Duration::from_micros(micros.parse()?),
            kubeconfig: kubeconfig.to_owned(),
        })
    }

    fn memory(&self) -> Result<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status
            .lines()
            .find(|line| line.starts_with("VmRSS"))
            .ok_or("no VmRSS")?;
        let kilobytes: f64 = line.split_whitespace().nth(1).ok_or("no VmRSS")?.parse()?;
        Ok(kilobytes / 1000.0)
    }

    fn stop(mut self) -> Result<()> {
        drop(self.child.stdin.take());
        self.child.wait()?;
        Ok(())
    }
}

async fn client(kubeconfig: &str) -> Result<Client> {
    let config = Kubeconfig::read_from(kubeconfig)?;
    let config = kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}

async fn measure() -> Result<()> {
    let objects = number("LOAD_OBJECTS", 10_000);
    let directory = tempfile::tempdir()?;
    let process = Process::start(directory.path())?;
    let start = process.start;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let empty = process.memory()?;
    let mut rows = load("embedded", &process.kubeconfig, objects).await?;
    let full = process.memory()?;
    process.stop()?;
    let again = Process::start(directory.path())?;
    rows.push(format!(
        "start: {:.1} ms empty, {:.1} ms with the objects",
        millis(start),
        millis(again.start)
    ));
    rows.push(format!("memory: {empty:.0} MB empty, {full:.0} MB with the objects and those of the creates, {:.0} MB after a restart", again.memory()?));
    again.stop()?;
    print(&rows);
    match std::env::var("C5C3_TEST_KUBECONFIG") {
        Ok(kubeconfig) => print(&load("kube-apiserver", &kubeconfig, objects).await?),
        Err(_) => println!("no kube-apiserver to compare with: run it under scripts/with-kube-apiserver"),
    }
    Ok(())
}

fn print(rows: &[String]) {
    for row in rows {
        println!("{row}");
    }
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

fn object(name: &str) -> ConfigMap {
    let data = (0..8).map(|i| (format!("key-{i}"), "x".repeat(64))).collect();
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        data: Some(data),
        ..ConfigMap::default()
    }
}

async fn load(title: &str, kubeconfig: &str, objects: usize) -> Result<Vec<String>> {
    let first = client(kubeconfig).await?;
    for name in [NAMESPACE, CREATES] {
        let namespace = Namespace {
            metadata: ObjectMeta {
                name: Some(name.into()),
                ..ObjectMeta::default()
            },
            ..Namespace::default()
        };
        Api::<Namespace>::all(first.clone())
            .create(&PostParams::default(), &namespace)
            .await?;
    }
    let mut rows = vec![format!("{title}:")];
    for clients in CLIENTS {
        let (count, seconds) = creates(kubeconfig, clients, clients).await?;
        rows.push(format!(
            "creates/s with {clients} clients: {:.0}",
            count as f64 / seconds
        ));
    }
    fill(kubeconfig, objects).await?;
    let maps: Api<ConfigMap> = Api::namespaced(first.clone(), NAMESPACE);
    let started = Instant::now();
    let listed = maps.list(&ListParams::default()).await?.items.len();
    rows.push(format!("list of {listed}: {:.0} ms", millis(started.elapsed())));
    let (p50, p99) = latency(kubeconfig).await?;
    rows.push(format!(
        "event latency with {WATCHERS} watchers: p50 {:.1} ms, p99 {:.1} ms",
        millis(p50),
        millis(p99)
    ));
    Ok(rows)
}

/// Creates for some seconds from several connections; how many, and how long it took.
async fn creates(kubeconfig: &str, clients: usize, tag: usize) -> Result<(usize, f64)> {
    let time = Duration::from_secs(number("LOAD_SECONDS", 5) as u64);
    let count = Arc::new(AtomicUsize::new(0));
    let mut connections = Vec::new();
    for _ in 0..clients {
        connections.push(client(kubeconfig).await?);
    }
    let started = Instant::now();
    let tasks = connections.into_iter().enumerate().map(|(c, client)| {
        let count = count.clone();
        tokio::spawn(async move {
            let maps: Api<ConfigMap> = Api::namespaced(client, CREATES);
            let mut i = 0;
            while started.elapsed() < time {
                maps.create(&PostParams::default(), &object(&format!("load-{tag}-{c}-{i}")))
                    .await?;
                count.fetch_add(1, Ordering::Relaxed);
                i += 1;
            }
            Ok::<_, kube::Error>(())
        })
    });
    for task in futures::future::join_all(tasks).await {
        task??;
    }
    Ok((count.load(Ordering::Relaxed), started.elapsed().as_secs_f64()))
}

async fn fill(kubeconfig: &str, objects: usize) -> Result<()> {
    let maps: Api<ConfigMap> = Api::namespaced(client(kubeconfig).await?, NAMESPACE);
    stream::iter(0..objects)
        .map(|i| {
            let maps = maps.clone();
            async move {
                maps.create(&PostParams::default(), &object(&format!("fill-{i}")))
                    .await
                    .map(|_| ())
            }
        })
        .buffer_unordered(64)
        .try_collect::<()>()
        .await?;
    Ok(())
}

/// Time from just before a create to its event, over all watchers.
async fn latency(kubeconfig: &str) -> Result<(Duration, Duration)> {
    const EVENTS: usize = 50;
    let client_of_writer = client(kubeconfig).await?;
    let maps: Api<ConfigMap> = Api::namespaced(client_of_writer.clone(), NAMESPACE);
    let version = maps
        .list(&ListParams::default().limit(1))
        .await?
        .metadata
        .resource_version
        .unwrap_or_default();
    let (sender, mut times) = tokio::sync::mpsc::unbounded_channel();
    let epoch = Instant::now();
    for _ in 0..WATCHERS {
        let maps: Api<ConfigMap> = Api::namespaced(client(kubeconfig).await?, NAMESPACE);
        let stream = maps.watch(&WatchParams::default().timeout(120), &version).await?;
        let sender = sender.clone();
        tokio::spawn(async move {
            let mut stream = std::pin::pin!(stream);
            while let Some(Ok(event)) = stream.next().await {
                let arrived = epoch.elapsed();
                if let WatchEvent::Added(map) = event
                    && let Some(sent) = map.data.as_ref().and_then(|data| data.get("sent"))
                    && let Ok(sent) = sent.parse::<u64>()
                {
                    let _ = sender.send(arrived.saturating_sub(Duration::from_micros(sent)));
                }
            }
        });
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    let mut all = Vec::new();
    for i in 0..EVENTS {
        let mut map = object(&format!("event-{i}"));
        let sent = epoch.elapsed().as_micros().to_string();
        map.data.get_or_insert_default().insert("sent".into(), sent);
        maps.create(&PostParams::default(), &map).await?;
        for _ in 0..WATCHERS {
            let time = tokio::time::timeout(Duration::from_secs(10), times.recv()).await?;
            all.push(time.ok_or("the watchers have ended")?);
        }
    }
    all.sort();
    Ok((all[all.len() / 2], all[all.len() * 99 / 100]))
}
