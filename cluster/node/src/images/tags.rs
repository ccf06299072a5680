//! What the names in the local stores mean now, remembered until a store changes.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::store;
use crate::error::Result;

/// A store's index is replaced whole: another file is another index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    file: u64,
    size: u64,
    time: (i64, i64),
}

#[derive(Debug)]
struct Seen {
    stamp: Stamp,
    ids: BTreeMap<String, Option<String>>,
}

#[derive(Debug, Default)]
pub(super) struct Tags {
    seen: Mutex<BTreeMap<PathBuf, Seen>>,
}

impl Tags {
    /// The id of the image with this full reference: the digest of its configuration, as the
    /// runtime names it.
    pub(super) fn id(&self, directory: &Path, wanted: &str) -> Result<Option<String>> {
        let Ok(found) = std::fs::metadata(directory.join("index.json")) else {
            return Ok(None);
        };
        let stamp = Stamp {
            file: found.ino(),
            size: found.size(),
            time: (found.mtime(), found.mtime_nsec()),
        };
        let mut all = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = all.entry(directory.into()).or_insert_with(|| Seen {
            stamp,
            ids: BTreeMap::new(),
        });
        if seen.stamp != stamp {
            seen.stamp = stamp;
            seen.ids.clear();
        }
        if let Some(id) = seen.ids.get(wanted) {
            return Ok(id.clone());
        }
        let id = store::find(directory, wanted)?.map(|image| image.config.digest);
        seen.ids.insert(wanted.into(), id.clone());
        Ok(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rebuilt_tag_is_another_image() {
        let dir = tempfile::tempdir().unwrap();
        let tags = Tags::default();
        let name = "c5c3.local/a:1";
        let id = || tags.id(dir.path(), name).unwrap();
        assert_eq!(id(), None);
        store::add(dir.path(), name, b"layer", serde_json::json!({})).unwrap();
        let first = id().unwrap();
        assert_eq!(id(), Some(first.clone()));
        store::add(dir.path(), name, b"newer", serde_json::json!({})).unwrap();
        let second = id().unwrap();
        assert_ne!(first, second);
        // Nothing is read again while the index is the same: the blobs may even be gone.
        std::fs::remove_dir_all(dir.path().join("blobs")).unwrap();
        assert_eq!(id(), Some(second));
    }
}
