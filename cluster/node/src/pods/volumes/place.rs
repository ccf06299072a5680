//! Puts volumes in place. Everything here runs inside the node's mount namespace.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::mount::{MntFlags, MsFlags, mount, umount2};

use super::contents::Content;
use super::publish::publish;
use crate::beneath::Beneath;
use crate::error::{Error, Result};
use crate::fabric::is_mount_point;

/// A volume and where its content goes.
#[derive(Clone, Debug)]
pub struct Job {
    pub name: String,
    /// Directory of the node's pods, and the volume's own below it.
    pub pods: PathBuf,
    pub directory: PathBuf,
    pub content: Content,
    pub group: Option<u32>,
}

/// Path of the volume on the node.
pub fn put(job: &Job) -> Result<PathBuf> {
    let at = &job.pods.join(&job.directory);
    let failed = |what| Error::file(what, at);
    match &job.content {
        Content::Files { files, memory } => {
            let mut volume = own_directory(job)?;
            if *memory && !is_mount_point(at) {
                tmpfs(at, "mode=755,size=16m")?;
            }
            if *memory {
                // What was mounted on it, not what lies below.
                volume = Beneath::of(at).map_err(failed("open volume"))?;
            }
            publish(at, &volume, files, job.group).map_err(failed("fill volume"))?;
            Ok(at.clone())
        }
        Content::Empty { memory: false, .. } => {
            let parent = job.directory.parent().unwrap_or(Path::new(""));
            let parent = pods(job)?.make(parent, 0o755).map_err(failed("make directory"))?;
            open_to_all(&parent, at, job.group)?;
            Ok(at.clone())
        }
        Content::Empty { memory: true, limit } => {
            own_directory(job)?;
            if !is_mount_point(at) {
                let size = limit.map(|l| format!(",size={l}")).unwrap_or_default();
                let owner = job.group.map(|g| format!(",gid={g}")).unwrap_or_default();
                tmpfs(at, &format!("mode={:o}{owner}{size}", open_mode(job.group)))?;
            }
            Ok(at.clone())
        }
        Content::Host { path, kind } => {
            host(path, kind)?;
            Ok(path.clone())
        }
        Content::Persistent { path, .. } => {
            // A pod that is not root must be able to use it.
            let parent = path.parent().unwrap_or(Path::new("/"));
            let parent = Beneath::made(parent).map_err(Error::file("make directory", parent))?;
            open_to_all(&parent, path, None)?;
            if let Some(group) = job.group {
                own(path, group).map_err(Error::file("give volume to its group", path))?;
            }
            Ok(path.clone())
        }
    }
}

fn pods(job: &Job) -> Result<Beneath> {
    Beneath::made(&job.pods).map_err(Error::file("open", &job.pods))
}

fn own_directory(job: &Job) -> Result<Beneath> {
    let made = pods(job)?.make(&job.directory, 0o755);
    made.map_err(Error::file("make directory", &job.directory))
}

fn tmpfs(at: &Path, options: &str) -> Result<()> {
    mount(
        Some("tmpfs"),
        at,
        Some("tmpfs"),
        MsFlags::MS_NOSUID | MsFlags::MS_NODEV,
        Some(options),
    )
    .map_err(|e| Error::file("mount tmpfs on", at)(e.into()))
}

/// With a group, new files belong to it too.
fn open_mode(group: Option<u32>) -> u32 {
    if group.is_some() { 0o2777 } else { 0o777 }
}

/// Makes a directory that everybody may use. One that is there already is left as its users
/// made it; it appears complete, so a crash leaves no half.
fn open_to_all(parent: &Beneath, at: &Path, group: Option<u32>) -> Result<()> {
    let name = at.file_name().unwrap_or_default();
    if parent.has(name) {
        return Ok(());
    }
    // No volume has a dot in its name.
    let new = Path::new(name).with_added_extension("new");
    parent
        .make(&new, 0o700)
        .and_then(|made| made.set(group, open_mode(group)))
        .and_then(|()| parent.rename(new.as_os_str(), name))
        .map_err(Error::file("open directory", at))
}

/// Gives a tree to a group, once: a root that belongs to it already is left alone.
fn own(at: &Path, group: u32) -> io::Result<()> {
    let tree = Beneath::of(at)?;
    let stat = tree.stat()?;
    if stat.st_gid == group && stat.st_mode & 0o2070 == 0o2070 {
        Ok(())
    } else {
        tree.give(group)
    }
}

/// Checks a path of the node against `hostPath.type`, and makes it where that says so.
fn host(path: &Path, kind: &str) -> Result<()> {
    use std::os::unix::fs::FileTypeExt;
    let meta = fs::metadata(path).ok();
    let is = |test: fn(&fs::FileType) -> bool| meta.as_ref().is_some_and(|m| test(&m.file_type()));
    let wrong = || {
        Err(Error::said(format!(
            "hostPath type check failed: {} is not a {kind}",
            path.display()
        )))
    };
    match kind {
        // The runtime makes a missing directory itself only on some versions.
        "" | "DirectoryOrCreate" if meta.is_none() => fs::DirBuilder::new()
            .recursive(true)
            .mode(0o755)
            .create(path)
            .map_err(Error::file("make directory", path)),
        "" => Ok(()),
        "Directory" | "DirectoryOrCreate" if is(fs::FileType::is_dir) => Ok(()),
        "FileOrCreate" if meta.is_none() => fs::File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o644)
            .open(path)
            .map(drop)
            .map_err(Error::file("make", path)),
        "File" | "FileOrCreate" if is(fs::FileType::is_file) => Ok(()),
        "Socket" if is(fs::FileType::is_socket) => Ok(()),
        "CharDevice" if is(fs::FileType::is_char_device) => Ok(()),
        "BlockDevice" if is(fs::FileType::is_block_device) => Ok(()),
        _ => wrong(),
    }
}

/// Mounts a path inside a volume, made when missing, in `place` below the directory of the node's pods,
/// so that nothing that a container does to the volume leads the runtime elsewhere. Gives the mount's path.
pub fn sub_path(volume: &Path, sub: &str, pods: &Path, place: &Path, name: &str) -> Result<PathBuf> {
    let failed = |e: io::Error| Error::said(format!("subPath {sub:?}: {e}"));
    let inside = Beneath::of(volume).map_err(Error::file("open volume", volume))?;
    let found = inside.find_or_make(Path::new(sub), 0o777).map_err(failed)?;
    let own = Beneath::made(pods).and_then(|pods| pods.make(place, 0o755));
    let own = own.map_err(Error::file("make directory", place))?;
    let target = pods.join(place).join(name);
    // A container that ended left its own.
    while umount2(&target, MntFlags::MNT_DETACH | MntFlags::UMOUNT_NOFOLLOW).is_ok() {}
    own.mount(&found, OsStr::new(name)).map_err(failed)?;
    Ok(target)
}

/// Removes everything below a pod's directory, mounts first: also those that a container made in a
/// volume. While one is left nothing is removed, for it may lead to the data of others.
pub fn remove(pod: &Path) -> Result<()> {
    for point in mounted_below(pod)? {
        // What is left shows a failure.
        let _ = umount2(&point, MntFlags::MNT_DETACH | MntFlags::UMOUNT_NOFOLLOW);
    }
    if let Some(left) = mounted_below(pod)?.first() {
        return Err(Error::said(format!(
            "{} is still mounted: the pod's directory stays",
            left.display()
        )));
    }
    match fs::remove_dir_all(pod) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(Error::file("remove", pod)(e)),
        _ => Ok(()),
    }
}

/// Mount points of the node below a directory, deepest and latest first.
fn mounted_below(directory: &Path) -> Result<Vec<PathBuf>> {
    // The thread has the node's mounts, and so its /proc, but is none of the node's processes.
    // Its first one has the same mounts.
    let file = "/proc/1/mountinfo";
    let text = fs::read(file).map_err(Error::file("read", file))?;
    Ok(points_below(&text, directory))
}

fn points_below(mountinfo: &[u8], directory: &Path) -> Vec<PathBuf> {
    let lines = mountinfo.split(|byte| *byte == b'\n');
    let mut points: Vec<PathBuf> = lines
        .filter_map(|line| line.split(|byte| *byte == b' ').nth(4))
        .map(|field| PathBuf::from(std::ffi::OsString::from_vec(unescaped(field))))
        .filter(|point| point.starts_with(directory))
        .collect();
    points.sort_by_key(|point| point.components().count());
    points.reverse();
    points
}

/// Blanks and the like are written as `\040` there.
fn unescaped(field: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, tail)) = rest.split_first() {
        let code = tail.get(..3).filter(|_| *first == b'\\');
        let code = code.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        out.push(code.unwrap_or(*first));
        rest = if code.is_some() { &tail[3..] } else { tail };
    }
    out
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use super::*;

    #[test]
    fn mounts_are_found_deepest_first() {
        let line = |at: &str| format!("36 35 98:0 / {at} rw,noatime master:1 - ext4 /dev/root rw\n");
        let text: String = [
            "/",
            "/p/u1",
            "/p/u1/v/a/deep",
            "/p/u1/v/a",
            "/p/u10/v",
            "/p/u1/v/a\\040b",
        ]
        .map(line)
        .concat();
        let found = points_below(text.as_bytes(), Path::new("/p/u1"));
        let expected = ["/p/u1/v/a/deep", "/p/u1/v/a b", "/p/u1/v/a", "/p/u1"];
        assert_eq!(found, expected.map(PathBuf::from));
        assert!(points_below(b"nonsense\n\n", Path::new("/")).is_empty());
    }

    #[test]
    fn host_path_types() {
        let dir = tempfile::tempdir().unwrap();
        let (new, file) = (dir.path().join("new"), dir.path().join("file"));
        fs::write(&file, "").unwrap();
        assert!(host(&new, "Directory").is_err());
        assert!(host(&new, "DirectoryOrCreate").is_ok());
        assert!(host(&new, "Directory").is_ok());
        assert!(host(&file, "Directory").is_err());
        assert!(host(&file, "File").is_ok());
        assert!(host(&file, "Socket").is_err());
    }

    #[test]
    fn a_volume_is_opened_once() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join("volumes/v");
        let mode = || fs::metadata(&at).unwrap().mode() & 0o7777;
        let open = || {
            let parent = Beneath::made(at.parent().unwrap()).unwrap();
            open_to_all(&parent, &at, Some(7)).unwrap();
        };
        open();
        assert_eq!((mode(), fs::metadata(&at).unwrap().gid()), (0o2777, 7));
        fs::set_permissions(&at, fs::Permissions::from_mode(0o700)).unwrap();
        open();
        assert_eq!(mode(), 0o700, "as its user made it");
        assert_eq!(fs::read_dir(at.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn no_name_of_a_volume_leads_out_of_the_pods() {
        let dir = tempfile::tempdir().unwrap();
        let memory = false;
        for content in [
            Content::Empty { memory, limit: None },
            Content::Files {
                files: super::super::contents::Files::new(),
                memory,
            },
        ] {
            let job = Job {
                name: "v".into(),
                pods: dir.path().join("pods"),
                directory: "u/../../outside".into(),
                content,
                group: None,
            };
            let said = put(&job).unwrap_err().to_string();
            assert!(said.contains("leads out"), "{said}");
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_claim_is_open_to_pods_that_are_not_root() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pv");
        let job = |group| Job {
            name: "v".into(),
            pods: dir.path().into(),
            directory: "unused".into(),
            content: Content::Persistent {
                path: path.clone(),
                read_only: false,
            },
            group,
        };
        let mode = || fs::metadata(&path).unwrap().mode() & 0o7777;
        put(&job(None)).unwrap();
        assert_eq!(mode(), 0o777);
        put(&job(Some(9))).unwrap();
        assert_eq!((mode(), fs::metadata(&path).unwrap().gid()), (0o2777, 9));
    }
}
