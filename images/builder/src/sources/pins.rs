//! Pins of Python packages, and the overrides that change them.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::error::{Error, Result};

/// A package at one version, with the digests of its files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Pin {
    pub version: String,
    pub hashes: Vec<String>,
}

/// Normalised name → pin.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Pins(pub BTreeMap<String, Pin>);

/// A line of `overrides/<release>/constraints.txt`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Override {
    pub line: u64,
    pub name: String,
    /// `None` deletes the pin.
    pub pin: Option<Pin>,
}

/// The name that the package index knows: lower case, one dash between words.
pub(crate) fn normalise(name: &str) -> String {
    let mut normal = String::with_capacity(name.len());
    for c in name.chars() {
        match c {
            '-' | '_' | '.' if normal.ends_with('-') => {}
            '-' | '_' | '.' => normal.push('-'),
            _ => normal.extend(c.to_lowercase()),
        }
    }
    normal
}

/// Lines without comments, with backslash continuations joined, numbered from 1.
fn logical_lines(text: &str) -> Vec<(u64, String)> {
    let mut lines: Vec<(u64, String)> = Vec::new();
    let mut continued = false;
    for (number, raw) in (1..).zip(text.lines()) {
        let line = raw.split(" #").next().unwrap_or("").trim();
        let line = if line.starts_with('#') { "" } else { line };
        let (part, more) = line
            .strip_suffix('\\')
            .map_or((line, false), |part| (part.trim_end(), true));
        match lines.last_mut() {
            Some((_, last)) if continued => {
                last.push(' ');
                last.push_str(part);
            }
            _ if !part.is_empty() => lines.push((number, part.to_owned())),
            _ => {}
        }
        continued = more;
    }
    lines
}

/// `name==version`, `name===version`, with `--hash=sha256:…` words after it.
fn pin(text: &str) -> Option<(String, Pin)> {
    let mut words = text.split_whitespace();
    let (name, version) = words.next()?.split_once("==")?;
    let version = version.strip_prefix('=').unwrap_or(version);
    let plain = |text: &str, extra: &str| {
        !text.is_empty()
            && text
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || extra.contains(c))
    };
    if !plain(name, "-_.") || !plain(version, ".+!-_") {
        return None;
    }
    let hashes = words
        .map(|word| {
            let digest = word.strip_prefix("--hash=sha256:")?;
            (digest.len() == 64 && digest.chars().all(|c| c.is_ascii_hexdigit())).then(|| digest.to_owned())
        })
        .collect::<Option<Vec<_>>>()?;
    Some((
        normalise(name),
        Pin {
            version: version.to_owned(),
            hashes,
        },
    ))
}

impl Pins {
    /// Reads a requirements file in which every line is a pin.
    pub(crate) fn parse(file: &str, text: &str) -> Result<Self> {
        let mut pins = BTreeMap::new();
        for (line, content) in logical_lines(text) {
            let bad = |message: String| Error::Data {
                file: file.to_owned(),
                line,
                message,
            };
            let (name, pin) = pin(&content).ok_or_else(|| {
                let shown: String = content.chars().take(60).collect();
                bad(format!(
                    "`{shown}` is not a pin: write name==version --hash=sha256:…"
                ))
            })?;
            if pins.insert(name.clone(), pin).is_some() {
                return Err(bad(format!("`{name}` is pinned twice")));
            }
        }
        Ok(Self(pins))
    }

    /// The pins with the overrides applied; an override that names no pinned package is an error.
    pub(crate) fn overridden(&self, file: &str, overrides: &[Override]) -> Result<Self> {
        let mut pins = self.clone();
        for change in overrides {
            let Some(old) = pins.0.get(&change.name) else {
                let message = format!(
                    "`{}` is not pinned in this release: nothing to override",
                    change.name
                );
                return Err(Error::Data {
                    file: file.to_owned(),
                    line: change.line,
                    message,
                });
            };
            match &change.pin {
                None => drop(pins.0.remove(&change.name)),
                // A lock that was made after the override knows the digests of the version.
                Some(new) if new.version == old.version && new.hashes.is_empty() => {}
                Some(new) => drop(pins.0.insert(change.name.clone(), new.clone())),
            }
        }
        Ok(pins)
    }

    /// Requirement lines for some of the packages. Names without a pin were deleted by an override.
    pub(crate) fn lines(&self, names: &BTreeSet<String>) -> Vec<String> {
        let chosen = self.0.iter().filter(|(name, _)| names.contains(*name));
        chosen.map(|(name, pin)| pin.line(name)).collect()
    }
}

impl Pin {
    pub(crate) fn line(&self, name: &str) -> String {
        let mut line = format!("{name}=={}", self.version);
        for hash in &self.hashes {
            line.push_str(" --hash=sha256:");
            line.push_str(hash);
        }
        line
    }
}

/// Reads `pkg===version` and `-pkg` lines.
pub(crate) fn parse_overrides(file: &str, text: &str) -> Result<Vec<Override>> {
    let mut seen = BTreeSet::new();
    let mut overrides = Vec::new();
    for (line, content) in logical_lines(text) {
        let bad = |message: String| Error::Data {
            file: file.to_owned(),
            line,
            message,
        };
        let (name, pin) = match content.strip_prefix('-') {
            Some(name) if !name.is_empty() && !name.starts_with('-') => (normalise(name), None),
            _ => match pin(&content) {
                Some((name, pin)) => (name, Some(pin)),
                None => {
                    return Err(bad(format!(
                        "`{content}` is neither package===version nor -package"
                    )));
                }
            },
        };
        if !seen.insert(name.clone()) {
            return Err(bad(format!("`{name}` is overridden twice")));
        }
        overrides.push(Override { line, name, pin });
    }
    Ok(overrides)
}

/// A copy of upper-constraints with the overrides applied, in the spelling that uv reads.
pub(crate) fn constraints(text: &str, overrides: &[Override]) -> String {
    let changed: BTreeSet<&str> = overrides.iter().map(|change| change.name.as_str()).collect();
    let kept = logical_lines(text).into_iter().filter_map(|(_, line)| {
        let name = line.split(['=', ';', ' ']).next().map(normalise)?;
        (!changed.contains(name.as_str())).then(|| line.replace("===", "=="))
    });
    let added = overrides.iter().filter_map(|change| {
        let pin = change.pin.as_ref()?;
        Some(format!("{}=={}", change.name, pin.version))
    });
    kept.chain(added)
        .fold(String::new(), |text, line| text + &line + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: &str = "1111111111111111111111111111111111111111111111111111111111111111";

    fn pins() -> Pins {
        let text =
            format!("# made\noslo-config==10.0.0 \\\n    --hash=sha256:{HASH}\n    # via x\nsix==1.17.0\n");
        Pins::parse("pins.txt", &text).unwrap()
    }

    #[test]
    fn pins_are_read_with_their_digests() {
        let pins = pins();
        assert_eq!(pins.0["oslo-config"].hashes, [HASH]);
        assert_eq!(
            pins.lines(&BTreeSet::from(["oslo-config".to_owned(), "gone".to_owned()])),
            [format!("oslo-config==10.0.0 --hash=sha256:{HASH}")]
        );
    }

    #[test]
    fn names_are_normalised() {
        for (name, normal) in [
            ("Oslo.Config", "oslo-config"),
            ("a-_.b", "a-b"),
            ("PyYAML", "pyyaml"),
        ] {
            assert_eq!(normalise(name), normal);
        }
    }

    #[test]
    fn bad_lines_are_named() {
        for (text, wanted) in [
            ("six\n", "f:1: `six` is not a pin"),
            (
                "\nsix==1 --hash=sha256:12\n",
                "f:2: `six==1 --hash=sha256:12` is not a pin",
            ),
            ("six==1; rm -rf /\n", "f:1:"),
            ("six==1\nSix==2\n", "f:2: `six` is pinned twice"),
        ] {
            let error = Pins::parse("f", text).unwrap_err().to_string();
            assert!(error.starts_with(wanted), "{error}");
        }
    }

    #[test]
    fn an_override_replaces_and_deletes_in_a_copy() {
        let original = pins();
        let overrides = parse_overrides("o", "oslo.config===10.0.1 # CVE\n-six\n").unwrap();
        let changed = original.overridden("o", &overrides).unwrap();
        assert_eq!(
            changed.0["oslo-config"],
            Pin {
                version: "10.0.1".into(),
                hashes: vec![]
            }
        );
        assert!(!changed.0.contains_key("six"));
        assert_eq!(original, pins());
    }

    #[test]
    fn an_override_that_does_not_apply_is_named_with_its_line() {
        let overrides = parse_overrides("overrides/2025.2/constraints.txt", "# x\nrequests===3\n").unwrap();
        assert_eq!(
            pins()
                .overridden("overrides/2025.2/constraints.txt", &overrides)
                .unwrap_err()
                .to_string(),
            "overrides/2025.2/constraints.txt:2: `requests` is not pinned in this release: nothing to override"
        );
        let error = parse_overrides("o", "six>=1\n").unwrap_err().to_string();
        assert_eq!(error, "o:1: `six>=1` is neither package===version nor -package");
    }

    #[test]
    fn a_lock_after_the_override_keeps_its_digests() {
        let overrides = parse_overrides("o", "oslo.config===10.0.0\n").unwrap();
        assert_eq!(pins().overridden("o", &overrides).unwrap(), pins());
    }

    #[test]
    fn constraints_take_the_overrides_in_a_copy() {
        let overrides = parse_overrides("o", "b===2\n-c\nd===4\n").unwrap();
        let text = "a===1;python_version=='3.11'\nB===1\nc===1\n";
        assert_eq!(
            constraints(text, &overrides),
            "a==1;python_version=='3.11'\nb==2\nd==4\n"
        );
    }
}
