//! Reading and writing an OCI image layout.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::reference::normalise;
use crate::error::{Error, Result};

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const NAMES: [&str; 2] = ["io.containerd.image.name", "org.opencontainers.image.ref.name"];

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    pub media_type: String,
    pub digest: String,
    pub size: u64,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<Platform>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Platform {
    pub architecture: String,
    pub os: String,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Index {
    schema_version: u32,
    #[serde(default)]
    manifests: Vec<Descriptor>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Manifest {
    schema_version: u32,
    #[serde(default)]
    media_type: String,
    config: Descriptor,
    layers: Vec<Descriptor>,
}

#[derive(Deserialize)]
struct Config {
    rootfs: RootFs,
}

#[derive(Deserialize)]
struct RootFs {
    diff_ids: Vec<String>,
}

/// One image of a layout, with everything an import needs.
#[derive(Clone, Debug)]
pub struct Image {
    pub reference: String,
    pub directory: PathBuf,
    pub manifest: Descriptor,
    pub config: Descriptor,
    pub layers: Vec<Descriptor>,
    pub diff_ids: Vec<String>,
}

/// Machine's architecture as OCI names it.
pub fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

pub fn blob(directory: &Path, digest: &str) -> Result<PathBuf> {
    let valid = digest.split_once(':').is_some_and(|(algorithm, hex)| {
        algorithm == "sha256" && hex.len() == 64 && hex.bytes().all(|b| b.is_ascii_hexdigit())
    });
    if !valid {
        return Err(Error::said(format!(
            "{}: {digest:?} is not a sha256 digest",
            directory.display()
        )));
    }
    Ok(directory.join("blobs").join(digest.replace(':', "/")))
}

fn read<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T> {
    let text = fs::read(path).map_err(Error::file("read", path))?;
    serde_json::from_slice(&text).map_err(|e| Error::said(format!("{}: {e}", path.display())))
}

/// Every full name in a layout.
pub fn names(directory: &Path) -> Result<Vec<String>> {
    let file = directory.join("index.json");
    if !file.exists() {
        return Ok(Vec::new());
    }
    let index: Index = read(&file)?;
    let named = |d: &Descriptor| d.annotations.get(NAMES[0]).map(|name| normalise(name));
    Ok(index.manifests.iter().filter_map(named).collect())
}

/// The image with this full reference; a layout that does not exist has none.
pub fn find(directory: &Path, wanted: &str) -> Result<Option<Image>> {
    let file = directory.join("index.json");
    if !file.exists() {
        return Ok(None);
    }
    let index: Index = read(&file)?;
    let found = index.manifests.into_iter().find(|d| {
        let named = NAMES
            .iter()
            .filter_map(|n| d.annotations.get(*n))
            .any(|name| normalise(name) == wanted);
        named
            || wanted
                .split_once('@')
                .is_some_and(|(_, digest)| digest == d.digest)
    });
    found.map(|d| open(directory, wanted, d)).transpose()
}

fn open(directory: &Path, reference: &str, top: Descriptor) -> Result<Image> {
    let manifest = if top.media_type.contains("index") || top.media_type.contains("list") {
        let path = blob(directory, &top.digest)?;
        let index: Index = read(&path)?;
        choose(index.manifests, reference)?
    } else {
        top
    };
    let parts: Manifest = read(&blob(directory, &manifest.digest)?)?;
    let config: Config = read(&blob(directory, &parts.config.digest)?)?;
    if config.rootfs.diff_ids.len() != parts.layers.len() {
        return Err(Error::said(format!(
            "{reference}: the configuration names {} layers, the manifest {}",
            config.rootfs.diff_ids.len(),
            parts.layers.len()
        )));
    }
    Ok(Image {
        reference: reference.into(),
        directory: directory.into(),
        manifest,
        config: parts.config,
        layers: parts.layers,
        diff_ids: config.rootfs.diff_ids,
    })
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    digest(&Sha256::digest(bytes))
}

pub(super) fn digest(hash: &[u8]) -> String {
    format!("sha256:{}", hex::encode(hash))
}

fn read_text<T: serde::de::DeserializeOwned>(text: &[u8], reference: &str) -> Result<T> {
    serde_json::from_slice(text).map_err(|e| Error::said(format!("manifest of {reference}: {e}")))
}

/// The image for this machine, when `text` is an index of several.
pub(super) fn for_this_machine(text: &[u8], reference: &str) -> Result<Option<Descriptor>> {
    #[derive(Deserialize)]
    struct Either {
        manifests: Option<Vec<Descriptor>>,
    }
    let either: Either = read_text(text, reference)?;
    either.manifests.map(|all| choose(all, reference)).transpose()
}

fn choose(all: Vec<Descriptor>, reference: &str) -> Result<Descriptor> {
    let fits = |p: &Platform| p.os == "linux" && p.architecture == architecture();
    all.into_iter()
        .find(|d| d.platform.as_ref().is_none_or(fits))
        .ok_or_else(|| Error::said(format!("{reference} has no image for {}", architecture())))
}

/// Everything that a manifest names, its configuration first.
pub(super) fn parts(text: &[u8], reference: &str) -> Result<Vec<Descriptor>> {
    let manifest: Manifest = read_text(text, reference)?;
    Ok(std::iter::once(manifest.config).chain(manifest.layers).collect())
}

/// Removes a list of names that cannot be read; what lies in the layout stays.
pub(super) fn mend(directory: &Path) {
    let file = directory.join("index.json");
    if file.exists() && read::<Index>(&file).is_err() {
        let _ = fs::remove_file(&file);
    }
}

/// Gives a manifest that lies in the layout a name.
pub(super) fn enter(directory: &Path, reference: &str, mut top: Descriptor) -> Result<()> {
    top.annotations.insert(NAMES[0].into(), reference.into());
    let file = directory.join("index.json");
    let mut index: Index = if file.exists() {
        read(&file)?
    } else {
        Index {
            schema_version: 2,
            manifests: Vec::new(),
        }
    };
    index
        .manifests
        .retain(|d| d.annotations.get(NAMES[0]).map(String::as_str) != Some(reference));
    index.manifests.push(top);
    crate::node::write(
        &directory.join("oci-layout"),
        "{\"imageLayoutVersion\":\"1.0.0\"}\n",
    )?;
    let text = serde_json::to_string_pretty(&index).map_err(|e| Error::said(e.to_string()))?;
    crate::node::write(&file, &text)
}

/// Adds an image of one uncompressed layer to a layout.
pub fn add(directory: &Path, reference: &str, layer: &[u8], config: serde_json::Value) -> Result<()> {
    let blobs = directory.join("blobs/sha256");
    fs::create_dir_all(&blobs).map_err(Error::file("make directory", &blobs))?;
    let put = |bytes: &[u8], media_type: &str| -> Result<Descriptor> {
        let digest = sha256(bytes);
        let path = blob(directory, &digest)?;
        // Not in place: nodes may hold the old file by a hard link.
        crate::node::write(&path, bytes)?;
        Ok(Descriptor {
            media_type: media_type.into(),
            digest,
            size: bytes.len() as u64,
            annotations: BTreeMap::new(),
            platform: None,
        })
    };
    let layer = put(layer, "application/vnd.oci.image.layer.v1.tar")?;
    let config = serde_json::json!({
        "architecture": architecture(),
        "os": "linux",
        "config": config,
        "rootfs": { "type": "layers", "diff_ids": [layer.digest] },
    });
    let config = put(
        config.to_string().as_bytes(),
        "application/vnd.oci.image.config.v1+json",
    )?;
    let manifest = Manifest {
        schema_version: 2,
        media_type: MANIFEST.into(),
        config,
        layers: vec![layer],
    };
    let text = serde_json::to_vec(&manifest).map_err(|e| Error::said(e.to_string()))?;
    let top = put(&text, MANIFEST)?;
    enter(directory, reference, top)
}

/// Identity of a layer on top of those below it.
pub fn chain_ids(diff_ids: &[String]) -> Vec<String> {
    let mut chain: Vec<String> = Vec::with_capacity(diff_ids.len());
    for diff in diff_ids {
        let id = match chain.last() {
            None => diff.clone(),
            Some(parent) => sha256(format!("{parent} {diff}").as_bytes()),
        };
        chain.push(id);
    }
    chain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_images_are_found() {
        let dir = tempfile::tempdir().unwrap();
        add(dir.path(), "c5c3.local/a:1", b"layer", serde_json::json!({})).unwrap();
        add(dir.path(), "c5c3.local/b:1", b"other", serde_json::json!({})).unwrap();
        add(dir.path(), "c5c3.local/a:1", b"newer", serde_json::json!({})).unwrap();
        let image = find(dir.path(), "c5c3.local/a:1").unwrap().unwrap();
        assert_eq!(image.diff_ids, [sha256(b"newer")]);
        assert!(find(dir.path(), "c5c3.local/c:1").unwrap().is_none());
        assert!(find(&dir.path().join("missing"), "x").unwrap().is_none());
    }

    #[test]
    fn digests_cannot_leave_the_layout() {
        for bad in ["sha256:../../etc/passwd", "md5:ab", "", "sha256:"] {
            assert!(blob(Path::new("/x"), bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn chains() {
        // Known from the OCI image specification: ChainID(A|B) = Digest(A + " " + B).
        let ids = chain_ids(&["sha256:a".into(), "sha256:b".into()]);
        assert_eq!(ids, ["sha256:a".to_owned(), sha256(b"sha256:a sha256:b")]);
    }
}
