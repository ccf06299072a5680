//! A hundred pods on one embedded node, beside what the bare calls of the container runtime take
//! for the same pod, as many at once, on the same node in the same run. Then how soon the end of a
//! container is seen, beside how soon its start is, and memory and idle time of the process.
//!
//! `cargo bench -p machine` (root); `BENCH_PODS` (100), `BENCH_SINGLE` (20) and
//! `BENCH_IDLE` (60 seconds) make it shorter. `BENCH_PROGRAM` names a `c5c3` to measure instead
//! of this crate's own program.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use embedded_node::cri::{self, Cri};
use embedded_node::images::tiny;
use embedded_node::{Layout, process::Process};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_cri::v1 as runtime;
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use kube::api::{DeleteParams, ListParams, PostParams, WatchEvent, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client};
use serde_json::json;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const NAMES: embedded_node::Names = embedded_node::Names {
    program: "c5c3",
    domain: "c5c3.io",
};
const IMAGE: &str = "c5c3.local/busybox:1";
const LIMIT: Duration = Duration::from_secs(300);

fn number(name: &str, default: usize) -> usize {
    let given = std::env::var(name).ok().and_then(|text| text.parse().ok());
    given.unwrap_or(default)
}

fn main() -> Result<()> {
    // `cargo test --benches` only wants to see that it compiles.
    if !std::env::args().any(|argument| argument == "--bench") {
        return Ok(());
    }
    if !nix::unistd::geteuid().is_root() {
        println!("pods: needs root, left out");
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let cluster = Cluster::start()?;
    runtime.block_on(measure(&cluster))
}

/// A cluster of its own, gone with this.
struct Cluster {
    directory: tempfile::TempDir,
    program: Option<String>,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Err(e) = self.run(&["down", "--purge"]) {
            eprintln!("clean-up: {e}");
        }
    }
}

impl Cluster {
    fn start() -> Result<Self> {
        let directory = tempfile::Builder::new()
            .prefix("c5c3-bench-")
            .tempdir_in("/var/tmp")?;
        tiny::write_busybox(
            &directory.path().join("store"),
            IMAGE,
            Path::new("/usr/bin/busybox"),
        )?;
        let cluster = Self {
            directory,
            program: std::env::var("BENCH_PROGRAM").ok(),
        };
        let started = Instant::now();
        cluster.run(&["up"])?;
        println!(
            "{:44} {:8.2} s",
            "cluster of one node up",
            started.elapsed().as_secs_f64()
        );
        Ok(cluster)
    }

    fn state(&self) -> PathBuf {
        self.directory.path().join("state")
    }

    fn run(&self, words: &[&str]) -> Result<()> {
        let (state, store) = (self.state(), self.directory.path().join("store"));
        let mut command = match &self.program {
            Some(program) => {
                let mut command = Command::new(program);
                command.args(words).arg("--state-dir").arg(state);
                if words == ["up"] {
                    command.arg("--cluster-only").arg("--image-store").arg(store);
                }
                command
            }
            None => {
                let mut command = Command::new(env!("CARGO_BIN_EXE_embedded-cluster"));
                command.arg(words[0]).arg(state).args(&words[1..]);
                if words == ["up"] {
                    command.arg("1").arg(store);
                }
                command
            }
        };
        let done = command.output()?;
        if done.status.success() {
            Ok(())
        } else {
            Err(String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into())
        }
    }

    async fn client(&self) -> Result<Client> {
        let config = Kubeconfig::read_from(self.state().join("api/kubeconfig"))?;
        let config = kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?;
        Ok(Client::try_from(config)?)
    }

    fn layout(&self) -> Result<Layout> {
        Ok(Layout::new(NAMES, &self.state())?)
    }

    fn daemon(&self) -> Result<Process> {
        machine::daemon::running(&self.layout()?).ok_or_else(|| "it does not run".into())
    }
}

async fn measure(cluster: &Cluster) -> Result<()> {
    let (many, single) = (number("BENCH_PODS", 100), number("BENCH_SINGLE", 20));
    let layout = cluster.layout()?.node("node-1", 1);
    let bare = Bare {
        cri: Cri::new(cri::channel(&layout.socket())),
        logs: layout.logs(),
    };
    let pods = Pods {
        api: Api::default_namespaced(cluster.client().await?),
    };
    pods.account().await?;
    // The image, and everything that is slow the first time.
    pods.run("first", Until::Running, 1, 1).await?;
    pods.clear().await?;
    let daemon = cluster.daemon()?;
    let (all, own) = memory(daemon)?;
    println!(
        "{:44} {all:8.1} MiB, {own:.1} its own",
        "memory of the process, no pods"
    );

    let alone = (
        bare.run("one", single, 1).await?,
        pods.run("one", Until::Running, single, 1).await?,
    );
    pods.clear().await?;
    compare("one at a time", single, &alone.0, &alone.1);
    let ended = pods.run("end", Until::Succeeded, single, 1).await?;
    pods.clear().await?;
    let (running, done) = (alone.1.at(50), ended.at(50));
    println!(
        "  create to Succeeded of one that ends at once, p50  {done:8.0} ms   {:.2} × Running",
        done / running
    );
    let together = (
        bare.run("all", many, many).await?,
        pods.run("all", Until::Running, many, many).await?,
    );
    compare("all at once", many, &together.0, &together.1);

    let (all, own) = memory(daemon)?;
    println!(
        "{:44} {all:8.1} MiB, {own:.1} its own  (goal 60)",
        format!("memory of the process, {many} pods")
    );
    let idle = Duration::from_secs(number("BENCH_IDLE", 60) as u64);
    tokio::time::sleep(Duration::from_secs(5)).await;
    let before = processor_time(daemon)?;
    tokio::time::sleep(idle).await;
    let used = processor_time(daemon)?.saturating_sub(before);
    let percent = used.as_secs_f64() * 100.0 / idle.as_secs_f64();
    println!(
        "{:44} {percent:8.2} %    (goal 2)",
        format!("of one core, idle, {many} pods")
    );
    let load = std::fs::read_to_string("/proc/loadavg")?;
    println!("{:44} {}", "load of the machine", load.trim());
    pods.clear().await
}

/// Times from the request to the running container, and from the first to the last.
struct Times {
    each: Vec<Duration>,
    all: Duration,
}

impl Times {
    fn at(&self, percent: usize) -> f64 {
        let mut sorted = self.each.clone();
        sorted.sort_unstable();
        let index = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
        sorted.get(index).copied().unwrap_or_default().as_secs_f64() * 1000.0
    }

    fn rate(&self) -> f64 {
        self.each.len() as f64 / self.all.as_secs_f64()
    }
}

fn compare(what: &str, count: usize, bare: &Times, pods: &Times) {
    println!("{what}, {count} pods:            bare runtime      pods");
    for percent in [50, 99] {
        let (b, p) = (bare.at(percent), pods.at(percent));
        println!(
            "  create to Running, p{percent:<22} {b:8.0} ms {p:8.0} ms   {:.2} ×",
            p / b
        );
    }
    println!(
        "  pods a second                         {:8.1}    {:8.1}",
        bare.rate(),
        pods.rate()
    );
}

/// Pods by the calls of the runtime alone.
struct Bare {
    cri: Cri,
    logs: PathBuf,
}

impl Bare {
    async fn run(&self, name: &str, count: usize, at_once: usize) -> Result<Times> {
        let start = Instant::now();
        let made: Vec<(String, Duration)> = stream::iter(0..count)
            .map(|i| async move {
                let asked = if at_once > 1 { start } else { Instant::now() };
                let id = self.one(&format!("bare-{name}-{i}")).await?;
                Ok::<_, Box<dyn Error + Send + Sync>>((id, asked.elapsed()))
            })
            .buffer_unordered(at_once)
            .try_collect()
            .await?;
        let all = start.elapsed();
        stream::iter(&made)
            .map(|(id, _)| async move {
                self.cri.stop_sandbox(id).await?;
                self.cri.remove_sandbox(id).await
            })
            .buffer_unordered(8)
            .try_collect::<Vec<()>>()
            .await?;
        Ok(Times {
            each: made.into_iter().map(|(_, took)| took).collect(),
            all,
        })
    }

    async fn one(&self, name: &str) -> Result<String> {
        let sandbox = runtime::PodSandboxConfig {
            metadata: Some(runtime::PodSandboxMetadata {
                name: name.into(),
                uid: name.into(),
                namespace: "default".into(),
                attempt: 0,
            }),
            hostname: name.into(),
            log_directory: self.logs.join(name).to_string_lossy().into(),
            linux: Some(runtime::LinuxPodSandboxConfig {
                cgroup_parent: format!("/pods/{name}"),
                ..Default::default()
            }),
            ..Default::default()
        };
        let id = self.cri.run_sandbox(sandbox.clone()).await?;
        let container = runtime::ContainerConfig {
            metadata: Some(runtime::ContainerMetadata {
                name: "main".into(),
                attempt: 0,
            }),
            image: Some(runtime::ImageSpec {
                image: IMAGE.into(),
                ..Default::default()
            }),
            log_path: "main.log".into(),
            ..Default::default()
        };
        let made = self.cri.create_container(&id, container, sandbox).await?;
        self.cri.start_container(&made).await?;
        Ok(id)
    }
}

/// Pods by the API.
struct Pods {
    api: Api<Pod>,
}

/// What is waited for: the start of a container that stays, or the end of one that does not.
#[derive(Debug, Clone, Copy)]
enum Until {
    Running,
    Succeeded,
}

impl Pods {
    async fn account(&self) -> Result<()> {
        let accounts: Api<ServiceAccount> = Api::default_namespaced(self.api.clone().into_client());
        let deadline = Instant::now() + LIMIT;
        while accounts.get_opt("default").await?.is_none() && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }

    async fn run(&self, name: &str, until: Until, count: usize, at_once: usize) -> Result<Times> {
        let start = Instant::now();
        let batches = count.div_ceil(at_once);
        let mut each = Vec::new();
        for batch in 0..batches {
            let asked = Instant::now();
            let names: Vec<String> = (0..at_once.min(count - batch * at_once))
                .map(|i| format!("pod-{name}-{}", batch * at_once + i))
                .collect();
            each.extend(self.batch(&names, until, asked).await?);
        }
        Ok(Times {
            each,
            all: start.elapsed(),
        })
    }

    async fn batch(&self, names: &[String], until: Until, asked: Instant) -> Result<Vec<Duration>> {
        let version = self.api.list(&ListParams::default().limit(1)).await?;
        let version = version.metadata.resource_version.unwrap_or_default();
        let params = WatchParams::default().timeout(290);
        let mut events = self.api.watch(&params, &version).await?.boxed();
        let create = stream::iter(names)
            .map(|name| async move {
                self.api
                    .create(&PostParams::default(), &pod(name, until)?)
                    .await
                    .map_err(Into::into)
            })
            .buffer_unordered(16)
            .try_collect::<Vec<Pod>>();
        let watch = async {
            let wanted = format!("{until:?}");
            let mut running: BTreeMap<String, Duration> = BTreeMap::new();
            while running.len() < names.len() {
                let event = tokio::time::timeout(LIMIT, events.try_next()).await??;
                let Some(event) = event else {
                    return Err("the watch ended".into());
                };
                if let WatchEvent::Modified(pod) = event {
                    let phase = pod.status.and_then(|s| s.phase);
                    let name = pod.metadata.name.unwrap_or_default();
                    if phase.as_ref() == Some(&wanted) && names.contains(&name) {
                        running.entry(name).or_insert_with(|| asked.elapsed());
                    }
                }
            }
            Ok::<_, Box<dyn Error + Send + Sync>>(running.into_values().collect())
        };
        let (created, running) = tokio::join!(create, watch);
        let created: Result<Vec<Pod>> = created;
        created?;
        running
    }

    async fn clear(&self) -> Result<()> {
        let now = DeleteParams::default().grace_period(0);
        self.api.delete_collection(&now, &ListParams::default()).await?;
        let deadline = Instant::now() + LIMIT;
        while !self
            .api
            .list(&ListParams::default().limit(1))
            .await?
            .items
            .is_empty()
        {
            if Instant::now() > deadline {
                return Err("pods do not end".into());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    }
}

fn pod(name: &str, until: Until) -> Result<Pod> {
    let mut pod = json!({
        "metadata": { "name": name },
        "spec": { "terminationGracePeriodSeconds": 0, "containers": [{ "name": "main", "image": IMAGE }] },
    });
    if let Until::Succeeded = until {
        pod["spec"]["restartPolicy"] = "Never".into();
        pod["spec"]["containers"][0]["command"] = json!(["true"]);
    }
    Ok(serde_json::from_value(pod)?)
}

/// In MiB: all that is resident, and what of it is the process' own: the rest are pages of the program's file.
fn memory(process: Process) -> Result<(f64, f64)> {
    let text = std::fs::read_to_string(format!("/proc/{}/status", process.pid))?;
    let mib = |name: &str| -> Result<f64> {
        let line = text.lines().find_map(|l| l.strip_prefix(name));
        let kib: f64 = line.ok_or(name)?.trim().trim_end_matches(" kB").parse()?;
        Ok(kib / 1024.0)
    };
    Ok((mib("VmRSS:")?, mib("RssAnon:")?))
}

fn processor_time(process: Process) -> Result<Duration> {
    let text = std::fs::read_to_string(format!("/proc/{}/stat", process.pid))?;
    let rest = text.rsplit(')').next().unwrap_or_default();
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>()? + fields[12].parse::<u64>()?;
    // The kernel shows hundredths of a second, whatever its own clock.
    Ok(Duration::from_millis(ticks * 10))
}
