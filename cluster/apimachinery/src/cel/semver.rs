//! Versions as in semver.org.

use std::cmp::Ordering;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Semver {
    pub major: u64,
    pub minor: u64,
    pub patch: u64,
    pre: Vec<String>,
}

impl Semver {
    /// `normalize` drops a leading `v` and zeros and adds missing numbers.
    pub(super) fn parse(text: &str, normalize: bool) -> Result<Self, String> {
        let normalized;
        let text = if normalize {
            normalized = normalize_text(text)?;
            &normalized
        } else {
            text
        };
        if text.is_empty() {
            return Err("Version string empty".to_owned());
        }
        let parts: Vec<&str> = text.splitn(3, '.').collect();
        let [major, minor, rest] = parts[..] else {
            return Err("No Major.Minor.Patch elements found".to_owned());
        };
        let (rest, build) = match rest.split_once('+') {
            Some((rest, build)) => (rest, Some(build)),
            None => (rest, None),
        };
        let (patch, pre) = match rest.split_once('-') {
            Some((patch, pre)) => (patch, Some(pre)),
            None => (rest, None),
        };
        let number = |part: &str, name: &str| -> Result<u64, String> {
            if part.is_empty() || !part.bytes().all(|b| b.is_ascii_digit()) {
                return Err(format!("Invalid character(s) found in {name} number \"{part}\""));
            }
            if part.len() > 1 && part.starts_with('0') {
                return Err(format!(
                    "{} number must not contain leading zeroes \"{part}\"",
                    capital(name)
                ));
            }
            part.parse()
                .map_err(|_| format!("{name} number out of range \"{part}\""))
        };
        let identifiers = |list: Option<&str>, pre: bool| -> Result<Vec<String>, String> {
            let Some(list) = list else {
                return Ok(Vec::new());
            };
            list.split('.')
                .map(|id| {
                    let numeric = !id.is_empty() && id.bytes().all(|b| b.is_ascii_digit());
                    let fine = id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
                    match (id.is_empty(), fine) {
                        (true, _) if pre => Err("Prerelease is empty".to_owned()),
                        (true, _) => Err("Build meta data is empty".to_owned()),
                        (_, false) => Err(format!("Invalid character(s) found in prerelease \"{id}\"")),
                        _ if pre && numeric && id.len() > 1 && id.starts_with('0') => Err(format!(
                            "Numeric PreRelease version must not contain leading zeroes \"{id}\""
                        )),
                        _ => Ok(id.to_owned()),
                    }
                })
                .collect()
        };
        let version = Self {
            major: number(major, "major")?,
            minor: number(minor, "minor")?,
            patch: number(patch, "patch")?,
            pre: identifiers(pre, true)?,
        };
        identifiers(build, false)?;
        Ok(version)
    }

    /// Order by precedence; build data does not count.
    pub(super) fn compare(&self, other: &Self) -> Ordering {
        let numbers = (self.major, self.minor, self.patch).cmp(&(other.major, other.minor, other.patch));
        if numbers != Ordering::Equal {
            return numbers;
        }
        match (self.pre.is_empty(), other.pre.is_empty()) {
            (true, true) => return Ordering::Equal,
            (true, false) => return Ordering::Greater,
            (false, true) => return Ordering::Less,
            _ => {}
        }
        for (a, b) in self.pre.iter().zip(&other.pre) {
            let order = match (a.parse::<u64>(), b.parse::<u64>()) {
                (Ok(a), Ok(b)) => a.cmp(&b),
                (Ok(_), Err(_)) => Ordering::Less,
                (Err(_), Ok(_)) => Ordering::Greater,
                _ => a.cmp(b),
            };
            if order != Ordering::Equal {
                return order;
            }
        }
        self.pre.len().cmp(&other.pre.len())
    }
}

fn capital(name: &str) -> String {
    let mut chars = name.chars();
    chars
        .next()
        .map_or_else(String::new, |c| c.to_uppercase().chain(chars).collect())
}

fn normalize_text(text: &str) -> Result<String, String> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let mut parts: Vec<String> = text
        .splitn(3, '.')
        .map(|part| {
            if part.len() <= 1 {
                return part.to_owned();
            }
            let trimmed = part.trim_start_matches('0');
            if trimmed.starts_with(|c: char| c.is_ascii_digit()) {
                trimmed.to_owned()
            } else {
                format!("0{trimmed}")
            }
        })
        .collect();
    if parts.len() < 3 {
        if parts.last().is_some_and(|p| p.contains(['+', '-'])) {
            return Err("Short version cannot contain PreRelease/Build meta data".to_owned());
        }
        parts.resize(3, "0".to_owned());
    }
    Ok(parts.join("."))
}
