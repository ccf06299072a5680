//! `ceph.rook.io`: Ceph's daemons as Rook runs them, with their pools, users and object stores.
//!
//! One pod for each daemon. Keys are made here and kept in Secrets; a command to Ceph gets them by its input.

mod block_pool;
mod check;
mod client;
mod cluster;
mod gateway;
mod home;
mod keyring;
mod mons;
mod names;
mod object_store;
mod object_user;
mod orders;
mod osds;
mod pods;
mod pool;
mod seats;
mod size;
mod status;
mod tell;
mod view;

use c5c3_kit::{Access, ClusterError, Clusters, Loop, Metrics, Stop};

pub use block_pool::CephBlockPools;
pub use client::CephClients;
pub use cluster::CephClusters;
pub use object_store::CephObjectStores;
pub use object_user::CephObjectStoreUsers;

/// What the controllers of this group may do.
pub fn access(access: Access) -> Access {
    access
        .with::<CephClusters>()
        .with::<CephBlockPools>()
        .with::<CephClients>()
        .with::<CephObjectStores>()
        .with::<CephObjectStoreUsers>()
}

/// Runs the controllers of this group until `stop`.
pub async fn run(clusters: Clusters, metrics: Metrics, stop: Stop) -> Result<(), ClusterError> {
    let client = || clusters.home().clone();
    macro_rules! controller {
        ($controller:expr) => {
            Loop::new($controller, clusters.clone(), metrics.clone()).run(stop.clone())
        };
    }
    tokio::try_join!(
        controller!(CephClusters::new(client())),
        controller!(CephBlockPools::new(client())),
        controller!(CephClients::new(client())),
        controller!(CephObjectStores::new(client())),
        controller!(CephObjectStoreUsers::new(client())),
    )?;
    Ok(())
}
