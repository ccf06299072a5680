//! Levels and versions, and the labels of a namespace that name them.

use std::fmt;

use apimachinery::field::{FieldError, Path};

/// The newest version whose standards are known here.
pub(super) const NEWEST: u32 = 37;
const PREFIX: &str = "pod-security.kubernetes.io/";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Privileged,
    Baseline,
    Restricted,
}

impl Level {
    fn parse(text: &str) -> Result<Self, &'static str> {
        match text {
            "privileged" => Ok(Self::Privileged),
            "baseline" => Ok(Self::Baseline),
            "restricted" => Ok(Self::Restricted),
            _ => Err("must be one of privileged, baseline, restricted"),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Privileged => "privileged",
            Self::Baseline => "baseline",
            Self::Restricted => "restricted",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    Latest,
    Minor(u32),
}

impl Version {
    fn parse(text: &str) -> Result<Self, &'static str> {
        const FAULT: &str = "must be \"latest\" or \"v1.x\"";
        if text == "latest" {
            return Ok(Self::Latest);
        }
        let digits = text.strip_prefix("v1.").ok_or(FAULT)?;
        let padded = digits.len() > 1 && digits.starts_with('0');
        if padded || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(FAULT);
        }
        digits.parse().map(Self::Minor).map_err(|_| FAULT)
    }

    /// The minor version whose standard holds.
    pub(super) fn minor(self) -> u32 {
        match self {
            Self::Latest => NEWEST,
            Self::Minor(minor) => minor.min(NEWEST),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LevelVersion {
    pub level: Level,
    pub version: Version,
}

impl LevelVersion {
    const PRIVILEGED: Self = Self {
        level: Level::Privileged,
        version: Version::Latest,
    };
}

impl fmt::Display for LevelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.version {
            Version::Latest => write!(f, "{}:latest", self.level.name()),
            Version::Minor(minor) => write!(f, "{}:v1.{minor}", self.level.name()),
        }
    }
}

/// What the labels of a namespace ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Policy {
    /// Pods that violate it are refused.
    pub enforce: LevelVersion,
    /// Told to the log.
    pub audit: LevelVersion,
    /// Told to the client.
    pub warn: LevelVersion,
}

impl Policy {
    pub(super) fn of_labels<'a>(label: impl Fn(&str) -> Option<&'a str>) -> (Self, Vec<FieldError>) {
        let mut errors = Vec::new();
        let mut fault = |name: &str, value: &str, detail: &str| {
            let path = Path::new("metadata").child("labels").key(name);
            errors.push(FieldError::invalid(path, value, detail));
        };
        // A level that cannot be read must not open the door: it is refused pods, not warned ones.
        let mut mode = |name: &str, unreadable: Level| {
            let (level_label, version_label) = (format!("{PREFIX}{name}"), format!("{PREFIX}{name}-version"));
            let level = label(&level_label).map(|value| {
                Level::parse(value).map_err(|detail| {
                    fault(&level_label, value, detail);
                    unreadable
                })
            });
            let version = label(&version_label).map(|value| {
                Version::parse(value).unwrap_or_else(|detail| {
                    fault(&version_label, value, detail);
                    Version::Latest
                })
            });
            (level, version)
        };
        let enforce = mode("enforce", Level::Restricted);
        let audit = mode("audit", Level::Privileged);
        let warn = mode("warn", Level::Privileged);
        let resolve = |(level, version): (Option<Result<Level, Level>>, Option<Version>)| LevelVersion {
            level: level.map_or(Level::Privileged, |level| level.unwrap_or_else(|level| level)),
            version: version.unwrap_or(Version::Latest),
        };
        let mut policy = Self {
            enforce: resolve(enforce),
            audit: resolve(audit),
            warn: resolve(warn),
        };
        // Who writes a workload hears of what its pods will be refused for.
        if warn.0.is_none() && matches!(enforce.0, Some(Ok(level)) if level > policy.warn.level) {
            policy.warn.level = policy.enforce.level;
            if warn.1.is_none() {
                policy.warn.version = policy.enforce.version;
            }
        }
        (policy, errors)
    }

    pub(super) fn is_privileged(&self) -> bool {
        [self.enforce, self.audit, self.warn]
            .iter()
            .all(|standard| standard.level == Level::Privileged)
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            enforce: LevelVersion::PRIVILEGED,
            audit: LevelVersion::PRIVILEGED,
            warn: LevelVersion::PRIVILEGED,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(labels: &[(&str, &str)]) -> (String, Vec<String>) {
        let (policy, errors) = Policy::of_labels(|wanted| {
            labels
                .iter()
                .find(|(name, _)| wanted.strip_prefix(PREFIX) == Some(name))
                .map(|(_, value)| *value)
        });
        let Policy { enforce, audit, warn } = policy;
        let errors = errors.iter().map(ToString::to_string).collect();
        (format!("{enforce} {audit} {warn}"), errors)
    }

    #[test]
    fn labels_are_read_as_kubernetes_reads_them() {
        let open = "privileged:latest privileged:latest privileged:latest";
        assert_eq!(policy(&[]).0, open);
        let cases: [(&[(&str, &str)], &str); 6] = [
            (
                &[("enforce", "baseline")],
                "baseline:latest privileged:latest baseline:latest",
            ),
            (
                &[("enforce", "restricted"), ("enforce-version", "v1.24")],
                "restricted:v1.24 privileged:latest restricted:v1.24",
            ),
            (
                &[("enforce", "restricted"), ("warn-version", "v1.9")],
                "restricted:latest privileged:latest restricted:v1.9",
            ),
            (
                &[("enforce", "restricted"), ("warn", "privileged")],
                "restricted:latest privileged:latest privileged:latest",
            ),
            (
                &[("audit", "baseline")],
                "privileged:latest baseline:latest privileged:latest",
            ),
            (
                &[("enforce-version", "v1.0"), ("warn", "restricted")],
                "privileged:v1.0 privileged:latest restricted:latest",
            ),
        ];
        for (labels, expected) in cases {
            assert_eq!(policy(labels), (expected.to_owned(), Vec::new()), "{labels:?}");
        }
    }

    #[test]
    fn a_level_that_cannot_be_read_is_the_strictest_to_enforce() {
        let (found, errors) = policy(&[("enforce", "none"), ("audit", "x"), ("warn", "y")]);
        assert_eq!(found, "restricted:latest privileged:latest privileged:latest");
        assert_eq!(
            errors[0],
            "metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: \"none\": must be one of privileged, baseline, restricted"
        );
        assert_eq!(errors.len(), 3);
        for version in ["1.2", "v1.", "v1.02", "v2.0", "v1.x", "", "v1.99999999999"] {
            let (_, errors) = policy(&[("enforce-version", version)]);
            assert_eq!(errors.len(), 1, "{version:?}");
            assert!(
                errors[0].ends_with("must be \"latest\" or \"v1.x\""),
                "{errors:?}"
            );
        }
    }
}
