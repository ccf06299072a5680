//! From nothing to a token and to Ready: warm images, an empty state directory, the profile core.
//!
//! The baseline is what the steps take one after the other: the lifetimes of all pods up to ready
//! or done, added up. Needs root.
//!
//! It begins with empty caches of the kernel, so that runs are alike: on ext4 without a journal every
//! inode that was freed in the last minutes is passed over one by one as long as it is cached, and a
//! run right after another one has cleaned up would unpack its images for twice as long.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use end_to_end::cloud::{Cloud, token};
use end_to_end::process::free_offset;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::api::ListParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, ResourceExt};

const NAMESPACE: &str = "openstack";
/// Longer than any run should take.
const PATIENCE: Duration = Duration::from_secs(600);

#[derive(Debug, Default, Clone, Copy)]
struct Span {
    from: f64,
    to: Option<f64>,
}

#[derive(Debug, Default)]
struct Seen {
    token: Option<f64>,
    pods: BTreeMap<String, Span>,
}

fn main() -> anyhow::Result<()> {
    end_to_end::install_crypto();
    let cloud = Cloud::new()?;
    let images = [
        "keystone",
        "glance",
        "placement",
        "mariadb",
        "memcached",
        "openstackclient",
    ];
    cloud.c5c3(&[&["image", "build"], images.as_slice()].concat())?;
    let offset = free_offset(&[5000, 8778, 9292])?;
    ensure!(Command::new("sync").status()?.success(), "sync");
    // A container may not be allowed to: then it is as it is.
    let _ = std::fs::write("/proc/sys/vm/drop_caches", "3");

    let start = Instant::now();
    let mut up = cloud.command("up", &["--profile", "core", "--port-offset", &offset.to_string()]);
    let mut up = up.stdout(Stdio::null()).stdin(Stdio::null()).spawn()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let url = format!("http://127.0.0.1:{}/v3", 5000 + offset);
    let (seen, ready) = runtime.block_on(follow(&cloud, &mut up, &url, start))?;
    print(&seen, ready);

    let daemon = memory(cloud.daemon()?)?;
    println!("memory of the one process (API server, node, controllers): {daemon:.0} MiB");
    println!(
        "memory of all controllers in a process of their own: {:.0} MiB (goal 40)",
        controllers(&cloud)?
    );
    Ok(())
}

async fn follow(cloud: &Cloud, up: &mut Child, url: &str, start: Instant) -> anyhow::Result<(Seen, f64)> {
    let mut seen = Seen::default();
    let now = || start.elapsed().as_secs_f64();
    let kubeconfig = cloud.state().join("api/kubeconfig");
    let mut client = None;
    let mut ended = None;
    while ended.is_none() || seen.token.is_none() {
        ensure!(start.elapsed() < PATIENCE, "it takes too long: {seen:?}");
        if ended.is_none()
            && let Some(status) = up.try_wait()?
        {
            ensure!(status.success(), "c5c3 up: {status}");
            ended = Some(now());
        }
        if client.is_none() {
            client = connect(&kubeconfig).await.ok();
        }
        if let Some(client) = &client {
            // A server that is just starting refuses: the next look will do.
            let _ = look(client, &mut seen, now()).await;
            if seen.token.is_none()
                && let Ok(Some(password)) = password(client).await
                && token(url, &password).is_ok_and(|answer| answer.is_ok())
            {
                seen.token = Some(now());
            }
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok((seen, ended.unwrap_or_default()))
}

async fn connect(kubeconfig: &Path) -> anyhow::Result<Client> {
    let file = Kubeconfig::read_from(kubeconfig)?;
    let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}

async fn password(client: &Client) -> anyhow::Result<Option<String>> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
    let secret = secrets.get_opt("keystone-admin-credentials").await?;
    let value = secret.and_then(|secret| secret.data?.remove("password"));
    Ok(value.and_then(|value| String::from_utf8(value.0).ok()))
}

async fn look(client: &Client, seen: &mut Seen, now: f64) -> anyhow::Result<()> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    for pod in pods.list(&ListParams::default()).await? {
        let span = seen
            .pods
            .entry(pod.name_any())
            .or_insert(Span { from: now, to: None });
        let status = pod.status.unwrap_or_default();
        let ready = status
            .conditions
            .iter()
            .flatten()
            .any(|c| c.type_ == "Ready" && c.status == "True");
        let done = status.phase.as_deref() == Some("Succeeded");
        if span.to.is_none() && (ready || done) {
            span.to = Some(now);
        }
    }
    Ok(())
}

fn print(seen: &Seen, ready: f64) {
    println!(
        "time to a token: {:.1} s (goal 15)",
        seen.token.unwrap_or(f64::NAN)
    );
    println!("time to Ready:   {ready:.1} s (goal 20)");
    let mut steps: Vec<(&String, f64, f64)> = seen
        .pods
        .iter()
        .filter_map(|(name, span)| Some((name, span.from, span.to? - span.from)))
        .collect();
    steps.sort_by(|a, b| b.2.total_cmp(&a.2));
    let sum: f64 = steps.iter().map(|(_, _, took)| took).sum();
    println!(
        "the steps one after the other: {sum:.1} s; Ready takes {:.2} of that",
        ready / sum
    );
    println!("slowest steps (begin, time to ready or done):");
    for (name, from, took) in steps.iter().take(8) {
        println!("  {from:6.1} s  {took:5.1} s  {name}");
    }
}

/// Resident memory of a process in MiB.
fn memory(pid: u32) -> anyhow::Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .context("VmRSS")?;
    let kib: f64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kib / 1024.0)
}

/// The operators once more, as in production: outside the cluster's process. All is healthy, so they
/// only look.
fn controllers(cloud: &Cloud) -> anyhow::Result<f64> {
    let kubeconfig = cloud.state().join("api/kubeconfig");
    let mut operator = Command::new(cloud.program())
        .args([
            "operator",
            "all",
            "--metrics-address",
            "127.0.0.1:0",
            "--kubeconfig",
        ])
        .arg(kubeconfig)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    std::thread::sleep(Duration::from_secs(15));
    let used = memory(operator.id());
    operator.kill()?;
    operator.wait()?;
    used
}
