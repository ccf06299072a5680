//! The documents of an OCI layout: index, manifests, descriptors.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

pub(crate) const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub(crate) const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
pub(crate) const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+zstd";
/// The configuration of what is no image.
pub(crate) const EMPTY: &str = "application/vnd.oci.empty.v1+json";
/// The name under which containerd knows an image.
pub(crate) const NAME: &str = "io.containerd.image.name";
/// In the index, on a manifest that is about another: the digest of that one.
pub(crate) const SUBJECT: &str = "c5c3.io/subject";
pub(crate) const REF_NAME: &str = "org.opencontainers.image.ref.name";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Descriptor {
    pub media_type: String,
    pub digest: String,
    pub size: u64,
    /// What it is when it is no image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_type: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

impl Descriptor {
    pub(crate) fn reference(&self) -> &str {
        self.annotations.get(NAME).map_or("", String::as_str)
    }

    /// The digest of the manifest that this one is about.
    pub(crate) fn subject(&self) -> Option<&str> {
        self.annotations.get(SUBJECT).map(String::as_str)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Index {
    pub schema_version: u32,
    pub manifests: Vec<Descriptor>,
}

impl Index {
    /// What has a name, as opposed to what is about it.
    pub(crate) fn named(&self) -> impl Iterator<Item = &Descriptor> {
        self.manifests.iter().filter(|known| known.subject().is_none())
    }

    /// Takes manifests in; each replaces what had its place, and what is about one that is gone goes too.
    pub(crate) fn enter(&mut self, new: Vec<Descriptor>) {
        let place = |known: &Descriptor| {
            let kind = known.subject().and(known.artifact_type.clone());
            let subject = known.subject().map(str::to_owned);
            (known.reference().to_owned(), subject, kind)
        };
        self.manifests
            .retain(|old| !new.iter().any(|new| place(new) == place(old)));
        self.manifests.extend(new);
        self.tidy();
    }

    /// Drops what is about a manifest that is not there.
    pub(crate) fn tidy(&mut self) {
        let named: BTreeSet<String> = self.named().map(|known| known.digest.clone()).collect();
        self.manifests
            .retain(|known| known.subject().is_none_or(|subject| named.contains(subject)));
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Manifest {
    pub schema_version: u32,
    pub media_type: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_type: Option<String>,
    pub config: Descriptor,
    pub layers: Vec<Descriptor>,
    /// What this is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<Descriptor>,
}

/// A digest names a file in the store, so it must be nothing else.
pub(crate) fn is_digest(text: &str) -> bool {
    text.strip_prefix("sha256:")
        .is_some_and(|hex| hex.len() == 64 && hex.bytes().all(|byte| byte.is_ascii_hexdigit()))
}
