//! Errors that stop an arbiter from being deployed. Texts name Secrets and keys, never values.

use c5c3_api::conditions::ceph::{ARBITER_DEPLOYMENT_READY, CEPH_CLUSTER_READY, REMOTE_CLUSTER_READY};
use c5c3_kit::fault::plain;
use c5c3_kit::{Fault, ReadError, Retry};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "metadata.name: {name} cannot name a Service: use at most {longest} lowercase letters, digits and dashes, starting with a letter"
    )]
    NameNotUsable { name: String, longest: usize },
    #[error(
        "service.nodeIp: is missing: set it to the address of a node, which other monitors need with service.type NodePort"
    )]
    NodeAddressMissing,
    #[error("monIdPrefix: all of {prefix}a to {prefix}z are taken in CephCluster {ceph}: use another prefix")]
    NoMonIdLeft { prefix: String, ceph: String },
    #[error(
        "{object} in the other cluster belongs to {owner} and is not changed. Delete it, or choose another name"
    )]
    NotOwned { object: String, owner: String },
    #[error("cannot reserve a monitor in CephCluster {ceph}: {}", plain(.source))]
    NotReserved { ceph: String, source: Box<kube::Error> },
    #[error("cannot {verb} {object} in the other cluster: {}", plain(.source))]
    NotWritten {
        verb: &'static str,
        object: String,
        source: Box<kube::Error>,
    },
    #[error("{0}: the other cluster did not answer in time")]
    Silent(String),
    #[error("the connection to the other cluster was lost; the next check reconnects")]
    NotConnected,
    #[error(transparent)]
    Unreadable(#[from] ReadError),
}

impl Fault for Error {
    fn part(&self) -> Option<&'static str> {
        match self {
            Error::NoMonIdLeft { .. } | Error::NotReserved { .. } => Some(CEPH_CLUSTER_READY),
            Error::NotWritten { .. }
            | Error::NotOwned { .. }
            | Error::NameNotUsable { .. }
            | Error::NodeAddressMissing => Some(ARBITER_DEPLOYMENT_READY),
            Error::Silent(_) | Error::NotConnected => Some(REMOTE_CLUSTER_READY),
            Error::Unreadable(_) => None,
        }
    }

    fn retry(&self) -> Retry {
        match self {
            // The other cluster is not watched: there only time tells.
            Error::NameNotUsable { .. } | Error::NodeAddressMissing => Retry::OnChange,
            _ => Retry::Backoff,
        }
    }
}
