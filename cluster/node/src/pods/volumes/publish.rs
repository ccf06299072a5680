//! Files that change together: readers of a volume see all old or all new ones.
//!
//! The files lie in a directory with a name of its own; the link `..data` points to it
//! and the visible names point through that link. Moving the link is the change.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use super::contents::Files;

const LINK: &str = "..data";

/// Puts `files` into `directory`; false when it holds them already. One that was broken off is
/// completed, and what it left is swept.
pub(super) fn publish(directory: &Path, files: &Files, group: Option<u32>) -> io::Result<bool> {
    // Containers of a pod start beside each other, and a refresh beside them.
    let turn = fs::File::open(directory)?;
    turn.lock()?;
    let changes = !unchanged(directory, files);
    if changes {
        fill(directory, files, group)?;
    }
    visible(directory, files)?;
    sweep(directory)?;
    Ok(changes)
}

fn fill(directory: &Path, files: &Files, group: Option<u32>) -> io::Result<()> {
    let fresh = fresh_name();
    let target = directory.join(&fresh);
    fs::create_dir(&target)?;
    fs::set_permissions(&target, fs::Permissions::from_mode(0o755))?;
    for (path, file) in files {
        let at = target.join(path);
        if let Some(parent) = at.parent() {
            fs::create_dir_all(parent)?;
        }
        // A group that owns the volume can read what its owner can.
        let mode = match group {
            Some(_) => file.mode | (file.mode & 0o400) >> 3,
            None => file.mode,
        };
        let mut out = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(mode)
            .open(&at)?;
        out.write_all(&file.data)?;
        out.set_permissions(fs::Permissions::from_mode(mode))?;
        chown(&at, None, group)?;
    }
    let next = directory.join("..data_tmp");
    let _ = fs::remove_file(&next);
    symlink(&fresh, &next)?;
    fs::rename(&next, directory.join(LINK))
}

/// Removes the directories that the link does not point to.
fn sweep(directory: &Path) -> io::Result<()> {
    let current = fs::read_link(directory.join(LINK))?;
    for entry in fs::read_dir(directory)?.flatten() {
        let name = entry.file_name();
        let own = name.to_string_lossy().starts_with("..") && name != LINK;
        if own && name != current.as_os_str() && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    Ok(())
}

/// The first part of every path, as a link through `..data`; other links go. A directory was made
/// for a `subPath` that is not there.
fn visible(directory: &Path, files: &Files) -> io::Result<()> {
    let mut tops: Vec<&str> = files.keys().filter_map(|p| p.split('/').next()).collect();
    tops.dedup();
    for top in &tops {
        let link = directory.join(top);
        if fs::symlink_metadata(&link).is_err() {
            symlink(PathBuf::from(LINK).join(top), &link)?;
        }
    }
    for entry in fs::read_dir(directory)?.flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
        if link && !name.starts_with("..") && !tops.contains(&name.as_ref()) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

fn unchanged(directory: &Path, files: &Files) -> bool {
    let current = directory.join(LINK);
    let same = files
        .iter()
        .all(|(path, file)| fs::read(current.join(path)).is_ok_and(|now| now == file.data));
    same && count(&current).is_some_and(|n| n == files.len())
}

fn count(directory: &Path) -> Option<usize> {
    let mut all = 0;
    for entry in fs::read_dir(directory).ok()?.flatten() {
        all += match entry.file_type().ok()?.is_dir() {
            true => count(&entry.path())?,
            false => 1,
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
    use super::super::contents::File;
    use super::*;

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
}
