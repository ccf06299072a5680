//! Small controllers that satisfy foreign CRs on the embedded cluster by running the real servers.
//!
//! They write the same fields and statuses as the real operators (mariadb-operator, memcached-operator,
//! RabbitMQ's two, valkey-operator, K-ORC, External Secrets, Rook), so that ours cannot tell the difference. Production has the real ones.

pub mod ceph;
mod error;
mod exec;
pub mod external_secrets;
mod group;
mod image;
pub mod korc;
pub mod mariadb;
pub mod memcached;
mod messages;
mod objects;
pub mod rabbitmq;
mod random;
#[cfg(test)]
mod rendered_tests;
pub mod valkey;

pub use error::Error;

use std::sync::Arc;

use c5c3_kit::{Access, ClusterError, Clusters, Metrics, Stop};
use openstack_client::{Connector, Dial, Limits};

use group::Group;

/// What the stand-ins may do in a cluster.
pub fn access() -> Access {
    let access = Access::default()
        .with::<memcached::Memcacheds>()
        .with::<valkey::Valkeys>();
    ceph::access(external_secrets::access(korc::access(rabbitmq::access(
        mariadb::access(access),
    ))))
}

/// Runs those that work in every cluster, in another one than that of the cloud: Rook and External Secrets.
/// `clusters` has it as home, and that of the cloud as [`external_secrets::BANK`].
pub async fn run_elsewhere(clusters: Clusters, metrics: Metrics, stop: Stop) -> Result<(), ClusterError> {
    let group = Group::new(&clusters, &metrics, &stop);
    tokio::try_join!(external_secrets::run(&group), ceph::run(&group))?;
    Ok(())
}

/// Runs all stand-ins until `stop`. `dial` reaches the services of the cluster.
pub async fn run(
    clusters: Clusters,
    metrics: Metrics,
    dial: Arc<dyn Dial>,
    stop: Stop,
) -> Result<(), ClusterError> {
    let connect = Arc::new(Connector {
        dial,
        limits: Limits::default(),
    });
    let group = Group::new(&clusters, &metrics, &stop);
    tokio::try_join!(
        mariadb::run(&group),
        group.run(memcached::Memcacheds),
        korc::run(
            clusters.clone(),
            metrics.clone(),
            connect,
            korc::LOOK,
            stop.clone()
        ),
        group.run(valkey::Valkeys::new(group.client())),
        rabbitmq::run(&group),
        external_secrets::run(&group),
        ceph::run(&group),
    )?;
    Ok(())
}
