//! `ceph.rook.io`: Ceph's daemons as Rook runs them, with their pools, users and object stores.
//!
//! One pod for each daemon. Keys are made here and kept in Secrets; a command to Ceph gets them by its input.

mod block_pool;
mod check;
mod client;
mod cluster;
mod commands;
mod fields;
mod gateway;
mod home;
mod keyring;
mod members;
mod mons;
mod names;
mod object_store;
mod object_user;
mod orders;
mod osds;
mod placement;
mod pods;
mod pool;
mod seats;
mod size;
mod status;
mod view;

use c5c3_kit::{Access, ClusterError};

pub use block_pool::CephBlockPools;
pub use client::CephClients;
pub use cluster::CephClusters;
pub use object_store::CephObjectStores;
pub use object_user::CephObjectStoreUsers;

use crate::group::Group;

/// What the controllers of this group may do.
pub fn access(access: Access) -> Access {
    access
        .with::<CephClusters>()
        .with::<CephBlockPools>()
        .with::<CephClients>()
        .with::<CephObjectStores>()
        .with::<CephObjectStoreUsers>()
}

/// Runs the controllers of this group until the stop.
pub(crate) async fn run(group: &Group) -> Result<(), ClusterError> {
    tokio::try_join!(
        group.run(CephClusters::new(group.client())),
        group.run(CephBlockPools::new(group.client())),
        group.run(CephClients::new(group.client())),
        group.run(CephObjectStores::new(group.client())),
        group.run(CephObjectStoreUsers::new(group.client())),
    )?;
    Ok(())
}
