//! The OpenStack services: each is data, and one reconciler serves them all.
//!
//! A service CR names its database, cache, credentials and image. From that follow a configuration
//! named by its content, the steps that bring the database into shape, and Deployments that roll
//! over without a failed request. Credentials live in Secrets alone and reach the programs as
//! environment variables.

pub mod build;
pub mod config;
pub mod descriptor;
mod error;
mod facts;
pub mod keys;
mod kinds;
mod names;
mod reconcile;
mod rotation;
pub mod subject;

pub use error::Error;
pub use kinds::{glance, keystone, placement};
pub use reconcile::Services;
