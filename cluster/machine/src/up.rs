//! `up`: starts the daemon and waits until it is ready.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

use crate::plan::Plan;
use crate::settings::Settings;
use crate::{claim, daemon, preflight};
use embedded_node::error::{Error, Result};
use embedded_node::layout::Layout;
use embedded_node::names::Names;
use embedded_node::pods::probes::tls;

#[derive(Clone, Debug)]
pub struct Options {
    pub names: Names,
    pub state: PathBuf,
    /// Logical clusters and their nodes; empty: those that exist, else one cluster that is everything.
    pub plan: Plan,
    /// The minimum number of nodes of the first cluster; `None` leaves it as it is and gives a new one
    /// one node.
    pub nodes: Option<u8>,
    /// The minimum number of nodes that run guests.
    pub hypervisors: u8,
    /// Registries to allow beside those that are allowed already.
    pub registries: Vec<String>,
    /// Program and arguments that run [`daemon::run`] for this state directory.
    pub daemon: Vec<String>,
}

/// What `up` prints when it is done.
#[derive(Clone, Debug)]
pub struct Up {
    pub kubeconfig: PathBuf,
    /// It ran already.
    pub already: bool,
}

/// Brings the cluster up; it stays when this returns.
pub async fn up(options: &Options, say: &mut dyn FnMut(&str)) -> Result<Up> {
    claim::check(options.names, &options.state)?;
    let problems = preflight::problems(&options.state);
    if !problems.is_empty() {
        return Err(Error::said(problems.join("\n")));
    }
    preflight::install(&options.state, say)?;
    let layout = Layout::new(options.names, &options.state)?;
    let runs = runs(&layout, say).await?;
    let kubeconfig = layout.state().join("api/kubeconfig");
    let known = Settings::load(&layout)?;
    let new = known.is_none();
    let mut settings = known.unwrap_or_default();
    let before = settings.clone();
    settings.follow(options.names, &options.plan, new)?;
    if let Some(nodes) = options.nodes.or(settings.nodes.is_empty().then_some(1)) {
        settings.grow(nodes)?;
    }
    settings.make_hypervisors(options.hypervisors)?;
    for host in &options.registries {
        if !settings.registries.contains(host) {
            settings.registries.push(host.clone());
        }
    }
    if runs {
        if settings != before {
            return Err(Error::said(format!(
                "the cluster is running with other clusters, nodes or registries: run `{} down`, then this command again",
                options.names.program
            )));
        }
        return Ok(Up {
            kubeconfig,
            already: true,
        });
    }
    settings.store(&layout)?;
    start(options, &layout, say).await?;
    Ok(Up {
        kubeconfig,
        already: false,
    })
}

/// Longer than a daemon gives itself to become ready.
const PATIENCE: Duration = Duration::from_secs(180);
/// A daemon that is ready answers at once; one that was just killed never.
const ANSWER: Duration = Duration::from_secs(30);

/// Whether the daemon runs. Waits for one that was just killed or is just starting.
async fn runs(layout: &Layout, say: &mut dyn FnMut(&str)) -> Result<bool> {
    let program = layout.names().program;
    let start = Instant::now();
    let mut told = false;
    while let Some(process) = daemon::running(layout) {
        let ready = daemon::is_ready(layout, &process);
        // The daemon may have found another port.
        let port = Settings::load(layout)?.map_or(0, |settings| settings.port);
        if ready && speaks(port).await {
            return Ok(true);
        }
        if !ready && !told {
            say("waiting for the cluster, which is already starting");
            told = true;
        }
        if start.elapsed() > if ready { ANSWER } else { PATIENCE } {
            return Err(Error::said(format!(
                "the cluster in {} is running, but its API does not answer: run `{program} down`, then `{program} up`",
                layout.state().display()
            )));
        }
        sleep(Duration::from_millis(50)).await;
    }
    Ok(false)
}

/// Whether the API answers: a process that was just killed may still accept connections for a moment,
/// but it sends nothing.
async fn speaks(port: u16) -> bool {
    let greeting = async {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.ok()?;
        tls::connect(stream, Ipv4Addr::LOCALHOST.into()).await.ok()
    };
    timeout(Duration::from_secs(5), greeting)
        .await
        .is_ok_and(|g| g.is_some())
}

async fn start(options: &Options, layout: &Layout, say: &mut dyn FnMut(&str)) -> Result<()> {
    let [program, args @ ..] = options.daemon.as_slice() else {
        return Err(Error::said("no program is named for the daemon"));
    };
    let path = layout.names().log(layout.state());
    let log = log_file(&path)?;
    // A session of its own: it outlives the terminal.
    let mut child = tokio::process::Command::new("setsid")
        .arg(program)
        .args(args)
        // One heap for each thread would hold several times what is in use.
        .env("MALLOC_ARENA_MAX", "2")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
        .map_err(Error::system(format!("start {program}")))?;
    let mut last = String::new();
    if let Some(stdout) = child.stdout.take() {
        let mut lines = BufReader::new(stdout).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            if line == daemon::READY {
                return Ok(());
            }
            say(&line);
            last = line;
        }
    }
    Err(Error::said(format!(
        "the cluster did not start (last: {last}): see {}",
        path.display()
    )))
}

/// The daemon's log; a large one is put aside.
fn log_file(path: &Path) -> Result<std::fs::File> {
    if std::fs::metadata(path).is_ok_and(|m| m.len() > 32 << 20) {
        let _ = std::fs::rename(path, path.with_extension("log.1"));
    }
    std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .map_err(Error::file("open", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_port_that_only_accepts_is_nobody() {
        let mute = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = mute.local_addr().unwrap().port();
        std::thread::spawn(move || drop(mute.accept()));
        assert!(!speaks(port).await);
        assert!(!speaks(port).await, "closed by now");
    }
}
