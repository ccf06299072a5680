use c5c3_kit::{Fault, ReadError};

use crate::sources::prometheus::PrometheusError;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0}")]
    Read(#[from] ReadError),
    #[error("{0}")]
    OpenStack(#[from] openstack_client::Error),
    #[error("{0}")]
    Prometheus(#[from] PrometheusError),
    #[error("Secret {0} is missing: create it, or leave secretRef out")]
    NoSecret(String),
    #[error("Secret {secret}: {problem}")]
    BadSecret { secret: String, problem: String },
    #[error("{0}")]
    NotSupported(String),
    #[error("cannot delete it: {0}")]
    Delete(Box<kube::Error>),
}

impl Fault for Error {
    fn part(&self) -> Option<&'static str> {
        None
    }
}
