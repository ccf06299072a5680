//! Small controllers that satisfy foreign CRs on the embedded cluster by running the real servers.
//!
//! They write the same fields and statuses as the real operators (mariadb-operator,
//! memcached-operator), so that ours cannot tell the difference. Production has the real ones.

mod error;
mod image;
pub mod mariadb;
pub mod memcached;
mod objects;
mod random;

pub use error::Error;

use c5c3_kit::{ClusterError, Clusters, Loop, Metrics, Stop};

/// Runs all stand-ins until `stop`.
pub async fn run(clusters: Clusters, metrics: Metrics, stop: Stop) -> Result<(), ClusterError> {
    macro_rules! controller {
        ($controller:expr) => {
            Loop::new($controller, clusters.clone(), metrics.clone()).run(stop.clone())
        };
    }
    tokio::try_join!(
        controller!(mariadb::Servers),
        controller!(mariadb::SqlObjects::<c5c3_api::foreign::mariadb::Database>::default()),
        controller!(mariadb::SqlObjects::<c5c3_api::foreign::mariadb::User>::default()),
        controller!(mariadb::SqlObjects::<c5c3_api::foreign::mariadb::Grant>::default()),
        controller!(memcached::Memcacheds),
    )?;
    Ok(())
}
