//! A directory as a layer: sorted, with fixed times and numeric owners, whiteouts as OCI wants them.

use std::collections::BTreeMap;
use std::fs::{self, File, Metadata};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use tar::{Builder, EntryType, Header};

use crate::error::{Context, Result};

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Written {
    /// Of the tar, before compression.
    pub diff_id: String,
    pub tar_size: u64,
    /// Of the compressed file.
    pub digest: String,
    pub size: u64,
}

const LEVEL: i32 = 3;

/// Writes the tree below `root` as a zstd-compressed tar to `out`; every file gets the time `mtime`.
pub(crate) fn write(root: &Path, mtime: u64, out: &Path) -> Result<Written> {
    let file = File::create(out).context("writing", out)?;
    let compressed = Hashed::new(io::BufWriter::with_capacity(1 << 20, file));
    let encoder = zstd::Encoder::new(compressed, LEVEL).context("compressing", out)?;
    let mut tar = Builder::new(Hashed::new(encoder));
    let mut walk = Walk {
        tar: &mut tar,
        mtime,
        links: BTreeMap::new(),
    };
    walk.directory(root, Path::new(""))?;
    let plain = tar.into_inner().context("writing", out)?;
    let (encoder, diff_id, tar_size) = plain.finish();
    let (buffer, digest, size) = encoder.finish().context("compressing", out)?.finish();
    let file = buffer
        .into_inner()
        .map_err(io::IntoInnerError::into_error)
        .context("writing", out)?;
    file.sync_all().context("writing", out)?;
    Ok(Written {
        diff_id,
        tar_size,
        digest,
        size,
    })
}

struct Walk<'a, W: Write> {
    tar: &'a mut Builder<W>,
    mtime: u64,
    /// The first path of each file that has several.
    links: BTreeMap<(u64, u64), PathBuf>,
}

impl<W: Write> Walk<'_, W> {
    fn directory(&mut self, directory: &Path, inside: &Path) -> Result<()> {
        let mut names = Vec::new();
        for entry in fs::read_dir(directory).context("reading", directory)? {
            names.push(entry.context("reading", directory)?.file_name());
        }
        names.sort();
        for name in names {
            let (path, inside) = (directory.join(&name), inside.join(&name));
            let metadata = fs::symlink_metadata(&path).context("reading", &path)?;
            self.entry(&path, &inside, &metadata)
                .context("writing the layer entry", &path)?;
            if metadata.is_dir() {
                self.directory(&path, &inside)?;
            }
        }
        Ok(())
    }

    fn entry(&mut self, path: &Path, inside: &Path, metadata: &Metadata) -> io::Result<()> {
        let kind = metadata.file_type();
        if kind.is_socket() {
            return Ok(());
        }
        if kind.is_char_device() && metadata.rdev() == 0 {
            return self.whiteout(inside);
        }
        let mut header = self.header(metadata);
        self.extended(path, kind.is_file())?;
        if kind.is_dir() {
            header.set_entry_type(EntryType::Directory);
            self.tar.append_data(&mut header, slashed(inside), io::empty())?;
            if xattr::get(path, "trusted.overlay.opaque")?.is_some_and(|value| value == b"y") {
                let mut header = self.plain_header();
                self.tar
                    .append_data(&mut header, inside.join(".wh..wh..opq"), io::empty())?;
            }
            return Ok(());
        }
        if kind.is_symlink() {
            header.set_entry_type(EntryType::Symlink);
            return self.tar.append_link(&mut header, inside, fs::read_link(path)?);
        }
        if kind.is_file() {
            if metadata.nlink() > 1 {
                let identity = (metadata.dev(), metadata.ino());
                if let Some(first) = self.links.get(&identity) {
                    header.set_entry_type(EntryType::Link);
                    let first = first.clone();
                    return self.tar.append_link(&mut header, inside, first);
                }
                self.links.insert(identity, inside.to_owned());
            }
            header.set_entry_type(EntryType::Regular);
            header.set_size(metadata.size());
            return self.tar.append_data(&mut header, inside, File::open(path)?);
        }
        header.set_entry_type(match () {
            () if kind.is_fifo() => EntryType::Fifo,
            () if kind.is_block_device() => EntryType::Block,
            () => EntryType::Char,
        });
        header.set_device_major(u32::try_from(nix::sys::stat::major(metadata.rdev())).unwrap_or(0))?;
        header.set_device_minor(u32::try_from(nix::sys::stat::minor(metadata.rdev())).unwrap_or(0))?;
        self.tar.append_data(&mut header, inside, io::empty())
    }

    /// File capabilities are the one attribute that an image carries.
    fn extended(&mut self, path: &Path, is_file: bool) -> io::Result<()> {
        if !is_file {
            return Ok(());
        }
        match xattr::get(path, "security.capability")? {
            Some(value) => self
                .tar
                .append_pax_extensions([("SCHILY.xattr.security.capability", value.as_slice())]),
            None => Ok(()),
        }
    }

    fn whiteout(&mut self, inside: &Path) -> io::Result<()> {
        let mut name = std::ffi::OsString::from(".wh.");
        name.push(inside.file_name().unwrap_or_default());
        let mut header = self.plain_header();
        self.tar
            .append_data(&mut header, inside.with_file_name(name), io::empty())
    }

    fn header(&self, metadata: &Metadata) -> Header {
        let mut header = Header::new_gnu();
        header.set_mode(metadata.mode() & 0o7777);
        header.set_uid(u64::from(metadata.uid()));
        header.set_gid(u64::from(metadata.gid()));
        header.set_mtime(self.mtime);
        header.set_size(0);
        header
    }

    fn plain_header(&self) -> Header {
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Regular);
        header.set_mode(0o644);
        header.set_mtime(self.mtime);
        header.set_size(0);
        header
    }
}

fn slashed(path: &Path) -> PathBuf {
    let mut bytes = path.as_os_str().as_bytes().to_vec();
    bytes.push(b'/');
    PathBuf::from(std::ffi::OsStr::from_bytes(&bytes))
}

/// Counts and hashes what passes.
pub(crate) struct Hashed<W> {
    inner: W,
    hash: Sha256,
    size: u64,
}

/// The digest of a file.
pub(crate) fn digest(path: &Path) -> Result<String> {
    let mut file = File::open(path).context("reading", path)?;
    let mut hashed = Hashed::new(io::sink());
    io::copy(&mut file, &mut hashed).context("reading", path)?;
    let (_, digest, _) = hashed.finish();
    Ok(digest)
}

impl<W> Hashed<W> {
    pub(crate) fn new(inner: W) -> Self {
        Self {
            inner,
            hash: Sha256::new(),
            size: 0,
        }
    }

    pub(crate) fn finish(self) -> (W, String, u64) {
        (
            self.inner,
            format!("sha256:{}", hex::encode(self.hash.finalize())),
            self.size,
        )
    }
}

impl<W: Write> Write for Hashed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.inner.write(bytes)?;
        self.hash.update(&bytes[..count]);
        self.size += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
