//! Versions and images of a release.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Error, FILES, file};

/// `releases/<name>/release.yaml` and `source-refs.yaml`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Release {
    pub name: String,
    pub title: String,
    /// The Debian suite under all images.
    pub debian: String,
    /// RFC 3339; the date of every file in the images.
    pub date: String,
    pub registry: String,
    pub uv: Uv,
    /// Image → upstream version.
    pub versions: BTreeMap<String, String>,
}

/// The installer of Python packages, by architecture.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Uv {
    pub version: String,
    pub sha256: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    title: String,
    debian: String,
    date: String,
    registry: String,
    uv: Uv,
}

/// The names of all releases, oldest first.
pub fn releases() -> Vec<String> {
    let mut names: Vec<String> = FILES
        .iter()
        .filter_map(|(path, _)| path.strip_suffix("/release.yaml"))
        .map(str::to_owned)
        .collect();
    names.sort();
    names
}

impl Release {
    /// A release that is part of the program.
    pub fn load(name: &str) -> Result<Self, Error> {
        let head = file(&format!("{name}/release.yaml"));
        let refs = file(&format!("{name}/source-refs.yaml"));
        match (head, refs) {
            (Some(head), Some(refs)) => Self::parse(name, head, refs),
            _ => Err(Error::Release {
                name: name.to_owned(),
                known: releases(),
            }),
        }
    }

    /// A release from the text of its two files.
    pub fn parse(name: &str, head: &str, refs: &str) -> Result<Self, Error> {
        let bad = |file: &str, error: &serde_saphyr::Error| Error::Data {
            file: format!("releases/{name}/{file}"),
            message: error.to_string(),
        };
        let head: Head = serde_saphyr::from_str(head).map_err(|e| bad("release.yaml", &e))?;
        let versions: BTreeMap<String, String> =
            serde_saphyr::from_str(refs).map_err(|e| bad("source-refs.yaml", &e))?;
        if let Some((image, version)) = versions.iter().find(|(_, version)| !is_tag(version)) {
            return Err(Error::Data {
                file: format!("releases/{name}/source-refs.yaml"),
                message: format!("{image}: `{version}` cannot be an image tag"),
            });
        }
        Ok(Self {
            name: name.to_owned(),
            title: head.title,
            debian: head.debian,
            date: head.date,
            registry: head.registry,
            uv: head.uv,
            versions,
        })
    }

    /// The reference of an image without patches: `ghcr.io/c5c3/keystone:28.1.0`.
    pub fn image(&self, name: &str) -> Option<String> {
        self.versions
            .get(name)
            .map(|version| format!("{}/{name}:{version}", self.registry))
    }

    /// Whether `image` has this version here, patched or not.
    pub fn has(&self, image: &str, version: &str) -> bool {
        let known = self.versions.get(image);
        known.is_some_and(|known| known == version || known == upstream(version))
    }

    /// The release in which `image` has this version.
    pub fn with_version(image: &str, version: &str) -> Option<Self> {
        releases()
            .iter()
            .filter_map(|name| Self::load(name).ok())
            .find(|release| release.has(image, version))
    }
}

/// `29.1.0` of `29.1.0-p1`: a tag may carry `-p<patches>`.
pub fn upstream(version: &str) -> &str {
    version
        .rsplit_once("-p")
        .map_or(version, |(upstream, _)| upstream)
}

fn is_tag(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 128
        && !text.starts_with(['.', '-'])
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_release_of_the_program_is_readable() {
        assert!(releases().contains(&"2025.2".to_owned()));
        for name in releases() {
            let release = Release::load(&name).unwrap();
            assert!(
                release.versions.contains_key("keystone"),
                "{name} has no keystone"
            );
        }
    }

    #[test]
    fn an_unknown_release_names_the_known_ones() {
        let error = Release::load("2019.1").unwrap_err().to_string();
        assert!(error.contains("`2019.1`") && error.contains("2025.2"), "{error}");
    }

    #[test]
    fn a_version_leads_back_to_its_release() {
        assert_eq!(
            Release::with_version("keystone", "28.1.0").unwrap().name,
            "2025.2"
        );
        assert_eq!(
            Release::with_version("keystone", "28.1.0-p3").unwrap().name,
            "2025.2"
        );
        assert_eq!(Release::with_version("keystone", "1.0"), None);
    }

    #[test]
    fn a_version_that_is_no_tag_is_refused() {
        let head = "{title: t, debian: d, date: x, registry: r, uv: {version: '1', sha256: {}}}";
        let error = Release::parse("r", head, "keystone: 'a b'")
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("source-refs.yaml") && error.contains("`a b`"),
            "{error}"
        );
    }
}
