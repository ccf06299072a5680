//! Workloads in another cluster. If that cluster cannot be reached, this is a fact like any other: the
//! rest continues.

use std::time::Duration;

use c5c3_kit::{ReadError, Reader, Reference};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::Pod;

use super::Facts;

/// So long may it take to answer: less than a pass has in all.
const ANSWER: Duration = Duration::from_secs(10);

pub(super) async fn look(
    reader: &Reader,
    cluster: &str,
    namespace: &str,
    labels: &str,
) -> Result<(Vec<DaemonSet>, Vec<Pod>), String> {
    let lists = |there: Reader| async move {
        let sets = there.list::<DaemonSet>(namespace, labels).await?;
        Ok((sets, there.list::<Pod>(namespace, labels).await?))
    };
    ask(reader, cluster, lists).await
}

/// What is read there, or why it cannot be.
pub(super) async fn ask<T, R>(
    reader: &Reader,
    cluster: &str,
    read: impl FnOnce(Reader) -> R,
) -> Result<T, String>
where
    R: Future<Output = Result<T, ReadError>>,
{
    let there = reader.in_cluster(cluster).map_err(|error| error.to_string())?;
    match tokio::time::timeout(ANSWER, read(there)).await {
        Ok(found) => found.map_err(|error| format!("cluster {cluster}: {error}")),
        Err(_) => Err(format!(
            "cluster {cluster} does not answer within {} s",
            ANSWER.as_secs()
        )),
    }
}

impl Facts {
    /// Whether objects can be made there.
    pub fn reaches(&self, cluster: &str) -> bool {
        !matches!(self.elsewhere.get(cluster), Some(Err(_)))
    }

    /// What is ours in clusters that are away: it stays as it is.
    pub fn out_of_reach(&self) -> impl Iterator<Item = &Reference> {
        let owned = self.owned.iter().map(|(reference, _)| reference);
        owned.filter(|reference| !self.reaches(&reference.cluster))
    }
}
