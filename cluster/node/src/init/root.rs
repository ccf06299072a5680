//! The node's own root: the machine's /usr read-only, everything else its own.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::unistd::{pivot_root, sethostname};

use super::{Spec, devices};
use crate::cgroups;
use crate::error::{Error, Result};

/// Files of the machine's /etc that programs of a node need; none names users' secrets.
const ETC: [&str; 11] = [
    "passwd",
    "group",
    "nsswitch.conf",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "ssl/certs",
    "ssl/openssl.cnf",
    "alternatives",
    "protocols",
    "services",
];

pub(super) fn enter(spec: &Spec) -> Result<()> {
    sethostname(&spec.name).map_err(Error::system("set the host name"))?;
    // Read before the mounts change: where the hierarchies are outside.
    let hierarchies = cgroups::hierarchies()?;
    // Nothing propagates either way, however the machine's root is mounted.
    let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    attach(None, Path::new("/"), None, private, None)?;

    let new = skeleton(spec)?;
    fill(spec, &new)?;
    // sysfs shows the network namespace, cgroup mounts the cgroup namespace of whoever
    // mounts them.
    for (kind, place) in [("proc", "proc"), ("sysfs", "sys")] {
        attach(Some(kind), &new.join(place), Some(kind), MsFlags::empty(), None)?;
    }
    control_groups(&hierarchies, &new.join("sys/fs/cgroup"))?;
    devices::make(Path::new("/dev"), &new.join("dev"), spec.hypervisor)?;

    change_root(&new)?;
    if cgroups::only_unified(&hierarchies) {
        cgroups::settle(Path::new("/sys/fs/cgroup"))?;
    }
    forward_packets();
    Ok(())
}

/// An empty root with its directories and links.
fn skeleton(spec: &Spec) -> Result<PathBuf> {
    let new = spec.run.join("rootfs");
    make(&new)?;
    let options = Some("mode=755,size=64m");
    attach(Some("tmpfs"), &new, Some("tmpfs"), MsFlags::empty(), options)?;
    for directory in [
        "etc", "var", "run", "tmp", "proc", "sys", "dev", "root", "opt", "mnt", ".old", "usr",
    ] {
        make(&new.join(directory))?;
    }
    for link in ["bin", "sbin", "lib", "lib32", "lib64", "libx32"] {
        if Path::new("/usr").join(link).exists() {
            let at = new.join(link);
            symlink(Path::new("usr").join(link), &at).map_err(Error::file("link", at))?;
        }
    }
    Ok(new)
}

/// The machine's programs, read-only, and the node's own files.
fn fill(spec: &Spec, new: &Path) -> Result<()> {
    let usr = new.join("usr");
    bind(Path::new("/usr"), &usr)?;
    let read_only = MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_RDONLY;
    attach(None, &usr, None, read_only, None)?;
    own_files(spec)?;
    bind(&spec.data.join("etc"), &new.join("etc"))?;
    bind(&spec.data.join("var"), &new.join("var"))?;
    let tmp = new.join("tmp");
    attach(
        Some("tmpfs"),
        &tmp,
        Some("tmpfs"),
        MsFlags::empty(),
        Some("mode=1777"),
    )?;
    bind(&spec.run.join("run"), &new.join("run"))?;
    // After /var, /tmp and /run: the directories may lie below one of them.
    for directory in std::iter::once(&spec.data).chain(&spec.shared) {
        let inside = below(new, directory);
        make(&inside)?;
        bind(directory, &inside)?;
    }
    Ok(())
}

fn change_root(new: &Path) -> Result<()> {
    std::env::set_current_dir(new).map_err(Error::file("enter", new))?;
    pivot_root(".", ".old").map_err(Error::system("change the root"))?;
    std::env::set_current_dir("/").map_err(Error::file("enter", "/"))?;
    umount2("/.old", MntFlags::MNT_DETACH).map_err(Error::system("let go of the old root"))?;
    let _ = fs::remove_dir("/.old");
    // A peer group of its own: mounts that a pod makes reach the node, never the machine.
    let shared = MsFlags::MS_REC | MsFlags::MS_SHARED;
    attach(None, Path::new("/"), None, shared, None)
}

/// A new network namespace inherits the machine's values. Without these the node's pods run, but may not reach
/// each other, so a failure is only reported.
fn forward_packets() {
    for (name, value) in [
        ("ip_forward", "1"),
        ("conf/all/rp_filter", "0"),
        ("conf/default/rp_filter", "0"),
    ] {
        let file = Path::new("/proc/sys/net/ipv4").join(name);
        if let Err(e) = set(&file, value) {
            super::complain(format_args!("{e}: traffic between pods may be lost"));
        }
    }
}

fn set(file: &Path, value: &str) -> Result<()> {
    if fs::read_to_string(file).is_ok_and(|now| now.trim() != value) {
        fs::write(file, value).map_err(Error::file("set", file))
    } else {
        Ok(())
    }
}

/// The node's /etc and /var, in its data directory.
fn own_files(spec: &Spec) -> Result<()> {
    let etc = spec.data.join("etc");
    for directory in ["etc", "var/lib", "var/log", "var/tmp", "var/cache"] {
        make(&spec.data.join(directory))?;
    }
    let run = spec.data.join("var/run");
    if fs::symlink_metadata(&run).is_err() {
        symlink("/run", &run).map_err(Error::file("link", &run))?;
    }
    // Earlier versions copied the machine's keys too.
    let _ = fs::remove_dir_all(etc.join("ssl/private"));
    make(&etc.join("ssl"))?;
    for name in ETC {
        copy(&Path::new("/etc").join(name), &etc.join(name))?;
    }
    for (name, text) in [
        ("hostname", format!("{}\n", spec.name)),
        ("hosts", spec.hosts.clone()),
        ("resolv.conf", String::new()),
    ] {
        let file = etc.join(name);
        fs::File::create(&file)
            .and_then(|mut f| f.write_all(text.as_bytes()))
            .map_err(Error::file("write", &file))?;
    }
    Ok(())
}

/// Copies a file, link or directory; what is missing here is missing there.
fn copy(from: &Path, to: &Path) -> Result<()> {
    let Ok(kind) = fs::symlink_metadata(from).map(|m| m.file_type()) else {
        return Ok(());
    };
    if kind.is_dir() {
        make(to)?;
        let entries = fs::read_dir(from).map_err(Error::file("list", from))?;
        for entry in entries.flatten() {
            copy(&entry.path(), &to.join(entry.file_name()))?;
        }
    } else if kind.is_symlink() {
        let target = fs::read_link(from).map_err(Error::file("read", from))?;
        let _ = fs::remove_file(to);
        symlink(target, to).map_err(Error::file("link", to))?;
    } else if kind.is_file() && !same(from, to) {
        let _ = fs::remove_file(to);
        fs::copy(from, to).map_err(Error::file("copy", from))?;
    }
    Ok(())
}

/// Size and time tell: a node start copies nothing twice.
fn same(from: &Path, to: &Path) -> bool {
    let (Ok(a), Ok(b)) = (fs::metadata(from), fs::metadata(to)) else {
        return false;
    };
    a.len() == b.len() && a.modified().ok() <= b.modified().ok()
}

fn control_groups(hierarchies: &[cgroups::Hierarchy], at: &Path) -> Result<()> {
    if cgroups::only_unified(hierarchies) {
        return attach(Some("cgroup2"), at, Some("cgroup2"), MsFlags::empty(), None);
    }
    attach(
        Some("cgroup"),
        at,
        Some("tmpfs"),
        MsFlags::empty(),
        Some("mode=755"),
    )?;
    for hierarchy in hierarchies {
        let directory = at.join(hierarchy.directory());
        make(&directory)?;
        if hierarchy.unified() {
            attach(
                Some("cgroup2"),
                &directory,
                Some("cgroup2"),
                MsFlags::empty(),
                None,
            )?;
            continue;
        }
        let options = if hierarchy.controllers.starts_with("name=") {
            format!("none,{}", hierarchy.controllers)
        } else {
            hierarchy.controllers.clone()
        };
        attach(
            Some("cgroup"),
            &directory,
            Some("cgroup"),
            MsFlags::empty(),
            Some(&options),
        )?;
        // `cpu` beside `cpu,cpuacct`, as programs expect it.
        for one in hierarchy
            .controllers
            .split(',')
            .filter(|c| *c != hierarchy.controllers)
        {
            let link = at.join(one);
            symlink(&hierarchy.controllers, &link).map_err(Error::file("link", &link))?;
        }
    }
    Ok(())
}

fn below(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

pub(super) fn make(directory: &Path) -> Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o755)
        .create(directory)
        .map_err(Error::file("make directory", directory))
}

pub(super) fn bind(from: &Path, to: &Path) -> Result<()> {
    mount(
        Some(from),
        to,
        None::<&str>,
        MsFlags::MS_BIND | MsFlags::MS_REC,
        None::<&str>,
    )
    .map_err(|e| Error::file("bind", from)(e.into()))
}

pub(super) fn attach(
    source: Option<&str>,
    target: &Path,
    kind: Option<&str>,
    flags: MsFlags,
    data: Option<&str>,
) -> Result<()> {
    mount(source, target, kind, flags, data).map_err(|e| Error::file("mount", target)(e.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_of_the_machine_is_taken() {
        for name in ETC {
            let path = Path::new("/etc").join(name);
            assert!(!Path::new("/etc/ssl/private").starts_with(path), "{name}");
        }
    }

    #[test]
    fn settings_that_are_right_are_not_written() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("s");
        fs::write(&file, "0\n").unwrap();
        set(&file, "1").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "1");
        // What cannot be read is not there to be set.
        set(dir.path(), "1").unwrap();
        assert!(
            set(Path::new("/proc/sys/kernel/version"), "1").is_err(),
            "read-only"
        );
    }
}
