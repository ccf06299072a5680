//! The one writer. Requests that arrive while a commit is on its way to disk share the next one.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, RwLock, mpsc},
    thread::JoinHandle,
};

use tokio::sync::oneshot;

use super::{
    Action, Change, Collection, Disk, Event, EventKind, Expect, ObjectKey, Stored, Write, WriteError,
    state::State,
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

fn run(mut disk: Box<dyn Disk>, state: &RwLock<State>, requests: &mpsc::Receiver<Request>) {
    while let Ok(first) = requests.recv() {
        let batch = std::iter::once(first).chain(requests.try_iter().take(BATCH - 1));
        commit(&mut *disk, state, batch);
    }
}

fn commit(disk: &mut dyn Disk, state: &RwLock<State>, batch: impl Iterator<Item = Request>) {
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
        return;
    }
    let changes: Vec<Change<'_>> = ahead
        .iter()
        .map(|((collection, key), object)| Change {
            collection,
            key,
            object: object.as_deref(),
        })
        .collect();
    match disk.commit(revision, &changes) {
        Ok(()) => {
            state
                .write()
                .unwrap_or_else(PoisonError::into_inner)
                .publish(revision, events);
            for (answer, object) in accepted {
                let _ = answer.send(Ok(object));
            }
        }
        Err(error) => {
            tracing::error!(%error, "store commit failed");
            for (answer, _) in accepted {
                let _ = answer.send(Err(WriteError::Disk(error.to_string())));
            }
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
