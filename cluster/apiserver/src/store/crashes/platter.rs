//! A disk that keeps what was synced. Of the rest, a crash leaves any sectors it likes.

use std::{
    io,
    path::Path,
    sync::{Arc, Mutex, MutexGuard},
};

use redb::{Builder, Database, StorageBackend};

use super::super::disk::{DiskError, Medium, explain, guard};

const SECTOR: usize = 512;

/// Repeatable dice.
pub(crate) struct Dice(pub u64);

impl Dice {
    /// Below `bound`.
    pub(crate) fn roll(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) % bound as u64) as usize
    }
}

#[derive(Clone, Debug)]
enum Op {
    Write(usize, Vec<u8>),
    SetLen(usize),
}

impl Op {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Op::SetLen(len) => bytes.resize(*len, 0),
            Op::Write(at, data) => {
                if bytes.len() < at + data.len() {
                    bytes.resize(at + data.len(), 0);
                }
                bytes[*at..at + data.len()].copy_from_slice(data);
            }
        }
    }
}

#[derive(Clone, Debug, Default)]
struct Content {
    /// What a program reads: the page cache.
    seen: Vec<u8>,
    /// What is there after a crash, whatever happens.
    synced: Vec<u8>,
    unsynced: Vec<Op>,
}

#[derive(Debug, Default)]
struct Inner {
    store: Option<Arc<Mutex<Content>>>,
    aside: Option<Arc<Mutex<Content>>>,
    distrusted: bool,
    /// Operations until the power goes; none when it stays.
    power: Option<usize>,
    /// Syncs until one fails.
    failing_sync: Option<usize>,
    /// Answers syncs without doing them.
    lies: bool,
}

impl Inner {
    fn spend(&mut self) -> io::Result<()> {
        match &mut self.power {
            Some(0) => Err(io::Error::other("the power is gone")),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Platter(Arc<Mutex<Inner>>);

impl Platter {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap()
    }

    pub(crate) fn lying() -> Self {
        let platter = Self::default();
        platter.inner().lies = true;
        platter
    }

    pub(crate) fn power_for(&self, operations: Option<usize>) {
        self.inner().power = operations;
    }

    pub(crate) fn fail_sync_after(&self, syncs: Option<usize>) {
        self.inner().failing_sync = syncs;
    }

    /// What was written since the last sync stays by sectors, as the dice say; the last write may
    /// also break off in the middle of one.
    pub(crate) fn crash(&self, dice: &mut Dice) {
        let mut inner = self.inner();
        inner.aside = None;
        let Some(store) = inner.store.take() else {
            return;
        };
        let content = store.lock().unwrap().clone();
        let mut bytes = content.synced;
        let last = content.unsynced.len().saturating_sub(1);
        // From "nothing of it" to "all of it", so that both ends are met often.
        let odds = dice.roll(5);
        for (i, op) in content.unsynced.iter().enumerate() {
            match op {
                Op::SetLen(_) if dice.roll(4) < odds => op.apply(&mut bytes),
                Op::SetLen(_) => {}
                Op::Write(at, data) => {
                    for (n, sector) in data.chunks(SECTOR).enumerate() {
                        if dice.roll(4) < odds {
                            let whole = i != last || dice.roll(2) == 0;
                            let kept = if whole {
                                sector.len()
                            } else {
                                dice.roll(sector.len())
                            };
                            Op::Write(at + n * SECTOR, sector[..kept].to_vec()).apply(&mut bytes);
                        }
                    }
                }
            }
        }
        inner.store = Some(Arc::new(Mutex::new(Content {
            seen: bytes.clone(),
            synced: bytes,
            unsynced: Vec::new(),
        })));
    }

    fn open_content(&self, content: &Arc<Mutex<Content>>) -> Result<Database, DiskError> {
        let head = Head {
            platter: self.clone(),
            content: content.clone(),
        };
        guard(self.path(), || {
            Builder::new().set_cache_size(1 << 20).create_with_backend(head)
        })?
        .map_err(|error| explain(self.path(), error))
    }
}

impl Medium for Platter {
    fn path(&self) -> &Path {
        Path::new("platter")
    }

    fn exists(&self) -> Result<bool, DiskError> {
        Ok(self.inner().store.is_some())
    }

    fn open(&self) -> Result<Database, DiskError> {
        let content = self.inner().store.clone().unwrap();
        self.open_content(&content)
    }

    fn create(&self) -> Result<Database, DiskError> {
        let content = Arc::default();
        self.inner().aside = Some(Arc::clone(&content));
        self.open_content(&content)
    }

    fn replace(&self) -> Result<(), DiskError> {
        let mut inner = self.inner();
        inner
            .spend()
            .map_err(|error| DiskError::Write(error.to_string()))?;
        inner.store = inner.aside.take();
        inner.distrusted = false;
        Ok(())
    }

    fn distrust(&self) {
        let mut inner = self.inner();
        if inner.spend().is_ok() {
            inner.distrusted = true;
        }
    }

    fn is_trusted(&self) -> bool {
        !self.inner().distrusted
    }
}

#[derive(Debug)]
struct Head {
    platter: Platter,
    content: Arc<Mutex<Content>>,
}

impl Head {
    fn change(&self, op: Op) -> io::Result<()> {
        self.platter.inner().spend()?;
        let mut content = self.content.lock().unwrap();
        op.apply(&mut content.seen);
        content.unsynced.push(op);
        Ok(())
    }
}

impl StorageBackend for Head {
    fn len(&self) -> io::Result<u64> {
        Ok(self.content.lock().unwrap().seen.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let content = self.content.lock().unwrap();
        let from = offset as usize;
        let bytes = content.seen.get(from..from + out.len());
        out.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.change(Op::SetLen(len as usize))
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut inner = self.platter.inner();
        inner.spend()?;
        if inner.lies {
            return Ok(());
        }
        let mut content = self.content.lock().unwrap();
        if let Some(left) = &mut inner.failing_sync {
            if *left == 0 {
                inner.failing_sync = None;
                // As Linux does: the pages are clean now, served on, and never written.
                content.unsynced.clear();
                return Err(io::Error::other("the sync failed"));
            }
            *left -= 1;
        }
        let ops = std::mem::take(&mut content.unsynced);
        for op in ops {
            op.apply(&mut content.synced);
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.change(Op::Write(offset as usize, data.to_vec()))
    }
}
