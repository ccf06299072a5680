//! The machine's Debian package sources.

use std::fs;
use std::path::PathBuf;

/// One archive: `deb [signed-by=…] uri suite components`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AptSource {
    pub uri: String,
    pub suite: String,
    pub components: Vec<String>,
    /// A key ring on the machine.
    pub signed_by: Option<PathBuf>,
    pub trusted: bool,
}

impl AptSource {
    /// The line of a `sources.list`; `keyring` is where the key ring is for the reader.
    pub(crate) fn line(&self, keyring: Option<&str>) -> String {
        let mut options = Vec::new();
        if let Some(keyring) = keyring {
            options.push(format!("signed-by={keyring}"));
        }
        if self.trusted {
            options.push("trusted=yes".to_owned());
        }
        let options = if options.is_empty() {
            String::new()
        } else {
            format!("[{}] ", options.join(" "))
        };
        format!(
            "deb {options}{} {} {}",
            self.uri,
            self.suite,
            self.components.join(" ")
        )
    }
}

/// Reads `sources.list` and `sources.list.d`.
pub(super) fn gather() -> Vec<AptSource> {
    let mut paths: Vec<PathBuf> = fs::read_dir("/etc/apt/sources.list.d")
        .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_default();
    paths.sort();
    paths.insert(0, "/etc/apt/sources.list".into());
    let mut sources = Vec::new();
    for path in paths {
        let Ok(text) = fs::read_to_string(&path) else {
            continue;
        };
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("sources") => sources.extend(parse_deb822(&text)),
            Some("list") => sources.extend(parse_list(&text)),
            _ => {}
        }
    }
    sources
}

/// One line for each source.
pub(super) fn parse_list(text: &str) -> Vec<AptSource> {
    text.lines().filter_map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<AptSource> {
    let rest = line.split('#').next()?.trim().strip_prefix("deb")?;
    let rest = rest.strip_prefix([' ', '\t'])?.trim_start();
    let (options, rest) = match rest.strip_prefix('[') {
        Some(inner) => inner.split_once(']')?,
        None => ("", rest),
    };
    let mut words = rest.split_whitespace();
    let (uri, suite) = (words.next()?.to_owned(), words.next()?.to_owned());
    let option = |name: &str| {
        options
            .split_whitespace()
            .find_map(|o| o.strip_prefix(name)?.strip_prefix('='))
    };
    Some(AptSource {
        uri,
        suite,
        components: words.map(str::to_owned).collect(),
        signed_by: option("signed-by")
            .filter(|path| path.starts_with('/'))
            .map(PathBuf::from),
        trusted: option("trusted") == Some("yes"),
    })
}

/// Stanzas of `Field: value`.
pub(super) fn parse_deb822(text: &str) -> Vec<AptSource> {
    let mut sources = Vec::new();
    let uncommented: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    for stanza in uncommented.split(|line| line.trim().is_empty()) {
        let field = |name: &str| {
            stanza.iter().find_map(|line| {
                let (key, value) = line.split_once(':')?;
                key.eq_ignore_ascii_case(name).then(|| value.trim())
            })
        };
        let words = |name: &str| -> Vec<&str> {
            field(name)
                .map(|v| v.split_whitespace().collect())
                .unwrap_or_default()
        };
        if !words("Types").contains(&"deb") || field("Enabled") == Some("no") {
            continue;
        }
        for uri in words("URIs") {
            for suite in words("Suites") {
                sources.push(AptSource {
                    uri: uri.to_owned(),
                    suite: suite.to_owned(),
                    components: words("Components").into_iter().map(str::to_owned).collect(),
                    signed_by: field("Signed-By")
                        .filter(|path| path.starts_with('/'))
                        .map(PathBuf::from),
                    trusted: field("Trusted") == Some("yes"),
                });
            }
        }
    }
    sources
}

/// The sources for a suite, its updates, security fixes and (when asked for) backports.
pub(super) fn for_suite(
    machine: &[AptSource],
    mirror: Option<&str>,
    suite: &str,
    backports: bool,
) -> Vec<AptSource> {
    let own = |uri: &str, suite: String| AptSource {
        uri: uri.to_owned(),
        suite,
        components: vec!["main".into()],
        signed_by: None,
        trusted: false,
    };
    let known = |wanted: &str| {
        machine
            .iter()
            .find(|source| source.suite == wanted && source.components.iter().any(|c| c == "main"))
    };
    let main = match (mirror, known(suite)) {
        (Some(mirror), _) => own(
            &format!("{}/debian", mirror.trim_end_matches('/')),
            suite.to_owned(),
        ),
        (None, Some(source)) => AptSource {
            components: vec!["main".into()],
            ..source.clone()
        },
        (None, None) => own("http://deb.debian.org/debian", suite.to_owned()),
    };
    let mut sources = vec![main.clone()];
    let mut companion = |suffix: &str, uri: String| {
        let wanted = format!("{suite}-{suffix}");
        let source = match known(&wanted) {
            Some(source) if mirror.is_none() => AptSource {
                components: vec!["main".into()],
                ..source.clone()
            },
            _ => AptSource {
                uri,
                suite: wanted,
                ..main.clone()
            },
        };
        sources.push(source);
    };
    companion("updates", main.uri.clone());
    // Debian's mirrors keep security fixes beside the main archive.
    let security = match main.uri.trim_end_matches('/').strip_suffix("/debian") {
        Some(root) => format!("{root}/debian-security"),
        None => "http://deb.debian.org/debian-security".to_owned(),
    };
    companion("security", security);
    if backports {
        companion("backports", main.uri.clone());
    }
    sources
}

/// The settings about fetching in the output of `apt-config dump`.
pub(super) fn acquire_options(dump: &str) -> Vec<(String, String)> {
    dump.lines()
        .filter_map(|line| {
            let (name, value) = line.strip_suffix(';')?.split_once(' ')?;
            let value = value.strip_prefix('"')?.strip_suffix('"')?;
            let fetching = name.strip_prefix("Acquire::")?;
            let wanted = [
                "http",
                "https",
                "Retries",
                "ForceIPv4",
                "ForceIPv6",
                "Check-Valid-Until",
            ]
            .iter()
            .any(|prefix| fetching == *prefix || fetching.starts_with(&format!("{prefix}::")));
            // Programs of the machine are not there inside the build.
            let runs_a_program = fetching.to_ascii_lowercase().contains("auto-detect")
                || fetching.to_ascii_lowercase().contains("autodetect");
            (wanted && !value.is_empty() && !runs_a_program).then(|| (name.to_owned(), value.to_owned()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MACHINE: &str = "Types: deb\n# a comment\nURIs: http://mirror.example/debian\n\
        Suites: bookworm bookworm-updates\nComponents: main contrib\nSigned-By: /usr/share/keyrings/d.gpg\n\n\
        Types: deb\nURIs: https://deb.nodesource.com/node\nSuites: nodistro\nComponents: main\n\n\
        Types: deb deb-src\nEnabled: no\nURIs: http://off.example\nSuites: bookworm\nComponents: main\n";

    #[test]
    fn both_formats_are_read() {
        let sources = parse_deb822(MACHINE);
        assert_eq!(sources.len(), 3);
        assert_eq!(sources[1].suite, "bookworm-updates");
        let sources = parse_list(
            "# deb http://no x main\ndeb-src http://no x main\n\
             deb [arch=amd64 signed-by=/k.gpg trusted=yes] http://a s main contrib # c\n",
        );
        assert_eq!(sources.len(), 1);
        assert_eq!(
            sources[0].line(Some("/k")),
            "deb [signed-by=/k trusted=yes] http://a s main contrib"
        );
    }

    #[test]
    fn only_the_suite_is_taken_and_what_is_missing_is_derived() {
        let lines: Vec<_> = for_suite(&parse_deb822(MACHINE), None, "bookworm", true)
            .iter()
            .map(|s| s.line(None))
            .collect();
        assert_eq!(
            lines,
            [
                "deb http://mirror.example/debian bookworm main",
                "deb http://mirror.example/debian bookworm-updates main",
                "deb http://mirror.example/debian-security bookworm-security main",
                "deb http://mirror.example/debian bookworm-backports main",
            ]
        );
        let ubuntu = parse_list("deb http://archive.ubuntu.com/ubuntu noble main\n");
        let lines: Vec<_> = for_suite(&ubuntu, None, "bookworm", false)
            .iter()
            .map(|s| s.line(None))
            .collect();
        assert_eq!(lines[0], "deb http://deb.debian.org/debian bookworm main");
        assert_eq!(
            lines[2],
            "deb http://deb.debian.org/debian-security bookworm-security main"
        );
        let own = for_suite(&parse_deb822(MACHINE), Some("http://m/"), "bookworm", false);
        assert_eq!(own[0].line(None), "deb http://m/debian bookworm main");
        assert_eq!(own[1].line(None), "deb http://m/debian bookworm-updates main");
    }

    #[test]
    fn options_about_fetching_are_kept() {
        let dump = "Acquire::http::Proxy \"http://p:3128\";\nAcquire::Languages \"none\";\nAPT::X \"1\";\n\
            Acquire::http::Proxy-Auto-Detect \"/usr/bin/x\";\nAcquire::https \"\";\nAcquire::Check-Valid-Until \"false\";\n";
        assert_eq!(
            acquire_options(dump),
            [
                ("Acquire::http::Proxy".into(), "http://p:3128".into()),
                ("Acquire::Check-Valid-Until".into(), "false".into())
            ]
        );
    }
}
