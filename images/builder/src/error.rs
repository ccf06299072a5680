//! Errors of the builder; each says what to do.

use std::io;
use std::path::{Path, PathBuf};

pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{file}:{line}: {message}")]
    Data {
        file: String,
        line: u64,
        message: String,
    },
    #[error("{0}")]
    Release(#[from] c5c3_catalogue::Error),
    #[error("{0}")]
    Request(String),
    #[error("patch {patch}, hunk {hunk} ({header}) does not fit {file}: {reason}")]
    Hunk {
        patch: String,
        hunk: usize,
        header: String,
        file: String,
        reason: String,
    },
    #[error("patch {patch}: {reason}")]
    Patch { patch: String, reason: String },
    #[error(
        "{what} is not permitted: building images needs root (CAP_SYS_ADMIN, CAP_MKNOD, CAP_CHOWN); run it with sudo"
    )]
    Privilege { what: String },
    #[error("program `{program}` is missing: install the package `{package}`")]
    Program { program: String, package: String },
    #[error(
        "layer {layer}: a package registry cannot be used: {line}\n  check the network, the proxy variables and the machine's apt, pip and uv configuration; the whole log is in {log}"
    )]
    Registry {
        layer: String,
        line: String,
        log: PathBuf,
    },
    #[error(
        "no space left on {path}: {detail}\n  free some space, move the store with --store, or run `c5c3 image prune`"
    )]
    DiskFull { path: PathBuf, detail: String },
    #[error("layer {layer}: {step} failed ({status}); the whole log is in {log}\n{tail}")]
    Step {
        layer: String,
        step: String,
        status: String,
        log: PathBuf,
        tail: String,
    },
    #[error("image `{reference}` is not in the store {store}; `c5c3 image list` shows what is")]
    NoImage { reference: String, store: PathBuf },
    #[error("the store is damaged: {0}; remove the named file and build again")]
    Damaged(String),
    #[error("{what}: {source}")]
    Io { what: String, source: io::Error },
    #[error("{failed} of {total} images failed their check")]
    Check { failed: usize, total: usize },
}

impl Error {
    /// An input/output error with what was being done; a full disk gets its own kind.
    pub fn io(what: impl Into<String>, path: &Path, source: io::Error) -> Self {
        let what = what.into();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::DiskFull {
                path: path.to_owned(),
                detail: what,
            },
            io::ErrorKind::PermissionDenied => Self::Privilege {
                what: format!("{what} {}", path.display()),
            },
            _ => Self::Io {
                what: format!("{what} {}", path.display()),
                source,
            },
        }
    }
}

/// Adds what was being done to an `io::Result`.
pub(crate) trait Context<T> {
    fn context(self, what: &str, path: &Path) -> Result<T>;
}

impl<T, E: Into<io::Error>> Context<T> for std::result::Result<T, E> {
    fn context(self, what: &str, path: &Path) -> Result<T> {
        self.map_err(|error| Error::io(what, path, error.into()))
    }
}
