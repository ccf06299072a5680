//! The OpenStack services: each is data, and one reconciler serves them all.
//!
//! A service CR names its database, cache, credentials and image. From that follow a configuration
//! named by its content, the steps that bring the database into shape, and Deployments that roll
//! over without a failed request. Credentials live in Secrets alone and reach the programs as
//! environment variables.

#[cfg(test)]
extern crate self as c5c3_services;

pub mod build;
pub mod config;
mod error;
mod facts;
mod figures;
mod judge;
pub mod keys;
mod kinds;
mod names;
mod plan;
mod reconcile;
mod report;
mod rotation;
pub mod shape;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use error::Error;
pub use reconcile::Services;

use c5c3_kit::{Access, ClusterError, Clusters, Loop, Metrics, Stop, together};
use futures::FutureExt;

/// Looks after all services, of one namespace or of all, until `stop`.
pub async fn run(
    clusters: Clusters,
    metrics: Metrics,
    namespace: Option<String>,
    stop: Stop,
) -> Result<(), ClusterError> {
    figures::publish(&metrics, clusters.home().clone(), namespace.as_deref());
    together(stop, |stop| {
        macro_rules! loops {
            ($($kind:ty),*) => {
                vec![$(
                    Loop::new(Services::<$kind>::default(), clusters.clone(), metrics.clone())
                        .in_namespace(namespace.clone())
                        .run(stop.clone())
                        .boxed()
                ),*]
            };
        }
        c5c3_api::each_service!(loops)
    })
    .await
}

/// What the operator may do in a cluster.
pub fn access() -> Access {
    macro_rules! access {
        ($($kind:ty),*) => { Access::default()$(.with::<Services<$kind>>())* };
    }
    c5c3_api::each_service!(access).with_lease()
}
