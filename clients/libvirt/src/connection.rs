//! One stream to one server.

use std::sync::Arc;
use std::time::Duration;

use dial::{Dial, Link, Lost, Protocol, Received, Stream, Tcp};
use tokio::net::UnixStream;
use tokio::sync::mpsc;

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
/// Asking for this feature also lets the server send pings.
const FEATURE_KEEPALIVE: i32 = 10;
const AUTHENTICATION: [&str; 3] = ["nothing", "SASL", "polkit"];

/// The procedure that was answered, and its result.
type Answer = (i32, Result<Vec<u8>, Error>);

/// Calls to a server. It is closed with its last clone.
#[derive(Clone, Debug)]
pub struct Connection {
    link: Arc<Link<Answer>>,
    patience: Duration,
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
        let (events, heard) = mpsc::channel(UNREAD);
        let reading = Reading {
            framer: Framer::new(settings.longest),
            events,
        };
        let connection = Connection {
            link: Arc::new(Link::over(stream, reading, settings.probe)),
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
            link: self.link.clone(),
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
        let call = |serial| Frame::call(procedure, serial, body).bytes();
        let lost = |lost| match lost {
            Lost::Closed => Error::Closed,
            Lost::TimedOut => Error::TimedOut(self.patience),
        };
        let (answered, result) = self.link.call(self.patience, call, lost).await?;
        if answered != procedure {
            // Nothing on this stream can be trusted any more.
            self.link.close();
            return Err(Error::Malformed(format!(
                "call {procedure} was answered as {answered}"
            )));
        }
        Reader::whole(&result?)
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

/// Messages of the server as answers and events.
struct Reading {
    framer: Framer,
    events: mpsc::Sender<Event>,
}

impl Protocol for Reading {
    type Answer = Answer;
    type Error = Error;

    const NAME: &'static str = "libvirt";

    fn ping(&self) -> Result<Vec<u8>, Error> {
        Frame::keepalive(PING).bytes()
    }

    fn push(&mut self, bytes: &[u8]) {
        self.framer.push(bytes);
    }

    fn next(&mut self) -> Result<Option<Received<Answer>>, Error> {
        let Some(Frame { header, body }) = self.framer.frame()? else {
            return Ok(None);
        };
        let received = match (header.program, header.kind) {
            (KEEPALIVE, Kind::Message) if header.procedure == PING => {
                Received::Reply(Frame::keepalive(PONG).bytes()?)
            }
            (REMOTE, Kind::Reply) => {
                let answer = match header.status {
                    DONE => Ok(body),
                    _ => Err(refused(&body)),
                };
                Received::Answer(header.serial, (header.procedure, answer))
            }
            (REMOTE, Kind::Message) => {
                let Some(event) = Event::of(header.procedure, &body)? else {
                    return Ok(Some(Received::Handled));
                };
                match self.events.try_send(event) {
                    Err(mpsc::error::TrySendError::Full(_)) => {
                        return Err(Error::Malformed(format!("more than {UNREAD} events wait")));
                    }
                    // Nobody listens: then nobody misses it.
                    Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => Received::Handled,
                }
            }
            // Pongs, and what newer servers may say.
            _ => Received::Handled,
        };
        Ok(Some(received))
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
