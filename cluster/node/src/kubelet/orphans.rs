//! What runs on the node though no pod of the API stands for it.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_cri::v1::PodSandbox;

use crate::pods::{Host, clean_up, names};

/// Seconds that a pod without an object gets to end.
pub const GRACE: i64 = 2;

pub async fn end(host: &Host, sandboxes: &[PodSandbox], known: impl Fn(&str) -> bool) {
    let orphans: Vec<(&PodSandbox, &str)> = sandboxes
        .iter()
        .filter_map(|s| Some((s, s.labels.get(names::POD_UID)?.as_str())))
        .filter(|(_, uid)| !known(uid))
        .collect();
    for (sandbox, uid) in &orphans {
        tracing::info!(uid, sandbox = sandbox.id, "ends a pod that the API does not know");
        if let Err(e) = end_one(host, &sandbox.id, uid).await {
            tracing::warn!(uid, "{e}");
        }
    }
    let uids: BTreeSet<&str> = orphans.iter().map(|(_, uid)| *uid).collect();
    for uid in uids {
        if let Err(e) = clean_up(host, uid).await {
            tracing::warn!(uid, "{e}");
        }
    }
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
