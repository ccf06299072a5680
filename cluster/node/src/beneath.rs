//! Files below a directory, reached from its descriptor. No `..`, no whole path and no link leads
//! out of it, not even one that a container swaps in between two looks.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Gid, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;
use rustix::mount::{MoveMountFlags, OpenTreeFlags};

/// The kernel gives up when a name on the way changes under it.
const TRIES: usize = 64;
/// What a group that owns a volume may do with its directories and its files.
const GROUP_DIRECTORY: u32 = 0o2070;
const GROUP_FILE: u32 = 0o060;

/// A directory that nothing below it leads out of.
pub struct Beneath(OwnedFd);

impl Beneath {
    /// A directory whose own path no container can change.
    pub fn of(directory: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self(rustix::fs::open(directory, flags, Mode::empty())?))
    }

    /// The same, made when missing.
    pub fn made(directory: &Path) -> io::Result<Self> {
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o755)
            .create(directory)?;
        Self::of(directory)
    }

    fn open(&self, path: &Path, flags: OFlags, mode: u32, how: ResolveFlags) -> io::Result<OwnedFd> {
        let (flags, how) = (flags | OFlags::CLOEXEC, how | ResolveFlags::BENEATH);
        // An empty path names nothing.
        let path = if path.as_os_str().is_empty() {
            Path::new(".")
        } else {
            path
        };
        for _ in 0..TRIES {
            match rustix::fs::openat2(&self.0, path, flags, Mode::from_raw_mode(mode), how) {
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(Errno::XDEV) => return Err(leads_out(path)),
                other => return Ok(other?),
            }
        }
        Err(io::Error::other(format!(
            "{} does not stand still",
            path.display()
        )))
    }

    fn directory(&self, path: &Path, how: ResolveFlags) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        Ok(Self(self.open(path, flags, 0, how)?))
    }

    /// A second handle of this directory, with a lock of its own.
    pub fn again(&self) -> io::Result<File> {
        Ok(self.directory(Path::new("."), ResolveFlags::empty())?.0.into())
    }

    /// The directory at `path`; it and those above it are made with this mode where they are missing.
    pub fn make(&self, path: &Path, mode: u32) -> io::Result<Self> {
        let mut at = PathBuf::new();
        let mut last = self.directory(&at, ResolveFlags::empty())?;
        for part in path.components() {
            match part {
                Component::Normal(name) => at.push(name),
                Component::CurDir => continue,
                _ => return Err(leads_out(path)),
            }
            last = match self.directory(&at, ResolveFlags::empty()) {
                Err(e) if e.kind() == io::ErrorKind::NotFound => {
                    let name = at.file_name().unwrap_or_default();
                    match rustix::fs::mkdirat(&last.0, name, Mode::from_raw_mode(mode)) {
                        Ok(()) | Err(Errno::EXIST) => self.directory(&at, ResolveFlags::empty())?,
                        Err(e) => return Err(e.into()),
                    }
                }
                other => other?,
            };
        }
        Ok(last)
    }

    /// A file that is not there yet, with exactly this mode.
    pub fn create(&self, path: &Path, mode: u32) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let file = self.open(path, flags, mode & 0o777, ResolveFlags::NO_SYMLINKS)?;
        rustix::fs::fchmod(&file, Mode::from_raw_mode(mode))?;
        Ok(file.into())
    }

    /// Writes a file in place, for a mount of a single file does not follow a rename. One that holds
    /// the text already is left alone.
    pub fn write(&self, path: &Path, text: &[u8], mode: u32) -> io::Result<()> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let mut file: File = self
            .open(path, flags, mode & 0o777, ResolveFlags::NO_SYMLINKS)?
            .into();
        let limit = text.len() as u64 + 1;
        let mut now = Vec::new();
        (&mut file).take(limit).read_to_end(&mut now)?;
        if now != text {
            file.set_len(0)?;
            file.seek(SeekFrom::Start(0))?;
            file.write_all(text)?;
        }
        Ok(rustix::fs::fchmod(&file, Mode::from_raw_mode(mode))?)
    }

    /// A regular file to read, and nothing else that a container may have put there. Links are followed
    /// when `links` says so.
    pub fn read(&self, path: &Path, links: bool) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let how = if links {
            ResolveFlags::empty()
        } else {
            ResolveFlags::NO_SYMLINKS
        };
        // Looked at first: to open a device may have effects.
        let seen = rustix::fs::fstat(self.open(path, OFlags::PATH, 0, how)?)?;
        if kind(&seen) != FileType::RegularFile {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no file"));
        }
        let file = self.open(path, flags, 0, how)?;
        if same(&seen, &rustix::fs::fstat(&file)?) {
            Ok(file.into())
        } else {
            Err(io::Error::other(format!(
                "{} does not stand still",
                path.display()
            )))
        }
    }

    /// Whether something, also a link to nowhere, has this name.
    pub fn has(&self, name: &OsStr) -> bool {
        rustix::fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    pub fn link(&self, target: &Path, name: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::symlinkat(target, &self.0, single(name)?)?)
    }

    pub fn link_target(&self, name: &OsStr) -> io::Result<PathBuf> {
        let target = rustix::fs::readlinkat(&self.0, single(name)?, Vec::new())?;
        Ok(OsStr::from_bytes(target.to_bytes()).into())
    }

    pub fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::renameat(
            &self.0,
            single(from)?,
            &self.0,
            single(to)?,
        )?)
    }

    /// Removes a file or link.
    pub fn unlink(&self, name: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.0, single(name)?, AtFlags::empty())?)
    }

    /// What lies in the directory at `path`, links not followed.
    pub fn list(&self, path: &Path) -> io::Result<Vec<(OsString, FileType)>> {
        let directory = self.directory(path, ResolveFlags::empty())?;
        let mut all = Vec::new();
        for name in directory.names()? {
            match rustix::fs::statat(&directory.0, &name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => all.push((name, kind(&stat))),
                Err(Errno::NOENT) => {}
                Err(e) => return Err(e.into()),
            }
        }
        Ok(all)
    }

    fn names(&self) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.0)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                names.push(OsStr::from_bytes(name).to_owned());
            }
        }
        Ok(names)
    }

    /// Owner, group and mode of the directory itself.
    pub fn stat(&self) -> io::Result<Stat> {
        Ok(rustix::fs::fstat(&self.0)?)
    }

    pub fn set(&self, group: Option<u32>, mode: u32) -> io::Result<()> {
        rustix::fs::fchown(&self.0, None, group.map(Gid::from_raw))?;
        Ok(rustix::fs::fchmod(&self.0, Mode::from_raw_mode(mode))?)
    }

    /// Gives everything to a group. The directory itself comes last: it stands for all below it, also
    /// when this is broken off.
    pub fn give(&self, group: u32) -> io::Result<()> {
        let mut left = vec![PathBuf::new()];
        while let Some(at) = left.pop() {
            let directory = match self.directory(&at, ResolveFlags::NO_SYMLINKS) {
                // Moved or replaced meanwhile, by those who use the volume: it is theirs already.
                Err(e) if is_any(&e, [Errno::NOENT, Errno::NOTDIR, Errno::LOOP]) => continue,
                other => other?,
            };
            for name in directory.names()? {
                if directory.give_one(&name, group)? {
                    left.push(at.join(&name));
                }
            }
        }
        let mode = self.stat()?.st_mode & 0o7777;
        self.set(Some(group), mode | GROUP_DIRECTORY)
    }

    /// Whether it is a directory.
    fn give_one(&self, name: &OsStr, group: u32) -> io::Result<bool> {
        let path = OFlags::PATH | OFlags::NOFOLLOW;
        let how = ResolveFlags::empty();
        let seen = match self.open(Path::new(name), path, 0, how) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
            other => other?,
        };
        let stat = rustix::fs::fstat(&seen)?;
        let group = Some(Gid::from_raw(group));
        let (directory, extra) = match kind(&stat) {
            FileType::Directory => (true, GROUP_DIRECTORY),
            FileType::RegularFile | FileType::Fifo => (false, GROUP_FILE),
            // They have no mode of use, or opening them has effects.
            _ => {
                rustix::fs::chownat(&seen, "", None, group, AtFlags::EMPTY_PATH)?;
                return Ok(false);
            }
        };
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        let Ok(file) = self.open(Path::new(name), flags, 0, how) else {
            return Ok(false);
        };
        if !same(&stat, &rustix::fs::fstat(&file)?) {
            return Ok(false);
        }
        rustix::fs::fchown(&file, None, group)?;
        rustix::fs::fchmod(&file, Mode::from_raw_mode((stat.st_mode & 0o7777) | extra))?;
        Ok(directory)
    }

    /// What is at `path`, to be mounted elsewhere; directories are made when it is missing.
    pub fn find_or_make(&self, path: &Path, mode: u32) -> io::Result<Found> {
        let plain = path
            .components()
            .all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        if !plain {
            return Err(leads_out(path));
        }
        let found = match self.open(path, OFlags::PATH, 0, ResolveFlags::empty()) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => self.make(path, mode)?.0,
            other => other?,
        };
        Ok(Found(found))
    }

    /// Mounts what was found elsewhere on a name of this directory, on which nothing is mounted.
    pub fn mount(&self, found: &Found, name: &OsStr) -> io::Result<()> {
        let name = single(name)?;
        let directory = kind(&rustix::fs::fstat(&found.0)?) == FileType::Directory;
        let point = self.mount_point(name, directory)?;
        let flags = OpenTreeFlags::OPEN_TREE_CLONE
            | OpenTreeFlags::OPEN_TREE_CLOEXEC
            | OpenTreeFlags::AT_EMPTY_PATH
            | OpenTreeFlags::AT_RECURSIVE;
        let tree = rustix::mount::open_tree(&found.0, "", flags)?;
        let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
        Ok(rustix::mount::move_mount(&tree, "", &point, "", flags)?)
    }

    /// An empty place of the wanted kind. Nothing is mounted on it.
    fn mount_point(&self, name: &OsStr, directory: bool) -> io::Result<OwnedFd> {
        let open = || self.open(Path::new(name), OFlags::PATH, 0, ResolveFlags::NO_SYMLINKS);
        if let Ok(there) = open() {
            let flags = match kind(&rustix::fs::fstat(&there)?) {
                FileType::Directory => AtFlags::REMOVEDIR,
                _ => AtFlags::empty(),
            };
            rustix::fs::unlinkat(&self.0, name, flags)?;
        }
        if directory {
            rustix::fs::mkdirat(&self.0, name, Mode::from_raw_mode(0o700))?;
        } else {
            drop(self.create(Path::new(name), 0o600)?);
        }
        open()
    }
}

/// Something that was reached without leaving a directory, whatever becomes of its name.
pub struct Found(OwnedFd);

fn is_any(error: &io::Error, kinds: [Errno; 3]) -> bool {
    Errno::from_io_error(error).is_some_and(|found| kinds.contains(&found))
}

fn kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

fn same(one: &Stat, other: &Stat) -> bool {
    (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
}

/// A name without a way in it.
fn single(name: &OsStr) -> io::Result<&OsStr> {
    let mut parts = Path::new(name).components();
    match (parts.next(), parts.next()) {
        (Some(Component::Normal(only)), None) if only == name => Ok(name),
        _ => Err(leads_out(Path::new(name))),
    }
}

fn leads_out(path: &Path) -> io::Error {
    io::Error::new(
        io::ErrorKind::PermissionDenied,
        format!("path {path:?} leads out of its volume"),
    )
}

#[cfg(test)]
#[path = "beneath_tests.rs"]
mod tests;
