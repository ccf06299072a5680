//! `openstack.k-orc.cloud`: what is in Keystone, as objects.
//!
//! One controller for nine kinds (`controller`); a kind says which fields it has (`kinds`), and
//! three have more to them (`user`, `assignment`, `credential`). Managed things are made, or the same ones
//! that are there are taken over; kept as the spec says; deleted with their objects. Unmanaged ones
//! are found and only read. Conditions and reasons are those of K-ORC.

mod assignment;
mod controller;
mod credential;
mod decide;
mod kinds;
mod observe;
mod resource;
mod sessions;
mod trouble;
mod user;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use c5c3_api::foreign::korc;
use c5c3_kit::{Access, ClusterError, Clusters, Loop, Metrics, Stop};
use openstack_client::Connect;

pub use controller::LOOK;

use controller::Resources;
use resource::Resource;
use sessions::Sessions;

/// What the nine controllers may do.
pub fn access(access: Access) -> Access {
    access
        .with::<Resources<korc::Domain>>()
        .with::<Resources<korc::Project>>()
        .with::<Resources<korc::Role>>()
        .with::<Resources<korc::Group>>()
        .with::<Resources<korc::Service>>()
        .with::<Resources<korc::Endpoint>>()
        .with::<Resources<korc::User>>()
        .with::<Resources<korc::RoleAssignment>>()
        .with::<Resources<korc::ApplicationCredential>>()
}

/// Runs the nine controllers until `stop`. `look` is the time between looks at Keystone.
pub async fn run(
    clusters: Clusters,
    metrics: Metrics,
    connect: Arc<dyn Connect>,
    look: Duration,
    stop: Stop,
) -> Result<(), ClusterError> {
    let sessions = Sessions::new(connect);
    macro_rules! each {
        ($($kind:ident),*) => {
            tokio::try_join!($(one::<korc::$kind>(&clusters, &metrics, &sessions, look, &stop)),*)
        };
    }
    each!(
        Domain,
        Project,
        Role,
        Group,
        Service,
        Endpoint,
        User,
        RoleAssignment,
        ApplicationCredential
    )?;
    Ok(())
}

async fn one<R: Resource>(
    clusters: &Clusters,
    metrics: &Metrics,
    sessions: &Sessions,
    look: Duration,
    stop: &Stop,
) -> Result<(), ClusterError> {
    let (resources, woken) = Resources::<R>::new(sessions.clone(), look);
    Loop::new(resources, clusters.clone(), metrics.clone())
        .triggered_by(woken)
        .run(stop.clone())
        .await
}
