//! The operator of `ceph.c5c3.io`: a Ceph monitor in another cluster, as tie-breaker.
//!
//! - `clusters` looks whether another cluster can be worked with.
//! - `arbiters` runs the monitor there: a pure plan of what is reserved, applied and removed.
//! - `remote` is all that touches the other cluster.

mod arbiters;
mod clusters;
mod error;
mod remote;

pub use error::Error;

use arbiters::Arbiters;
use c5c3_kit::{Access, ClusterError, Clusters, Loop, Metrics, Stop, together};
use clusters::RemoteClusters;
use futures::FutureExt;
use remote::Remotes;

/// Reconciles arbiters, of one namespace or of all, until `stop`.
pub async fn run(
    clusters: Clusters,
    metrics: Metrics,
    namespace: Option<String>,
    stop: Stop,
) -> Result<(), ClusterError> {
    let remotes = Remotes::default();
    let arbiters = Arbiters {
        home: clusters.home().clone(),
        remotes: remotes.clone(),
    };
    let arbiters = Loop::new(arbiters, clusters.clone(), metrics.clone()).in_namespace(namespace.clone());
    let remote_clusters = Loop::new(RemoteClusters { remotes }, clusters, metrics).in_namespace(namespace);
    together(stop, |stop| {
        vec![
            arbiters.run(stop.clone()).boxed(),
            remote_clusters.run(stop).boxed(),
        ]
    })
    .await
}

/// What the operator may do in its own cluster. In that of an arbiter its kubeconfig says it.
pub fn access() -> Access {
    Access::default()
        .with::<RemoteClusters>()
        .with::<Arbiters>()
        .with_lease()
}
