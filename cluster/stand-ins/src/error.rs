use c5c3_kit::fault::plain;
use c5c3_kit::{Fault, ReadError, Retry};

use crate::exec::ExecError;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{field}: {reason}")]
    Invalid { field: &'static str, reason: String },
    #[error("MariaDB {0} is missing")]
    ServerMissing(String),
    #[error("RabbitmqCluster {0} is missing")]
    ClusterMissing(String),
    #[error("Secret {name} has no key {key}")]
    SecretMissing { name: String, key: String },
    #[error("ClusterSecretStore {0} is missing")]
    StoreMissing(String),
    /// Worded as External Secrets words it.
    #[error(
        "using cluster store {store:?} is not allowed from namespace {namespace:?}: denied by spec.condition"
    )]
    StoreRefuses { store: String, namespace: String },
    #[error("Secret {0} is missing")]
    SourceMissing(String),
    /// Named as External Secrets names it.
    #[error("{0}")]
    SecretSyncedError(String),
    #[error("cannot write Secret {secret}: {}", plain(.source))]
    Store {
        secret: String,
        source: Box<kube::Error>,
    },
    #[error("the catalogue of releases: {0}")]
    Catalogue(String),
    #[error(transparent)]
    Unreadable(#[from] ReadError),
    #[error(transparent)]
    Command(#[from] ExecError),
    #[error("Ceph: {0}")]
    Ceph(String),
    #[error("cannot restart the pod: {}", plain(.0))]
    Pod(Box<kube::Error>),
}

impl Fault for Error {
    fn part(&self) -> Option<&'static str> {
        None
    }

    fn retry(&self) -> Retry {
        match self {
            Error::Unreadable(_) | Error::Command(_) | Error::Pod(_) | Error::Store { .. } => Retry::Backoff,
            Error::Ceph(_) => Retry::Backoff,
            // A store is polled, not watched.
            Error::SecretSyncedError(_) => Retry::Backoff,
            _ => Retry::OnChange,
        }
    }
}
