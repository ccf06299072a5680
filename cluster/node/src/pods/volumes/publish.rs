//! Files that change together: readers of a volume see all old or all new ones.
//!
//! The files lie in a directory with a name of its own; the link `..data` points to it
//! and the visible names point through that link. Moving the link is the change.

use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::path::Path;

use rustix::fs::FileType;

use super::contents::Files;
use crate::beneath::Beneath;

const LINK: &str = "..data";
const NEXT: &str = "..data_tmp";

/// Puts `files` into `volume`, whose path is `at`; false when it holds them already. One that was
/// broken off is completed, and what it left is swept.
pub(super) fn publish(at: &Path, volume: &Beneath, files: &Files, group: Option<u32>) -> io::Result<bool> {
    // Containers of a pod start beside each other, and a refresh beside them.
    let turn = volume.again()?;
    turn.lock()?;
    let changes = !unchanged(volume, files);
    let filled = if changes {
        fill(volume, files, group)
    } else {
        Ok(())
    };
    let done = filled.and_then(|()| visible(volume, files));
    sweep(at, volume)?;
    done.map(|()| changes)
}

fn fill(volume: &Beneath, files: &Files, group: Option<u32>) -> io::Result<()> {
    let fresh = fresh_name();
    let target = volume.make(Path::new(&fresh), 0o755)?;
    target.set(None, 0o755)?;
    for (path, file) in files {
        let path = Path::new(path);
        if let Some(parent) = path.parent() {
            target.make(parent, 0o755)?;
        }
        // A group that owns the volume can read what its owner can.
        let mode = match group {
            Some(_) => file.mode | (file.mode & 0o400) >> 3,
            None => file.mode,
        };
        let mut out = target.create(path, mode)?;
        out.write_all(&file.data)?;
        std::os::unix::fs::fchown(&out, None, group)?;
    }
    let _ = volume.unlink(OsStr::new(NEXT));
    volume.link(Path::new(&fresh), OsStr::new(NEXT))?;
    volume.rename(OsStr::new(NEXT), OsStr::new(LINK))
}

/// Removes the directories that the link does not point to.
fn sweep(at: &Path, volume: &Beneath) -> io::Result<()> {
    let current = volume.link_target(OsStr::new(LINK)).unwrap_or_default();
    for (name, kind) in volume.list(Path::new(""))? {
        let own = name.to_string_lossy().starts_with("..") && name != LINK;
        if own && name != current.as_os_str() && kind == FileType::Directory {
            // It follows no links either.
            let _ = std::fs::remove_dir_all(at.join(name));
        }
    }
    Ok(())
}

/// The first part of every path, as a link through `..data`; other links go. A directory was made
/// for a `subPath` that is not there.
fn visible(volume: &Beneath, files: &Files) -> io::Result<()> {
    let mut tops: Vec<&str> = files.keys().filter_map(|p| p.split('/').next()).collect();
    tops.dedup();
    for top in &tops {
        if !volume.has(OsStr::new(top)) {
            volume.link(&Path::new(LINK).join(top), OsStr::new(top))?;
        }
    }
    for (name, kind) in volume.list(Path::new(""))? {
        let text = name.to_string_lossy();
        let link = kind == FileType::Symlink;
        if link && !text.starts_with("..") && !tops.contains(&text.as_ref()) {
            volume.unlink(&name)?;
        }
    }
    Ok(())
}

fn unchanged(volume: &Beneath, files: &Files) -> bool {
    let same = files
        .iter()
        .all(|(path, file)| holds(volume, path, &file.data).unwrap_or(false));
    same && count(volume, Path::new(LINK)).is_some_and(|n| n == files.len())
}

fn holds(volume: &Beneath, path: &str, data: &[u8]) -> io::Result<bool> {
    let file = volume.read(Path::new(&format!("{LINK}/{path}")), true)?;
    let mut now = Vec::new();
    file.take(data.len() as u64 + 1).read_to_end(&mut now)?;
    Ok(now == data)
}

fn count(volume: &Beneath, directory: &Path) -> Option<usize> {
    let mut all = 0;
    for (name, kind) in volume.list(directory).ok()? {
        all += match kind {
            FileType::Directory => count(volume, &directory.join(name))?,
            _ => 1,
        };
    }
    Some(all)
}

fn fresh_name() -> String {
    let now = jiff::Timestamp::now();
    format!("..{}", now.strftime("%Y_%m_%d_%H_%M_%S.%N"))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::super::contents::File;
    use super::*;

    fn publish(at: &Path, files: &Files, group: Option<u32>) -> io::Result<bool> {
        super::publish(at, &Beneath::of(at).unwrap(), files, group)
    }

    fn files(list: &[(&str, &str)]) -> Files {
        list.iter()
            .map(|(p, d)| {
                let file = File {
                    data: d.as_bytes().into(),
                    mode: 0o640,
                };
                ((*p).to_owned(), file)
            })
            .collect()
    }

    #[test]
    fn changes_are_seen_at_once_and_leave_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path();
        assert!(publish(at, &files(&[("a", "1"), ("d/b", "2")]), None).unwrap());
        assert_eq!(fs::read_to_string(at.join("d/b")).unwrap(), "2");
        assert!(!publish(at, &files(&[("a", "1"), ("d/b", "2")]), None).unwrap());
        assert!(publish(at, &files(&[("a", "9")]), None).unwrap());
        assert_eq!(fs::read_to_string(at.join("a")).unwrap(), "9");
        assert!(!at.join("d").exists());
        let left: Vec<_> = fs::read_dir(at)
            .unwrap()
            .flatten()
            .map(|e| e.file_name())
            .collect();
        assert_eq!(left.len(), 3, "{left:?}");
        let mode = fs::metadata(at.join("a")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
    }

    #[test]
    fn a_directory_for_a_sub_path_stays() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path();
        publish(at, &files(&[("a", "1")]), None).unwrap();
        fs::create_dir(at.join("sub")).unwrap();
        assert!(publish(at, &files(&[("b", "2")]), None).unwrap());
        assert!(at.join("sub").is_dir() && at.join("b").exists() && !at.join("a").exists());
    }

    #[test]
    fn several_at_once_leave_one_whole() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path();
        std::thread::scope(|scope| {
            for n in 0..8 {
                let wanted = files(&[("a", &n.to_string())]);
                scope.spawn(move || {
                    for _ in 0..25 {
                        publish(at, &wanted, None).unwrap();
                    }
                });
            }
        });
        let number: u8 = fs::read_to_string(at.join("a")).unwrap().parse().unwrap();
        assert!(number < 8);
        assert_eq!(fs::read_dir(at).unwrap().count(), 3);
    }

    #[test]
    fn one_that_was_broken_off_is_completed() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path();
        let wanted = files(&[("a", "1")]);
        assert!(publish(at, &wanted, None).unwrap());
        // Killed after the link was moved, and another time before.
        fs::remove_file(at.join("a")).unwrap();
        fs::create_dir_all(at.join("..2026_01_01_00_00_00.5/d")).unwrap();
        assert!(!publish(at, &wanted, None).unwrap());
        assert_eq!(fs::read_to_string(at.join("a")).unwrap(), "1");
        assert_eq!(fs::read_dir(at).unwrap().count(), 3);
    }

    #[test]
    fn an_empty_volume_is_published_once() {
        let dir = tempfile::tempdir().unwrap();
        assert!(publish(dir.path(), &Files::new(), None).unwrap());
        assert!(!publish(dir.path(), &Files::new(), None).unwrap());
    }

    #[test]
    fn no_key_writes_outside_the_volume() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join("volume");
        fs::create_dir(&at).unwrap();
        let absolute = dir.path().join("absolute").to_string_lossy().into_owned();
        for key in [
            "../../escaped",
            "../escaped",
            "a/../../../escaped",
            &absolute,
            "..",
            "",
        ] {
            publish(&at, &files(&[(key, "x")]), None).unwrap_err();
        }
        let outside: Vec<_> = fs::read_dir(dir.path()).unwrap().flatten().collect();
        assert_eq!(outside.len(), 1, "{outside:?}");
        assert_eq!(
            fs::read_dir(&at).unwrap().count(),
            0,
            "nothing is left of the tries"
        );
        // A planted link is not followed.
        std::os::unix::fs::symlink(dir.path(), at.join("out")).unwrap();
        assert!(publish(&at, &files(&[("out/x", "y")]), None).unwrap());
        assert!(!dir.path().join("x").exists());
    }
}
