//! What is on the node though no pod of the API stands for it: sandboxes and files.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s_cri::v1::PodSandbox;

use crate::pods::start::names;
use crate::pods::{Host, clean_up};

/// Seconds that a pod without an object gets to end.
pub(super) const GRACE: i64 = 2;

pub(super) async fn end(host: &Host, sandboxes: &[PodSandbox], known: impl Fn(&str) -> bool) {
    let uid = |s: &PodSandbox| s.labels.get(names::POD_UID).cloned();
    let orphans = sandboxes
        .iter()
        .filter_map(|s| Some((s, uid(s)?)))
        .filter(|(_, uid)| !known(uid));
    let mut failed = BTreeSet::new();
    for (sandbox, uid) in orphans {
        tracing::info!(uid, sandbox = sandbox.id, "ends a pod that the API does not know");
        if let Err(e) = end_one(host, &sandbox.id, &uid).await {
            tracing::warn!(uid, "{e}");
            failed.insert(uid);
        }
    }
    let left = |uid: &str| !known(uid) && !failed.contains(uid);
    let layout = &host.node.layout;
    for (_, uid) in belongings(&layout.pods(), left) {
        if let Err(e) = clean_up(host, &uid).await {
            tracing::warn!(uid, "{e}");
        }
    }
    for (path, uid) in belongings(&layout.logs(), left) {
        if let Err(e) = tokio::fs::remove_dir_all(&path).await {
            tracing::warn!(uid, "logs: {e}");
        }
    }
}

/// Directories of pods that are left, with the uid that their name is or ends with.
fn belongings(root: &Path, left: impl Fn(&str) -> bool) -> Vec<(PathBuf, String)> {
    let entries = std::fs::read_dir(root).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let name = entry.file_name();
            let uid = name.to_str()?.rsplit('_').next().filter(|uid| left(uid))?;
            Some((entry.path(), uid.to_owned()))
        })
        .collect()
}

async fn end_one(host: &Host, sandbox: &str, uid: &str) -> crate::Result<()> {
    let containers = host.cri.containers(&[(names::POD_UID, uid)]).await?;
    let grace = Duration::from_secs(GRACE.unsigned_abs());
    let stops = containers
        .iter()
        .filter(|c| c.pod_sandbox_id == sandbox)
        .map(|c| host.cri.stop_container(&c.id, grace));
    for stopped in futures::future::join_all(stops).await {
        stopped?;
    }
    host.cri.stop_sandbox(sandbox).await?;
    host.cri.remove_sandbox(sandbox).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_nobody_knows() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["default_web_u-1", "default_web_u-2", "u-1", "u-3"] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
        }
        let mut found = belongings(dir.path(), |uid| uid != "u-1");
        found.sort();
        let expected = [("default_web_u-2", "u-2"), ("u-3", "u-3")];
        assert_eq!(
            found,
            expected.map(|(name, uid)| (dir.path().join(name), uid.to_owned()))
        );
        assert!(belongings(&dir.path().join("missing"), |_| true).is_empty());
    }
}
