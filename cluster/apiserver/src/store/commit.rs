//! The one writer. Requests that arrive while a commit is on its way to disk share the next one.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, RwLock, mpsc},
    thread::JoinHandle,
};

use tokio::sync::oneshot;

use super::{
    Action, Change, Collection, Disk, DiskError, Event, EventKind, Expect, ObjectKey, Stored, Write,
    WriteError, state::State,
};

/// More than this many requests do not fit one commit: readers would wait too long for the first.
const BATCH: usize = 1024;

type Answer = oneshot::Sender<Result<Arc<Stored>, WriteError>>;

pub(super) struct Request {
    pub write: Write,
    pub answer: Answer,
}

pub(super) struct Writer {
    queue: Mutex<Option<mpsc::Sender<Request>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Writer {
    pub fn start(disk: Box<dyn Disk>, state: Arc<RwLock<State>>) -> Self {
        let (queue, requests) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("store-writer".into())
            .spawn(move || run(disk, &state, &requests))
            .map_err(|error| tracing::error!(%error, "cannot start the store's writer"))
            .ok();
        Self {
            queue: Mutex::new(Some(queue)),
            thread: Mutex::new(thread),
        }
    }

    pub fn send(&self, request: Request) -> Result<(), WriteError> {
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue
            .as_ref()
            .ok_or(WriteError::Stopped)?
            .send(request)
            .map_err(|_| WriteError::Stopped)
    }

    /// Lets queued writes finish, then closes the file.
    pub fn stop(&self) {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).take();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Changes that go to disk together.
struct Batch {
    revision: u64,
    events: Vec<(Collection, Event)>,
}

fn run(mut disk: Box<dyn Disk>, state: &RwLock<State>, requests: &mpsc::Receiver<Request>) {
    // The batch whose commit failed: nobody knows yet whether it reached the disk.
    let mut doubt = None;
    while let Ok(first) = requests.recv() {
        let batch = std::iter::once(first).chain(requests.try_iter().take(BATCH - 1));
        if let Some(failed) = doubt.take() {
            doubt = settle(&mut *disk, state, failed, batch);
        } else {
            doubt = commit(&mut *disk, state, batch);
        }
    }
}

/// Finds out what became of a failed commit, then goes on with the next. While the disk does not
/// answer, writes are refused and the doubt stays.
fn settle(
    disk: &mut dyn Disk,
    state: &RwLock<State>,
    failed: Batch,
    batch: impl Iterator<Item = Request>,
) -> Option<Batch> {
    let known = state.read().unwrap_or_else(PoisonError::into_inner).revision();
    let found = disk.reopen().and_then(|found| match found {
        found if found == known => Ok(false),
        found if found == failed.revision => Ok(true),
        found => Err(DiskError::Write(format!(
            "the file has revision {found} where {known} was written; another program changed it"
        ))),
    });
    match found {
        Ok(landed) => {
            tracing::info!(landed, "the store is open again");
            if landed {
                publish(state, failed);
            }
            commit(disk, state, batch)
        }
        Err(error) => {
            tracing::error!(%error, "the store does not open again");
            // Those of now: whoever asks after an answer gets another attempt.
            let refused: Vec<Request> = batch.collect();
            for request in refused {
                let _ = request.answer.send(Err(WriteError::Disk(error.to_string())));
            }
            Some(failed)
        }
    }
}

fn publish(state: &RwLock<State>, batch: Batch) {
    state
        .write()
        .unwrap_or_else(PoisonError::into_inner)
        .publish(batch.revision, batch.events);
}

/// Returns the batch if its commit failed.
fn commit(disk: &mut dyn Disk, state: &RwLock<State>, batch: impl Iterator<Item = Request>) -> Option<Batch> {
    // Objects as the earlier writes of this batch leave them.
    let mut ahead: HashMap<(Collection, ObjectKey), Option<Arc<Stored>>> = HashMap::new();
    let mut accepted = Vec::new();
    let mut events = Vec::new();
    let mut revision;
    {
        let state = state.read().unwrap_or_else(PoisonError::into_inner);
        revision = state.revision();
        for Request { write, answer } in batch {
            let place = (write.collection, write.key);
            let current = match ahead.get(&place) {
                Some(current) => current.clone(),
                None => state.get(&place.0, &place.1),
            };
            if let Err(refused) = check(write.expect, current.as_deref()) {
                let _ = answer.send(Err(refused));
                continue;
            }
            revision += 1;
            let (kind, draft) = match &write.action {
                Action::Put(draft) => (EventKind::Put, draft),
                Action::Delete(draft) => (EventKind::Delete, draft),
            };
            let object = Stored::new(place.1.clone(), revision, draft.seal(revision));
            let next = (kind == EventKind::Put).then(|| object.clone());
            accepted.push((answer, object.clone()));
            events.push((
                place.0.clone(),
                Event {
                    kind,
                    object,
                    previous: current,
                },
            ));
            ahead.insert(place, next);
        }
    }
    if events.is_empty() {
        return None;
    }
    let changes: Vec<Change<'_>> = ahead
        .iter()
        .map(|((collection, key), object)| Change {
            collection,
            key,
            object: object.as_deref(),
        })
        .collect();
    let done = disk.commit(revision, &changes);
    let batch = Batch { revision, events };
    match done {
        Ok(()) => {
            publish(state, batch);
            for (answer, object) in accepted {
                let _ = answer.send(Ok(object));
            }
            None
        }
        Err(error) => {
            tracing::error!(%error, "store commit failed");
            for (answer, _) in accepted {
                let _ = answer.send(Err(WriteError::Disk(error.to_string())));
            }
            Some(batch)
        }
    }
}

fn check(expect: Expect, current: Option<&Stored>) -> Result<(), WriteError> {
    match (expect, current) {
        (Expect::Absent, None) => Ok(()),
        (Expect::Absent, Some(_)) => Err(WriteError::Exists),
        (Expect::Revision(_), None) => Err(WriteError::NotFound),
        (Expect::Revision(revision), Some(object)) if object.revision == revision => Ok(()),
        (Expect::Revision(_), Some(_)) => Err(WriteError::Conflict),
    }
}
