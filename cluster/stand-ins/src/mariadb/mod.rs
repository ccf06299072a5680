//! `k8s.mariadb.com`: servers, databases, users, grants.

mod server;
mod sql;
mod statements;

pub use server::Servers;
pub use sql::SqlObjects;

/// The user of the image.
const UID: i64 = 42434;
const SERVER: &str = "mariadb";
