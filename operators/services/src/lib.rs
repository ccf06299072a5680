//! The OpenStack services: each is data, and one reconciler serves them all.
//!
//! A service CR names its database, cache, credentials and image. From that follow a configuration
//! named by its content, the steps that bring the database into shape, and Deployments that roll
//! over without a failed request. Credentials live in Secrets alone and reach the programs as
//! environment variables.

#[cfg(test)]
extern crate self as c5c3_services;

mod answers;
pub mod build;
pub mod config;
mod error;
mod facts;
mod figures;
mod keep;
pub mod keys;
mod kinds;
mod names;
mod plan;
mod reconcile;
mod recurring;
mod report;
mod rollout;
mod rotation;
pub mod shape;
mod storage;

#[cfg(test)]
mod address_tests;
#[cfg(test)]
mod bad_inputs_tests;
#[cfg(test)]
mod cache_tests;
#[cfg(test)]
mod ceph_tests;
#[cfg(test)]
mod cinder_tests;
#[cfg(test)]
mod cortex_tests;
#[cfg(test)]
mod elsewhere_tests;
#[cfg(test)]
mod fields_tests;
#[cfg(test)]
mod jobs_tests;
#[cfg(test)]
mod lifecycle_tests;
#[cfg(test)]
mod neutron_tls_tests;
#[cfg(test)]
mod nova_cortex_tests;
#[cfg(test)]
mod nova_guests_tests;
#[cfg(test)]
mod nova_tests;
#[cfg(test)]
mod registry_tests;
#[cfg(test)]
mod rendered_tests;
#[cfg(test)]
mod seeds_tests;
#[cfg(test)]
mod storage_tests;
#[cfg(test)]
mod tempest_tests;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod upgrade_tests;

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
