//! Errors that stop the work on a host. Texts name Secrets and calls, never values.

use std::time::Duration;

use c5c3_api::conditions::hypervisor::{
    AGGREGATES_UPDATED, HOST_FAILED, OFFBOARDED, ONBOARDING, TRAITS_UPDATED,
};
use c5c3_kit::{ClusterError, Fault, ReadError, Retry};
use openstack_client::Cause;

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

/// How soon hosts are looked at again while the cloud is not there yet. It may be in another cluster, and nothing tells
/// when it comes.
const COMES: Duration = Duration::from_secs(15);

impl Error {
    /// Nobody is there who could be asked too often.
    fn is_absence(&self) -> bool {
        match self {
            Error::NoLogin(_) => true,
            Error::OpenStack(error) => {
                matches!(error.cause, Cause::Connect { .. } | Cause::NoEndpoint { .. })
            }
            _ => false,
        }
    }
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

    fn retry(&self) -> Retry {
        if self.is_absence() {
            Retry::Within(COMES)
        } else {
            Retry::Backoff
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cloud_that_is_not_there_is_looked_for_often_and_one_that_is_busy_is_not() {
        let of = |cause| Error::OpenStack(openstack_client::Error::new("list servers", cause));
        let absent = Cause::Connect {
            to: "nova:8774".to_owned(),
            why: "refused".to_owned(),
        };
        let busy = Cause::Answer {
            status: 503,
            message: String::new(),
        };
        assert_eq!(of(absent).retry(), Retry::Within(COMES));
        assert_eq!(Error::NoLogin("a/b".to_owned()).retry(), Retry::Within(COMES));
        assert_eq!(of(busy).retry(), Retry::Backoff);
        assert_eq!(of(Cause::Timeout(COMES)).retry(), Retry::Backoff);
    }
}
