//! One stream to one server.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dial::{Dial, Stream, Tcp};
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;

use crate::error::Error;
use crate::events::{Event, EventKind};
use crate::records::Refusal;
use crate::tls::Certificates;
use crate::uri::{Uri, Way};
use crate::wire::{DONE, Frame, Framer, KEEPALIVE, Kind, LONGEST, PING, PONG, REMOTE};
use crate::xdr::{Decode, Reader};

/// How a server is reached, and what is expected of it.
#[derive(Clone, Debug)]
pub struct Settings {
    pub dial: Arc<dyn Dial>,
    /// Needed for `+tls`.
    pub certificates: Option<Certificates>,
    /// Longest for a connection or an answer.
    pub patience: Duration,
    /// A server that says nothing for so long is asked whether it lives, and left when it does not answer.
    pub probe: Duration,
    /// Longest message that is taken.
    pub longest: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            dial: Arc::new(Tcp),
            certificates: None,
            patience: Duration::from_secs(30),
            probe: Duration::from_secs(10),
            longest: LONGEST,
        }
    }
}

/// Events in the order in which they came; `None` once the connection is closed.
pub type Events = mpsc::Receiver<Event>;

/// Events that nobody has taken yet; who is slower than that loses the connection.
const UNREAD: usize = 4096;
const WRITES: usize = 64;
/// Asking for this feature also lets the server send pings.
const FEATURE_KEEPALIVE: i32 = 10;
const AUTHENTICATION: [&str; 3] = ["nothing", "SASL", "polkit"];

type Answer = Result<Vec<u8>, Error>;
type Waiting = Arc<Mutex<Option<HashMap<u32, (i32, oneshot::Sender<Answer>)>>>>;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Calls to a server. It is closed with its last clone.
#[derive(Clone, Debug)]
pub struct Connection {
    inner: Arc<Inner>,
    patience: Duration,
}

#[derive(Debug)]
struct Inner {
    writes: mpsc::Sender<Vec<u8>>,
    waiting: Waiting,
    next: AtomicU32,
    tasks: [AbortHandle; 2],
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

impl Connection {
    /// Connects, and opens what the URI names.
    pub async fn open(uri: &Uri, settings: &Settings) -> Result<(Self, Events), Error> {
        let opening = async {
            let stream = connect(uri, settings).await?;
            let (connection, events) = Self::over(stream, settings);
            connection.begin(&uri.name).await?;
            Ok((connection, events))
        };
        let opened = tokio::time::timeout(settings.patience, opening).await;
        opened.unwrap_or(Err(Error::TimedOut(settings.patience)))
    }

    /// Over a stream that is open already; nothing is said yet.
    pub fn over(stream: Box<dyn Stream>, settings: &Settings) -> (Self, Events) {
        let (read, write) = tokio::io::split(stream);
        let (writes, to_write) = mpsc::channel(WRITES);
        let (events, heard) = mpsc::channel(UNREAD);
        let waiting: Waiting = Arc::new(Mutex::new(Some(HashMap::new())));
        let writer = tokio::spawn(write_all(write, to_write));
        let reading = Reading {
            framer: Framer::new(settings.longest),
            writes: writes.downgrade(),
            waiting: waiting.clone(),
            events,
            probe: settings.probe,
        };
        let reader = tokio::spawn(reading.run(read));
        let inner = Inner {
            writes,
            waiting,
            next: AtomicU32::new(1),
            tasks: [writer.abort_handle(), reader.abort_handle()],
        };
        let connection = Connection {
            inner: Arc::new(inner),
            patience: settings.patience,
        };
        (connection, heard)
    }

    async fn begin(&self, name: &str) -> Result<(), Error> {
        let kinds = self.auth_list().await?.0;
        if !kinds.contains(&0) {
            let named = |kind: &i32| {
                let known = usize::try_from(*kind)
                    .ok()
                    .and_then(|kind| AUTHENTICATION.get(kind));
                known.map_or_else(|| format!("method {kind}"), |known| (*known).to_owned())
            };
            let named: Vec<String> = kinds.iter().map(named).collect();
            return Err(Error::NeedsAuthentication(named.join(" or ")));
        }
        self.connect_supports_feature(FEATURE_KEEPALIVE).await?;
        self.connect_open(Some(name), 0).await
    }

    /// The same connection, for calls that take longer or may not.
    #[must_use]
    pub fn with_patience(&self, patience: Duration) -> Self {
        Connection {
            inner: self.inner.clone(),
            patience,
        }
    }

    /// Listens to events of all domains.
    pub async fn listen(&self, kinds: &[EventKind]) -> Result<(), Error> {
        for kind in kinds {
            self.connect_domain_event_callback_register_any(kind.id(), None)
                .await?;
        }
        Ok(())
    }

    /// Takes leave. A connection that is only dropped is closed by the server all the same.
    pub async fn close(self) -> Result<(), Error> {
        self.connect_close().await
    }

    pub(crate) async fn call<T: Decode>(&self, procedure: i32, body: Vec<u8>) -> Result<T, Error> {
        let inner = &self.inner;
        let serial = inner.next.fetch_add(1, Ordering::Relaxed);
        let bytes = Frame::call(procedure, serial, body).bytes()?;
        let (answer, answered) = oneshot::channel();
        lock(&inner.waiting)
            .as_mut()
            .ok_or(Error::Closed)?
            .insert(serial, (procedure, answer));
        let asked = async {
            inner.writes.send(bytes).await.map_err(|_| Error::Closed)?;
            answered.await.map_err(|_| Error::Closed)?
        };
        let result = tokio::time::timeout(self.patience, asked).await;
        if let Some(waiting) = lock(&inner.waiting).as_mut() {
            waiting.remove(&serial);
        }
        let body = result.unwrap_or(Err(Error::TimedOut(self.patience)))?;
        Reader::whole(&body)
    }
}

async fn connect(uri: &Uri, settings: &Settings) -> Result<Box<dyn Stream>, Error> {
    let unreachable = |source| Error::Unreachable {
        uri: uri.to_string(),
        source,
    };
    match &uri.way {
        Way::Unix(path) => {
            let stream = UnixStream::connect(path).await.map_err(unreachable)?;
            Ok(Box::new(stream))
        }
        Way::Tcp { host, port } => settings.dial.dial(host, *port).await.map_err(unreachable),
        Way::Tls { host, port } => {
            let certificates = settings
                .certificates
                .as_ref()
                .ok_or_else(|| Error::Tls(format!("{uri} needs certificates")))?;
            let stream = settings.dial.dial(host, *port).await.map_err(unreachable)?;
            certificates.wrap(host, stream).await.map_err(unreachable)
        }
    }
}

async fn write_all(mut stream: WriteHalf<Box<dyn Stream>>, mut messages: mpsc::Receiver<Vec<u8>>) {
    while let Some(message) = messages.recv().await {
        let written = async {
            stream.write_all(&message).await?;
            stream.flush().await
        };
        if let Err(error) = written.await {
            tracing::debug!("libvirt: cannot write: {error}");
            return;
        }
    }
}

struct Reading {
    framer: Framer,
    writes: mpsc::WeakSender<Vec<u8>>,
    waiting: Waiting,
    events: mpsc::Sender<Event>,
    probe: Duration,
}

impl Reading {
    async fn run(mut self, stream: ReadHalf<Box<dyn Stream>>) {
        if let Err(error) = self.read(stream).await {
            tracing::debug!("libvirt: connection ends: {error}");
        }
        // Nobody waits for an answer that cannot come.
        lock(&self.waiting).take();
    }

    async fn read(&mut self, mut stream: ReadHalf<Box<dyn Stream>>) -> Result<(), Error> {
        let mut chunk = vec![0; 16 << 10];
        let mut probed = false;
        loop {
            let read = tokio::time::timeout(self.probe, stream.read(&mut chunk)).await;
            let Ok(read) = read else {
                if probed {
                    return Err(Error::TimedOut(self.probe));
                }
                probed = true;
                self.write(PING).await?;
                continue;
            };
            match read {
                Ok(0) | Err(_) => return Ok(()),
                Ok(count) => self.framer.push(&chunk[..count]),
            }
            probed = false;
            while let Some(frame) = self.framer.frame()? {
                self.take(frame).await?;
            }
        }
    }

    async fn take(&self, frame: Frame) -> Result<(), Error> {
        let Frame { header, body } = frame;
        match (header.program, header.kind) {
            (KEEPALIVE, Kind::Message) if header.procedure == PING => self.write(PONG).await,
            (REMOTE, Kind::Reply) => {
                let waiting = lock(&self.waiting)
                    .as_mut()
                    .and_then(|waiting| waiting.remove(&header.serial));
                let Some((procedure, waiting)) = waiting else {
                    // Who asked has given up.
                    return Ok(());
                };
                if procedure != header.procedure {
                    return Err(Error::Malformed(format!(
                        "call {procedure} was answered as {}",
                        header.procedure
                    )));
                }
                let answer = match header.status {
                    DONE => Ok(body),
                    _ => Err(refused(&body)),
                };
                let _ = waiting.send(answer);
                Ok(())
            }
            (REMOTE, Kind::Message) => {
                let Some(event) = Event::of(header.procedure, &body)? else {
                    return Ok(());
                };
                match self.events.try_send(event) {
                    Err(mpsc::error::TrySendError::Full(_)) => {
                        Err(Error::Malformed(format!("more than {UNREAD} events wait")))
                    }
                    // Nobody listens: then nobody misses it.
                    Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => Ok(()),
                }
            }
            // Pongs, and what newer servers may say.
            _ => Ok(()),
        }
    }

    async fn write(&self, procedure: i32) -> Result<(), Error> {
        let writes = self.writes.upgrade().ok_or(Error::Closed)?;
        let bytes = Frame::keepalive(procedure).bytes()?;
        writes.send(bytes).await.map_err(|_| Error::Closed)
    }
}

fn refused(body: &[u8]) -> Error {
    match Reader::whole::<Refusal>(body) {
        Ok(refusal) => Error::Refused {
            code: refusal.code,
            domain: refusal.domain,
            message: refusal
                .message
                .unwrap_or_else(|| "no reason was given".to_owned()),
        },
        Err(error) => error,
    }
}
