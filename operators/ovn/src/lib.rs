//! The operator of `ovn.c5c3.io`: OVN's databases, northd, and Open vSwitch with ovn-controller on
//! every hypervisor.

pub mod authority;
pub mod build;
pub mod chassis;
pub mod clusters;
mod error;
pub mod names;
pub mod view;

pub use error::Error;

use std::sync::Arc;

use c5c3_kit::kinds::Key;
use c5c3_kit::{Access, ClusterError, Clusters, Loop, Metrics, Stop, together};
use chassis::ChassisStatus;
use clusters::OvnClusters;
use dial::Dial;
use futures::{FutureExt, Stream, StreamExt};
use view::Sessions;

/// Looks after OVN, of one namespace or of all, until `stop`. `dial` leads to the databases.
pub async fn run(
    clusters: Clusters,
    metrics: Metrics,
    dial: Arc<dyn Dial>,
    namespace: Option<String>,
    stop: Stop,
) -> Result<(), ClusterError> {
    let sessions = Sessions::new(dial);
    macro_rules! controller {
        ($controller:expr) => {
            Loop::new($controller, clusters.clone(), metrics.clone()).in_namespace(namespace.clone())
        };
    }
    let status = ChassisStatus {
        sessions: sessions.clone(),
    };
    let status = controller!(status).triggered_by(of_chassis(&sessions));
    let databases = OvnClusters {
        sessions: sessions.clone(),
    };
    let databases = controller!(databases).triggered_by(sessions.news());
    together(stop, |stop| {
        vec![databases.run(stop.clone()).boxed(), status.run(stop).boxed()]
    })
    .await
}

/// News of an OVNCluster is news of its chassis.
fn of_chassis(sessions: &Sessions) -> impl Stream<Item = Key> + Send + use<> {
    let all = sessions.clone();
    sessions.news().flat_map(move |cluster| {
        let view = all.seen(&cluster).unwrap_or_default();
        let names = view.chassis.unwrap_or_default().into_keys();
        let keys: Vec<Key> = names
            .map(|name| Key::new(cluster.namespace.as_deref(), &name))
            .collect();
        futures::stream::iter(keys)
    })
}

/// What the operator may do in a cluster, and in that of the hypervisors.
pub fn access() -> Access {
    Access::default()
        .with::<OvnClusters>()
        .with::<ChassisStatus>()
        .with_lease()
}
