use c5c3_kit::{Fault, ReadError, Retry};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{field}: {reason}")]
    Invalid { field: &'static str, reason: String },
    #[error("MariaDB {0} is missing")]
    ServerMissing(String),
    #[error("Secret {name} has no key {key}")]
    SecretMissing { name: String, key: String },
    #[error("the catalogue of releases: {0}")]
    Catalogue(String),
    #[error(transparent)]
    Unreadable(#[from] ReadError),
}

impl Fault for Error {
    fn part(&self) -> Option<&'static str> {
        None
    }

    fn retry(&self) -> Retry {
        match self {
            Error::Unreadable(_) => Retry::Backoff,
            _ => Retry::OnChange,
        }
    }
}
