//! A store's file on a file system.

use std::{
    io,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use redb::{Builder, Database, DatabaseError};

use super::disk::{DiskError, Medium, check_format, damaged, explain, guard, read_all};

/// Objects are in memory already: a small page cache is enough for the tree above them.
const CACHE: usize = 1 << 20;

pub(super) struct File {
    path: PathBuf,
    /// Device and inode of the file that we opened or put in place.
    ours: Mutex<Option<(u64, u64)>>,
}

impl File {
    pub(super) fn new(path: &Path) -> Self {
        Self {
            path: path.into(),
            ours: Mutex::new(None),
        }
    }

    fn io(&self, source: io::Error) -> DiskError {
        DiskError::Io {
            path: self.path.clone(),
            source,
        }
    }

    fn aside(&self) -> PathBuf {
        self.path.with_extension("new")
    }

    fn mark(&self) -> PathBuf {
        self.path.with_extension("distrusted")
    }

    fn sync_directory(&self) -> io::Result<()> {
        match self.path.parent() {
            Some(parent) => std::fs::File::open(parent)?.sync_all(),
            None => Ok(()),
        }
    }

    /// The file holds Secrets as they are.
    fn close_to_others(&self, path: &Path) -> Result<(), DiskError> {
        let mode = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(path, mode).map_err(|source| self.io(source))
    }

    /// Reads the whole file without writing to it. A file that was not closed in order needs redb's
    /// repair, which checks every page itself and only adds to the file.
    fn check_untouched(&self) -> Result<(), DiskError> {
        let path = &self.path;
        let opened = guard(path, || Builder::new().set_cache_size(CACHE).open_read_only(path))?;
        match opened {
            Ok(database) => {
                check_format(path, &database)?;
                read_all(path, &database, &mut |_, _| {}).map(|_| ())
            }
            Err(DatabaseError::RepairAborted) => Ok(()),
            Err(error) => Err(explain(path, error)),
        }
    }

    fn remember(&self) -> Result<(), DiskError> {
        let found = identity(&self.path).map_err(|source| self.io(source))?;
        *self.ours.lock().unwrap_or_else(PoisonError::into_inner) = found;
        Ok(())
    }
}

/// `None` where there is no such file.
fn identity(path: &Path) -> io::Result<Option<(u64, u64)>> {
    match std::fs::metadata(path) {
        Ok(meta) => Ok(Some((meta.dev(), meta.ino()))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

impl Medium for File {
    fn path(&self) -> &Path {
        &self.path
    }

    fn exists(&self) -> Result<bool, DiskError> {
        match std::fs::metadata(&self.path) {
            Ok(meta) if meta.len() == 0 => Err(damaged(&self.path, "the file is empty")),
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(self.io(error)),
        }
    }

    fn open(&self) -> Result<Database, DiskError> {
        self.check_untouched()?;
        let path = &self.path;
        let database = guard(path, || Builder::new().set_cache_size(CACHE).open(path))?
            .map_err(|error| explain(path, error))?;
        self.close_to_others(path)?;
        self.remember()?;
        Ok(database)
    }

    fn create(&self) -> Result<Database, DiskError> {
        let aside = self.aside();
        match std::fs::remove_file(&aside) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(self.io(error)),
            _ => {}
        }
        let database = Builder::new()
            .set_cache_size(CACHE)
            .create(&aside)
            .map_err(|error| explain(&self.path, error))?;
        self.close_to_others(&aside)?;
        Ok(database)
    }

    fn replace(&self) -> Result<(), DiskError> {
        let ours = *self.ours.lock().unwrap_or_else(PoisonError::into_inner);
        let found = identity(&self.path).map_err(|source| self.io(source))?;
        if found != ours {
            let what = if found.is_some() { "replaced" } else { "removed" };
            let message = format!("the file was {what} while the server ran; restart the server");
            return Err(self.io(io::Error::other(message)));
        }
        std::fs::rename(self.aside(), &self.path)
            .and_then(|()| self.sync_directory())
            .map_err(|source| self.io(source))?;
        self.remember()?;
        match std::fs::remove_file(self.mark()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(self.io(error)),
            _ => Ok(()),
        }
    }

    fn distrust(&self) {
        let noted = std::fs::File::create(self.mark())
            .and_then(|mark| mark.sync_all())
            .and_then(|()| self.sync_directory());
        if let Err(error) = noted {
            tracing::warn!(%error, path = %self.path.display(), "cannot note that the store's file is in doubt");
        }
    }

    fn is_trusted(&self) -> bool {
        !self.mark().exists()
    }
}
