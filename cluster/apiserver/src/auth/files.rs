//! Key files: written whole or not at all, and readable by their owner alone.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write},
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error("cannot use {path}: {source}")]
    File { path: PathBuf, source: io::Error },
    #[error("{path} is damaged: {reason}; move it away to have a new one made")]
    Damaged { path: PathBuf, reason: String },
    #[error("cannot make a certificate: {0}")]
    Certificate(#[from] rcgen::Error),
    #[error("cannot set up TLS: {0}")]
    Tls(String),
    #[error("{0}")]
    Refused(String),
}

impl KeyError {
    pub(super) fn file(path: &Path, source: io::Error) -> Self {
        Self::File {
            path: path.to_owned(),
            source,
        }
    }

    pub(super) fn damaged(path: &Path, reason: impl ToString) -> Self {
        Self::Damaged {
            path: path.to_owned(),
            reason: reason.to_string(),
        }
    }
}

/// Makes the directory, closed to others.
pub(super) fn directory(path: &Path) -> Result<(), KeyError> {
    let make = || {
        fs::create_dir_all(path)?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o700))
    };
    make().map_err(|source| KeyError::file(path, source))
}

/// The content, or `None` if there is no such file.
pub(super) fn read(path: &Path) -> Result<Option<String>, KeyError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(KeyError::file(path, source)),
    }
}

/// Writes a secret with mode 0600. A crash leaves the old file or the new one, never half of one.
pub(super) fn write(path: &Path, content: &str) -> Result<(), KeyError> {
    let temporary = path.with_extension("new");
    let put = || {
        let _ = fs::remove_file(&temporary);
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&temporary)?;
        file.write_all(content.as_bytes())?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    };
    put().map_err(|source| KeyError::file(path, source))
}
