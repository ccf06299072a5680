//! The node's own /dev: what programs expect everywhere, and none of the machine's disks, terminals
//! and memory.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;

use nix::mount::MsFlags;
use nix::sys::stat::{Mode, SFlag, mknod};

use super::root::{attach, bind, make as directory};
use crate::error::{Error, Result};

/// What every node has. A tunnel needs rights over the network it is put into: alone it does nothing.
const COMMON: [&str; 7] = ["null", "zero", "full", "random", "urandom", "tty", "net/tun"];
/// What virtual machines and their disks need.
const FOR_MACHINES: [&str; 4] = ["kvm", "vhost-net", "vhost-vsock", "loop-control"];
const LOOP: &str = "loop";
const LINKS: [(&str, &str); 5] = [
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("ptmx", "pts/ptmx"),
];

/// Names of the devices that a node gets, of those that the machine has.
fn wanted<'a>(machine: impl Iterator<Item = &'a str>, hypervisor: bool) -> Vec<&'a str> {
    let is_loop = |name: &str| {
        let number = name.strip_prefix(LOOP).unwrap_or_default();
        !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())
    };
    machine
        .filter(|name| {
            COMMON.contains(name) || (hypervisor && (FOR_MACHINES.contains(name) || is_loop(name)))
        })
        .collect()
}

pub(super) fn make(machine: &Path, at: &Path, hypervisor: bool) -> Result<()> {
    let tmpfs = |at: &Path, options: &str| {
        attach(
            Some("tmpfs"),
            at,
            Some("tmpfs"),
            MsFlags::MS_NOSUID,
            Some(options),
        )
    };
    tmpfs(at, "mode=755,size=1m")?;
    for name in ["pts", "shm", "net"] {
        directory(&at.join(name))?;
    }
    let entries = fs::read_dir(machine).map_err(Error::file("list", machine))?;
    let mut names: Vec<String> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.push("net/tun".into());
    for name in wanted(names.iter().map(String::as_str), hypervisor) {
        device(&machine.join(name), &at.join(name))?;
    }
    // Terminals of its own: a number means nothing outside.
    attach(
        Some("devpts"),
        &at.join("pts"),
        Some("devpts"),
        MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC,
        Some("newinstance,ptmxmode=0666,mode=620,gid=5"),
    )?;
    tmpfs(&at.join("shm"), "mode=1777")?;
    for (name, target) in LINKS {
        let link = at.join(name);
        symlink(target, &link).map_err(Error::file("link", &link))?;
    }
    Ok(())
}

/// The same device under another name; one that the machine does not have is left out.
fn device(from: &Path, to: &Path) -> Result<()> {
    let Ok(meta) = fs::metadata(from) else {
        return Ok(());
    };
    let kind = match meta.file_type() {
        kind if kind.is_char_device() => SFlag::S_IFCHR,
        kind if kind.is_block_device() => SFlag::S_IFBLK,
        _ => return Ok(()),
    };
    if mknod(to, kind, Mode::empty(), meta.rdev()).is_err() {
        // A machine that is a container itself may not make devices, but use those that it has.
        fs::File::create(to).map_err(Error::file("make", to))?;
        return bind(from, to);
    }
    chown(to, Some(meta.uid()), Some(meta.gid()))
        .and_then(|()| fs::set_permissions(to, fs::Permissions::from_mode(meta.mode() & 0o777)))
        .map_err(Error::file("open to its users", to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_disk_and_no_memory_of_the_machine() {
        let machine = [
            "null",
            "vda",
            "sda1",
            "nvme0n1",
            "mem",
            "kmsg",
            "kvm",
            "loop0",
            "loop12",
            "loop-control",
            "loopy",
            "net/tun",
            "tty",
            "tty1",
            "ttyS0",
            "vhost-net",
            "mapper",
            "dm-0",
        ];
        let of = |hypervisor| wanted(machine.into_iter(), hypervisor);
        assert_eq!(of(false), ["null", "net/tun", "tty"]);
        let more = [
            "null",
            "kvm",
            "loop0",
            "loop12",
            "loop-control",
            "net/tun",
            "tty",
            "vhost-net",
        ];
        assert_eq!(of(true), more);
    }
}
