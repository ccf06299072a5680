//! Errors that stop the work on a host. Texts name Secrets and calls, never values.

use c5c3_api::conditions::hypervisor::{
    AGGREGATES_UPDATED, HOST_FAILED, OFFBOARDED, ONBOARDING, TRAITS_UPDATED,
};
use c5c3_kit::{ClusterError, Fault, ReadError};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("no credentials for Nova: create Secret {0} with clouds.yaml, or a ControlPlane with K-ORC")]
    NoLogin(String),
    #[error("Secret {secret}: {problem}")]
    BadLogin { secret: String, problem: String },
    /// A read, or a call that belongs to no part.
    #[error(transparent)]
    OpenStack(#[from] openstack_client::Error),
    #[error("{0}")]
    Onboarding(openstack_client::Error),
    #[error("{0}")]
    Traits(openstack_client::Error),
    #[error("{0}")]
    Aggregates(openstack_client::Error),
    #[error("Redfish: {0}")]
    Power(openstack_client::Error),
    #[error("{0}")]
    Offboarding(openstack_client::Error),
    #[error(transparent)]
    Unreadable(#[from] ReadError),
    #[error(transparent)]
    UnknownCluster(#[from] ClusterError),
}

impl Fault for Error {
    fn part(&self) -> Option<&'static str> {
        match self {
            Error::Onboarding(_) => Some(ONBOARDING),
            Error::Traits(_) => Some(TRAITS_UPDATED),
            Error::Aggregates(_) => Some(AGGREGATES_UPDATED),
            Error::Offboarding(_) => Some(OFFBOARDED),
            Error::Power(_) => Some(HOST_FAILED),
            _ => None,
        }
    }
}
