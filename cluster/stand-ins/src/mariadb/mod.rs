//! `k8s.mariadb.com`: servers, databases, users, grants.

mod galera;
mod manifests;
mod server;
mod sql;
mod statement;
mod statements;

use c5c3_api::foreign::mariadb::{Database, Grant, User};
use c5c3_kit::{Access, ClusterError, Clusters, Loop, Metrics, Stop};

pub use server::Servers;
pub use sql::SqlObjects;

/// The user of the image.
const UID: i64 = 42434;
const SERVER: &str = "mariadb";

/// Sends its input to the server of the same pod, as the user whom the socket vouches for.
const CLIENT: &[&str] = &[
    "mariadb",
    "--no-defaults",
    "--user=mysql",
    "--socket=/run/mysqld/mysqld.sock",
    "--connect-timeout=5",
];

/// What the controllers of this group may do.
pub fn access(access: Access) -> Access {
    access
        .with::<Servers>()
        .with::<SqlObjects<Database>>()
        .with::<SqlObjects<User>>()
        .with::<SqlObjects<Grant>>()
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
        controller!(Servers::new(client())),
        controller!(SqlObjects::<Database>::new(client())),
        controller!(SqlObjects::<User>::new(client())),
        controller!(SqlObjects::<Grant>::new(client())),
    )?;
    Ok(())
}
