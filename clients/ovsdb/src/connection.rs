//! One stream to one server.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dial::{Dial, Stream, Tcp};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;

use crate::error::Error;
use crate::frame::{Framer, LONGEST};
use crate::message::{Message, refused};
use crate::operation::{Operation, Outcome};
use crate::remote::Remote;
use crate::schema::Schema;
use crate::tls::Certificates;

/// How a server is reached, and what is expected of it.
#[derive(Clone, Debug)]
pub struct Way {
    pub dial: Arc<dyn Dial>,
    /// Needed for `ssl:`.
    pub certificates: Option<Certificates>,
    /// Longest for a connection or an answer.
    pub patience: Duration,
    /// A server that says nothing for so long is asked whether it lives, and left when it does not answer.
    pub probe: Duration,
    /// Longest message that is taken.
    pub longest: usize,
}

impl Default for Way {
    fn default() -> Self {
        Way {
            dial: Arc::new(Tcp),
            certificates: None,
            patience: Duration::from_secs(10),
            probe: Duration::from_secs(20),
            longest: LONGEST,
        }
    }
}

/// What a server says unasked.
#[derive(Clone, Debug, PartialEq)]
pub struct Note {
    pub method: String,
    pub params: Value,
}

/// Notes in the order in which they came; `None` once the connection is closed.
pub type Notes = mpsc::Receiver<Note>;

/// Notes that nobody has taken yet; who is slower than that loses the connection.
const UNREAD: usize = 4096;
const WRITES: usize = 64;

type Waiting = Arc<Mutex<Option<HashMap<u64, oneshot::Sender<Result<Value, Value>>>>>>;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Requests to a server. It is closed with its last clone.
#[derive(Clone, Debug)]
pub struct Connection(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    writes: mpsc::Sender<Value>,
    waiting: Waiting,
    next: AtomicU64,
    patience: Duration,
    tasks: [AbortHandle; 2],
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

impl Connection {
    pub async fn open(remote: &Remote, way: &Way) -> Result<(Self, Notes), Error> {
        let opened = tokio::time::timeout(way.patience, connect(remote, way)).await;
        let stream = opened.map_err(|_| Error::TimedOut(way.patience))??;
        Ok(Self::over(stream, way))
    }

    /// Over a stream that is open already.
    pub fn over(stream: Box<dyn Stream>, way: &Way) -> (Self, Notes) {
        let (read, write) = tokio::io::split(stream);
        let (writes, to_write) = mpsc::channel(WRITES);
        let (notes, noted) = mpsc::channel(UNREAD);
        let waiting: Waiting = Arc::new(Mutex::new(Some(HashMap::new())));
        let writer = tokio::spawn(write_all(write, to_write));
        let reading = Reading {
            framer: Framer::new(way.longest),
            writes: writes.downgrade(),
            waiting: waiting.clone(),
            notes,
            probe: way.probe,
        };
        let reader = tokio::spawn(reading.run(read));
        let inner = Inner {
            writes,
            waiting,
            next: AtomicU64::new(1),
            patience: way.patience,
            tasks: [writer.abort_handle(), reader.abort_handle()],
        };
        (Connection(Arc::new(inner)), noted)
    }

    /// Any request.
    pub async fn call(&self, method: &str, params: Value) -> Result<Value, Error> {
        let inner = &self.0;
        let id = inner.next.fetch_add(1, Ordering::Relaxed);
        let (answer, answered) = oneshot::channel();
        lock(&inner.waiting)
            .as_mut()
            .ok_or(Error::Closed)?
            .insert(id, answer);
        let request = json!({"id": id, "method": method, "params": params});
        let asked = async {
            inner.writes.send(request).await.map_err(|_| Error::Closed)?;
            answered
                .await
                .map_err(|_| Error::Closed)?
                .map_err(|error| refused(&error))
        };
        let result = tokio::time::timeout(inner.patience, asked).await;
        if let Some(waiting) = lock(&inner.waiting).as_mut() {
            waiting.remove(&id);
        }
        result.unwrap_or(Err(Error::TimedOut(inner.patience)))
    }

    pub async fn list_dbs(&self) -> Result<Vec<String>, Error> {
        let names = self.call("list_dbs", json!([])).await?;
        let names = names.as_array().into_iter().flatten();
        Ok(names.filter_map(Value::as_str).map(str::to_owned).collect())
    }

    pub async fn get_schema(&self, database: &str) -> Result<Schema, Error> {
        match self.call("get_schema", json!([database])).await {
            Ok(schema) => Ok(Schema::of(&schema)),
            Err(Error::Refused { error, .. }) if error == "unknown database" => {
                Err(Error::NoDatabase(database.to_owned()))
            }
            Err(error) => Err(error),
        }
    }

    pub async fn echo(&self) -> Result<(), Error> {
        self.call("echo", json!([])).await.map(drop)
    }

    /// All operations or none. The outcomes are in their order.
    pub async fn transact(&self, database: &str, operations: &[Operation]) -> Result<Vec<Outcome>, Error> {
        let mut params = vec![json!(database)];
        params.extend(operations.iter().map(Operation::to_value));
        let answer = self.call("transact", Value::Array(params)).await?;
        let Value::Array(results) = answer else {
            return Err(Error::Malformed(
                "the outcome of a transaction is not a list".to_owned(),
            ));
        };
        // One that failed says so in its place, or behind the last when the commit failed.
        if let Some(failed) = results
            .iter()
            .find(|result| result.get("error").is_some_and(|e| !e.is_null()))
        {
            return Err(refused(failed));
        }
        if results.len() < operations.len() {
            return Err(Error::Malformed("outcomes of operations are missing".to_owned()));
        }
        Ok(results.into_iter().map(Outcome).collect())
    }
}

async fn connect(remote: &Remote, way: &Way) -> Result<Box<dyn Stream>, Error> {
    let unreachable = |source| Error::Unreachable {
        remote: remote.to_string(),
        source,
    };
    match remote {
        Remote::Unix(path) => {
            let stream = UnixStream::connect(path).await.map_err(unreachable)?;
            Ok(Box::new(stream))
        }
        Remote::Tcp { host, port } => way.dial.dial(host, *port).await.map_err(unreachable),
        Remote::Tls { host, port } => {
            let certificates = way
                .certificates
                .as_ref()
                .ok_or_else(|| Error::Tls(format!("{remote} needs certificates")))?;
            let stream = way.dial.dial(host, *port).await.map_err(unreachable)?;
            certificates.0.wrap(host, stream).await.map_err(unreachable)
        }
    }
}

async fn write_all(mut stream: WriteHalf<Box<dyn Stream>>, mut messages: mpsc::Receiver<Value>) {
    while let Some(message) = messages.recv().await {
        let written = async {
            stream.write_all(message.to_string().as_bytes()).await?;
            stream.flush().await
        };
        if let Err(error) = written.await {
            tracing::debug!("OVSDB: cannot write: {error}");
            return;
        }
    }
}

struct Reading {
    framer: Framer,
    writes: mpsc::WeakSender<Value>,
    waiting: Waiting,
    notes: mpsc::Sender<Note>,
    probe: Duration,
}

impl Reading {
    async fn run(mut self, stream: ReadHalf<Box<dyn Stream>>) {
        if let Err(error) = self.read(stream).await {
            tracing::debug!("OVSDB: connection ends: {error}");
        }
        // Nobody waits for an answer that cannot come.
        lock(&self.waiting).take();
    }

    async fn read(&mut self, mut stream: ReadHalf<Box<dyn Stream>>) -> Result<(), Error> {
        let mut chunk = vec![0; 64 << 10];
        let mut probed = false;
        loop {
            let read = tokio::time::timeout(self.probe, stream.read(&mut chunk)).await;
            let Ok(read) = read else {
                if probed {
                    return Err(Error::TimedOut(self.probe));
                }
                probed = true;
                self.write(json!({"id": "echo", "method": "echo", "params": []}))
                    .await?;
                continue;
            };
            match read {
                Ok(0) | Err(_) => return Ok(()),
                Ok(count) => self.framer.push(&chunk[..count]),
            }
            probed = false;
            while let Some(message) = self.framer.message()? {
                self.take(Message::of(message)?).await?;
            }
        }
    }

    async fn take(&self, message: Message) -> Result<(), Error> {
        match message {
            Message::Request { id, method, params } => {
                let result = match method.as_str() {
                    "echo" => Ok(params),
                    _ => Err(json!({"error": "unknown method"})),
                };
                self.write(Message::Reply { id, result }.to_value()).await
            }
            Message::Notification { method, params } => {
                let noted = self.notes.try_send(Note { method, params });
                match noted {
                    Err(mpsc::error::TrySendError::Full(_)) => {
                        Err(Error::Malformed(format!("more than {UNREAD} notes wait")))
                    }
                    // Nobody listens: then nobody misses it.
                    Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => Ok(()),
                }
            }
            Message::Reply { id, result } => {
                let waiting = id
                    .as_u64()
                    .and_then(|id| lock(&self.waiting).as_mut()?.remove(&id));
                if let Some(waiting) = waiting {
                    // Who asked may have given up.
                    let _ = waiting.send(result);
                }
                Ok(())
            }
        }
    }

    async fn write(&self, message: Value) -> Result<(), Error> {
        let writes = self.writes.upgrade().ok_or(Error::Closed)?;
        writes.send(message).await.map_err(|_| Error::Closed)
    }
}
