//! A copy of a directory tree whose files are hard links: layers are never written in
//! place, so nodes can share them.

use std::fs::{self, File, FileTimes};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;

/// Links everything below `from` into the existing directory `to`.
pub(super) fn tree(from: &Path, to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            fs::create_dir(&target)?;
            tree(&source, &target)?;
        } else {
            fs::hard_link(&source, &target)?;
        }
    }
    directory(from, to)
}

/// Owner, mode, time, and the marks by which overlayfs hides what lies below.
fn directory(from: &Path, to: &Path) -> io::Result<()> {
    let meta = fs::metadata(from)?;
    for name in xattr::list(from)? {
        if let Some(value) = xattr::get(from, &name)? {
            xattr::set(to, &name, &value)?;
        }
    }
    chown(to, Some(meta.uid()), Some(meta.gid()))?;
    fs::set_permissions(to, fs::Permissions::from_mode(meta.mode()))?;
    let times = FileTimes::new()
        .set_accessed(meta.accessed()?)
        .set_modified(meta.modified()?);
    File::open(to)?.set_times(times)
}

/// Links one file; false when the two places are on different file systems.
pub(super) fn file(from: &Path, to: &Path) -> io::Result<bool> {
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent)?;
    }
    match fs::hard_link(from, to) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::CrossesDevices => Ok(false),
        Err(e) => Err(e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_shared_and_directories_are_not() {
        let base = tempfile::tempdir().unwrap();
        let (a, b) = (base.path().join("a"), base.path().join("b"));
        fs::create_dir_all(a.join("d")).unwrap();
        fs::write(a.join("d/f"), "x").unwrap();
        std::os::unix::fs::symlink("nowhere", a.join("l")).unwrap();
        fs::set_permissions(a.join("d"), fs::Permissions::from_mode(0o1770)).unwrap();
        fs::create_dir(&b).unwrap();
        tree(&a, &b).unwrap();
        let ino = |p: &Path| fs::symlink_metadata(p).unwrap().ino();
        assert_eq!(ino(&a.join("d/f")), ino(&b.join("d/f")));
        assert_eq!(fs::read_link(b.join("l")).unwrap(), Path::new("nowhere"));
        assert_ne!(ino(&a.join("d")), ino(&b.join("d")));
        assert_eq!(fs::metadata(b.join("d")).unwrap().mode() & 0o7777, 0o1770);
    }
}
