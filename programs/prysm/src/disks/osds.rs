//! Which OSD uses which disk: Rook keeps a directory for each OSD, with a link `block` to its device
//! and its number in `whoami`.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Below a disk may be a partition, a volume of LVM, an encrypted device …: no real chain is longer.
const DEEPEST: usize = 8;

#[derive(Debug)]
pub(super) struct Osds {
    /// `/var/lib/rook/rook-ceph`.
    pub base: PathBuf,
    /// `/sys`.
    pub sys: PathBuf,
}

impl Osds {
    /// Names of disks (`sda`, `nvme0n1`) with their OSDs.
    pub(super) fn read(&self) -> HashMap<String, String> {
        let mut found = HashMap::new();
        // Without the directory this is no node of Rook's, and disks have no OSDs.
        for directory in fs::read_dir(&self.base).into_iter().flatten().flatten() {
            let directory = directory.path();
            let (Ok(block), Ok(id)) = (
                fs::canonicalize(directory.join("block")),
                fs::read_to_string(directory.join("whoami")),
            ) else {
                continue;
            };
            let Some(name) = block.file_name().and_then(|name| name.to_str()) else {
                continue;
            };
            for disk in self.disks(name, DEEPEST) {
                found.insert(disk, id.trim().to_owned());
            }
        }
        found
    }

    /// The disks below a device of the kernel.
    fn disks(&self, name: &str, deep: usize) -> Vec<String> {
        let device = self.sys.join("class/block").join(name);
        if deep > 0 && device.join("partition").exists() {
            let parent = fs::canonicalize(&device).ok();
            let parent = parent.as_deref().and_then(Path::parent).and_then(Path::file_name);
            if let Some(parent) = parent.and_then(|name| name.to_str()) {
                return self.disks(parent, deep - 1);
            }
        }
        let below: Vec<String> = fs::read_dir(device.join("slaves"))
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect();
        if below.is_empty() || deep == 0 {
            return vec![name.to_owned()];
        }
        below.iter().flat_map(|one| self.disks(one, deep - 1)).collect()
    }
}

/// The OSD of `/dev/sda`, or of any namespace of the controller `/dev/nvme0`.
pub(super) fn of_device<'a>(osds: &'a HashMap<String, String>, device: &str) -> &'a str {
    let real = fs::canonicalize(device).unwrap_or_else(|_| device.into());
    let name = real
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    if let Some(id) = osds.get(name) {
        return id;
    }
    let is_namespace = |disk: &str| {
        let rest = disk.strip_prefix(name).and_then(|rest| rest.strip_prefix('n'));
        rest.is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let namespace = name
        .starts_with("nvme")
        .then(|| osds.keys().filter(|disk| is_namespace(disk)).min());
    namespace.flatten().map_or("", |disk| &osds[disk])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn an_osd_is_found_through_partitions_and_mapped_devices() {
        let root = tempfile::tempdir().expect("a directory");
        let (base, sys, dev) = (
            root.path().join("rook"),
            root.path().join("sys"),
            root.path().join("dev"),
        );
        let make = |path: &Path| fs::create_dir_all(path).expect("made");
        make(&dev);
        let osd = |id: &str, device: &str| {
            let directory = base.join(format!("{id}_uuid"));
            make(&directory);
            fs::write(dev.join(device), "").expect("a device");
            symlink(dev.join(device), directory.join("block")).expect("a link");
            fs::write(directory.join("whoami"), format!("{id}\n")).expect("a number");
        };
        osd("0", "sda");
        osd("1", "dm-3");
        osd("2", "nvme0n1p2");
        make(&sys.join("class/block/dm-3/slaves/dm-1"));
        make(&sys.join("class/block/dm-1/slaves/sdb"));
        make(&sys.join("devices/nvme0n1/nvme0n1p2"));
        fs::write(sys.join("devices/nvme0n1/nvme0n1p2/partition"), "2").expect("a partition");
        symlink(
            sys.join("devices/nvme0n1/nvme0n1p2"),
            sys.join("class/block/nvme0n1p2"),
        )
        .expect("a link");
        make(&base.join("mon-a"));
        let found = Osds { base, sys }.read();
        assert_eq!(found.len(), 3, "{found:?}");
        for (device, id) in [
            ("/dev/sda", "0"),
            ("/dev/sdb", "1"),
            ("/dev/nvme0", "2"),
            ("/dev/nvme0n1", "2"),
            ("/dev/nvme", ""),
            ("/dev/sdc", ""),
        ] {
            assert_eq!(of_device(&found, device), id, "{device}");
        }
    }

    #[test]
    fn a_node_without_rook_has_no_osds() {
        let osds = Osds {
            base: "/nonexistent".into(),
            sys: "/sys".into(),
        };
        assert!(osds.read().is_empty());
    }
}
