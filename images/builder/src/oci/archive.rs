//! Images in one file, an OCI archive: out of a store, and into another one.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;

use tar::{Archive, Builder, Entry, Header};

use crate::error::{Context, Error, Result};
use crate::oci::key::PublicKey;
use crate::oci::layout::is_digest;
use crate::oci::sign;
use crate::oci::store::{Descriptor, Index, MANIFEST, Manifest, Store, Work};
use crate::oci::tarball::Hashed;

/// An index of ten thousand images is smaller.
const LARGEST_INDEX: u64 = 16 << 20;
const BLOBS: &str = "blobs/sha256/";

/// These manifests and what is about them: bills of materials, signatures.
pub(crate) fn with_referrers(store: &Store, images: &[Descriptor]) -> Result<Vec<Descriptor>> {
    let about = store.index()?.manifests.into_iter().filter(|known| {
        known
            .subject()
            .is_some_and(|subject| images.iter().any(|image| image.digest == subject))
    });
    Ok(images.iter().cloned().chain(about).collect())
}

/// Writes manifests with all that they consist of; blobs that several share are written once.
pub(crate) fn write(store: &Store, manifests: &[Descriptor], out: impl Write) -> Result<()> {
    let mut tar = Builder::new(out);
    let to = Path::new("the archive");
    let small = |tar: &mut Builder<_>, name: &str, content: &[u8]| {
        let mut header = header(content.len() as u64);
        tar.append_data(&mut header, name, content).context("writing", to)
    };
    small(&mut tar, "oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#)?;
    let index = Index {
        schema_version: 2,
        manifests: manifests.to_vec(),
    };
    small(
        &mut tar,
        "index.json",
        &serde_json::to_vec(&index).map_err(|e| Error::Damaged(e.to_string()))?,
    )?;
    let mut done = BTreeSet::new();
    for top in manifests {
        let manifest: Manifest = store.read(&top.digest)?;
        let parts = [top, &manifest.config].into_iter().chain(&manifest.layers);
        for part in parts {
            if done.insert(part.digest.clone()) {
                let path = store.blob(&part.digest);
                let file = File::open(&path).context("reading", &path)?;
                let name = format!("{BLOBS}{}", part.digest.trim_start_matches("sha256:"));
                let size = file.metadata().context("reading", &path)?.len();
                tar.append_data(&mut header(size), name, file)
                    .context("writing", &path)?;
            }
        }
    }
    tar.into_inner()
        .and_then(|mut out| out.flush())
        .context("writing", to)
}

fn header(size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_mode(0o644);
    header.set_size(size);
    header
}

/// Takes an archive into the store, and gives what has a name in it. Every blob is checked against its digest, and
/// the index is written last: an archive that is cut short or altered leaves no image behind. With a key, only an
/// archive in which that key signed every image is taken.
pub(crate) fn read(store: &Store, file: &Path, key: Option<&PublicKey>) -> Result<Vec<Descriptor>> {
    let refuse = |what: String| Error::Request(format!("{}: {what}", file.display()));
    // Nothing is thrown away meanwhile.
    let _shared = store.share()?;
    let work = store.work("load")?;
    let tar = File::open(file).context("opening", file)?;
    let mut index = None;
    for entry in Archive::new(tar).entries().context("reading", file)? {
        let entry = entry.context("reading", file)?;
        let name = entry
            .path()
            .context("reading", file)?
            .to_string_lossy()
            .into_owned();
        if name == "index.json" {
            index =
                Some(parsed(entry).map_err(|why| refuse(format!("its index.json cannot be read: {why}")))?);
        } else if let Some(hex) = name.strip_prefix(BLOBS).filter(|hex| !hex.is_empty()) {
            blob(store, &work, entry, hex).map_err(|error| match error {
                Error::Request(what) => refuse(what),
                other => other,
            })?;
        }
    }
    let index: Index = index.ok_or_else(|| refuse("it has no index.json: it is no OCI archive".into()))?;
    for top in &index.manifests {
        whole(store, top).map_err(refuse)?;
    }
    let named: Vec<Descriptor> = index.named().cloned().collect();
    for image in &named {
        let about: Vec<Descriptor> = (index.manifests.iter())
            .filter(|known| known.subject() == Some(&image.digest))
            .cloned()
            .collect();
        if let Some(key) = key
            && !sign::is_signed(store, &image.digest, &about, key)?
        {
            let what = "has no signature of this key: ask who made the file, or leave --key out";
            return Err(refuse(format!("{} {what}", image.reference())));
        }
    }
    store.update_index(|known| known.enter(index.manifests))?;
    Ok(named)
}

fn parsed(entry: impl Read) -> Result<Index, String> {
    let mut text = Vec::new();
    let mut bounded = entry.take(LARGEST_INDEX);
    bounded
        .read_to_end(&mut text)
        .map_err(|error| error.to_string())?;
    serde_json::from_slice(&text).map_err(|error| error.to_string())
}

/// Takes one blob in, unless the store has it.
fn blob(store: &Store, work: &Work, mut entry: Entry<'_, impl Read>, hex: &str) -> Result<()> {
    let digest = format!("sha256:{hex}");
    if !is_digest(&digest) {
        return Err(Error::Request(format!(
            "`{BLOBS}{hex}` is not named by a sha256 digest"
        )));
    }
    let place = store.blob(&digest);
    if fs::metadata(&place).is_ok_and(|there| there.len() == entry.size()) {
        return Ok(());
    }
    let half = work.path.join("blob");
    let file = File::create(&half).context("writing", &half)?;
    let mut hashed = Hashed::new(file);
    io::copy(&mut entry, &mut hashed).context("writing", &half)?;
    let (file, found, _) = hashed.finish();
    if found != digest {
        return Err(Error::Request(format!(
            "the blob {digest} has the digest {found}"
        )));
    }
    file.sync_all().context("writing", &half)?;
    fs::rename(&half, &place).context("storing", &place)
}

/// Whether all of a manifest is in the store; if not, what is wrong.
fn whole(store: &Store, top: &Descriptor) -> Result<(), String> {
    let name = match (top.reference(), top.subject()) {
        ("", None) => return Err(format!("the manifest {} has no name", top.digest)),
        ("", Some(subject)) => format!("what is about {subject}"),
        (reference, _) => reference.to_owned(),
    };
    if top.media_type != MANIFEST {
        return Err(format!(
            "{name} is `{}`: only OCI manifests are supported",
            top.media_type
        ));
    }
    let there = |part: &Descriptor| {
        let missing = || format!("{name} lacks the blob {}", part.digest);
        let found = is_digest(&part.digest)
            .then(|| fs::metadata(store.blob(&part.digest)).ok())
            .flatten();
        match found {
            Some(found) if found.len() == part.size => Ok(()),
            _ => Err(missing()),
        }
    };
    there(top)?;
    let manifest: Manifest = store
        .read(&top.digest)
        .map_err(|error| format!("{name}: {error}"))?;
    // What a manifest is about stands in itself.
    let subject = manifest.subject.as_ref().map(|subject| subject.digest.as_str());
    if subject != top.subject() {
        return Err(format!("{name} is not about what the index says"));
    }
    manifest
        .layers
        .iter()
        .chain([&manifest.config])
        .try_for_each(there)
}

#[cfg(test)]
#[path = "archive_tests.rs"]
mod tests;
