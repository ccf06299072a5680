//! Images from a registry. Every blob is checked against its digest before the store takes it in, and an image
//! is entered last: what has a name is whole.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::http::{Registry, Request};
use super::{INDEX, Repository, fallback, referrers};
use crate::error::{Context, Result};
use crate::oci::image::{RELEASE, architecture};
use crate::oci::key::PublicKey;
use crate::oci::layout::{SUBJECT, is_digest};
use crate::oci::sign;
use crate::oci::store::{Descriptor, MANIFEST, Manifest, NAME, REF_NAME, Store, Work};
use crate::oci::tarball::digest;

/// An image to fetch.
pub(crate) struct Wanted<'a> {
    /// The name that it gets here.
    pub reference: &'a str,
    pub release: &'a str,
    /// Only what this key signed is taken.
    pub key: Option<&'a PublicKey>,
}

/// Fetches one image and what is about it.
pub(crate) fn pull(
    store: &Store,
    wanted: &Wanted<'_>,
    from: &Repository,
    ca: Option<&Path>,
) -> Result<Descriptor> {
    let (repository, tag) = from.of(wanted.reference)?;
    let work = store.work("pull")?;
    let source = Source {
        registry: Registry::new(&from.host, &repository, ca, &work.path),
        store,
        work: &work,
    };
    let (image, manifest) = source.image(&tag)?;
    let about = source.about(&image.digest)?;
    if let Some(key) = wanted.key {
        let signed = sign::is_signed(store, &image.digest, &about, key)?;
        if !signed {
            return Err(source.registry.odd(&format!(
                "{tag} ({}) has no signature of this key: ask who publishes the image, or leave --key out",
                image.digest
            )));
        }
    }
    source.blobs(&manifest)?;
    let image = Descriptor {
        artifact_type: manifest.artifact_type,
        annotations: BTreeMap::from([
            (NAME.to_owned(), wanted.reference.to_owned()),
            (REF_NAME.to_owned(), wanted.reference.to_owned()),
            (RELEASE.to_owned(), wanted.release.to_owned()),
        ]),
        ..image
    };
    let mut all = about;
    all.push(image.clone());
    store.update_index(|index| index.enter(all))?;
    Ok(image)
}

struct Source<'a> {
    registry: Registry<'a>,
    store: &'a Store,
    work: &'a Work,
}

impl Source<'_> {
    /// The manifest of a tag; of an index the one for this machine.
    fn image(&self, tag: &str) -> Result<(Descriptor, Manifest)> {
        let accept = format!("{MANIFEST}, {INDEX}");
        let answer = self
            .registry
            .expect(&Request::get(&format!("manifests/{tag}"), &accept), &[200])?;
        let content: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        if content["mediaType"] != INDEX {
            return self.manifest_of(&answer.body);
        }
        let fitting = content["manifests"]
            .as_array()
            .into_iter()
            .flatten()
            .find(|entry| {
                entry["platform"]["os"] == "linux" && entry["platform"]["architecture"] == architecture()
            });
        let digest = fitting.and_then(|entry| entry["digest"].as_str());
        let digest = digest.ok_or_else(|| {
            self.registry
                .odd(&format!("{tag} exists, but not for linux/{}", architecture()))
        })?;
        self.manifest(digest)
    }

    /// A manifest by its digest.
    fn manifest(&self, digest: &str) -> Result<(Descriptor, Manifest)> {
        let request = Request::get(&format!("manifests/{digest}"), MANIFEST);
        let answer = self.registry.expect(&request, &[200])?;
        let found = sha256(&answer.body);
        if found != digest {
            return Err(self
                .registry
                .odd(&format!("the manifest {digest} has the digest {found}")));
        }
        self.manifest_of(&answer.body)
    }

    fn manifest_of(&self, text: &[u8]) -> Result<(Descriptor, Manifest)> {
        let manifest: Manifest = serde_json::from_slice(text)
            .map_err(|error| self.registry.odd(&format!("this is no OCI manifest: {error}")))?;
        if manifest.media_type != MANIFEST {
            return Err(self.registry.odd(&format!(
                "`{}` is not supported: only OCI images are",
                manifest.media_type
            )));
        }
        Ok((self.store.put(MANIFEST, text)?, manifest))
    }

    fn blobs(&self, manifest: &Manifest) -> Result<()> {
        for blob in manifest.layers.iter().chain([&manifest.config]) {
            self.blob(blob)?;
        }
        Ok(())
    }

    fn blob(&self, blob: &Descriptor) -> Result<()> {
        let place = self.store.blob(&blob.digest);
        if !is_digest(&blob.digest) {
            return Err(self
                .registry
                .odd(&format!("`{}` is not a sha256 digest", blob.digest)));
        }
        if fs::metadata(&place).is_ok_and(|there| there.len() == blob.size) {
            return Ok(());
        }
        let half = self.work.path.join("blob");
        self.registry.expect(
            &Request::download(&format!("blobs/{}", blob.digest), &half),
            &[200],
        )?;
        let found = digest(&half)?;
        if found != blob.digest {
            return Err(self
                .registry
                .odd(&format!("the blob {} has the digest {found}", blob.digest)));
        }
        fs::rename(&half, &place).context("storing", &place)
    }

    /// What the registry has about a manifest, with all its blobs.
    fn about(&self, subject: &str) -> Result<Vec<Descriptor>> {
        let mut listed = self
            .registry
            .send(&Request::get(&format!("referrers/{subject}"), INDEX))?;
        if listed.status != 200 {
            let path = format!("manifests/{}", fallback(subject));
            listed = self.registry.send(&Request::get(&path, INDEX))?;
        }
        let index: Value = match listed.status {
            200 => serde_json::from_slice(&listed.body).unwrap_or_default(),
            _ => Value::Null,
        };
        let mut found = Vec::new();
        for digest in referrers(&index) {
            let (descriptor, manifest) = self.manifest(&digest)?;
            // A registry may list what it likes: what a manifest is about stands in itself.
            if manifest.subject.as_ref().is_none_or(|of| of.digest != subject) {
                continue;
            }
            self.blobs(&manifest)?;
            found.push(Descriptor {
                artifact_type: manifest.artifact_type,
                annotations: BTreeMap::from([(SUBJECT.to_owned(), subject.to_owned())]),
                ..descriptor
            });
        }
        Ok(found)
    }
}

fn sha256(content: &[u8]) -> String {
    format!("sha256:{}", hex::encode(Sha256::digest(content)))
}

#[cfg(test)]
#[path = "pull_tests.rs"]
mod tests;
