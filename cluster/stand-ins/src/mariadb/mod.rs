//! `k8s.mariadb.com`: servers, databases, users, grants.

mod galera;
pub(crate) mod manifests;
mod server;
mod sql;
mod statement;
mod statements;

use c5c3_api::foreign::mariadb::{Database, Grant, User};
use c5c3_kit::{Access, ClusterError};

pub use server::Servers;
pub use sql::SqlObjects;

use crate::group::Group;

/// The user of the image.
const UID: i64 = 42434;
const SERVER: &str = "mariadb";

/// Sends its input to the server of the same pod, as the user that the socket authenticates.
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

/// Runs the controllers of this group until the stop.
pub(crate) async fn run(group: &Group) -> Result<(), ClusterError> {
    tokio::try_join!(
        group.run(Servers::new(group.client())),
        group.run(SqlObjects::<Database>::new(group.client())),
        group.run(SqlObjects::<User>::new(group.client())),
        group.run(SqlObjects::<Grant>::new(group.client())),
    )?;
    Ok(())
}
