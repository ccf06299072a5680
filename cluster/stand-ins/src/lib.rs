//! Small controllers that satisfy foreign CRs on the embedded cluster by running the real servers.
//!
//! They write the same fields and statuses as the real operators (mariadb-operator,
//! memcached-operator, K-ORC), so that ours cannot tell the difference. Production has the real ones.
    let client = || clusters.home().clone();

mod error;
mod exec;
mod image;
pub mod korc;
pub mod mariadb;
pub mod memcached;
mod objects;
pub mod rabbitmq;
mod random;
mod told;

pub use error::Error;

use std::sync::Arc;

use c5c3_kit::{ClusterError, Clusters, Loop, Metrics, Stop};
use openstack_client::{Connector, Dial, Limits};

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
    let client = || clusters.home().clone();
    macro_rules! controller {
        ($controller:expr) => {
            Loop::new($controller, clusters.clone(), metrics.clone()).run(stop.clone())
        };
    }
    tokio::try_join!(
        controller!(mariadb::Servers::new(client())),
        controller!(mariadb::SqlObjects::<c5c3_api::foreign::mariadb::Database>::new(
            client()
        )),
        controller!(mariadb::SqlObjects::<c5c3_api::foreign::mariadb::User>::new(
            client()
        )),
        controller!(mariadb::SqlObjects::<c5c3_api::foreign::mariadb::Grant>::new(
            client()
        )),
        controller!(memcached::Memcacheds),
        korc::run(
            clusters.clone(),
            metrics.clone(),
            connect,
            korc::LOOK,
            stop.clone()
        ),
    let client = || clusters.home().clone();
    )?;
    Ok(())
}
