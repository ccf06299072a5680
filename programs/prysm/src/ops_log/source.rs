//! Follows a log file across growth, rotation and truncation.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// One read. It bounds memory, not how much is read in a turn.
const CHUNK: usize = 1 << 16;
/// The file system frees whole blocks.
const BLOCK: u64 = 1 << 20;

/// Up to where a file was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    pub device: u64,
    pub inode: u64,
    pub offset: u64,
}

/// What a turn brings.
#[derive(Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    Bytes(&'a [u8]),
    /// What follows stands at the start of a file: the rest of what came before will not come.
    Anew,
}

pub struct Tail {
    path: PathBuf,
    open: Option<(File, Position)>,
    chunk: Box<[u8]>,
    /// Where to start in the first file that is found.
    start: Start,
    freed: u64,
}

#[derive(Clone, Copy, Debug)]
enum Start {
    Beginning,
    End,
    At(Position),
}

impl Tail {
    /// Starts at the end of the file, or at `position` when that is still the file.
    pub fn new(path: &Path, position: Option<Position>, from_start: bool) -> Self {
        let start = match (position, from_start) {
            (Some(position), _) => Start::At(position),
            (None, true) => Start::Beginning,
            (None, false) => Start::End,
        };
        Tail {
            path: path.to_owned(),
            open: None,
            chunk: vec![0; CHUNK].into(),
            start,
            freed: 0,
        }
    }

    /// The start of what was read and not yet understood lies `pending` bytes before the end.
    pub fn position(&self, pending: usize) -> Option<Position> {
        let (_, position) = self.open.as_ref()?;
        Some(Position {
            offset: position.offset.saturating_sub(pending as u64),
            ..*position
        })
    }

    /// Reads what is there now. A file that is away is waited for.
    pub fn turn(&mut self, mut each: impl FnMut(Piece<'_>)) -> io::Result<()> {
        if self.open.is_none() && !self.find()? {
            return Ok(());
        }
        loop {
            let Some((file, position)) = &mut self.open else {
                return Ok(());
            };
            let there = file.metadata()?;
            if there.len() < position.offset {
                file.seek(SeekFrom::Start(0))?;
                position.offset = 0;
                self.freed = 0;
                each(Piece::Anew);
            }
            let rotated = match fs::metadata(&self.path) {
                Ok(named) => (named.dev(), named.ino()) != (position.device, position.inode),
                // Moved away; the new file is not there yet.
                Err(error) if error.kind() == io::ErrorKind::NotFound => false,
                Err(error) => return Err(error),
            };
            // The old file is read to its end after the new one was seen, so nothing is lost.
            loop {
                let length = file.read(&mut self.chunk)?;
                if length == 0 {
                    break;
                }
                position.offset += length as u64;
                each(Piece::Bytes(&self.chunk[..length]));
            }
            if !rotated {
                return Ok(());
            }
            self.open = None;
            self.start = Start::Beginning;
            each(Piece::Anew);
            if !self.find()? {
                return Ok(());
            }
        }
    }

    /// Gives the disk space of what was read back. Truncating would lose what is written meanwhile.
    pub fn free(&mut self, pending: usize) -> io::Result<()> {
        let Some(Position { offset, .. }) = self.position(pending) else {
            return Ok(());
        };
        let until = offset / BLOCK * BLOCK;
        if until <= self.freed {
            return Ok(());
        }
        let file = File::options().write(true).open(&self.path)?;
        let found = file.metadata()?;
        let ours = |position: &Position| (position.device, position.inode) == (found.dev(), found.ino());
        if self.open.as_ref().is_some_and(|(_, position)| ours(position)) {
            let how = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
            rustix::fs::fallocate(&file, how, self.freed, until - self.freed)?;
            self.freed = until;
        }
        Ok(())
    }

    fn find(&mut self) -> io::Result<bool> {
        let mut file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // A file that comes later is new from its first byte.
                if matches!(self.start, Start::End) {
                    self.start = Start::Beginning;
                }
                return Ok(false);
            }
            Err(error) => return Err(error),
        };
        let there = file.metadata()?;
        let known = |position: Position| {
            (position.device, position.inode) == (there.dev(), there.ino()) && position.offset <= there.len()
        };
        let offset = match self.start {
            Start::At(position) if known(position) => position.offset,
            // Another file: nothing of it was read.
            Start::Beginning | Start::At(_) => 0,
            Start::End => there.len(),
        };
        file.seek(SeekFrom::Start(offset))?;
        let position = Position {
            device: there.dev(),
            inode: there.ino(),
            offset,
        };
        self.freed = 0;
        self.open = Some((file, position));
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn read(tail: &mut Tail) -> String {
        let mut text = String::new();
        tail.turn(|piece| match piece {
            Piece::Bytes(bytes) => text.push_str(&String::from_utf8_lossy(bytes)),
            Piece::Anew => text.push('|'),
        })
        .expect("a turn");
        text
    }

    fn append(path: &Path, text: &str) {
        let mut file = File::options()
            .append(true)
            .create(true)
            .open(path)
            .expect("a file");
        file.write_all(text.as_bytes()).expect("written");
    }

    #[test]
    fn growth_rotation_and_truncation_lose_and_double_nothing() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("ops.log");
        append(&path, "old");
        let mut tail = Tail::new(&path, None, false);
        assert_eq!(read(&mut tail), "", "it starts at the end");
        append(&path, "a");
        assert_eq!(read(&mut tail), "a");
        // Renamed, written to by the old handle, and made again.
        append(&path, "b");
        fs::rename(&path, directory.path().join("ops.log.1")).expect("renamed");
        assert_eq!(read(&mut tail), "b");
        append(&directory.path().join("ops.log.1"), "c");
        append(&path, "d");
        assert_eq!(read(&mut tail), "c|d");
        fs::write(&path, "").expect("truncated");
        append(&path, "e");
        assert_eq!(
            read(&mut tail),
            "",
            "as long as before: nothing tells it from no change"
        );
        fs::write(&path, "").expect("truncated");
        assert_eq!(read(&mut tail), "|");
        append(&path, "f");
        assert_eq!(read(&mut tail), "f");
    }

    #[test]
    fn a_file_that_comes_later_is_read_from_its_start() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("ops.log");
        let mut tail = Tail::new(&path, None, false);
        assert_eq!(read(&mut tail), "");
        append(&path, "first");
        assert_eq!(read(&mut tail), "first");
    }

    #[test]
    fn a_position_continues_in_its_own_file_only() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("ops.log");
        append(&path, "abc{half");
        let mut tail = Tail::new(&path, None, true);
        assert_eq!(read(&mut tail), "abc{half");
        let position = tail.position(5);
        let mut next = Tail::new(&path, position, false);
        assert_eq!(read(&mut next), "{half", "the unfinished rest is read again");
        fs::rename(&path, directory.path().join("old")).expect("renamed");
        append(&path, "new");
        let mut next = Tail::new(&path, position, false);
        assert_eq!(read(&mut next), "new");
    }

    #[test]
    fn freeing_what_was_read_keeps_what_was_not() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("ops.log");
        append(&path, &"x".repeat(3 << 20));
        let mut tail = Tail::new(&path, None, true);
        assert_eq!(read(&mut tail).len(), 3 << 20);
        append(&path, "rest");
        tail.free(0).expect("freed");
        let there = fs::metadata(&path).expect("there");
        assert_eq!(there.len(), (3 << 20) + 4);
        assert!(there.blocks() * 512 < 1 << 20, "{} blocks", there.blocks());
        assert_eq!(read(&mut tail), "rest");
    }
}
