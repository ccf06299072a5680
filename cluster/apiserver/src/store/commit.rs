//! The one writer. Requests that arrive while a commit is on its way to disk share the next one.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, RwLock, mpsc},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use tokio::sync::oneshot;

use super::{
    Action, Change, Collection, Disk, Event, EventKind, Expect, ObjectKey, Stored, Write, WriteError,
    state::State,
};

/// More than this many requests do not fit one commit: readers would wait too long for the first.
const BATCH: usize = 1024;
/// Between two attempts to rewrite a file.
const PAUSE: Duration = Duration::from_secs(1);

type Outcome = Result<Arc<Stored>, WriteError>;

pub(super) struct Request {
    pub write: Write,
    pub answer: oneshot::Sender<Outcome>,
}

pub(super) struct Writer {
    queue: Mutex<Option<mpsc::Sender<Request>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    trouble: Trouble,
}

/// Why nothing can be written at present.
type Trouble = Arc<Mutex<Option<String>>>;

impl Writer {
    pub(super) fn start(disk: Box<dyn Disk>, state: Arc<RwLock<State>>) -> Self {
        let (queue, requests) = mpsc::channel();
        let committer = Committer::new(disk, state);
        let trouble = committer.trouble.clone();
        let thread = std::thread::Builder::new()
            .name("store-writer".into())
            .spawn(move || run(committer, &requests))
            .map_err(|error| tracing::error!(%error, "cannot start the store's writer"))
            .ok();
        Self {
            queue: Mutex::new(Some(queue)),
            thread: Mutex::new(thread),
            trouble,
        }
    }

    pub(super) fn send(&self, request: Request) -> Result<(), WriteError> {
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue
            .as_ref()
            .ok_or(WriteError::Stopped)?
            .send(request)
            .map_err(|_| WriteError::Stopped)
    }

    /// Whether a write would be taken now.
    pub(super) fn ready(&self) -> Result<(), WriteError> {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.as_ref().is_none_or(JoinHandle::is_finished) {
            return Err(WriteError::Stopped);
        }
        let trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        trouble.clone().map_or(Ok(()), |why| Err(WriteError::Disk(why)))
    }

    /// Lets queued writes finish, then closes the file.
    pub(super) fn stop(&self) {
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

fn run(mut committer: Committer, requests: &mpsc::Receiver<Request>) {
    loop {
        let first = if committer.is_well() {
            requests.recv().map_err(|_| mpsc::RecvTimeoutError::Disconnected)
        } else {
            requests.recv_timeout(PAUSE)
        };
        match first {
            Ok(first) => {
                let batch = std::iter::once(first).chain(requests.try_iter().take(BATCH - 1));
                committer.serve(batch.collect());
            }
            // Nobody writes to a server that says it is not ready: it heals without them.
            Err(mpsc::RecvTimeoutError::Timeout) => committer.serve(Vec::new()),
            Err(mpsc::RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// Takes batches of writes to disk and then to the readers.
pub(super) struct Committer {
    disk: Box<dyn Disk>,
    state: Arc<RwLock<State>>,
    trouble: Trouble,
    /// No attempt to rewrite the file before this.
    next_attempt: Option<Instant>,
}

impl Committer {
    pub(super) fn new(disk: Box<dyn Disk>, state: Arc<RwLock<State>>) -> Self {
        Self {
            disk,
            state,
            trouble: Arc::default(),
            next_attempt: None,
        }
    }

    fn trouble(&self) -> std::sync::MutexGuard<'_, Option<String>> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_well(&self) -> bool {
        self.trouble().is_none()
    }

    /// Answers every request of the batch. After a failure the file is rewritten first, from what
    /// readers see: the batch that failed was told to nobody, so it did not happen.
    pub(super) fn serve(&mut self, batch: Vec<Request>) {
        if let Err(refused) = self.recover() {
            for request in batch {
                let _ = request.answer.send(Err(refused.clone()));
            }
            return;
        }
        self.commit(batch);
    }

    fn recover(&mut self) -> Result<(), WriteError> {
        let Some(why) = self.trouble().clone() else {
            return Ok(());
        };
        if self.next_attempt.is_some_and(|at| Instant::now() < at) {
            return Err(WriteError::Disk(why));
        }
        let (revision, objects) = self
            .state
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .everything();
        match self.disk.rewrite(revision, &objects) {
            Ok(()) => {
                tracing::info!(revision, "the store's file was rewritten");
                *self.trouble() = None;
                self.next_attempt = None;
                Ok(())
            }
            Err(error) => {
                tracing::error!(%error, "the store's file cannot be rewritten");
                *self.trouble() = Some(error.to_string());
                self.next_attempt = Some(Instant::now() + PAUSE);
                Err(WriteError::Disk(error.to_string()))
            }
        }
    }

    fn commit(&mut self, batch: Vec<Request>) {
        // Objects as the earlier writes of this batch leave them.
        let mut ahead: HashMap<(Collection, ObjectKey), Option<Arc<Stored>>> = HashMap::new();
        // Answers that are true only if the batch reaches the disk.
        let mut waiting = Vec::new();
        let mut events = Vec::new();
        let mut revision;
        {
            let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
            revision = state.revision();
            for Request { write, answer } in batch {
                let place = (write.collection, write.key);
                let earlier = ahead.get(&place);
                let current = earlier.map_or_else(|| state.get(&place.0, &place.1), Clone::clone);
                if let Err(refused) = check(write.expect, current.as_deref()) {
                    // A refusal that rests on a write of this batch waits for it, as an acceptance does.
                    if earlier.is_some() {
                        waiting.push((answer, Err(refused)));
                    } else {
                        let _ = answer.send(Err(refused));
                    }
                    continue;
                }
                revision += 1;
                let (kind, draft) = match &write.action {
                    Action::Put(draft) => (EventKind::Put, draft),
                    Action::Delete(draft) => (EventKind::Delete, draft),
                };
                let object = Stored::new(place.1.clone(), revision, draft.seal(revision));
                let next = (kind == EventKind::Put).then(|| object.clone());
                waiting.push((answer, Ok(object.clone())));
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
        match self.disk.commit(revision, &changes) {
            Ok(()) => {
                self.state
                    .write()
                    .unwrap_or_else(PoisonError::into_inner)
                    .publish(revision, events);
                for (answer, outcome) in waiting {
                    let _ = answer.send(outcome);
                }
            }
            Err(error) => {
                tracing::error!(%error, "store commit failed");
                *self.trouble() = Some(error.to_string());
                for (answer, _) in waiting {
                    let _ = answer.send(Err(WriteError::Disk(error.to_string())));
                }
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
