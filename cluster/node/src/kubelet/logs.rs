//! Container logs are rotated here: the runtime only writes them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s_cri::v1::ContainerState;

use crate::cri::Cri;

const LIMIT: u64 = 10 << 20;
const KEEP: usize = 4;
const PERIOD: Duration = Duration::from_secs(30);

/// Looks at the logs of all running containers now and then, and at that of the runtime.
pub(super) async fn rotate(cri: Cri, runtime: PathBuf) {
    let mut paths = BTreeMap::new();
    loop {
        tokio::time::sleep(PERIOD).await;
        if let Err(e) = rotate_above(&cri, LIMIT, &mut paths).await {
            tracing::debug!("rotation of logs: {e}");
        }
        let log = runtime.clone();
        let _ = tokio::task::spawn_blocking(move || shorten(&log, LIMIT)).await;
    }
}

/// Puts every log aside that is longer than `limit`. The runtime is asked once where a
/// container's log is; `paths` keeps it.
pub async fn rotate_above(cri: &Cri, limit: u64, paths: &mut BTreeMap<String, PathBuf>) -> crate::Result<()> {
    let running = ContainerState::ContainerRunning as i32;
    let containers = cri.containers(&[]).await?;
    paths.retain(|id, _| containers.iter().any(|c| c.id == *id));
    for container in containers.iter().filter(|c| c.state == running) {
        let id = &container.id;
        if !paths.contains_key(id) {
            let path = cri.container_status(id).await?.log_path;
            paths.insert(id.clone(), path.into());
        }
        let Some(path) = paths.get(id) else { continue };
        let due = due(path, limit);
        if due == Due::Rotation {
            put_aside(path, KEEP);
        }
        if due != Due::Nothing
            && let Err(e) = cri.reopen_log(id).await
        {
            // The next look finds the log missing.
            tracing::debug!(container = id, "rotation of a log: {e}");
        }
    }
    Ok(())
}

#[derive(Debug, PartialEq)]
enum Due {
    Nothing,
    Rotation,
    /// It was rotated, but the runtime has not been told to reopen it.
    Reopening,
}

fn due(path: &Path, limit: u64) -> Due {
    match std::fs::metadata(path) {
        Ok(meta) if meta.len() > limit => Due::Rotation,
        // A container without a log has no path.
        Err(e) if e.kind() == std::io::ErrorKind::NotFound && !path.as_os_str().is_empty() => Due::Reopening,
        _ => Due::Nothing,
    }
}

/// Empties a log that its writer, who appends, keeps open. The older lines are kept once.
fn shorten(path: &Path, limit: u64) {
    if std::fs::metadata(path).is_ok_and(|m| m.len() > limit) {
        let aside = path.with_extension("log.1");
        if std::fs::copy(path, &aside).is_err() {
            // Half of it is of no use, and the space that it takes may be what is missing.
            let _ = std::fs::remove_file(&aside);
        }
        let file = std::fs::OpenOptions::new().write(true).open(path);
        let shortened = file.and_then(|file| file.set_len(0));
        if let Err(e) = shortened {
            tracing::debug!("rotation of {}: {e}", path.display());
        }
    }
}

/// `0.log` becomes `0.log.1`, that becomes `0.log.2`; the oldest goes.
fn put_aside(path: &Path, keep: usize) {
    let aged = |n: usize| {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{n}"));
        PathBuf::from(name)
    };
    for n in (1..keep).rev() {
        let _ = std::fs::rename(aged(n), aged(n + 1));
    }
    let _ = std::fs::rename(path, aged(1));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_that_is_missing_is_opened_again() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("0.log");
        assert_eq!(due(&log, 2), Due::Reopening);
        assert_eq!(due(Path::new(""), 2), Due::Nothing);
        std::fs::write(&log, "12").unwrap();
        assert_eq!(due(&log, 2), Due::Nothing);
        std::fs::write(&log, "123").unwrap();
        assert_eq!(due(&log, 2), Due::Rotation);
    }

    #[test]
    fn a_log_that_stays_open_is_shortened() {
        use std::io::Write;
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("containerd.log");
        let mut writer = std::fs::File::options()
            .create(true)
            .append(true)
            .open(&log)
            .unwrap();
        writer.write_all(b"old").unwrap();
        shorten(&log, 3);
        writer.write_all(b"er").unwrap();
        shorten(&log, 3);
        writer.write_all(b"new").unwrap();
        assert_eq!(std::fs::read_to_string(&log).unwrap(), "new");
        let aside = std::fs::read_to_string(dir.path().join("containerd.log.1"));
        assert_eq!(aside.unwrap(), "older");
    }

    #[test]
    fn the_oldest_goes() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("0.log");
        for n in 0..5 {
            std::fs::write(&log, n.to_string()).unwrap();
            put_aside(&log, 3);
        }
        let read = |n| std::fs::read_to_string(dir.path().join(format!("0.log.{n}"))).ok();
        assert_eq!(
            (read(1), read(2), read(3), read(4)),
            (Some("4".into()), Some("3".into()), Some("2".into()), None)
        );
    }
}
