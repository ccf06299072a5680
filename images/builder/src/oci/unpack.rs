//! A layer as a directory again: what the tarball says, with whiteouts as overlayfs wants them.

use std::fs::{self, File};
use std::io::{BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

use nix::sys::stat::{Mode, SFlag, makedev, mknod};

use crate::error::{Context, Error, Result};

/// Opens a compressed layer.
pub(crate) fn open(blob: &Path) -> Result<tar::Archive<impl Read>> {
    let file = File::open(blob).context("reading", blob)?;
    let decoder = zstd::Decoder::new(BufReader::with_capacity(1 << 20, file)).context("reading", blob)?;
    Ok(tar::Archive::new(decoder))
}

/// Unpacks a layer below `root`, which is made.
pub(crate) fn unpack(blob: &Path, root: &Path) -> Result<()> {
    extract(open(blob)?, root, blob)
}

/// Unpacks an archive below `root`. `blob` is what errors call it.
pub(crate) fn extract(mut archive: tar::Archive<impl Read>, root: &Path, blob: &Path) -> Result<()> {
    fs::create_dir_all(root).context("creating", root)?;
    let real = fs::canonicalize(root).context("reading", root)?;
    archive.set_preserve_permissions(true);
    archive.set_preserve_ownerships(true);
    archive.set_unpack_xattrs(true);
    archive.set_overwrite(false);
    for entry in archive.entries().context("reading", blob)? {
        let mut entry = entry.context("reading", blob)?;
        let inside = entry.path().context("reading", blob)?.into_owned();
        if inside
            .components()
            .any(|part| !matches!(part, Component::Normal(_) | Component::CurDir))
        {
            return Err(leaves(blob, &inside));
        }
        let name = inside.file_name().unwrap_or_default().as_bytes();
        let path = root.join(&inside);
        if name == b".wh..wh..opq" {
            let directory = path.parent().unwrap_or(root);
            // An earlier entry may have made a link of it that leads out.
            if !is_within(&real, directory)? {
                return Err(leaves(blob, &inside));
            }
            xattr::set(directory, "trusted.overlay.opaque", b"y").context("marking", directory)?;
        } else if let Some(hidden) = name.strip_prefix(b".wh.") {
            if matches!(hidden, b"" | b"." | b"..") || !is_within(&real, path.parent().unwrap_or(root))? {
                return Err(leaves(blob, &inside));
            }
            let path = path.with_file_name(std::ffi::OsStr::from_bytes(hidden));
            mknod(&path, SFlag::S_IFCHR, Mode::empty(), makedev(0, 0))
                .context("making the whiteout", &path)?;
        } else {
            let done = entry.unpack_in(root).context("unpacking", &path)?;
            if !done {
                return Err(leaves(blob, &inside));
            }
        }
    }
    Ok(())
}

fn leaves(blob: &Path, inside: &Path) -> Error {
    Error::Damaged(format!(
        "{}: an entry leaves the layer: {}",
        blob.display(),
        inside.display()
    ))
}

/// Whether a directory is below `root`, links followed.
fn is_within(root: &Path, directory: &Path) -> Result<bool> {
    let real = fs::canonicalize(directory).context("reading", directory)?;
    Ok(real.starts_with(root))
}

/// Removes a tree; a tree that is not there is fine.
pub(crate) fn remove_tree(path: &Path) -> Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::io("removing", path, error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use super::*;
    use crate::oci::tarball;

    fn tree(root: &Path) {
        fs::create_dir_all(root.join("a/gone")).unwrap();
        fs::write(root.join("a/file"), "text").unwrap();
        fs::set_permissions(root.join("a/file"), fs::Permissions::from_mode(0o640)).unwrap();
        fs::hard_link(root.join("a/file"), root.join("a/link")).unwrap();
        symlink("file", root.join("a/symlink")).unwrap();
        fs::create_dir_all(root.join("x".repeat(120)).join("y".repeat(120))).unwrap();
        fs::write(root.join("x".repeat(120)).join("y".repeat(120)).join("z"), "").unwrap();
    }

    #[test]
    fn a_tree_survives_and_gives_the_same_digest_twice() {
        let work = tempfile::tempdir().unwrap();
        let (one, two, blob) = (
            work.path().join("one"),
            work.path().join("two"),
            work.path().join("blob"),
        );
        tree(&one);
        let first = tarball::write(&one, 1_000_000, &blob).unwrap();
        unpack(&blob, &two).unwrap();
        assert_eq!(fs::read_link(two.join("a/symlink")).unwrap(), Path::new("file"));
        let (file, link) = (
            fs::metadata(two.join("a/file")).unwrap(),
            fs::metadata(two.join("a/link")).unwrap(),
        );
        assert_eq!(
            (file.ino(), file.mode() & 0o7777, file.mtime()),
            (link.ino(), 0o640, 1_000_000)
        );
        let second = tarball::write(&two, 1_000_000, &work.path().join("again")).unwrap();
        assert_eq!(first, second);
    }

    #[test]
    fn whiteouts_and_opaque_directories_survive() {
        if !nix::unistd::geteuid().is_root() {
            use std::io::Write;
            let _ = writeln!(std::io::stderr(), "skipped: device nodes need root");
            return;
        }
        let work = tempfile::tempdir().unwrap();
        let (one, two, blob) = (
            work.path().join("one"),
            work.path().join("two"),
            work.path().join("blob"),
        );
        tree(&one);
        mknod(
            &one.join("a/hidden"),
            SFlag::S_IFCHR,
            Mode::empty(),
            makedev(0, 0),
        )
        .unwrap();
        xattr::set(one.join("a/gone"), "trusted.overlay.opaque", b"y").unwrap();
        let first = tarball::write(&one, 0, &blob).unwrap();
        let names: Vec<_> = open(&blob)
            .unwrap()
            .entries()
            .unwrap()
            .map(|e| e.unwrap().path().unwrap().into_owned())
            .collect();
        assert!(
            names.iter().any(|name| name.ends_with("a/.wh.hidden")),
            "{names:?}"
        );
        assert!(
            names.iter().any(|name| name.ends_with("a/gone/.wh..wh..opq")),
            "{names:?}"
        );
        unpack(&blob, &two).unwrap();
        assert_eq!(
            tarball::write(&two, 0, &work.path().join("again")).unwrap(),
            first
        );
    }

    #[test]
    fn whiteouts_do_not_follow_links_out_of_the_layer() {
        let work = tempfile::tempdir().unwrap();
        let (root, outside) = (work.path().join("root"), work.path().join("outside"));
        fs::create_dir(&outside).unwrap();
        let header = |kind: tar::EntryType| {
            let mut header = tar::Header::new_ustar();
            header.set_entry_type(kind);
            header.set_mode(0o644);
            header.set_uid(nix::unistd::geteuid().as_raw().into());
            header.set_gid(nix::unistd::getegid().as_raw().into());
            header.set_mtime(0);
            header.set_size(0);
            header
        };
        for name in ["link/.wh.hidden", "link/.wh..wh..opq", ".wh..", ".wh."] {
            let mut archive = tar::Builder::new(Vec::new());
            let mut link = header(tar::EntryType::Symlink);
            archive.append_link(&mut link, "link", "../outside").unwrap();
            let mut file = header(tar::EntryType::Regular);
            archive.append_data(&mut file, name, &b""[..]).unwrap();
            let bytes = archive.into_inner().unwrap();
            let result = extract(tar::Archive::new(&bytes[..]), &root, Path::new("layer"));
            let error = result.expect_err(name).to_string();
            assert!(error.contains("an entry leaves the layer"), "{name}: {error}");
            assert_eq!(fs::read_dir(&outside).unwrap().count(), 0, "{name}");
            assert_eq!(xattr::list(&outside).unwrap().count(), 0, "{name}");
            fs::remove_dir_all(&root).unwrap();
        }
    }

    #[test]
    fn a_full_disk_is_said() {
        let work = tempfile::tempdir().unwrap();
        tree(work.path());
        let error = tarball::write(work.path(), 0, Path::new("/dev/full")).unwrap_err();
        assert!(matches!(error, Error::DiskFull { .. }), "{error}");
    }
}
