//! `ops-log`.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_nats::Subject;
use bytes::Bytes;
use c5c3_kit::Stop;
use clap::Args;
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;

use super::{Shared, seconds, serve};
use crate::audit::{AuditArguments, Auditor};
use crate::error::Error;
use crate::exposition::Page;
use crate::nats::{NatsArguments, subject};
use crate::ops_log::{Counters, Decoder, Limits, Piece, Position, Tail, choose, without_signatures};
use crate::outlet::{Outlet, with_figures};

/// Counters and latencies from RadosGW's operations log; entries and audit events as messages.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  c5c3 prysm ops-log --file /var/log/ceph/ops-log.log --position /var/lib/prysm/position
  c5c3 prysm ops-log --file ops.log --track radosgw_errors_per_user,radosgw_bytes_sent
  c5c3 prysm ops-log --file ops.log --nats nats://nats:4222 --audit
  c5c3 prysm ops-log --socket /var/run/ceph/ops.sock --print")]
pub(super) struct OpsLog {
    #[command(flatten)]
    pub(super) shared: Shared,
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
    /// File that stores the position in the log, to continue there after a restart
    #[arg(long, conflicts_with = "socket")]
    position: Option<PathBuf>,
    /// Free the disk space of what was read; the file keeps its size
    #[arg(long, conflicts_with = "socket")]
    free: bool,
    /// Milliseconds between checks of the file
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(10..=60_000))]
    interval: u64,
    /// Metrics to count, by name, or all [default: a few per tenant and bucket]
    #[arg(long, value_delimiter = ',', env = "PRYSM_TRACK")]
    track: Vec<String>,
    /// Maximum number of series per metric; the rest is counted as `other`
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
    #[command(flatten)]
    nats: NatsArguments,
    /// Subject of the entries
    #[arg(long, default_value = "rgw.s3.ops", env = "NATS_SUBJECT", value_parser = subject)]
    subject: Subject,
    /// Subject of the counters
    #[arg(
        long,
        default_value = "rgw.s3.ops.aggregated.metrics",
        env = "NATS_METRICS_SUBJECT",
        value_parser = subject
    )]
    metrics_subject: Subject,
    /// Seconds between two messages with the counters; none is sent when nothing has changed
    #[arg(long, default_value = "60", value_parser = seconds)]
    metrics_interval: Duration,
    #[command(flatten)]
    audit: AuditArguments,
}

/// What the reader and the page share.
struct State {
    decoder: Decoder,
    counters: Counters,
    outlet: Arc<Outlet>,
    subject: Subject,
    auditor: Option<Auditor>,
}

impl State {
    fn take(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let (counters, auditor, outlet) = (&mut self.counters, &mut self.auditor, &*self.outlet);
        let (open, subject) = (outlet.is_open(), &self.subject);
        let mut said = Ok(());
        self.decoder.feed(bytes, |entry, text| {
            if !counters.count(entry) {
                return;
            }
            if open && said.is_ok() {
                said = outlet.say(subject, without_signatures(text).into_owned());
            }
            if let Some(auditor) = auditor
                && said.is_ok()
                && let Some(event) = auditor.event(text, uuid::Uuid::new_v4())
            {
                said = tell(outlet, auditor.subject(), event.to_string());
            }
        });
        said
    }

    fn render(&self) -> String {
        let mut page = Page::default();
        self.counters.render(&mut page, self.decoder.malformed);
        if let Some(auditor) = &self.auditor {
            auditor.render(&mut page);
        }
        with_figures(page.text(), self.outlet.figures().as_deref())
    }
}

/// An audit event is always told: printed where there is no NATS.
fn tell(outlet: &Outlet, subject: &Subject, event: String) -> Result<(), Error> {
    if outlet.has_nats() {
        return outlet.say(subject, Bytes::from(event));
    }
    use std::io::Write;
    writeln!(std::io::stdout().lock(), "{event}").map_err(Error::Print)
}

fn locked(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl OpsLog {
    pub(super) async fn run(self, stop: Stop) -> Result<(), Error> {
        let limits = Limits {
            series: self.max_series,
        };
        let families = choose(&self.track)?;
        let outlet = Arc::new(Outlet::open(&self.nats, self.print, "prysm ops-log").await?);
        let auditor = self
            .audit
            .audit
            .then(|| Auditor::new(self.audit.clone(), uuid::Uuid::new_v4()));
        let state = Arc::new(Mutex::new(State {
            decoder: Decoder::default(),
            counters: Counters::new(families, &self.pod, limits, !self.anonymous),
            outlet: outlet.clone(),
            subject: self.subject.clone(),
            auditor,
        }));
        let page = state.clone();
        let render = move || locked(&page).render();
        let reader = async {
            match &self.socket {
                Some(socket) => follow_socket(socket, &state).await,
                None => self.follow_file(&state).await,
            }
        };
        let ended = tokio::select! {
            served = serve(&self.shared, stop.clone(), render) => served,
            read = reader => read,
            told = self.tell_counters(&state, &outlet) => told,
        };
        drop(state);
        if let Some(outlet) = Arc::into_inner(outlet) {
            outlet.close().await;
        }
        ended
    }

    async fn tell_counters(&self, state: &Mutex<State>, outlet: &Outlet) -> Result<(), Error> {
        if !outlet.has_nats() {
            return std::future::pending().await;
        }
        let mut told = 0;
        loop {
            tokio::time::sleep(self.metrics_interval).await;
            let messages = {
                let state = locked(state);
                let entries = state.counters.entries;
                if entries == told {
                    continue;
                }
                told = entries;
                state.counters.messages()
            };
            for message in messages {
                outlet.say(&self.metrics_subject, message.to_string())?;
            }
        }
    }

    async fn follow_file(&self, state: &Mutex<State>) -> Result<(), Error> {
        let path = &self.file;
        let unreadable = |why| Error::Read {
            path: path.clone(),
            why,
        };
        let mut kept = self.position.as_deref().map(known).transpose()?.flatten();
        let mut tail = Tail::new(path, kept, self.from_start);
        let mut turns = tokio::time::interval(Duration::from_millis(self.interval));
        turns.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            turns.tick().await;
            let mut taken = Ok(());
            // The page is asked for between two reads, however much there is to catch up with.
            tail.turn(|piece| match piece {
                Piece::Anew => locked(state).decoder.reset(),
                Piece::Bytes(bytes) if taken.is_ok() => taken = locked(state).take(bytes),
                Piece::Bytes(_) => {}
            })
            .map_err(unreadable)?;
            taken?;
            let pending = locked(state).decoder.pending();
            if self.free {
                tail.free(pending).map_err(unreadable)?;
            }
            let now = tail.position(pending);
            if let (Some(file), Some(position)) = (&self.position, now)
                && kept != now
            {
                keep(file, position)?;
                kept = now;
            }
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
                    // A read fills no more than the chunk.
                    locked(state).take(&chunk[..length])?;
                }
                locked(state).decoder.reset();
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
