//! Small images made on the spot.

use std::path::Path;

use tar::{EntryType, Header};

use super::store;
use crate::error::{Error, Result};

/// A file, directory or link of a layer.
pub struct Entry<'a> {
    path: &'a str,
    mode: u32,
    kind: EntryType,
    data: &'a [u8],
    target: &'a str,
}

impl<'a> Entry<'a> {
    pub fn program(path: &'a str, data: &'a [u8]) -> Self {
        Self {
            path,
            mode: 0o755,
            kind: EntryType::Regular,
            data,
            target: "",
        }
    }

    pub fn file(path: &'a str, data: &'a [u8]) -> Self {
        Self {
            mode: 0o644,
            ..Self::program(path, data)
        }
    }

    pub fn directory(path: &'a str, mode: u32) -> Self {
        Self {
            path,
            mode,
            kind: EntryType::Directory,
            data: &[],
            target: "",
        }
    }

    pub fn link(path: &'a str, target: &'a str) -> Self {
        Self {
            path,
            mode: 0o777,
            kind: EntryType::Symlink,
            data: &[],
            target,
        }
    }
}

/// An uncompressed layer, the same bytes for the same entries.
pub fn layer(entries: &[Entry]) -> Result<Vec<u8>> {
    let failed = |e: std::io::Error| Error::System {
        what: "write a layer".into(),
        source: e,
    };
    let mut archive = tar::Builder::new(Vec::new());
    for entry in entries {
        let mut header = Header::new_gnu();
        header.set_entry_type(entry.kind);
        header.set_mode(entry.mode);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        header.set_size(entry.data.len() as u64);
        if entry.kind == EntryType::Symlink {
            archive
                .append_link(&mut header, entry.path, entry.target)
                .map_err(failed)?;
        } else {
            archive
                .append_data(&mut header, entry.path, entry.data)
                .map_err(failed)?;
        }
    }
    archive.into_inner().map_err(failed)
}

/// An image of Debian's static busybox, for tests and drills: a shell, the usual tools
/// and a user with id 1000.
pub fn write_busybox(directory: &Path, reference: &str, busybox: &Path) -> Result<()> {
    const TOOLS: [&str; 40] = [
        "sh", "ls", "cat", "echo", "sleep", "httpd", "nc", "ip", "ping", "hostname", "id", "ps", "kill",
        "true", "false", "touch", "mkdir", "rm", "mv", "cp", "ln", "grep", "sed", "awk", "head", "tail",
        "wc", "env", "test", "date", "mount", "df", "stat", "tar", "tty", "stty", "nslookup", "dd", "seq",
        "readlink",
    ];
    let program = std::fs::read(busybox).map_err(Error::file("read", busybox))?;
    let links: Vec<String> = TOOLS.iter().map(|t| format!("bin/{t}")).collect();
    let mut entries = vec![
        Entry::directory("bin", 0o755),
        Entry::directory("etc", 0o755),
        Entry::directory("tmp", 0o1777),
        Entry::directory("www", 0o755),
        Entry::program("bin/busybox", &program),
        Entry::file(
            "etc/passwd",
            b"root:x:0:0::/:/bin/sh\nuser:x:1000:1000::/:/bin/sh\n",
        ),
        Entry::file("etc/group", b"root:x:0:\nuser:x:1000:\n"),
        Entry::file("www/index.html", b"hello\n"),
    ];
    entries.extend(links.iter().map(|l| Entry::link(l, "busybox")));
    let config = serde_json::json!({
        "Env": ["PATH=/bin"],
        "Cmd": ["sleep", "1000000"],
    });
    store::add(directory, reference, &layer(&entries)?, config)
}
