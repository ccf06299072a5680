//! One stream to one server.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use dial::{Dial, Link, Lost, Protocol, Received, Stream, Tcp};
use serde_json::{Value, json};
use tokio::net::UnixStream;
use tokio::sync::mpsc;

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
/// Requests to a server. It is closed with its last clone.
#[derive(Clone, Debug)]
pub struct Connection {
    link: Arc<Link<Result<Value, Value>>>,
    patience: Duration,
}

impl Connection {
    pub async fn open(remote: &Remote, way: &Way) -> Result<(Self, Notes), Error> {
        let opened = tokio::time::timeout(way.patience, connect(remote, way)).await;
        let stream = opened.map_err(|_| Error::TimedOut(way.patience))??;
        Ok(Self::over(stream, way))
    }

    /// Over a stream that is open already.
    pub fn over(stream: Box<dyn Stream>, way: &Way) -> (Self, Notes) {
        let (notes, noted) = mpsc::channel(UNREAD);
        let reading = Reading {
            framer: Framer::new(way.longest),
            notes,
        };
        let connection = Connection {
            link: Arc::new(Link::over(stream, reading, way.probe)),
            patience: way.patience,
        };
        (connection, noted)
    }

    /// Any request.
    pub async fn call(&self, method: &str, params: Value) -> Result<Value, Error> {
        let request = |id| {
            let request = json!({"id": id, "method": method, "params": params});
            Ok(request.to_string().into_bytes())
        };
        let lost = |lost| match lost {
            Lost::Closed => Error::Closed,
            Lost::TimedOut => Error::TimedOut(self.patience),
        };
        let answer = self.link.call(self.patience, request, lost).await?;
        answer.map_err(|error| refused(&error))
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
            let wrapped = certificates.0.wrap(host, stream).await;
            wrapped.map_err(|source| match source.kind() {
                // What TLS itself does not accept.
                ErrorKind::InvalidData => Error::Tls(format!("{remote}: {source}")),
                _ => unreachable(source),
            })
        }
    }
}

/// Messages of the server as answers and notes.
struct Reading {
    framer: Framer,
    notes: mpsc::Sender<Note>,
}

impl Protocol for Reading {
    type Answer = Result<Value, Value>;
    type Error = Error;

    const NAME: &'static str = "OVSDB";

    fn ping(&self) -> Result<Vec<u8>, Error> {
        let echo = json!({"id": "echo", "method": "echo", "params": []});
        Ok(echo.to_string().into_bytes())
    }

    fn push(&mut self, bytes: &[u8]) {
        self.framer.push(bytes);
    }

    fn next(&mut self) -> Result<Option<Received<Self::Answer>>, Error> {
        let Some(message) = self.framer.message()? else {
            return Ok(None);
        };
        let received = match Message::of(message)? {
            Message::Request { id, method, params } => {
                let result = match method.as_str() {
                    "echo" => Ok(params),
                    _ => Err(json!({"error": "unknown method"})),
                };
                let reply = Message::Reply { id, result }.to_value();
                Received::Reply(reply.to_string().into_bytes())
            }
            Message::Notification { method, params } => {
                match self.notes.try_send(Note { method, params }) {
                    Err(mpsc::error::TrySendError::Full(_)) => {
                        return Err(Error::Malformed(format!("more than {UNREAD} notes wait")));
                    }
                    // Nobody listens: then nobody misses it.
                    Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => Received::Handled,
                }
            }
            Message::Reply { id, result } => match id.as_u64().map(u32::try_from) {
                Some(Ok(id)) => Received::Answer(id, result),
                // The answer to our ping.
                _ => Received::Handled,
            },
        };
        Ok(Some(received))
    }
}
