//! `c5c3 prysm …`: arguments and the loops around the producers.

use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use c5c3_kit::{Stop, serve::Endpoint, telemetry};
use clap::{Args, Subcommand};
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;

use crate::error::Error;
use crate::exposition;
use crate::node::Proc;
use crate::node::kernel::Kernel;
use crate::node::usage::Usage;
use crate::ops_log::{Counters, Decoder, Limits, Piece, Position, Tail, choose};

/// Observe storage: RadosGW's operations and its nodes as Prometheus metrics.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  c5c3 prysm ops-log --file /var/log/ceph/ops-log.log
  c5c3 prysm ops-log --socket /var/run/ceph/ops.sock --track all
  c5c3 prysm kernel-metrics --listen 127.0.0.1:9101")]
pub struct PrysmCommand {
    #[command(subcommand)]
    producer: Producer,
}

#[derive(Debug, Subcommand)]
enum Producer {
    OpsLog(OpsLog),
    KernelMetrics(KernelMetrics),
    ResourceUsage(ResourceUsage),
}

#[derive(Debug, Args)]
struct Shared {
    /// Where metrics are served, at /metrics
    #[arg(long, default_value = "0.0.0.0:9090")]
    listen: SocketAddr,
    /// What is logged
    #[arg(long, default_value = "info", env = "C5C3_LOG")]
    log: String,
}

#[derive(Debug, Args)]
struct Identity {
    /// Value of the label `node` [default: the host's name]
    #[arg(long, env = "NODE_NAME")]
    node: Option<String>,
    /// Value of the label `instance`
    #[arg(long, env = "INSTANCE_ID", default_value = "0")]
    instance: String,
}

/// Counters and latencies from RadosGW's operations log.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  c5c3 prysm ops-log --file /var/log/ceph/ops-log.log --position /var/lib/prysm/position
  c5c3 prysm ops-log --file ops.log --track radosgw_errors_per_user,radosgw_bytes_sent
  c5c3 prysm ops-log --socket /var/run/ceph/ops.sock --print")]
struct OpsLog {
    #[command(flatten)]
    shared: Shared,
    /// The log file; rotation and truncation are followed
    #[arg(
        long,
        default_value = "/var/log/ceph/ceph-rgw-ops.json.log",
        conflicts_with = "socket"
    )]
    file: PathBuf,
    /// The socket of RadosGW (rgw_ops_log_socket_path) instead of a file
    #[arg(long)]
    socket: Option<PathBuf>,
    /// Read a file from its start; the default is to begin with what is written from now on
    #[arg(long)]
    from_start: bool,
    /// Keep the place in the file here, and go on from it after a restart
    #[arg(long, conflicts_with = "socket")]
    position: Option<PathBuf>,
    /// Give the disk space of what was read back; the file keeps its size
    #[arg(long, conflicts_with = "socket")]
    free: bool,
    /// How often the file is looked at, in milliseconds
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(10..=60_000))]
    interval: u64,
    /// Metrics to count, by name, or all [default: a few per tenant and bucket]
    #[arg(long, value_delimiter = ',', env = "PRYSM_TRACK")]
    track: Vec<String>,
    /// Most series of one metric; more are counted together as `other`
    #[arg(long, default_value_t = Limits::default().series)]
    max_series: usize,
    /// Count anonymous requests too, those of probes among them
    #[arg(long)]
    anonymous: bool,
    /// Value of the label `pod`
    #[arg(long, env = "POD_NAME", default_value = "")]
    pod: String,
    /// Print every entry as a line
    #[arg(long)]
    print: bool,
}

/// Context switches, entropy and connections of the node.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  c5c3 prysm kernel-metrics
  c5c3 prysm kernel-metrics --node storage-1 --listen 127.0.0.1:9101")]
struct KernelMetrics {
    #[command(flatten)]
    shared: Shared,
    #[command(flatten)]
    identity: Identity,
}

/// Processors, memory, disks and network of the node.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  c5c3 prysm resource-usage
  c5c3 prysm resource-usage --node storage-1 --listen 127.0.0.1:9102")]
struct ResourceUsage {
    #[command(flatten)]
    shared: Shared,
    #[command(flatten)]
    identity: Identity,
}

impl PrysmCommand {
    /// Runs until SIGTERM or Ctrl-C.
    pub async fn run(self) -> Result<(), Error> {
        let shared = match &self.producer {
            Producer::OpsLog(OpsLog { shared, .. })
            | Producer::KernelMetrics(KernelMetrics { shared, .. })
            | Producer::ResourceUsage(ResourceUsage { shared, .. }) => shared,
        };
        telemetry::start(&shared.log).map_err(|why| Error::Filter(why.to_string()))?;
        let stop = Stop::on_signal().map_err(Error::Signals)?;
        match self.producer {
            Producer::OpsLog(arguments) => ops_log(arguments, stop).await,
            Producer::KernelMetrics(arguments) => {
                let (node, instance) = arguments.identity.names();
                let proc = Proc("/proc".into());
                Kernel::read(&proc)?;
                let render = move || match Kernel::read(&proc) {
                    Ok(kernel) => kernel.render(&node, &instance),
                    Err(error) => unreadable(&error),
                };
                serve(&arguments.shared, stop, render).await
            }
            Producer::ResourceUsage(arguments) => {
                let (node, instance) = arguments.identity.names();
                let proc = Proc("/proc".into());
                // The share of the processors is that since the page was asked for last.
                let before = Mutex::new(Usage::read(&proc)?.ticks);
                let render = move || match Usage::read(&proc) {
                    Ok(usage) => {
                        let mut before = before.lock().unwrap_or_else(PoisonError::into_inner);
                        let then = std::mem::replace(&mut *before, usage.ticks);
                        usage.render(then, &node, &instance)
                    }
                    Err(error) => unreadable(&error),
                };
                serve(&arguments.shared, stop, render).await
            }
        }
    }
}

/// A page without metrics is how Prometheus learns that there are none.
fn unreadable(error: &Error) -> String {
    tracing::warn!("{error}");
    String::new()
}

impl Identity {
    fn names(&self) -> (String, String) {
        let host = || {
            let name = nix::unistd::gethostname().unwrap_or_default();
            name.to_string_lossy().into_owned()
        };
        (self.node.clone().unwrap_or_else(host), self.instance.clone())
    }
}

async fn serve(
    shared: &Shared,
    stop: Stop,
    render: impl Fn() -> String + Send + Sync + 'static,
) -> Result<(), Error> {
    let endpoint = Endpoint::rendering(shared.listen, exposition::CONTENT_TYPE, render)
        .await
        .map_err(|why| Error::Listen {
            address: shared.listen,
            why,
        })?;
    // Port 0 lets the system choose.
    let address = endpoint.address().unwrap_or(shared.listen);
    tracing::info!("metrics at http://{address}/metrics");
    endpoint.serve(stop).await;
    Ok(())
}

/// What the reader and the page share.
struct State {
    decoder: Decoder,
    counters: Counters,
    print: bool,
}

impl State {
    fn take(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let (counters, print) = (&mut self.counters, self.print);
        let mut printed = Ok(());
        self.decoder.feed(bytes, |entry, text| {
            counters.count(entry);
            if print && printed.is_ok() {
                let mut out = std::io::stdout().lock();
                printed = out.write_all(text).and_then(|()| out.write_all(b"\n"));
            }
        });
        printed.map_err(Error::Print)
    }
}

async fn ops_log(arguments: OpsLog, stop: Stop) -> Result<(), Error> {
    let limits = Limits {
        series: arguments.max_series,
    };
    let families = choose(&arguments.track)?;
    let state = Arc::new(Mutex::new(State {
        decoder: Decoder::default(),
        counters: Counters::new(families, &arguments.pod, limits, !arguments.anonymous),
        print: arguments.print,
    }));
    let page = state.clone();
    let render = move || {
        let state = page.lock().unwrap_or_else(PoisonError::into_inner);
        state.counters.render(state.decoder.malformed)
    };
    let reader = async {
        match &arguments.socket {
            Some(socket) => follow_socket(socket, &state).await,
            None => follow_file(&arguments, &state).await,
        }
    };
    tokio::select! {
        served = serve(&arguments.shared, stop.clone(), render) => served,
        read = reader => read,
    }
}

async fn follow_file(arguments: &OpsLog, state: &Mutex<State>) -> Result<(), Error> {
    let path = &arguments.file;
    let unreadable = |why| Error::Read {
        path: path.clone(),
        why,
    };
    let mut kept = arguments.position.as_deref().map(known).transpose()?.flatten();
    let mut tail = Tail::new(path, kept, arguments.from_start);
    let mut turns = tokio::time::interval(Duration::from_millis(arguments.interval));
    turns.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        turns.tick().await;
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut taken = Ok(());
        tail.turn(|piece| match piece {
            Piece::Anew => state.decoder.reset(),
            Piece::Bytes(bytes) if taken.is_ok() => taken = state.take(bytes),
            Piece::Bytes(_) => {}
        })
        .map_err(unreadable)?;
        taken?;
        let pending = state.decoder.pending();
        drop(state);
        if arguments.free {
            tail.free(pending).map_err(unreadable)?;
        }
        let now = tail.position(pending);
        if let (Some(file), Some(position)) = (&arguments.position, now)
            && kept != now
        {
            keep(file, position)?;
            kept = now;
        }
    }
}

/// `None`: there is none yet.
fn known(path: &Path) -> Result<Option<Position>, Error> {
    match std::fs::read(path) {
        Ok(text) => serde_json::from_slice(&text)
            .map(Some)
            .map_err(|why| Error::Position {
                path: path.to_owned(),
                why,
            }),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(why) => Err(Error::Read {
            path: path.to_owned(),
            why,
        }),
    }
}

/// Beside the file and then over it: whoever reads sees the one or the other.
fn keep(path: &Path, position: Position) -> Result<(), Error> {
    let beside = path.with_extension("new");
    // Three numbers always become JSON.
    let text = serde_json::to_vec(&position).unwrap_or_default();
    std::fs::write(&beside, text)
        .and_then(|()| std::fs::rename(&beside, path))
        .map_err(|why| Error::Read {
            path: path.to_owned(),
            why,
        })
}

/// RadosGW listens, and writes to whoever is connected; between two connections it keeps a backlog.
async fn follow_socket(path: &Path, state: &Mutex<State>) -> Result<(), Error> {
    let mut chunk = vec![0; 1 << 16];
    let mut told = false;
    loop {
        match UnixStream::connect(path).await {
            Ok(mut stream) => {
                tracing::info!("connected to {}", path.display());
                told = false;
                loop {
                    let length = stream.read(&mut chunk).await.unwrap_or_default();
                    if length == 0 {
                        break;
                    }
                    let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
                    state.take(&chunk[..length])?;
                }
                state
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .decoder
                    .reset();
            }
            Err(error) if !told => {
                tracing::warn!(
                    "cannot connect to {}: {error}; trying again every second",
                    path.display()
                );
                told = true;
            }
            Err(_) => {}
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}
