//! Container logs are rotated here: the runtime only writes them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s_cri::v1::ContainerState;

use crate::cri::Cri;

const LIMIT: u64 = 10 << 20;
const KEEP: usize = 4;
const PERIOD: Duration = Duration::from_secs(30);

/// Looks at the logs of all running containers now and then.
pub async fn rotate(cri: Cri) {
    let mut paths = BTreeMap::new();
    loop {
        tokio::time::sleep(PERIOD).await;
        if let Err(e) = rotate_above(&cri, LIMIT, &mut paths).await {
            tracing::debug!("rotation of logs: {e}");
        }
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
        let long = |path: &PathBuf| std::fs::metadata(path).is_ok_and(|m| m.len() > limit);
        if let Some(path) = paths.get(id).filter(|p| long(p)) {
            put_aside(path, KEEP);
            cri.reopen_log(id).await?;
        }
    }
    Ok(())
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
