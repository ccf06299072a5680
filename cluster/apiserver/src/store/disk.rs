//! The durable side: one redb file, locked by the process that has it open.

use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::Arc,
};

use bytes::Bytes;
use redb::{Database, DatabaseError, ReadableDatabase, ReadableTable, StorageError, TableDefinition};

use super::{Collection, ObjectKey, Stored, file::File};

/// One object's state after a commit; `None` removes it.
pub struct Change<'a> {
    pub collection: &'a Collection,
    pub key: &'a ObjectKey,
    pub object: Option<&'a Stored>,
}

/// What the store needs of a disk: read all once, then commit batches.
pub trait Disk: Send {
    /// Hands every object to `each` and returns the newest revision ever committed.
    fn load(&self, each: &mut dyn FnMut(Collection, Arc<Stored>)) -> Result<u64, DiskError>;

    /// Durable when it returns.
    fn commit(&mut self, revision: u64, changes: &[Change<'_>]) -> Result<(), DiskError>;

    /// After a commit that failed: puts a new file in the place of the old one, with these objects at
    /// this revision and nothing of the failed commit. What the old file reads back proves nothing:
    /// after a failed sync the kernel forgets that pages are not on disk, and still serves them.
    fn rewrite(&mut self, revision: u64, objects: &[(Collection, Arc<Stored>)]) -> Result<(), DiskError>;
}

#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    #[error("{path}: another process has this store open; stop it or use another state directory")]
    Locked { path: PathBuf },
    #[error(
        "{path}: the store has format {found}, this program reads format {FORMAT}; \
         use the program version that wrote it, or move the file away to start empty"
    )]
    Version { path: PathBuf, found: String },
    #[error(
        "{path}: the store is damaged ({reason}); restore it from a copy, or move the file away to start empty"
    )]
    Damaged { path: PathBuf, reason: String },
    #[error("{path}: {source}")]
    Io { path: PathBuf, source: io::Error },
    #[error("store: {0}")]
    Write(String),
}

const FORMAT: u64 = 1;
const OBJECTS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("objects");
const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
/// Where the file lives. Tests put one here that loses what was not synced.
pub(super) trait Medium: Send {
    fn path(&self) -> &Path;

    fn exists(&self) -> Result<bool, DiskError>;

    /// Opens the file that is in place, without creating one.
    fn open(&self) -> Result<Database, DiskError>;

    /// An empty file aside; it becomes the store with [`Medium::replace`].
    fn create(&self) -> Result<Database, DiskError>;

    /// Durable when it returns; the new file is trusted.
    fn replace(&self) -> Result<(), DiskError>;

    /// Notes, for a start after a crash, that a commit to the file in place failed.
    fn distrust(&self);

    fn is_trusted(&self) -> bool;
}

pub struct Redb {
    database: Database,
    medium: Box<dyn Medium>,
}

impl Redb {
    /// Opens the file or makes a new one if there is none. A file that is not a healthy store of this
    /// format is left as it is.
    pub fn open(path: &Path) -> Result<Self, DiskError> {
        Self::on(Box::new(File::new(path)))
    }

    pub(super) fn on(medium: Box<dyn Medium>) -> Result<Self, DiskError> {
        if !medium.exists()? {
            let database = make(&*medium, 0, &[])?;
            return Ok(Self { database, medium });
        }
        let database = medium.open()?;
        check_format(medium.path(), &database)?;
        let mut disk = Self { database, medium };
        if !disk.medium.is_trusted() {
            let mut objects = Vec::new();
            let revision = disk.load(&mut |collection, stored| objects.push((collection, stored)))?;
            disk.rewrite(revision, &objects)?;
        }
        Ok(disk)
    }
}

/// A half-made file must never look like a store: it is made aside and then put in place whole.
fn make(
    medium: &dyn Medium,
    revision: u64,
    objects: &[(Collection, Arc<Stored>)],
) -> Result<Database, DiskError> {
    let database = medium.create()?;
    let fill = || -> Result<(), redb::Error> {
        let write = database.begin_write()?;
        {
            let mut table = write.open_table(OBJECTS)?;
            for (collection, object) in objects {
                let key = encode_key(collection, &object.key);
                table.insert(key.as_slice(), encode_value(object).as_slice())?;
            }
            let mut meta = write.open_table(META)?;
            meta.insert("format", FORMAT)?;
            meta.insert("revision", revision)?;
        }
        write.commit()?;
        Ok(())
    };
    guard(medium.path(), fill)?.map_err(|error| DiskError::Write(error.to_string()))?;
    medium.replace()?;
    Ok(database)
}

pub(super) fn check_format(path: &Path, database: &impl ReadableDatabase) -> Result<(), DiskError> {
    let found = guard(path, || -> Result<Option<u64>, redb::Error> {
        let read = database.begin_read()?;
        let meta = read.open_table(META)?;
        Ok(meta.get("format")?.map(|value| value.value()))
    })?;
    match found {
        Ok(Some(FORMAT)) => Ok(()),
        Ok(Some(found)) => Err(DiskError::Version {
            path: path.into(),
            found: found.to_string(),
        }),
        Ok(None) => Err(damaged(path, "no format is recorded")),
        Err(redb::Error::TableDoesNotExist(_) | redb::Error::TableTypeMismatch { .. }) => {
            Err(DiskError::Version {
                path: path.into(),
                found: "of another program".into(),
            })
        }
        Err(error) => Err(damaged(path, &error.to_string())),
    }
}

pub(super) fn damaged(path: &Path, reason: &str) -> DiskError {
    DiskError::Damaged {
        path: path.into(),
        reason: reason.into(),
    }
}

pub(super) fn read_all(
    path: &Path,
    database: &impl ReadableDatabase,
    each: &mut dyn FnMut(Collection, Arc<Stored>),
) -> Result<u64, DiskError> {
    let read = || -> Result<Result<u64, DiskError>, redb::Error> {
        let read = database.begin_read()?;
        let revision = revision_of(&read)?;
        let objects = read.open_table(OBJECTS)?;
        let mut last: Option<Collection> = None;
        for row in objects.iter()? {
            let (key, value) = row?;
            let Some((collection, stored)) = decode(last.as_ref(), key.value(), value.value()) else {
                let key = String::from_utf8_lossy(key.value()).replace('\0', "/");
                return Ok(Err(damaged(
                    path,
                    &format!("the record of {key} does not match its checksum"),
                )));
            };
            if !stored.is_readable() {
                let reason = format!(
                    "the record of {}/{} does not parse",
                    stored.key.namespace, stored.key.name
                );
                return Ok(Err(damaged(path, &reason)));
            }
            if stored.revision > revision {
                return Ok(Err(damaged(path, "an object is newer than the store's revision")));
            }
            each(collection.clone(), stored);
            last = Some(collection);
        }
        Ok(Ok(revision))
    };
    guard(path, read)?.map_err(|error| damaged(path, &error.to_string()))?
}

fn revision_of(read: &redb::ReadTransaction) -> Result<u64, redb::Error> {
    let meta = read.open_table(META)?;
    Ok(meta.get("revision")?.map_or(0, |value| value.value()))
}

impl Disk for Redb {
    fn load(&self, each: &mut dyn FnMut(Collection, Arc<Stored>)) -> Result<u64, DiskError> {
        read_all(self.medium.path(), &self.database, each)
    }

    fn commit(&mut self, revision: u64, changes: &[Change<'_>]) -> Result<(), DiskError> {
        let database = &self.database;
        let write = || -> Result<(), redb::Error> {
            let write = database.begin_write()?;
            {
                let mut objects = write.open_table(OBJECTS)?;
                for change in changes {
                    let key = encode_key(change.collection, change.key);
                    match change.object {
                        Some(object) => {
                            objects.insert(key.as_slice(), encode_value(object).as_slice())?;
                        }
                        None => {
                            objects.remove(key.as_slice())?;
                        }
                    }
                }
                write.open_table(META)?.insert("revision", revision)?;
            }
            write.commit()?;
            Ok(())
        };
        let done = guard(self.medium.path(), write)
            .and_then(|done| done.map_err(|error| DiskError::Write(error.to_string())));
        if done.is_err() {
            self.medium.distrust();
        }
        done
    }

    fn rewrite(&mut self, revision: u64, objects: &[(Collection, Arc<Stored>)]) -> Result<(), DiskError> {
        // The old one stays open, and so locked, until the new one is in its place.
        self.database = make(&*self.medium, revision, objects)?;
        Ok(())
    }
}

/// redb asserts on some kinds of damage; that is an answer too, not a reason to die.
pub(super) fn guard<T>(path: &Path, read: impl FnOnce() -> T) -> Result<T, DiskError> {
    catch_unwind(AssertUnwindSafe(read)).map_err(|_| DiskError::Damaged {
        path: path.into(),
        reason: "its pages contradict each other".into(),
    })
}

pub(super) fn explain(path: &Path, error: DatabaseError) -> DiskError {
    let path = path.to_path_buf();
    match error {
        DatabaseError::DatabaseAlreadyOpen => DiskError::Locked { path },
        DatabaseError::UpgradeRequired(found) => DiskError::Version {
            path,
            found: format!("file {found}"),
        },
        DatabaseError::Storage(StorageError::Io(source))
            if !matches!(
                source.kind(),
                io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof
            ) =>
        {
            DiskError::Io { path, source }
        }
        error => DiskError::Damaged {
            path,
            reason: error.to_string(),
        },
    }
}

fn encode_key(collection: &Collection, key: &ObjectKey) -> Vec<u8> {
    let parts = [
        &*collection.cluster,
        &*collection.group,
        &*collection.resource,
        &*key.namespace,
        &*key.name,
    ];
    parts.join("\0").into_bytes()
}

/// Checksum, revision, JSON.
fn encode_value(object: &Stored) -> Vec<u8> {
    let mut value = Vec::with_capacity(16 + object.bytes.len());
    value.extend_from_slice(&checksum(object.revision, &object.bytes).to_le_bytes());
    value.extend_from_slice(&object.revision.to_le_bytes());
    value.extend_from_slice(&object.bytes);
    value
}

fn decode(last: Option<&Collection>, key: &[u8], value: &[u8]) -> Option<(Collection, Arc<Stored>)> {
    let mut parts = std::str::from_utf8(key).ok()?.split('\0');
    let (cluster, group, resource) = (parts.next()?, parts.next()?, parts.next()?);
    let (namespace, name) = (parts.next()?, parts.next()?);
    let (sum, rest) = value.split_first_chunk::<8>()?;
    let (revision, json) = rest.split_first_chunk::<8>()?;
    let revision = u64::from_le_bytes(*revision);
    if checksum(revision, json) != u64::from_le_bytes(*sum) || parts.next().is_some() {
        return None;
    }
    let collection = match last {
        Some(last) if *last.cluster == *cluster && *last.group == *group && *last.resource == *resource => {
            last.clone()
        }
        _ => Collection::new(cluster, group, resource),
    };
    Some((
        collection,
        Stored::new(
            ObjectKey::new(namespace, name),
            revision,
            Bytes::copy_from_slice(json),
        ),
    ))
}

/// Finds flipped and lost bytes; not a defence against forgery.
fn checksum(revision: u64, bytes: &[u8]) -> u64 {
    const PRIME: u64 = 0x9E37_79B9_7F4A_7C15;
    let mix = |hash: u64, word: u64| (hash ^ word).wrapping_mul(PRIME).rotate_left(29);
    let mut hash = mix(PRIME ^ bytes.len() as u64, revision);
    let mut chunks = bytes.chunks_exact(8);
    for chunk in &mut chunks {
        let mut word = [0; 8];
        word.copy_from_slice(chunk);
        hash = mix(hash, u64::from_le_bytes(word));
    }
    let mut word = [0; 8];
    word[..chunks.remainder().len()].copy_from_slice(chunks.remainder());
    mix(hash, u64::from_le_bytes(word))
}
