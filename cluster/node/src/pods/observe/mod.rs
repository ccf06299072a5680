//! Reads what the runtime shows of one pod.

pub mod observed;
pub mod view;

use std::collections::BTreeMap;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};
use k8s_cri::v1::{ContainerState, ContainerStatus, PodSandboxState};

use crate::beneath::Beneath;
use crate::error::Result;
use crate::pods::host::Host;
use crate::pods::observe::observed::{Container, Observed, Sandbox, State};
use crate::pods::start;
use crate::pods::start::names;

const MESSAGE_LIMIT: usize = 4096;
const LOG_LINES: usize = 80;
const LOG_LIMIT: usize = 2048;
/// Time, stream and flag before each line of a log.
const PREFIX: usize = 64;

/// The runtime reports a lack of memory apart from the end that it caused.
const LATE_REASON: SignedDuration = SignedDuration::from_secs(2);

/// What can no longer change is read once.
#[derive(Default)]
pub(super) struct Cache {
    ended: BTreeMap<String, Container>,
    addresses: BTreeMap<String, Option<String>>,
}

impl Cache {
    /// No sandbox of the pod was ever ready.
    pub(super) fn is_empty(&self) -> bool {
        self.addresses.is_empty()
    }
}

fn time(nanoseconds: i64) -> Option<Timestamp> {
    (nanoseconds > 0)
        .then(|| Timestamp::from_nanosecond(i128::from(nanoseconds)).ok())
        .flatten()
}

pub(super) async fn observe(host: &Host, uid: &str, cache: &mut Cache) -> Result<Observed> {
    let labels = [(names::POD_UID, uid)];
    let (sandboxes, containers) =
        tokio::try_join!(host.cri.sandboxes(&labels), host.cri.containers(&labels))?;
    let mut observed = Observed::default();
    for sandbox in sandboxes {
        let ready = sandbox.state == PodSandboxState::SandboxReady as i32;
        let ip = match cache.addresses.get(&sandbox.id) {
            Some(ip) => ip.clone(),
            None => {
                let status = host.cri.sandbox_status(&sandbox.id).await?;
                let ip = status.network.map(|n| n.ip).filter(|ip| !ip.is_empty());
                if ready {
                    cache.addresses.insert(sandbox.id.clone(), ip.clone());
                }
                ip
            }
        };
        observed.sandboxes.push(Sandbox {
            attempt: sandbox.metadata.map_or(0, |m| m.attempt),
            created: time(sandbox.created_at).unwrap_or_default(),
            id: sandbox.id,
            ready,
            ip,
        });
    }
    for container in containers {
        if let Some(known) = cache.ended.get(&container.id) {
            observed.containers.push(known.clone());
            continue;
        }
        let status = match host.cri.container_status(&container.id).await {
            Ok(status) => status,
            Err(e) if e.code() == Some(tonic::Code::NotFound) => continue,
            Err(e) => return Err(e),
        };
        let seen = read(container.pod_sandbox_id, status, &Places::of(host, uid));
        if seen.state == State::Exited && final_reason(&seen, Timestamp::now()) {
            cache.ended.insert(seen.id.clone(), seen.clone());
        }
        observed.containers.push(seen);
    }
    let listed = |id: &String| observed.containers.iter().any(|c| c.id == *id);
    cache.ended.retain(|id, _| listed(id));
    Ok(observed)
}

/// Killed by a signal: why may be told a moment later.
fn final_reason(container: &Container, now: Timestamp) -> bool {
    let killed = container.exit_code == 137 && container.reason != "OOMKilled";
    let since = |finished: Timestamp| now.duration_since(finished);
    !killed
        || container
            .finished
            .is_none_or(|finished| since(finished) > LATE_REASON)
}

/// Where a pod's containers leave their last words and their logs. Nothing else is read for them: a
/// container may have mounted anything where its last words belong.
struct Places {
    pod: PathBuf,
    logs: PathBuf,
}

impl Places {
    fn of(host: &Host, uid: &str) -> Self {
        let layout = &host.node.layout;
        Self {
            pod: layout.pods().join(uid),
            logs: layout.logs(),
        }
    }
}

fn read(sandbox: String, status: ContainerStatus, places: &Places) -> Container {
    let state = match ContainerState::try_from(status.state) {
        Ok(ContainerState::ContainerCreated) => State::Created,
        Ok(ContainerState::ContainerRunning) => State::Running,
        Ok(ContainerState::ContainerExited) => State::Exited,
        _ => State::Unknown,
    };
    let message = match state {
        State::Exited => message(&status, places),
        _ => String::new(),
    };
    let metadata = status.metadata.unwrap_or_default();
    Container {
        id: status.id,
        name: metadata.name,
        attempt: metadata.attempt,
        sandbox,
        state,
        created: time(status.created_at).unwrap_or_default(),
        started: time(status.started_at),
        finished: time(status.finished_at),
        exit_code: status.exit_code,
        reason: status.reason,
        message,
        image: status.image.map(|i| i.image).unwrap_or_default(),
        image_id: status.image_ref,
    }
}

/// What the container left behind: its message file, else the end of its log when it
/// asks for that, else what the runtime says.
fn message(status: &ContainerStatus, places: &Places) -> String {
    let metadata = status.metadata.clone().unwrap_or_default();
    let file = start::message_file(&metadata.name, metadata.attempt);
    let file = end_of(&places.pod, &file, MESSAGE_LIMIT).unwrap_or_default();
    if !file.is_empty() {
        return tail(&file, MESSAGE_LIMIT).into();
    }
    let fall_back =
        status.annotations.get(names::MESSAGE_POLICY).map(String::as_str) == Some("FallbackToLogsOnError");
    if fall_back && status.exit_code != 0 {
        let end = log_end(&places.logs, Path::new(&status.log_path));
        // One that never started has no log; the runtime knows why.
        if !end.is_empty() {
            return end;
        }
    }
    status.message.clone()
}

fn log_end(logs: &Path, path: &Path) -> String {
    // What the runtime adds to each line comes on top.
    let limit = LOG_LIMIT + LOG_LINES * PREFIX;
    let below = path.strip_prefix(logs).unwrap_or(path);
    let text = end_of(logs, below, limit).unwrap_or_default();
    let lines: Vec<&str> = text
        .lines()
        .rev()
        .take(LOG_LINES)
        .filter_map(|l| l.splitn(4, ' ').nth(3))
        .collect();
    let joined: String = lines.iter().rev().flat_map(|l| [*l, "\n"]).collect();
    tail(&joined, LOG_LIMIT).into()
}

/// The end of a file, which may be larger than memory. Bytes that are no text are replaced.
fn end_of(directory: &Path, path: &Path, limit: usize) -> std::io::Result<String> {
    let mut file = Beneath::of(directory)?.read(path, false)?;
    let meta = file.metadata()?;
    let limit = limit as u64;
    file.seek(SeekFrom::Start(meta.len().saturating_sub(limit)))?;
    let mut bytes = Vec::new();
    file.take(limit).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The last bytes of a text, at a character's border.
fn tail(text: &str, limit: usize) -> &str {
    let from = text.len().saturating_sub(limit);
    let from = (from..=text.len())
        .find(|i| text.is_char_boundary(*i))
        .unwrap_or(0);
    &text[from..]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nowhere() -> Places {
        Places {
            pod: PathBuf::new(),
            logs: PathBuf::new(),
        }
    }

    #[test]
    fn last_words_are_read_from_their_own_file_alone() {
        let dir = tempfile::tempdir().unwrap();
        let secret = dir.path().join("secret");
        std::fs::write(&secret, "the machine's").unwrap();
        let places = Places {
            pod: dir.path().join("pod"),
            logs: dir.path().join("logs"),
        };
        std::fs::create_dir_all(places.pod.join("containers/c")).unwrap();
        let own = places.pod.join("containers/c/0");
        std::fs::write(&own, "bye").unwrap();
        let mut status = ContainerStatus {
            metadata: Some(k8s_cri::v1::ContainerMetadata {
                name: "c".into(),
                attempt: 0,
            }),
            annotations: [(names::MESSAGE_PATH.into(), "/last".into())].into(),
            // A volume of the pod, at the place of the last words.
            mounts: vec![k8s_cri::v1::Mount {
                container_path: "/last".into(),
                host_path: secret.to_string_lossy().into_owned(),
                ..Default::default()
            }],
            ..ContainerStatus::default()
        };
        assert_eq!(message(&status, &places), "bye");
        // Nor is a link followed, be it for the log.
        std::fs::remove_file(&own).unwrap();
        std::os::unix::fs::symlink(&secret, &own).unwrap();
        std::fs::create_dir(&places.logs).unwrap();
        let log = places.logs.join("0.log");
        std::os::unix::fs::symlink(&secret, &log).unwrap();
        status.log_path = log.to_string_lossy().into_owned();
        status
            .annotations
            .insert(names::MESSAGE_POLICY.into(), "FallbackToLogsOnError".into());
        status.exit_code = 1;
        assert_eq!(message(&status, &places), "");
    }

    #[test]
    fn a_kill_waits_for_its_reason_a_moment() {
        let now: Timestamp = "2026-01-01T00:00:10Z".parse().unwrap();
        let cases = [
            (137, "Error", "2026-01-01T00:00:09Z", false),
            (137, "Error", "2026-01-01T00:00:05Z", true),
            (137, "OOMKilled", "2026-01-01T00:00:09Z", true),
            (1, "Error", "2026-01-01T00:00:09Z", true),
        ];
        for (exit_code, reason, finished, expected) in cases {
            let status = ContainerStatus {
                exit_code,
                reason: reason.to_owned(),
                finished_at: i64::try_from(finished.parse::<Timestamp>().unwrap().as_nanosecond()).unwrap(),
                ..ContainerStatus::default()
            };
            assert_eq!(
                final_reason(&read(String::new(), status, &nowhere()), now),
                expected,
                "{reason} {finished}"
            );
        }
    }

    #[test]
    fn tails() {
        assert_eq!(tail("abc", 2), "bc");
        assert_eq!(tail("aäb", 2), "b");
        assert_eq!(tail("", 2), "");
    }

    #[test]
    fn the_end_of_a_log() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("l");
        std::fs::write(
            &file,
            "2026-01-01T00:00:00Z stdout F one\n2026-01-01T00:00:00Z stderr F two words\n",
        )
        .unwrap();
        assert_eq!(log_end(dir.path(), &file), "one\ntwo words\n");
    }

    #[test]
    fn only_the_end_of_a_huge_file_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("l");
        // Sparse: a terabyte on no disk at all.
        let huge = std::fs::File::create(&file).unwrap();
        huge.set_len(1 << 40).unwrap();
        let mut end = std::fs::OpenOptions::new().append(true).open(&file).unwrap();
        std::io::Write::write_all(&mut end, b"\n2026-01-01T00:00:00Z stdout F last\n").unwrap();
        let end_of = |name: &str| super::end_of(dir.path(), Path::new(name), 5);
        assert!(log_end(dir.path(), &file).ends_with("last\n"));
        assert_eq!(end_of("l").unwrap(), "last\n");
        assert!(end_of(".").is_err());
        let pipe = dir.path().join("p");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(end_of("p").is_err());
    }
}
