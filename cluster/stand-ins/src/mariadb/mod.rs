//! `k8s.mariadb.com`: servers, databases, users, grants.

mod galera;
mod manifests;
mod server;
mod sql;
mod statement;
mod statements;

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
