//! Logs from the files that the runtime writes.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use apiserver::ApiError;
use apiserver::pods::{LogOptions, LogStream, PodRef};
use jiff::{SignedDuration, Timestamp};
use k8s_cri::v1::ContainerState;
use tokio::io::AsyncReadExt;
use tokio::sync::mpsc;
use tokio_stream_like::wrap;

use super::NodeRuntime;
use super::log_line::{parse, tail};
use crate::beneath::Beneath;
use crate::cri::Cri;
use crate::pods::start::names;

const CHUNK: usize = 64 << 10;
const LOOK: Duration = Duration::from_millis(200);
const CHANGE_OVER: Duration = Duration::from_millis(100);

/// A receiver as a stream.
mod tokio_stream_like {
    use super::mpsc;

    pub(super) fn wrap<T: Send + 'static>(
        receiver: mpsc::Receiver<T>,
    ) -> impl futures::Stream<Item = T> + Send {
        futures::stream::unfold(receiver, |mut receiver| async move {
            receiver.recv().await.map(|item| (item, receiver))
        })
    }
}

/// The instance whose log is asked for.
struct Source {
    /// Directory of all logs: no link leads out of it.
    logs: PathBuf,
    path: PathBuf,
    id: Option<String>,
}

pub async fn logs(place: &NodeRuntime, pod: &PodRef, options: &LogOptions) -> Result<LogStream, ApiError> {
    let source = find(place, pod, options).await?;
    let (tell, told) = mpsc::channel(16);
    let reader = Reader {
        source,
        cri: place.cri.clone(),
        options: options.clone(),
        since: since(options),
        sent: 0,
        starts: true,
        tell,
    };
    tokio::spawn(reader.run());
    Ok(Box::pin(wrap(told)))
}

fn since(options: &LogOptions) -> Option<Timestamp> {
    options.since_time.or_else(|| {
        let seconds = i64::try_from(options.since_seconds?).ok()?;
        Timestamp::now()
            .checked_sub(SignedDuration::from_secs(seconds))
            .ok()
    })
}

impl Source {
    fn open(&self) -> std::io::Result<tokio::fs::File> {
        let below = self.path.strip_prefix(&self.logs).unwrap_or(&self.path);
        let file = Beneath::of(&self.logs)?.read(below, false)?;
        Ok(tokio::fs::File::from_std(file))
    }
}

async fn find(place: &NodeRuntime, pod: &PodRef, options: &LogOptions) -> Result<Source, ApiError> {
    let (name, logs) = (&options.container, place.node.layout.logs());
    let labels = [(names::POD_UID, pod.uid.as_str()), (names::CONTAINER_NAME, name)];
    let mut found = place.cri.containers(&labels).await.map_err(ApiError::internal)?;
    found.sort_by_key(|c| std::cmp::Reverse(c.metadata.as_ref().map_or(0, |m| m.attempt)));
    let wanted = usize::from(options.previous);
    if let Some(container) = found.get(wanted) {
        let status = place
            .cri
            .container_status(&container.id)
            .await
            .map_err(ApiError::internal)?;
        return Ok(Source {
            logs,
            path: status.log_path.into(),
            id: Some(container.id.clone()),
        });
    }
    if options.previous {
        return Err(ApiError::bad_request(format!(
            "previous terminated container {name:?} in pod {:?} not found",
            pod.name
        )));
    }
    // The instance is gone with its sandbox; its log stays as long as the pod.
    let directory = logs
        .join(format!("{}_{}_{}", pod.namespace, pod.name, pod.uid))
        .join(name);
    match newest(&directory) {
        Some(path) => Ok(Source { logs, path, id: None }),
        None => Err(ApiError::bad_request(format!(
            "container {name:?} in pod {:?} is waiting to start: ContainerCreating",
            pod.name
        ))),
    }
}

fn newest(directory: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(directory).ok()?.flatten();
    let numbered = entries.filter_map(|e| {
        let path = e.path();
        let number: u32 = path.file_name()?.to_str()?.strip_suffix(".log")?.parse().ok()?;
        Some((number, path))
    });
    numbered.max().map(|(_, path)| path)
}

struct Reader {
    source: Source,
    cri: Cri,
    options: LogOptions,
    since: Option<Timestamp>,
    sent: u64,
    starts: bool,
    tell: mpsc::Sender<std::io::Result<bytes::Bytes>>,
}

impl Reader {
    async fn run(mut self) {
        if let Err(e) = self.read().await {
            let _ = self.tell.send(Err(e)).await;
        }
    }

    async fn read(&mut self) -> std::io::Result<()> {
        let mut file = self.source.open()?;
        let mut rest: Vec<u8> = Vec::new();
        if let Some(lines) = self.options.tail_lines {
            file.read_to_end(&mut rest).await?;
            rest.drain(..tail(&rest, lines));
            if !self.drain(&mut rest).await {
                return Ok(());
            }
        }
        let mut buffer = vec![0; CHUNK];
        loop {
            let count = file.read(&mut buffer).await?;
            if count > 0 {
                rest.extend_from_slice(&buffer[..count]);
                if !self.drain(&mut rest).await {
                    return Ok(());
                }
                continue;
            }
            if !self.options.follow {
                return Ok(());
            }
            // The file may have been put aside for a new one.
            let inode = file.metadata().await?.ino();
            let next = tokio::fs::metadata(&self.source.path).await;
            if next.is_ok_and(|m| m.ino() != inode) {
                // The runtime writes to the old one until it has changed over.
                tokio::time::sleep(CHANGE_OVER).await;
                file.read_to_end(&mut rest).await?;
                if !self.drain(&mut rest).await {
                    return Ok(());
                }
                file = self.source.open()?;
                continue;
            }
            let ended = self.ended().await;
            tokio::select! {
                () = tokio::time::sleep(LOOK) => {}
                () = self.tell.closed() => return Ok(()),
            }
            if ended {
                // What was written between the last read and the end.
                file.read_to_end(&mut rest).await?;
                self.drain(&mut rest).await;
                return Ok(());
            }
        }
    }

    async fn ended(&self) -> bool {
        let Some(id) = &self.source.id else { return true };
        match self.cri.container_status(id).await {
            Ok(status) => status.state == ContainerState::ContainerExited as i32,
            Err(e) => e.code() == Some(tonic::Code::NotFound),
        }
    }

    /// Sends the whole lines; false when nobody wants more.
    async fn drain(&mut self, data: &mut Vec<u8>) -> bool {
        let Some(end) = data.iter().rposition(|b| *b == b'\n') else {
            return true;
        };
        let mut out = Vec::new();
        for line in data[..end].split(|b| *b == b'\n') {
            let line = parse(line);
            if self.since.is_some_and(|since| line.is_before(since)) {
                continue;
            }
            out.extend(line.show(self.options.timestamps, self.starts));
            self.starts = !line.partial;
        }
        data.drain(..=end);
        if let Some(limit) = self.options.limit_bytes {
            let left = usize::try_from(limit.saturating_sub(self.sent)).unwrap_or(usize::MAX);
            out.truncate(left);
        }
        self.sent += out.len() as u64;
        if !out.is_empty() && self.tell.send(Ok(out.into())).await.is_err() {
            return false;
        }
        self.options.limit_bytes.is_none_or(|limit| self.sent < limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_never_a_link_to_something_else() {
        let dir = tempfile::tempdir().unwrap();
        let (logs, secret) = (dir.path().join("logs"), dir.path().join("secret"));
        std::fs::create_dir_all(logs.join("pod")).unwrap();
        std::fs::write(&secret, "the machine's").unwrap();
        std::fs::write(logs.join("pod/0.log"), "").unwrap();
        std::os::unix::fs::symlink(&secret, logs.join("pod/1.log")).unwrap();
        std::os::unix::fs::symlink(dir.path(), logs.join("other")).unwrap();
        let source = |path: PathBuf| Source {
            logs: logs.clone(),
            path,
            id: None,
        };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let _inside = runtime.enter();
        assert!(source(logs.join("pod/0.log")).open().is_ok());
        for path in [logs.join("pod/1.log"), logs.join("other/secret"), secret.clone()] {
            assert!(source(path.clone()).open().is_err(), "{}", path.display());
        }
    }
}
