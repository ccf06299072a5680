//! One error for the crate: what was tried, on what, and why it failed.

use std::io;
use std::path::{Path, PathBuf};

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{what} {path}: {source}")]
    File {
        what: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error("{what}: {source}")]
    System { what: String, source: io::Error },
    #[error("network set-up of {what}: {source}")]
    Link { what: String, source: rtnetlink::Error },
    #[error("{call}: {}", .status.message())]
    Runtime {
        call: &'static str,
        status: Box<tonic::Status>,
    },
    #[error("{what}: {source}")]
    Api { what: String, source: Box<kube::Error> },
    #[error("{0}")]
    Said(String),
    /// What was asked for is wrong in itself.
    #[error("{0}")]
    Refused(String),
}

impl Error {
    pub fn file(what: &'static str, path: impl AsRef<Path>) -> impl FnOnce(io::Error) -> Self {
        let path = path.as_ref().to_path_buf();
        move |source| Self::File { what, path, source }
    }

    pub fn system<E: Into<io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> Self {
        let what = what.into();
        move |source| Self::System {
            what,
            source: source.into(),
        }
    }

    pub fn said(text: impl Into<String>) -> Self {
        Self::Said(text.into())
    }

    pub fn api(what: impl Into<String>) -> impl FnOnce(kube::Error) -> Self {
        let what = what.into();
        move |source| Self::Api {
            what,
            source: Box::new(source),
        }
    }

    /// Someone else changed the object first; its newest version is on its way.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Api { source, .. }
            if matches!(&**source, kube::Error::Api(status) if status.code == 409))
    }

    /// The gRPC code, when the runtime answered with one.
    pub fn code(&self) -> Option<tonic::Code> {
        match self {
            Self::Runtime { status, .. } => Some(status.code()),
            _ => None,
        }
    }
}
