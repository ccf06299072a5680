//! What the machine is configured with: package sources, proxies, certificates. It is used while
//! building and is never part of an image.

mod apt;
mod python;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

pub(crate) use apt::AptSource;
pub(crate) use python::{PipSettings, find_links_directory};

/// The machine's own settings, gathered once.
#[derive(Debug, Clone, Default)]
pub(crate) struct Host {
    apt: Vec<AptSource>,
    /// `Acquire::…` settings.
    pub apt_options: Vec<(String, String)>,
    /// Logins for package archives.
    pub apt_auth: String,
    /// Proxies and uv's own variables, for every command that goes to the network.
    pub env: BTreeMap<String, String>,
    /// The certificates that the machine trusts.
    pub ca: Option<PathBuf>,
    pub uv_config: Option<PathBuf>,
    pub netrc: Option<PathBuf>,
    pub pip: PipSettings,
}

const PROXIES: [&str; 4] = ["http_proxy", "https_proxy", "all_proxy", "no_proxy"];

impl Host {
    pub(crate) fn gather() -> Self {
        let home = env::var_os("HOME").map_or_else(|| PathBuf::from("/root"), PathBuf::from);
        let mut variables = BTreeMap::new();
        for (name, value) in env::vars() {
            let proxy = PROXIES.contains(&name.to_ascii_lowercase().as_str());
            let uv = UV_VARIABLES.iter().any(|known| name.starts_with(known));
            if proxy || uv {
                variables.insert(name, value);
            }
        }
        let pip = PipSettings::gather(&home);
        for (name, value) in pip.uv_variables() {
            variables.entry(name).or_insert(value);
        }
        let config_home = env::var_os("XDG_CONFIG_HOME").map_or_else(|| home.join(".config"), PathBuf::from);
        let uv_configs = [
            env::var_os("UV_CONFIG_FILE").map(PathBuf::from),
            Some(config_home.join("uv/uv.toml")),
            Some("/etc/uv/uv.toml".into()),
        ];
        Self {
            apt: apt::gather(),
            apt_options: apt_options(),
            apt_auth: concatenated("/etc/apt/auth.conf", "/etc/apt/auth.conf.d"),
            env: variables,
            ca: certificates(&pip),
            uv_config: uv_configs.into_iter().flatten().find(|path| path.is_file()),
            netrc: Some(home.join(".netrc")).filter(|path| path.is_file()),
            pip,
        }
    }

    /// Where the packages of a Debian suite come from: the machine's own mirrors when it has that
    /// suite, `C5C3_DEBIAN_MIRROR`, or Debian's.
    pub(crate) fn apt_sources(&self, suite: &str, backports: bool) -> Vec<AptSource> {
        let mirror = env::var("C5C3_DEBIAN_MIRROR").ok();
        apt::for_suite(&self.apt, mirror.as_deref(), suite, backports)
    }
}

/// What tells uv where packages come from, by the beginning of the names; other settings of the
/// machine must not change what is built.
const UV_VARIABLES: [&str; 10] = [
    "UV_CONCURRENT",
    "UV_DEFAULT_INDEX",
    "UV_EXTRA_INDEX_URL",
    "UV_HTTP",
    "UV_INDEX",
    "UV_INSECURE_HOST",
    "UV_KEYRING_PROVIDER",
    "UV_NATIVE_TLS",
    "UV_REQUEST_TIMEOUT",
    "UV_SYSTEM_CERTS",
];

fn certificates(pip: &PipSettings) -> Option<PathBuf> {
    let candidates = [
        env::var_os("SSL_CERT_FILE").map(PathBuf::from),
        pip.cert.clone(),
        Some("/etc/ssl/certs/ca-certificates.crt".into()),
        Some("/etc/pki/tls/certs/ca-bundle.crt".into()),
    ];
    candidates.into_iter().flatten().find(|path| path.is_file())
}

fn apt_options() -> Vec<(String, String)> {
    let Ok(output) = Command::new("apt-config").arg("dump").output() else {
        return Vec::new();
    };
    apt::acquire_options(&String::from_utf8_lossy(&output.stdout))
}

fn concatenated(file: &str, directory: &str) -> String {
    let mut paths: Vec<PathBuf> = fs::read_dir(directory)
        .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_default();
    paths.sort();
    paths.insert(0, Path::new(file).to_owned());
    paths
        .iter()
        .filter_map(|path| fs::read_to_string(path).ok())
        .fold(String::new(), |all, text| all + &text + "\n")
}
