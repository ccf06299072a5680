//! One stream on which calls and their answers are told apart by number, whatever the protocol.

use std::collections::HashMap;
use std::fmt::{Debug, Display};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;

use crate::Stream;

/// Messages that wait to be written; further callers wait for a place.
const WRITES: usize = 64;
const CHUNK: usize = 64 << 10;

/// What a protocol makes of the bytes of a stream.
pub trait Protocol: Send + 'static {
    type Answer: Send + 'static;
    /// Ends the connection: after it the stream cannot be trusted any more.
    type Error: Display + Send;

    /// For the log.
    const NAME: &'static str;

    /// The message that asks a silent server whether it is alive.
    fn ping(&self) -> Result<Vec<u8>, Self::Error>;

    /// Takes bytes that were read.
    fn push(&mut self, bytes: &[u8]);

    /// The next whole message; `None` until more bytes have come.
    fn next(&mut self) -> Result<Option<Received<Self::Answer>>, Self::Error>;
}

/// What is to be done about a message of the server.
pub enum Received<A> {
    /// The answer to the call of this number.
    Answer(u32, A),
    /// The server asked something: this is to be written back.
    Reply(Vec<u8>),
    /// The protocol has dealt with it.
    Handled,
}

/// Why a call has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    Closed,
    TimedOut,
}

/// `None` once the connection has ended: nobody waits for an answer that cannot come.
type Waiting<A> = Arc<Mutex<Option<HashMap<u32, oneshot::Sender<A>>>>>;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A connection; it is closed when dropped.
pub struct Link<A> {
    writes: mpsc::Sender<Vec<u8>>,
    waiting: Waiting<A>,
    next: AtomicU32,
    tasks: [AbortHandle; 2],
}

impl<A> Debug for Link<A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Link")
    }
}

impl<A> Drop for Link<A> {
    fn drop(&mut self) {
        self.close();
    }
}

impl<A: Send + 'static> Link<A> {
    /// Over an open stream. A server that is silent for `probe` is pinged, and left if it stays silent for as
    /// long again.
    pub fn over<P: Protocol<Answer = A>>(stream: Box<dyn Stream>, protocol: P, probe: Duration) -> Self {
        let (read, write) = tokio::io::split(stream);
        let (writes, to_write) = mpsc::channel(WRITES);
        let waiting: Waiting<A> = Arc::new(Mutex::new(Some(HashMap::new())));
        let writer = tokio::spawn(write_all(P::NAME, write, to_write));
        let reading = Reading {
            protocol,
            writes: writes.downgrade(),
            waiting: waiting.clone(),
            probe,
        };
        let reader = tokio::spawn(reading.run(read));
        Link {
            writes,
            waiting,
            next: AtomicU32::new(1),
            tasks: [writer.abort_handle(), reader.abort_handle()],
        }
    }

    /// Sends the message that `message` makes for the number of this call, and waits for its answer.
    pub async fn call<E>(
        &self,
        patience: Duration,
        message: impl FnOnce(u32) -> Result<Vec<u8>, E>,
        lost: impl FnOnce(Lost) -> E,
    ) -> Result<A, E> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let message = message(number)?;
        let (answer, answered) = oneshot::channel();
        match lock(&self.waiting).as_mut() {
            Some(waiting) => waiting.insert(number, answer),
            None => return Err(lost(Lost::Closed)),
        };
        let asked = async {
            self.writes.send(message).await.map_err(|_| Lost::Closed)?;
            answered.await.map_err(|_| Lost::Closed)
        };
        let result = tokio::time::timeout(patience, asked).await;
        if let Some(waiting) = lock(&self.waiting).as_mut() {
            waiting.remove(&number);
        }
        result.unwrap_or(Err(Lost::TimedOut)).map_err(lost)
    }
}

impl<A> Link<A> {
    /// Calls that are under way end with [`Lost::Closed`].
    pub fn close(&self) {
        self.tasks.iter().for_each(AbortHandle::abort);
        lock(&self.waiting).take();
    }
}

async fn write_all(
    name: &str,
    mut stream: WriteHalf<Box<dyn Stream>>,
    mut messages: mpsc::Receiver<Vec<u8>>,
) {
    while let Some(message) = messages.recv().await {
        let written = async {
            stream.write_all(&message).await?;
            stream.flush().await
        };
        if let Err(error) = written.await {
            tracing::debug!("{name}: cannot write: {error}");
            return;
        }
    }
}

struct Reading<P: Protocol> {
    protocol: P,
    /// Weak, so that the writer ends with the link.
    writes: mpsc::WeakSender<Vec<u8>>,
    waiting: Waiting<P::Answer>,
    probe: Duration,
}

impl<P: Protocol> Reading<P> {
    async fn run(mut self, stream: ReadHalf<Box<dyn Stream>>) {
        let why = self.read(stream).await;
        tracing::debug!("{}: connection ends: {why}", P::NAME);
        lock(&self.waiting).take();
    }

    /// Until the connection ends; says why.
    async fn read(&mut self, mut stream: ReadHalf<Box<dyn Stream>>) -> String {
        let mut chunk = vec![0; CHUNK];
        let mut probed = false;
        loop {
            let read = tokio::time::timeout(self.probe, stream.read(&mut chunk)).await;
            match read {
                Err(_) if probed => return format!("silent for {} s", 2 * self.probe.as_secs()),
                Err(_) => {
                    probed = true;
                    let ping = match self.protocol.ping() {
                        Ok(ping) => ping,
                        Err(error) => return error.to_string(),
                    };
                    if !write(&self.writes, ping).await {
                        return "closed".to_owned();
                    }
                    continue;
                }
                Ok(Ok(0)) => return "closed by the server".to_owned(),
                Ok(Err(error)) => return error.to_string(),
                Ok(Ok(count)) => self.protocol.push(&chunk[..count]),
            }
            probed = false;
            loop {
                match self.protocol.next() {
                    Ok(None) => break,
                    Ok(Some(Received::Handled)) => {}
                    Ok(Some(Received::Answer(number, answer))) => {
                        let caller = lock(&self.waiting).as_mut().and_then(|all| all.remove(&number));
                        if let Some(caller) = caller {
                            // The caller may have given up.
                            let _ = caller.send(answer);
                        }
                    }
                    Ok(Some(Received::Reply(message))) => {
                        if !write(&self.writes, message).await {
                            return "closed".to_owned();
                        }
                    }
                    Err(error) => return error.to_string(),
                }
            }
        }
    }
}

/// `false`: the link is gone.
async fn write(writes: &mpsc::WeakSender<Vec<u8>>, message: Vec<u8>) -> bool {
    match writes.upgrade() {
        Some(writes) => writes.send(message).await.is_ok(),
        None => false,
    }
}
