//! A release as the build reads it: versions, pins, sets, patches, locked Debian packages.

use std::collections::{BTreeMap, BTreeSet};

use c5c3_catalogue::Release;
use serde::Deserialize;

use crate::error::{Error, Result};
use crate::sources::data::Data;
use crate::sources::patch::Patch;
use crate::sources::pins::{Override, Pins, normalise, parse_overrides};

/// Everything below `releases/<name>`, with `overrides/<name>` and `patches/*/<name>`.
#[derive(Debug, Clone)]
pub(crate) struct ReleaseData {
    pub release: Release,
    pub extra: ExtraPackages,
    /// Overrides are applied.
    pub pins: Pins,
    pub overrides: Vec<Override>,
    /// Set → package names. Empty before the first lock.
    pub sets: BTreeMap<String, BTreeSet<String>>,
    /// Versions of what builds source packages.
    pub build_constraints: Vec<String>,
    /// Recipe → Debian package → version.
    pub debian: BTreeMap<String, BTreeMap<String, String>>,
    /// Normalised component → its patches in order.
    pub patches: BTreeMap<String, Vec<PatchFile>>,
}

/// `releases/<name>/extra-packages.yaml`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExtraPackages {
    #[serde(default)]
    pub python: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    pub debian: BTreeMap<String, Vec<String>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PatchFile {
    /// Path below `patches/`.
    pub name: String,
    pub text: String,
}

impl ReleaseData {
    pub(crate) fn load(data: &Data, name: &str) -> Result<Self> {
        let path = |file: &str| format!("releases/{name}/{file}");
        let (Some(head), Some(refs)) = (
            data.get(&path("release.yaml")),
            data.get(&path("source-refs.yaml")),
        ) else {
            return Err(c5c3_catalogue::Error::Release {
                name: name.to_owned(),
                known: data.releases(),
            }
            .into());
        };
        let release = Release::parse(name, head, refs)?;
        let read = |file: &str| data.get(&path(file));
        let extra = match read("extra-packages.yaml") {
            Some(text) => crate::sources::yaml::parse(&path("extra-packages.yaml"), text)?,
            None => ExtraPackages::default(),
        };
        let overrides_file = format!("overrides/{name}/constraints.txt");
        let overrides = parse_overrides(&overrides_file, data.get(&overrides_file).unwrap_or(""))?;
        let sets: BTreeMap<String, BTreeSet<String>> = match read("sets.yaml") {
            Some(text) => crate::sources::yaml::parse(&path("sets.yaml"), text)?,
            None => BTreeMap::new(),
        };
        let pins = match read("pins.txt") {
            Some(text) => Pins::parse(&path("pins.txt"), text)?.overridden(&overrides_file, &overrides)?,
            None => Pins::default(),
        };
        let debian = match read("debian.yaml") {
            Some(text) => crate::sources::yaml::parse(&path("debian.yaml"), text)?,
            None => BTreeMap::new(),
        };
        Ok(Self {
            release,
            extra,
            pins,
            overrides,
            sets,
            build_constraints: Pins::parse(
                &path("build-constraints.txt"),
                read("build-constraints.txt").unwrap_or(""),
            )?
            .0
            .iter()
            .map(|(name, pin)| pin.line(name))
            .collect(),
            debian,
            patches: patches(data, name)?,
        })
    }

    /// The packages of a Python layer, without those that lie in layers below.
    pub(crate) fn requirements(&self, set: &str, below: &[&str]) -> Result<BTreeSet<String>> {
        let known = |set: &str| {
            self.sets.get(set).ok_or_else(|| {
                let name = &self.release.name;
                Error::Request(format!(
                    "release {name} has no pins for `{set}`: run `c5c3 image lock {name}`"
                ))
            })
        };
        let mut names = known(set)?.clone();
        for lower in below {
            for name in known(lower)? {
                names.remove(name);
            }
        }
        Ok(names)
    }

    /// Patches for some packages, in the order in which they are applied.
    pub(crate) fn patches_for(&self, packages: &BTreeSet<String>) -> Vec<&PatchFile> {
        packages
            .iter()
            .filter_map(|package| self.patches.get(package))
            .flatten()
            .collect()
    }
}

/// `patches/<component>/<release>/NNNN-*.patch`; all are read, so that a bad one is found early.
fn patches(data: &Data, release: &str) -> Result<BTreeMap<String, Vec<PatchFile>>> {
    let mut patches: BTreeMap<String, Vec<PatchFile>> = BTreeMap::new();
    for (path, text) in data.below("patches") {
        let Some(name) = path
            .strip_prefix("patches/")
            .filter(|name| name.ends_with(".patch"))
        else {
            continue;
        };
        let parts: Vec<&str> = name.split('/').collect();
        let [component, of, file] = parts[..] else {
            let reason = "a patch lies in patches/<component>/<release>/".into();
            return Err(Error::Patch {
                patch: name.to_owned(),
                reason,
            });
        };
        if of != release {
            continue;
        }
        if !file.starts_with(|c: char| c.is_ascii_digit()) {
            let reason =
                "its name must begin with a number (0001-…): the order in which patches are applied".into();
            return Err(Error::Patch {
                patch: name.to_owned(),
                reason,
            });
        }
        Patch::parse(name, text)?;
        patches.entry(normalise(component)).or_default().push(PatchFile {
            name: name.to_owned(),
            text: text.to_owned(),
        });
    }
    Ok(patches)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) const HEAD: &str = "{title: T, debian: bookworm, date: '2025-10-01T00:00:00Z', registry: ghcr.io/c5c3, uv: {version: '1', sha256: {x86_64: aa}}}";
    const DIFF: &str = "--- a/k/a.py\n+++ b/k/a.py\n@@ -1 +1 @@\n-a\n+b\n";

    #[test]
    fn patches_belong_to_a_component_and_a_release() {
        let data = Data::from_files([
            ("releases/R/release.yaml", HEAD),
            ("releases/R/source-refs.yaml", "keystone: '1'"),
            ("patches/oslo.messaging/R/0002-b.patch", DIFF),
            ("patches/oslo.messaging/R/0001-a.patch", DIFF),
            ("patches/keystone/other/0001-a.patch", DIFF),
        ]);
        let release = ReleaseData::load(&data, "R").unwrap();
        let names: Vec<_> = release
            .patches_for(&BTreeSet::from([
                "oslo-messaging".to_owned(),
                "keystone".to_owned(),
            ]))
            .iter()
            .map(|patch| patch.name.as_str())
            .collect();
        assert_eq!(
            names,
            ["oslo.messaging/R/0001-a.patch", "oslo.messaging/R/0002-b.patch"]
        );
    }

    #[test]
    fn bad_release_files_are_named() {
        for (file, text, part) in [
            ("releases/R/pins.txt", "six\n", "releases/R/pins.txt:1:"),
            ("overrides/R/constraints.txt", "\nsix===1\n", ""),
            ("releases/R/sets.yaml", "a: [b\n", "releases/R/sets.yaml:1:"),
            (
                "releases/R/extra-packages.yaml",
                "pyton: {}\n",
                "releases/R/extra-packages.yaml:1:",
            ),
            ("patches/keystone/R/fix.patch", DIFF, "must begin with a number"),
            (
                "patches/keystone/R/1.patch",
                "nothing",
                "patch keystone/R/1.patch: no change",
            ),
        ] {
            let data = Data::from_files([
                ("releases/R/release.yaml", HEAD),
                ("releases/R/source-refs.yaml", "keystone: '1'"),
                (file, text),
            ]);
            match ReleaseData::load(&data, "R") {
                Ok(_) => assert_eq!(part, "", "{file}"),
                Err(error) => assert!(
                    !part.is_empty() && error.to_string().contains(part),
                    "{file}: {error}"
                ),
            }
        }
    }

    #[test]
    fn the_releases_of_the_program_are_readable() {
        let data = Data::embedded();
        for name in data.releases() {
            ReleaseData::load(&data, &name).unwrap();
        }
    }
}
