//! Users, files, directories and what must not stay.

use std::fs::{self, Metadata, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

use crate::build::plan::{DirectoryInput, FileInput, Source};
use crate::error::{Context, Error, Result};
use crate::sources::recipe::User;

/// Visits everything below a directory, without following links. A missing directory is empty.
pub(crate) fn walk(directory: &Path, visit: &mut dyn FnMut(&Path, &Metadata) -> Result<()>) -> Result<()> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        other => other.context("reading", directory)?,
    };
    for entry in entries {
        let path = entry.context("reading", directory)?.path();
        let metadata = fs::symlink_metadata(&path).context("reading", &path)?;
        if metadata.is_dir() {
            walk(&path, visit)?;
        }
        visit(&path, &metadata)?;
    }
    Ok(())
}

/// Adds users with fixed ids; `day` is the date in the shadow file, in days since 1970.
pub(crate) fn add_users(root: &Path, users: &[User], day: i64) -> Result<()> {
    let etc = root.join("etc");
    fs::create_dir_all(&etc).context("creating", &etc)?;
    for user in users {
        let (name, id, home) = (&user.name, user.id, &user.home);
        for (file, line) in [
            (
                "passwd",
                format!("{name}:x:{id}:{id}::{home}:/usr/sbin/nologin\n"),
            ),
            ("group", format!("{name}:x:{id}:\n")),
            ("shadow", format!("{name}:!:{day}::::::\n")),
            ("gshadow", format!("{name}:!::\n")),
        ] {
            let path = etc.join(file);
            let known = fs::read_to_string(&path).unwrap_or_default();
            let taken = known.lines().any(|line| {
                let mut fields = line.split(':');
                let same_name = fields.next() == Some(name);
                let same_id = ["passwd", "group"].contains(&file) && fields.nth(1) == Some(&id.to_string());
                same_name || same_id
            });
            if taken {
                return Err(Error::Request(format!(
                    "user {name} ({id}) is already in /etc/{file}"
                )));
            }
            let mut file = OpenOptions::new()
                .create(true)
                .append(true)
                .open(&path)
                .context("opening", &path)?;
            file.write_all(line.as_bytes()).context("writing", &path)?;
        }
    }
    Ok(())
}

pub(crate) fn add_files(root: &Path, files: &[FileInput]) -> Result<()> {
    for file in files {
        let path = root.join(file.path.trim_start_matches('/'));
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).context("creating", parent)?;
        }
        match &file.source {
            Source::Bytes(bytes) => fs::write(&path, bytes).context("writing", &path)?,
            Source::Path(source) => drop(fs::copy(source, &path).context("copying", source)?),
        }
        settle(&path, file.mode, file.owner)?;
    }
    Ok(())
}

pub(crate) fn add_directories(root: &Path, directories: &[DirectoryInput]) -> Result<()> {
    for directory in directories {
        let path = root.join(directory.path.trim_start_matches('/'));
        fs::create_dir_all(&path).context("creating", &path)?;
        settle(&path, directory.mode, directory.owner)?;
    }
    Ok(())
}

fn settle(path: &Path, mode: u32, (uid, gid): (u32, u32)) -> Result<()> {
    chown(path, Some(uid), Some(gid)).context("giving away", path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).context("changing", path)
}

/// Removes paths in which `*` stands for any part of one name.
pub(crate) fn remove(root: &Path, patterns: &[String]) -> Result<()> {
    for pattern in patterns {
        for path in matching(root, pattern) {
            let metadata = fs::symlink_metadata(&path).context("reading", &path)?;
            if metadata.is_dir() {
                crate::oci::unpack::remove_tree(&path)?;
            } else {
                fs::remove_file(&path).context("removing", &path)?;
            }
        }
    }
    Ok(())
}

fn matching(root: &Path, pattern: &str) -> Vec<PathBuf> {
    let mut found = vec![root.to_owned()];
    for part in pattern.split('/').filter(|part| !part.is_empty()) {
        found = found
            .iter()
            .flat_map(|directory| fs::read_dir(directory).into_iter().flatten().flatten())
            .filter(|entry| entry.file_name().to_str().is_some_and(|name| fits(name, part)))
            .map(|entry| entry.path())
            .collect();
    }
    found
}

fn fits(name: &str, pattern: &str) -> bool {
    match pattern.split_once('*') {
        None => name == pattern,
        Some((head, tail)) => name.strip_prefix(head).is_some_and(|rest| {
            (0..=rest.len())
                .filter(|at| rest.is_char_boundary(*at))
                .any(|at| fits(&rest[at..], tail))
        }),
    }
}

/// Removed from every layer that packages were installed into.
const RUBBISH: &[&str] = &[
    "/etc/apt/apt.conf.d/99mmdebstrap",
    "/etc/dpkg/dpkg.cfg.d/99mmdebstrap",
    "/etc/hostname",
    "/etc/machine-id",
    "/etc/ssh/ssh_host_*",
    "/run/*",
    "/tmp/*",
    "/usr/share/info/*",
    "/usr/share/lintian/*",
    "/usr/share/locale/*",
    "/usr/share/man/*",
    "/var/cache/apt/*",
    "/var/cache/debconf/*-old",
    "/var/cache/ldconfig/aux-cache",
    "/var/lib/apt/lists/*",
    "/var/lib/dbus/machine-id",
    "/var/lib/dpkg/*-old",
    "/var/lib/systemd/random-seed",
];

/// Cleans a layer after packages were installed. `upper` is the layer alone: what lies below is clean.
pub(crate) fn clean(upper: &Path) -> Result<()> {
    remove(
        upper,
        &RUBBISH.iter().map(|path| (*path).to_owned()).collect::<Vec<_>>(),
    )?;
    // Packages expect their log directories, not what the installation wrote into them.
    remove_files(&upper.join("var/log"), &|_| true)?;
    // Licences stay.
    remove_files(&upper.join("usr/share/doc"), &|name| name != "copyright")?;
    for device in ["dev", "proc", "sys"] {
        remove(upper, &[format!("/{device}/*")])?;
    }
    Ok(())
}

fn remove_files(directory: &Path, unwanted: &dyn Fn(&str) -> bool) -> Result<()> {
    walk(directory, &mut |path, metadata| {
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        if metadata.is_file() && unwanted(name) {
            fs::remove_file(path).context("removing", path)?;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (name, pattern, fit) in [
            ("a", "a", true),
            ("ab", "a", false),
            ("ab", "a*", true),
            ("x-old", "*-old", true),
            ("x-older", "*-old", false),
            ("", "*", true),
            ("aXbYc", "a*b*c", true),
            ("é", "*", true),
        ] {
            assert_eq!(fits(name, pattern), fit, "{name} {pattern}");
        }
    }

    #[test]
    fn what_the_machine_or_an_installation_leaves_is_removed_and_licences_stay() {
        let root = tempfile::tempdir().unwrap();
        for path in [
            "etc/machine-id",
            "etc/hostname",
            "etc/ssh/ssh_host_rsa_key",
            "var/lib/apt/lists/x_Packages",
            "var/log/mysql/error.log",
            "usr/share/doc/a/copyright",
            "usr/share/doc/a/changelog.gz",
            "var/lib/dpkg/status-old",
            "run/lock/x",
            "dev/null",
        ] {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x").unwrap();
        }
        clean(root.path()).unwrap();
        let mut left = Vec::new();
        walk(root.path(), &mut |path, metadata| {
            if metadata.is_file() {
                left.push(path.strip_prefix(root.path()).unwrap().display().to_string());
            }
            Ok(())
        })
        .unwrap();
        assert_eq!(left, ["usr/share/doc/a/copyright"]);
        assert!(root.path().join("var/log/mysql").is_dir());
    }

    #[test]
    fn users_have_fixed_ids_and_a_taken_one_is_an_error() {
        let root = tempfile::tempdir().unwrap();
        let user = |name: &str, id| User {
            name: name.into(),
            id,
            home: "/h".into(),
        };
        add_users(root.path(), &[user("openstack", 42424)], 20362).unwrap();
        let read = |file: &str| fs::read_to_string(root.path().join("etc").join(file)).unwrap();
        assert_eq!(read("passwd"), "openstack:x:42424:42424::/h:/usr/sbin/nologin\n");
        assert_eq!(read("shadow"), "openstack:!:20362::::::\n");
        for taken in [user("openstack", 5), user("other", 42424)] {
            let error = add_users(root.path(), &[taken], 1).unwrap_err().to_string();
            assert!(error.contains("already in /etc/passwd"), "{error}");
        }
    }
}
