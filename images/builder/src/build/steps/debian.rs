//! A Debian root from nothing, and packages on top of it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use super::{Variables, quote};
use crate::build::host::{AptSource, Host};
use crate::build::plan::DebianInputs;
use crate::build::sandbox::{INSIDE, Inside};
use crate::error::{Context, Error, Result};
use crate::oci::store::Store;

/// Package lists younger than this are not fetched again.
const FRESH: Duration = Duration::from_secs(3600);

/// What both steps need to know.
pub(crate) struct Debian<'a> {
    pub host: &'a Host,
    pub store: &'a Store,
    pub inputs: &'a DebianInputs,
    pub variables: &'a Variables,
    /// The directory of the layer that is being created, and one beside it.
    pub upper: &'a Path,
    pub work: &'a Path,
}

impl Debian<'_> {
    fn sources(&self) -> Vec<AptSource> {
        self.host.apt_sources(&self.inputs.suite, self.inputs.backports)
    }

    fn lists(&self) -> String {
        format!(
            "lists/{}{}",
            self.inputs.suite,
            if self.inputs.backports { "-backports" } else { "" }
        )
    }

    /// Makes the root of a suite.
    pub(crate) fn bootstrap(&self, inside: &Inside<'_>, variant: &str) -> Result<()> {
        let list = self.work.join("sources.list");
        let lines: Vec<String> = self
            .sources()
            .iter()
            .map(|source| source.line(source.signed_by.as_ref().and_then(|path| path.to_str())))
            .collect();
        fs::write(&list, lines.join("\n") + "\n").context("writing", &list)?;
        let preferences = self.work.join("preferences");
        fs::write(&preferences, pinned(&self.inputs.locked)).context("writing", &preferences)?;
        let mut script = format!(
            "mmdebstrap --mode=root --format=directory --variant={}",
            quote(variant)
        );
        script.push_str(" --dpkgopt=force-unsafe-io --skip=cleanup/apt/lists");
        let mut option = |text: String| {
            // Writing to a String cannot fail.
            let _ = write!(script, " --aptopt={}", quote(&text));
        };
        option("Acquire::Languages \"none\"".into());
        option(format!("Dir::Etc::Preferences \"{}\"", preferences.display()));
        for (name, value) in &self.host.apt_options {
            option(format!("{name} \"{value}\""));
        }
        if !self.inputs.packages.is_empty() {
            let _ = write!(script, " --include={}", quote(&self.inputs.packages.join(",")));
        }
        let (suite, root, list) = (
            quote(&self.inputs.suite),
            inside.root.display().to_string(),
            list.display().to_string(),
        );
        let _ = write!(script, " {suite} {} {}", quote(&root), quote(&list));
        inside.run_outside("mmdebstrap", &script, self.variables)?;
        self.keep_lists()?;
        self.own_sources()
    }

    fn lists_lock(&self) -> Result<fs::File> {
        self.store.lock(&self.lists().replace('/', "-"))
    }

    /// The lists that the bootstrap fetched serve the layers above.
    fn keep_lists(&self) -> Result<()> {
        let _lock = self.lists_lock()?;
        let fetched = self.upper.join("var/lib/apt/lists");
        let cache = self.store.cache(&self.lists())?;
        crate::oci::unpack::remove_tree(&cache)?;
        fs::rename(&fetched, &cache).context("keeping", &fetched)?;
        fs::create_dir_all(fetched.join("partial")).context("creating", &fetched)?;
        let marker = cache.join("updated");
        fs::write(&marker, "").context("writing", &marker)
    }

    /// An image names Debian's own archive, not the machine's mirror.
    fn own_sources(&self) -> Result<()> {
        let suite = &self.inputs.suite;
        let text = format!(
            "deb http://deb.debian.org/debian {suite} main\ndeb http://deb.debian.org/debian {suite}-updates main\n\
             deb http://deb.debian.org/debian-security {suite}-security main\n"
        );
        let path = self.upper.join("etc/apt/sources.list");
        fs::write(&path, text).context("writing", &path)?;
        // The container's runtime sets the host name; only `localhost` is always known.
        let hosts = "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n";
        for (file, text) in [("etc/resolv.conf", ""), ("etc/hosts", hosts)] {
            let path = self.upper.join(file);
            // It may be a link out of the tree.
            let _ = fs::remove_file(&path);
            fs::write(&path, text).context("writing", &path)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).context("writing", &path)?;
        }
        Ok(())
    }

    /// Installs packages into the sandbox's tree.
    pub(crate) fn install(&self, inside: &Inside<'_>) -> Result<()> {
        self.configure(inside)?;
        let mut variables = self.variables.clone();
        variables.insert("APT_CONFIG".into(), format!("{INSIDE}/apt.conf"));
        variables.insert("DEBIAN_FRONTEND".into(), "noninteractive".into());
        self.update(inside, &variables)?;
        // No package may start its server while it is installed.
        let policy = inside.path("/usr/sbin/policy-rc.d");
        fs::write(&policy, "#!/bin/sh\nexit 101\n").context("writing", &policy)?;
        fs::set_permissions(&policy, fs::Permissions::from_mode(0o755)).context("writing", &policy)?;
        let suffix = if self.inputs.backports {
            format!("/{}-backports", self.inputs.suite)
        } else {
            String::new()
        };
        let packages: Vec<String> = self
            .inputs
            .packages
            .iter()
            .map(|name| quote(&format!("{name}{suffix}")))
            .collect();
        let mut script = format!(
            "apt-get -q install -y --no-install-recommends {}",
            packages.join(" ")
        );
        let alone: Vec<String> = self.inputs.alone.iter().map(|name| quote(name)).collect();
        if !alone.is_empty() {
            // dpkg knows them afterwards, and so does the list of what is in the image.
            let _ = write!(
                script,
                " && mkdir {INSIDE}/alone && cd {INSIDE}/alone && apt-get -q download {} && dpkg --unpack --force-depends *.deb",
                alone.join(" ")
            );
        }
        let result = inside.run("apt-get install", &script, &variables);
        fs::remove_file(&policy).context("removing", &policy)?;
        if result.is_err() {
            // The archive may have changed since the lists were fetched: the next build fetches them again.
            let _ = fs::remove_file(self.store.cache(&self.lists())?.join("updated"));
        }
        result
    }

    /// Tells apt inside what apt on the machine knows, below /run only.
    fn configure(&self, inside: &Inside<'_>) -> Result<()> {
        let archives = self.work.join("archives");
        fs::create_dir_all(archives.join("partial")).context("creating", &archives)?;
        inside.bind(&archives, &format!("{INSIDE}/archives"))?;
        let lists = self.store.cache(&self.lists())?;
        inside.bind(&lists, &format!("{INSIDE}/lists"))?;
        let mut list = String::new();
        for (index, source) in self.sources().iter().enumerate() {
            let keyring = match &source.signed_by {
                Some(path) if path.is_file() => {
                    let name = path
                        .extension()
                        .map_or("gpg".into(), |extension| extension.to_string_lossy());
                    let inner = format!("{INSIDE}/keyring-{index}.{name}");
                    let target = inside.path(&inner);
                    fs::copy(path, &target).context("copying", path)?;
                    Some(inner)
                }
                _ => None,
            };
            list.push_str(&source.line(keyring.as_deref()));
            list.push('\n');
        }
        inside.note("sources.list", &list)?;
        inside.note("preferences", &pinned(&self.inputs.locked))?;
        inside.note("auth.conf", &self.host.apt_auth)?;
        let mut config = format!(
            "Dir::Etc::sourcelist \"{INSIDE}/sources.list\";\nDir::Etc::sourceparts \"-\";\n\
             Dir::Etc::preferences \"{INSIDE}/preferences\";\nDir::Etc::netrc \"{INSIDE}/auth.conf\";\n\
             Dir::Cache \"{INSIDE}/apt-cache\";\nDir::Cache::archives \"{INSIDE}/archives\";\n\
             Dir::State::lists \"{INSIDE}/lists\";\nDir::Log \"{INSIDE}/apt-log\";\n\
             Acquire::Languages \"none\";\nAPT::Sandbox::User \"root\";\nAPT::Install-Recommends \"false\";\n\
             DPkg::Options {{ \"--force-unsafe-io\"; }};\nDpkg::Use-Pty \"0\";\n"
        );
        for directory in ["apt-cache", "apt-log"] {
            let path = inside.path(&format!("{INSIDE}/{directory}"));
            fs::create_dir_all(&path).context("creating", &path)?;
        }
        if let Some(ca) = &self.host.ca {
            let text = fs::read_to_string(ca).context("reading", ca)?;
            let path = inside.note("ca.crt", &text)?;
            let _ = writeln!(config, "Acquire::https::CaInfo \"{path}\";");
        }
        for (index, (name, value)) in self.host.apt_options.iter().enumerate() {
            let mut value = value.clone();
            // Client certificates and the like are files of the machine.
            if Path::new(&value).is_absolute() && Path::new(&value).is_file() {
                let inner = format!("{INSIDE}/apt-file-{index}");
                fs::copy(&value, inside.path(&inner)).context("copying", Path::new(&value))?;
                value = inner;
            }
            let _ = writeln!(config, "{name} \"{value}\";");
        }
        inside.note("apt.conf", &config).map(drop)
    }

    fn update(&self, inside: &Inside<'_>, variables: &Variables) -> Result<()> {
        let _lock = self.lists_lock()?;
        let marker = self.store.cache(&self.lists())?.join("updated");
        let age = fs::metadata(&marker)
            .and_then(|data| data.modified())
            .ok()
            .and_then(|time| time.elapsed().ok());
        if age.is_some_and(|age| age < FRESH) {
            return Ok(());
        }
        inside.run("apt-get update", "apt-get -q update --error-on=any", variables)?;
        fs::write(&marker, "").context("writing", &marker)
    }
}

/// Preferences that choose the locked versions as long as the archive has them.
fn pinned(locked: &BTreeMap<String, String>) -> String {
    locked.iter().fold(String::new(), |mut text, (package, version)| {
        let _ = write!(
            text,
            "Package: {package}\nPin: version {version}\nPin-Priority: 1001\n\n"
        );
        text
    })
}

/// Package → version in a dpkg status file.
pub(crate) fn installed(status: &str) -> BTreeMap<String, String> {
    let mut packages = BTreeMap::new();
    for stanza in status.split("\n\n") {
        let field = |name: &str| {
            stanza
                .lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
        };
        if let (Some(package), Some(version), Some(state)) =
            (field("Package"), field("Version"), field("Status"))
            && [" installed", " unpacked"].iter().any(|end| state.ends_with(end))
        {
            packages.insert(package.to_owned(), version.to_owned());
        }
    }
    packages
}

/// Whether a Debian version belongs to an upstream series: `1:10.11.14-0+deb12u2` is a `10.11`.
pub(crate) fn belongs(version: &str, series: &str) -> bool {
    let upstream = version.split_once(':').map_or(version, |(_, rest)| rest);
    let Some(rest) = upstream.strip_prefix(series) else {
        return false;
    };
    rest.chars()
        .next()
        .is_none_or(|next| !next.is_ascii_alphanumeric())
}

/// Says when what was installed is not what was locked or what the release names.
pub(crate) fn compare(inputs: &DebianInputs, found: &BTreeMap<String, String>) -> Result<Vec<String>> {
    if let Some((package, series)) = &inputs.main {
        let version = found.get(package).map_or("nothing", String::as_str);
        if !belongs(version, series) {
            return Err(Error::Request(format!(
                "the archive has {package} {version}, but the release names {series}: change source-refs.yaml"
            )));
        }
    }
    let moved = inputs
        .locked
        .iter()
        .filter_map(|(package, wanted)| match found.get(package) {
            Some(version) if version == wanted => None,
            Some(version) => Some(format!("{package} {wanted} → {version}")),
            None => Some(format!("{package} {wanted} → not installed")),
        });
    Ok(moved.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_file_is_read() {
        let status = "Package: a\nStatus: install ok installed\nVersion: 1:2-3\n\n\
            Package: b\nStatus: deinstall ok config-files\nVersion: 1\n\n\
            Package: c\nStatus: install ok unpacked\nVersion: 4\n";
        let found = [("a", "1:2-3"), ("c", "4")].map(|(name, version)| (name.to_owned(), version.to_owned()));
        assert_eq!(installed(status), BTreeMap::from(found));
    }

    #[test]
    fn series() {
        for (version, series, fits) in [
            ("1:10.11.14-0+deb12u2", "10.11", true),
            ("10.110.1", "10.11", false),
            ("3.10.8-1.1+deb12u1", "3.10", true),
            ("8.0.1+dfsg1-1~bpo12+1", "8.0", true),
            ("1.6.18-1", "1.6", true),
            ("nothing", "1.6", false),
        ] {
            assert_eq!(belongs(version, series), fits, "{version} {series}");
        }
    }

    #[test]
    fn an_archive_that_moved_on_is_told_and_a_wrong_series_is_an_error() {
        let inputs = DebianInputs {
            suite: "s".into(),
            packages: vec![],
            alone: vec![],
            backports: false,
            main: Some(("db".into(), "1.2".into())),
            locked: BTreeMap::from([("db".into(), "1.2.1".into()), ("lib".into(), "5".into())]),
        };
        let found = |db: &str| {
            BTreeMap::from([
                ("db".to_owned(), db.to_owned()),
                ("lib".to_owned(), "5".to_owned()),
            ])
        };
        assert_eq!(compare(&inputs, &found("1.2.2")).unwrap(), ["db 1.2.1 → 1.2.2"]);
        assert!(compare(&inputs, &found("1.2.1")).unwrap().is_empty());
        assert!(
            compare(&inputs, &found("2.0"))
                .unwrap_err()
                .to_string()
                .contains("source-refs.yaml")
        );
    }
}
