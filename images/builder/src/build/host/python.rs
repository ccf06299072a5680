//! The machine's pip settings, told to uv.

use std::path::{Path, PathBuf};
use std::{env, fs};

/// Where Python packages come from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PipSettings {
    pub index_url: Option<String>,
    pub extra_index_urls: Vec<String>,
    pub find_links: Vec<String>,
    pub trusted_hosts: Vec<String>,
    pub cert: Option<PathBuf>,
}

/// Where the build sees directories of `find-links`.
pub(crate) fn find_links_directory(index: usize) -> String {
    format!("/run/c5c3/wheels-{index}")
}

impl PipSettings {
    /// Files first, environment last: what comes later wins.
    pub(crate) fn gather(home: &Path) -> Self {
        let mut settings = Self::default();
        let named = env::var_os("PIP_CONFIG_FILE").map(PathBuf::from);
        let files = [
            Some("/etc/pip.conf".into()),
            Some(home.join(".pip/pip.conf")),
            Some(home.join(".config/pip/pip.conf")),
            named,
        ];
        for file in files.into_iter().flatten() {
            if let Ok(text) = fs::read_to_string(file) {
                settings.read(&text);
            }
        }
        for (name, value) in env::vars() {
            if let Some(key) = name.strip_prefix("PIP_") {
                settings.set(&key.to_ascii_lowercase().replace('_', "-"), &value);
            }
        }
        settings
    }

    /// Reads the `[global]` and `[install]` sections of a pip.conf.
    fn read(&mut self, text: &str) {
        let mut wanted = false;
        let mut key = String::new();
        let mut value = String::new();
        for line in text.lines().chain(["[end]"]) {
            let continues = line.starts_with([' ', '\t']) && !key.is_empty();
            if continues {
                value.push(' ');
                value.push_str(line.trim());
                continue;
            }
            if wanted && !key.is_empty() {
                self.set(&key, value.trim());
            }
            key.clear();
            value.clear();
            let line = line.trim();
            if line.starts_with('[') {
                wanted = line == "[global]" || line == "[install]";
            } else if !line.starts_with(['#', ';'])
                && let Some((name, text)) = line.split_once(['=', ':'])
            {
                key = name.trim().replace('_', "-");
                text.trim().clone_into(&mut value);
            }
        }
    }

    fn set(&mut self, key: &str, value: &str) {
        let words = || value.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        match key {
            "index-url" if !value.is_empty() => self.index_url = Some(value.to_owned()),
            "extra-index-url" => self.extra_index_urls = words(),
            "find-links" => self.find_links = words(),
            "trusted-host" => self.trusted_hosts = words(),
            "cert" => self.cert = Some(PathBuf::from(value)),
            _ => {}
        }
    }

    /// Directories of `find-links` that exist.
    pub(crate) fn directories(&self) -> Vec<PathBuf> {
        let path = |link: &String| PathBuf::from(link.strip_prefix("file://").unwrap_or(link));
        self.find_links
            .iter()
            .map(path)
            .filter(|path| path.is_absolute() && path.is_dir())
            .collect()
    }

    /// The same settings in uv's words, as seen from inside the build.
    pub(crate) fn uv_variables(&self) -> Vec<(String, String)> {
        let mut variables = Vec::new();
        if let Some(url) = &self.index_url {
            variables.push(("UV_DEFAULT_INDEX".to_owned(), url.clone()));
        }
        if !self.extra_index_urls.is_empty() {
            variables.push(("UV_INDEX".to_owned(), self.extra_index_urls.join(" ")));
        }
        let inside = (0..self.directories().len()).map(find_links_directory);
        let remote = self
            .find_links
            .iter()
            .filter(|link| link.contains("://") && !link.starts_with("file:"))
            .cloned();
        let links: Vec<String> = inside.chain(remote).collect();
        if !links.is_empty() {
            variables.push(("UV_FIND_LINKS".to_owned(), links.join(",")));
        }
        if !self.trusted_hosts.is_empty() {
            variables.push(("UV_INSECURE_HOST".to_owned(), self.trusted_hosts.join(" ")));
        }
        variables
    }

    /// The index that knows uv itself.
    pub(crate) fn index(&self) -> &str {
        self.index_url.as_deref().unwrap_or("https://pypi.org/simple")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pip_configuration_becomes_uv_variables() {
        let mut settings = PipSettings::default();
        settings.read(
            "[global]\nindex-url = https://i/simple\nextra-index-url =\n  https://a\n  https://b\n\
             # x\ntrusted_host = h\ncert = /ca.pem\n[freeze]\nindex-url = no\n",
        );
        assert_eq!(settings.cert.as_deref(), Some(Path::new("/ca.pem")));
        assert_eq!(
            settings.uv_variables(),
            [
                ("UV_DEFAULT_INDEX".into(), "https://i/simple".into()),
                ("UV_INDEX".into(), "https://a https://b".into()),
                ("UV_INSECURE_HOST".into(), "h".into()),
            ]
        );
    }

    #[test]
    fn later_settings_win_and_absent_directories_are_left_out() {
        let mut settings = PipSettings::default();
        settings.read("[global]\nfind-links = /does/not/exist https://links\n");
        settings.set("index-url", "https://one");
        settings.set("index-url", "https://two");
        assert_eq!(settings.index(), "https://two");
        let links = settings
            .uv_variables()
            .into_iter()
            .find(|(name, _)| name == "UV_FIND_LINKS");
        assert_eq!(links.unwrap().1, "https://links");
    }
}
