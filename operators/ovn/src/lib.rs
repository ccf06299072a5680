//! The operator of `ovn.c5c3.io`: OVN's databases, northd, and Open vSwitch with ovn-controller on
//! every hypervisor.

pub mod build;
pub mod chassis;
pub mod clusters;
mod error;
pub mod names;

pub use error::Error;

use std::sync::Arc;

use c5c3_kit::{Access, ClusterError, Clusters, Loop, Metrics, Stop};
use clusters::{HYPERVISORS, OvnClusters};
use dial::Dial;

/// Looks after OVN, of one namespace or of all, until `stop`.
pub async fn run(
    clusters: Clusters,
    metrics: Metrics,
    _dial: Arc<dyn Dial>,
    namespace: Option<String>,
    stop: Stop,
) -> Result<(), ClusterError> {
    macro_rules! controller {
        ($controller:expr) => {
            Loop::new($controller, clusters.clone(), metrics.clone())
                .in_namespace(namespace.clone())
                .run(stop)
                .await
        };
    }
    match clusters.get(&HYPERVISORS) {
        Ok(_) => controller!(OvnClusters::<true>),
        Err(_) => controller!(OvnClusters::<false>),
    }
}

/// What the operator may do in a cluster; the same in that of the hypervisors.
pub fn access() -> Access {
    Access::default()
        .with::<OvnClusters<false>>()
        .with::<OvnClusters<true>>()
        .with_lease()
}
