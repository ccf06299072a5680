//! Disks of virtual machines: made by a program of their layer, kept as the only blob of an OCI artifact.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::build::sandbox::Inside;
use crate::build::steps::{Variables, quote};
use crate::error::{Context, Error, Result};
use crate::oci::store::{Manifest, Store};
use crate::oci::tarball::{Hashed, Written};

pub(crate) const ARTIFACT: &str = "application/vnd.c5c3.disk.v1";
/// The bytes of the disk, as they are.
pub(crate) const RAW: &str = "application/vnd.c5c3.disk.v1.raw";
/// Where the program writes the disk.
const FILE: &str = "disk.raw";

/// Runs the program that makes the disk.
pub(crate) fn make(inside: &Inside<'_>, command: &[String], variables: &Variables) -> Result<()> {
    let words: Vec<String> = command.iter().map(|word| quote(word)).collect();
    let script = format!("DISK=/{FILE} {}", words.join(" "));
    inside.run("making the disk", &script, variables)
}

/// Takes the disk out of the finished tree.
pub(crate) fn write(tree: &Path, out: &Path) -> Result<Written> {
    let disk = tree.join(FILE);
    if !disk.is_file() {
        return Err(Error::Request(
            "the disk's command wrote nothing to $DISK: see the recipe".into(),
        ));
    }
    let mut file = File::open(&disk).context("reading", &disk)?;
    let mut hashed = Hashed::new(io::sink());
    io::copy(&mut file, &mut hashed).context("reading", &disk)?;
    let (_, digest, size) = hashed.finish();
    file.sync_all().context("writing", &disk)?;
    fs::rename(&disk, out).context("storing", &disk)?;
    Ok(Written {
        diff_id: digest.clone(),
        tar_size: size,
        digest,
        size,
    })
}

/// The file of a disk in the store.
pub(crate) fn path(store: &Store, reference: &str) -> Result<PathBuf> {
    let artifact = store.find(reference)?;
    let manifest: Manifest = store.read(&artifact.digest)?;
    match &manifest.layers[..] {
        [disk] if disk.media_type == RAW => Ok(store.blob(&disk.digest)),
        _ => Err(Error::Request(format!(
            "{} is an image, no disk: `c5c3 image export` writes it to a file",
            artifact.reference()
        ))),
    }
}
