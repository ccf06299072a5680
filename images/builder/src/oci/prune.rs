//! Throws away what no image needs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::Serialize;

use crate::build::progress::megabytes;
use crate::error::{Context, Result};
use crate::oci::store::{Manifest, Store};
use crate::oci::unpack::remove_tree;
use crate::output::{Show, columns};

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Pruned {
    pub images: Vec<String>,
    pub blobs: usize,
    pub layers: usize,
    pub trees: usize,
    pub caches: usize,
    pub bytes: u64,
    pub dry_run: bool,
}

/// What to throw away beside what nothing refers to.
pub(crate) struct Wish<'a> {
    pub images: &'a [String],
    pub caches: bool,
    pub dry_run: bool,
}

pub(crate) fn prune(store: &Store, wish: &Wish<'_>) -> Result<Pruned> {
    let _alone = store.alone()?;
    let mut pruned = Pruned {
        images: Vec::new(),
        blobs: 0,
        layers: 0,
        trees: 0,
        caches: 0,
        bytes: 0,
        dry_run: wish.dry_run,
    };
    for name in wish.images {
        pruned.images.push(store.find(name)?.reference().to_owned());
    }
    let gone = |reference: &str| pruned.images.iter().any(|image| image == reference);
    let mut kept: BTreeSet<String> = BTreeSet::new();
    let mut index = store.index()?;
    index.manifests.retain(|image| !gone(image.reference()));
    index.tidy();
    for image in &index.manifests {
        let manifest: Manifest = store.read(&image.digest)?;
        kept.insert(image.digest.clone());
        kept.insert(manifest.config.digest);
        kept.extend(manifest.layers.into_iter().map(|layer| layer.digest));
    }
    if !wish.dry_run {
        let images = pruned.images.clone();
        // First the names, then what they named.
        store.update_index(|index| {
            index
                .manifests
                .retain(|image| !images.iter().any(|i| i == image.reference()));
            index.tidy();
        })?;
        store.sweep()?;
    }
    let records = store.records()?;
    let live: BTreeSet<&str> = records
        .iter()
        .filter(|r| kept.contains(&r.digest))
        .map(|r| r.key.as_str())
        .collect();
    // Several inputs may have led to the same bytes; a tree can be unpacked again, the newest is enough.
    let mut trees: BTreeMap<&str, (SystemTime, &str)> = BTreeMap::new();
    for record in records.iter().filter(|record| live.contains(record.key.as_str())) {
        let path = store.path(&format!("layers/{}.json", record.key));
        let made = fs::metadata(&path)
            .and_then(|data| data.modified())
            .context("reading", &path)?;
        let newest = trees.entry(&record.digest).or_insert((made, &record.key));
        *newest = (*newest).max((made, &record.key));
    }
    let trees: BTreeSet<&str> = trees.values().map(|(_, key)| *key).collect();
    for path in entries(&store.path("layers"))? {
        if !path
            .file_stem()
            .and_then(|stem| stem.to_str())
            .is_some_and(|key| live.contains(key))
        {
            pruned.layers += 1;
            pruned.bytes += remove(&path, wish.dry_run)?;
        }
    }
    for path in entries(&store.path("trees"))? {
        if !path
            .file_name()
            .and_then(|name| name.to_str())
            .is_some_and(|key| trees.contains(key))
        {
            pruned.trees += 1;
            pruned.bytes += remove(&path, wish.dry_run)?;
        }
    }
    for path in entries(&store.path("blobs/sha256"))? {
        let digest = path
            .file_name()
            .map(|name| format!("sha256:{}", name.display()))
            .unwrap_or_default();
        if !kept.contains(&digest) {
            pruned.blobs += 1;
            pruned.bytes += remove(&path, wish.dry_run)?;
        }
    }
    if wish.caches {
        for path in entries(&store.path("cache"))? {
            pruned.caches += 1;
            pruned.bytes += remove(&path, wish.dry_run)?;
        }
    }
    Ok(pruned)
}

fn entries(directory: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(directory).context("reading", directory)?;
    entries
        .map(|entry| Ok(entry.context("reading", directory)?.path()))
        .collect()
}

/// Removes a file or tree; tells how much room it took.
fn remove(path: &Path, dry_run: bool) -> Result<u64> {
    let metadata = fs::symlink_metadata(path).context("reading", path)?;
    let mut bytes = metadata.len();
    if metadata.is_dir() {
        bytes = 0;
        crate::build::steps::tree::walk(path, &mut |_, metadata| {
            bytes += metadata.len();
            Ok(())
        })?;
    }
    if !dry_run {
        if metadata.is_dir() {
            remove_tree(path)?;
        } else {
            fs::remove_file(path).context("removing", path)?;
        }
    }
    Ok(bytes)
}

impl Show for Pruned {
    fn table(&self) -> String {
        let row = |name: &str, value: String| vec![name.to_owned(), value];
        columns(&[
            row(
                if self.dry_run { "Would remove" } else { "Removed" },
                String::new(),
            ),
            row("  images", self.images.len().to_string()),
            row("  layers", self.layers.to_string()),
            row("  unpacked trees", self.trees.to_string()),
            row("  blobs", self.blobs.to_string()),
            row("  caches", self.caches.to_string()),
            row("  bytes", megabytes(self.bytes)),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oci::store::{CONFIG, Descriptor, LAYER, MANIFEST, NAME, Record};

    fn add(store: &Store, name: &str, layers: &[&str]) {
        let mut descriptors = Vec::new();
        for content in layers {
            let descriptor = store.put(LAYER, content.as_bytes()).unwrap();
            let record = Record {
                recipe: (*content).into(),
                key: format!("key-{content}"),
                diff_id: String::new(),
                digest: descriptor.digest.clone(),
                size: descriptor.size,
                tar_size: 0,
                seconds: 0.0,
                debian: BTreeMap::new(),
                python: BTreeMap::new(),
                patches: Vec::new(),
            };
            let json = serde_json::to_vec(&record).unwrap();
            store
                .replace(&format!("layers/{}.json", record.key), &json)
                .unwrap();
            fs::create_dir_all(store.tree(&record.key)).unwrap();
            descriptors.push(descriptor);
        }
        let config = store.put(CONFIG, name.as_bytes()).unwrap();
        let manifest = Manifest {
            schema_version: 2,
            media_type: MANIFEST.into(),
            artifact_type: None,
            config,
            layers: descriptors,
            subject: None,
        };
        let mut image: Descriptor = store
            .put(MANIFEST, &serde_json::to_vec(&manifest).unwrap())
            .unwrap();
        image.annotations.insert(NAME.into(), format!("r/{name}:1"));
        store.update_index(|index| index.manifests.push(image)).unwrap();
    }

    #[test]
    fn only_what_nothing_needs_goes() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path()).unwrap();
        add(&store, "a", &["base", "one"]);
        add(&store, "b", &["base", "two"]);
        store.put(LAYER, b"orphan").unwrap();
        let wish = |images, dry_run| Wish {
            images,
            caches: false,
            dry_run,
        };
        let names = ["a".to_owned()];
        let planned = prune(&store, &wish(&names, true)).unwrap();
        // Layer `one`, configuration and manifest of `a`, and the orphan.
        assert_eq!((planned.blobs, planned.layers, planned.trees), (4, 1, 1));
        assert_eq!(
            store.index().unwrap().manifests.len(),
            2,
            "a dry run changed the store"
        );
        let done = prune(&store, &wish(&names, false)).unwrap();
        assert_eq!(
            Pruned {
                dry_run: true,
                ..done
            },
            planned
        );
        assert!(store.layer("key-base").unwrap().is_some() && store.tree("key-two").exists());
        assert!(store.layer("key-one").unwrap().is_none() && !store.tree("key-one").exists());
        assert_eq!(prune(&store, &wish(&[], false)).unwrap().blobs, 0);
    }

    #[test]
    fn nothing_is_thrown_away_while_a_build_runs() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path()).unwrap();
        let _build = store.share().unwrap();
        let error = prune(
            &store,
            &Wish {
                images: &[],
                caches: false,
                dry_run: false,
            },
        )
        .unwrap_err()
        .to_string();
        assert!(error.contains("a build is running"), "{error}");
    }
}
