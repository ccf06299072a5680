//! The store: an OCI layout, a record of each built layer, and caches. What is named is whole:
//! everything is made elsewhere and moved into place.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use sha2::{Digest, Sha256};

use crate::error::{Context, Error, Result};
use crate::oci::layout::SUBJECT;
use crate::oci::unpack::{remove_tree, unpack};

pub(crate) use crate::oci::layout::{
    CONFIG, Descriptor, EMPTY, Index, LAYER, MANIFEST, Manifest, NAME, REF_NAME,
};

#[derive(Debug, Clone)]
pub(crate) struct Store {
    root: PathBuf,
}

/// What a built layer is, in `layers/<key>.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub recipe: String,
    pub key: String,
    pub diff_id: String,
    pub digest: String,
    pub size: u64,
    pub tar_size: u64,
    /// How long it took to make.
    pub seconds: f64,
    /// Packages that this layer adds or changes: what a bill of materials will be made of.
    pub debian: BTreeMap<String, String>,
    pub python: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub patches: Vec<String>,
}

/// A directory for half-made things; others see by its lock that it is in use.
pub(crate) struct Work {
    pub path: PathBuf,
    _lock: File,
}

impl Drop for Work {
    fn drop(&mut self) {
        // What stays behind is removed by the next build.
        let _ = fs::remove_dir_all(&self.path);
    }
}

impl Store {
    /// Opens a store and makes it when it is not there.
    pub(crate) fn open(root: &Path) -> Result<Self> {
        let text = root.to_string_lossy();
        if text.contains([':', ',', '\\', '"']) {
            return Err(Error::Request(format!(
                "the store {text} must not have any of : , \\ \" in its path"
            )));
        }
        fs::create_dir_all(root).context("creating the store", root)?;
        let root = root.canonicalize().context("opening the store", root)?;
        for directory in [
            "blobs/sha256",
            "cache",
            "layers",
            "locks",
            "logs",
            "trees",
            "work",
        ] {
            let path = root.join(directory);
            fs::create_dir_all(&path).context("creating", &path)?;
        }
        let store = Self { root };
        if !store.path("oci-layout").exists() {
            store.replace("oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#)?;
        }
        if !store.path("index.json").exists() {
            store.save_index(&Index {
                schema_version: 2,
                manifests: Vec::new(),
            })?;
        }
        Ok(store)
    }

    /// An existing store, to read from.
    pub(crate) fn existing(root: &Path) -> Result<Self> {
        if !root.join("index.json").exists() {
            return Err(Error::Request(format!(
                "there are no images in {}: build some with `c5c3 image build`, or name another store with --store",
                root.display()
            )));
        }
        Ok(Self {
            root: root.to_owned(),
        })
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    pub(crate) fn blob(&self, digest: &str) -> PathBuf {
        self.root
            .join("blobs/sha256")
            .join(digest.strip_prefix("sha256:").unwrap_or(digest))
    }

    pub(crate) fn tree(&self, key: &str) -> PathBuf {
        self.root.join("trees").join(key)
    }

    pub(crate) fn log(&self, recipe: &str) -> PathBuf {
        self.root.join("logs").join(format!("{recipe}.log"))
    }

    /// A directory below `cache/`, made when needed.
    pub(crate) fn cache(&self, name: &str) -> Result<PathBuf> {
        let path = self.root.join("cache").join(name);
        fs::create_dir_all(&path).context("creating", &path)?;
        Ok(path)
    }

    /// Writes a small file in one piece.
    pub(crate) fn replace(&self, name: &str, content: &[u8]) -> Result<()> {
        let path = self.path(name);
        let temporary =
            self.root
                .join("work")
                .join(format!("{}-{}", std::process::id(), name.replace('/', "-")));
        let mut file = File::create(&temporary).context("writing", &temporary)?;
        file.write_all(content)
            .and_then(|()| file.sync_all())
            .context("writing", &temporary)?;
        fs::rename(&temporary, &path).context("writing", &path)
    }

    /// The record of a layer whose blob exists.
    pub(crate) fn layer(&self, key: &str) -> Result<Option<Record>> {
        let path = self.root.join("layers").join(format!("{key}.json"));
        let Some(record) = read_json::<Record>(&path)? else {
            return Ok(None);
        };
        let whole = fs::metadata(self.blob(&record.digest)).is_ok_and(|blob| blob.len() == record.size);
        Ok(whole.then_some(record))
    }

    pub(crate) fn records(&self) -> Result<Vec<Record>> {
        let directory = self.root.join("layers");
        let mut records = Vec::new();
        for entry in fs::read_dir(&directory).context("reading", &directory)? {
            let path = entry.context("reading", &directory)?.path();
            records.extend(read_json::<Record>(&path)?);
        }
        records.sort_by(|a: &Record, b| (&a.recipe, &a.key).cmp(&(&b.recipe, &b.key)));
        Ok(records)
    }

    /// Takes a finished blob into the store and records the layer; from here on it is used.
    pub(crate) fn commit(&self, record: &Record, blob: &Path) -> Result<()> {
        let place = self.blob(&record.digest);
        fs::rename(blob, &place).context("storing", &place)?;
        let json = serde_json::to_vec_pretty(record).map_err(|e| Error::Damaged(e.to_string()))?;
        self.replace(&format!("layers/{}.json", record.key), &json)
    }

    /// Puts a small blob into the store.
    pub(crate) fn put(&self, media_type: &str, content: &[u8]) -> Result<Descriptor> {
        let digest = hex::encode(Sha256::digest(content));
        let place = self.blob(&digest);
        if !fs::metadata(&place).is_ok_and(|blob| blob.len() == content.len() as u64) {
            self.replace(&format!("blobs/sha256/{digest}"), content)?;
        }
        Ok(Descriptor {
            media_type: media_type.to_owned(),
            digest: format!("sha256:{digest}"),
            size: content.len() as u64,
            artifact_type: None,
            annotations: BTreeMap::new(),
        })
    }

    /// Puts a manifest into the store that is about another; the result belongs into the index.
    pub(crate) fn refer(&self, manifest: &Manifest) -> Result<Descriptor> {
        let text = serde_json::to_vec(manifest).map_err(|e| Error::Damaged(e.to_string()))?;
        let subject = manifest.subject.iter().map(|subject| subject.digest.clone());
        Ok(Descriptor {
            artifact_type: manifest.artifact_type.clone(),
            annotations: subject.map(|digest| (SUBJECT.to_owned(), digest)).collect(),
            ..self.put(MANIFEST, &text)?
        })
    }

    /// A small blob.
    pub(crate) fn content(&self, digest: &str) -> Result<Vec<u8>> {
        let path = self.blob(digest);
        fs::read(&path).context("reading", &path)
    }

    /// A small JSON blob.
    pub(crate) fn read<T: DeserializeOwned>(&self, digest: &str) -> Result<T> {
        let path = self.blob(digest);
        read_json(&path)?.ok_or_else(|| Error::Damaged(format!("{} is missing", path.display())))
    }

    pub(crate) fn index(&self) -> Result<Index> {
        let path = self.path("index.json");
        read_json(&path)?.ok_or_else(|| Error::Damaged(format!("{} is missing", path.display())))
    }

    /// Changes the index under a lock. An index that stays the same is not written.
    pub(crate) fn update_index(&self, change: impl FnOnce(&mut Index)) -> Result<()> {
        let _lock = self.lock("index")?;
        let before = self.index()?;
        let mut after = before.clone();
        change(&mut after);
        // What is about an image has no name of its own: the order must not tell which was made first.
        (after.manifests).sort_by(|a, b| (a.reference(), &a.digest).cmp(&(b.reference(), &b.digest)));
        if after == before {
            Ok(())
        } else {
            self.save_index(&after)
        }
    }

    fn save_index(&self, index: &Index) -> Result<()> {
        let json = serde_json::to_vec_pretty(index).map_err(|e| Error::Damaged(e.to_string()))?;
        self.replace("index.json", &json)
    }

    /// The image of a full reference, of `name:tag`, or of a name that has one tag only.
    pub(crate) fn find(&self, reference: &str) -> Result<Descriptor> {
        let index = self.index()?;
        let matching = |test: &dyn Fn(&str) -> bool| -> Vec<Descriptor> {
            index
                .manifests
                .iter()
                .filter(|image| test(image.reference()))
                .cloned()
                .collect()
        };
        let exact = matching(&|known| known == reference);
        let tail = format!("/{reference}");
        let short = matching(&|known| known.ends_with(&tail));
        let named = matching(&|known| {
            known
                .rsplit_once(':')
                .is_some_and(|(name, _)| name.ends_with(&tail))
        });
        for mut found in [exact, short, named] {
            found.dedup_by(|a, b| a.digest == b.digest);
            if let [image] = &found[..] {
                return Ok(image.clone());
            }
            if found.len() > 1 {
                let tags: Vec<&str> = found.iter().map(Descriptor::reference).collect();
                return Err(Error::Request(format!(
                    "`{reference}` is not clear: {}",
                    tags.join(", ")
                )));
            }
        }
        Err(Error::NoImage {
            reference: reference.to_owned(),
            store: self.root.clone(),
        })
    }

    /// Waits for a lock of the store; it is free again when the result is dropped or the process ends.
    pub(crate) fn lock(&self, name: &str) -> Result<File> {
        let path = self.root.join("locks").join(name);
        let file = File::create(&path).context("opening", &path)?;
        file.lock().context("locking", &path)?;
        Ok(file)
    }

    /// Held by everything that makes layers or images: nothing is thrown away meanwhile.
    pub(crate) fn share(&self) -> Result<File> {
        let path = self.root.join("locks/store");
        let file = File::create(&path).context("opening", &path)?;
        file.lock_shared().context("locking", &path)?;
        Ok(file)
    }

    /// Held by what throws away.
    pub(crate) fn alone(&self) -> Result<File> {
        let path = self.root.join("locks/store");
        let file = File::create(&path).context("opening", &path)?;
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(TryLockError::WouldBlock) => Err(Error::Request(format!(
                "a build is running in {}: try again when it is done",
                self.root.display()
            ))),
            Err(TryLockError::Error(error)) => Err(Error::io("locking", &path, error)),
        }
    }

    pub(crate) fn work(&self, name: &str) -> Result<Work> {
        let _guard = self.lock("work")?;
        let path = self
            .root
            .join("work")
            .join(format!("{name}-{}", std::process::id()));
        remove_tree(&path)?;
        fs::create_dir_all(&path).context("creating", &path)?;
        let file = path.join("lock");
        let lock = File::create(&file).context("creating", &file)?;
        lock.lock().context("locking", &file)?;
        Ok(Work { path, _lock: lock })
    }

    /// Removes what builds that were killed left behind; tells how much that was.
    pub(crate) fn sweep(&self) -> Result<usize> {
        let _guard = self.lock("work")?;
        let directory = self.root.join("work");
        let mut removed = 0;
        for entry in fs::read_dir(&directory).context("reading", &directory)? {
            let path = entry.context("reading", &directory)?.path();
            let in_use = if path.is_dir() {
                File::open(path.join("lock"))
                    .is_ok_and(|lock| matches!(lock.try_lock(), Err(TryLockError::WouldBlock)))
            } else {
                // A file lives for milliseconds, under the writer's process id.
                path.file_name()
                    .and_then(|name| name.to_str()?.split('-').next()?.parse::<u32>().ok())
                    .is_some_and(|pid| Path::new("/proc").join(pid.to_string()).exists())
            };
            if !in_use {
                removed += 1;
                if path.is_dir() {
                    remove_tree(&path)?;
                } else {
                    fs::remove_file(&path).context("removing", &path)?;
                }
            }
        }
        Ok(removed)
    }

    /// The unpacked tree of a recorded layer; unpacked again when it was thrown away.
    pub(crate) fn unpacked(&self, record: &Record) -> Result<PathBuf> {
        let tree = self.tree(&record.key);
        let _lock = self.lock(&format!("tree-{}", record.key))?;
        if !tree.exists() {
            let work = self.work(&format!("unpack-{}", record.recipe))?;
            let half = work.path.join("tree");
            unpack(&self.blob(&record.digest), &half)?;
            fs::rename(&half, &tree).context("storing", &tree)?;
        }
        Ok(tree)
    }
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    match fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes)
            .map(Some)
            .map_err(|error| Error::Damaged(format!("{}: {error}", path.display()))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io("reading", path, error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(store: &Store, reference: &str, content: &str) -> Descriptor {
        let mut descriptor = store.put(MANIFEST, content.as_bytes()).unwrap();
        descriptor.annotations.insert(NAME.into(), reference.into());
        store
            .update_index(|index| index.manifests.push(descriptor.clone()))
            .unwrap();
        descriptor
    }

    #[test]
    fn images_are_found_by_any_clear_name() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path()).unwrap();
        let keystone = image(&store, "ghcr.io/c5c3/keystone:28.1.0", "a");
        image(&store, "ghcr.io/c5c3/nova:1", "b");
        image(&store, "ghcr.io/c5c3/nova:2", "c");
        for name in ["ghcr.io/c5c3/keystone:28.1.0", "keystone:28.1.0", "keystone"] {
            assert_eq!(store.find(name).unwrap(), keystone, "{name}");
        }
        assert!(
            store
                .find("nova")
                .unwrap_err()
                .to_string()
                .contains("nova:1, ghcr.io/c5c3/nova:2")
        );
        assert!(matches!(store.find("stone"), Err(Error::NoImage { .. })));
    }

    #[test]
    fn a_layer_without_its_whole_blob_is_not_used() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path()).unwrap();
        let record = Record {
            recipe: "r".into(),
            key: "k".into(),
            diff_id: "sha256:1".into(),
            digest: "sha256:2".into(),
            size: 4,
            tar_size: 4,
            seconds: 1.0,
            debian: BTreeMap::new(),
            python: BTreeMap::new(),
            patches: Vec::new(),
        };
        let blob = directory.path().join("work/blob");
        fs::write(&blob, "text").unwrap();
        assert_eq!(store.layer("k").unwrap(), None);
        store.commit(&record, &blob).unwrap();
        assert_eq!(store.layer("k").unwrap(), Some(record));
        fs::write(store.blob("sha256:2"), "te").unwrap();
        assert_eq!(store.layer("k").unwrap(), None);
    }

    #[test]
    fn leftovers_of_the_dead_are_swept_and_those_of_the_living_are_not() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path()).unwrap();
        let alive = store.work("alive").unwrap();
        fs::create_dir_all(directory.path().join("work/dead-1/upper")).unwrap();
        fs::write(directory.path().join("work/dead-1/lock"), "").unwrap();
        fs::write(directory.path().join("work/999999999-index.json"), "half").unwrap();
        assert_eq!(store.sweep().unwrap(), 2);
        assert!(alive.path.exists());
    }

    #[test]
    fn an_index_that_stays_the_same_is_not_written() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path()).unwrap();
        let before = fs::metadata(store.path("index.json"))
            .unwrap()
            .modified()
            .unwrap();
        store.update_index(|_| {}).unwrap();
        assert_eq!(
            fs::metadata(store.path("index.json"))
                .unwrap()
                .modified()
                .unwrap(),
            before
        );
    }
}
