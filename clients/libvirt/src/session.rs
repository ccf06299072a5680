//! A connection that is made again whenever it ends.

use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use crate::connection::{Connection, Events, Settings};
use crate::error::Error;
use crate::events::{Event, EventKind};
use crate::uri::Uri;

/// News that nobody has taken yet. Behind them the connection has a queue of its own.
const UNREAD: usize = 256;

/// What happens to a session, in order.
#[derive(Clone, Debug)]
pub enum News {
    /// Connected, and listening: whatever is read from now on is followed by its changes.
    Connected(Connection),
    Event(Event),
    /// The connection ended, or none could be made. It is tried again.
    Lost(String),
}

/// It ends when it is dropped.
#[derive(Debug)]
pub struct Session {
    task: AbortHandle,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Session {
    /// Connects forever. Kinds of events that a driver does not have are left out.
    pub fn start(uri: Uri, settings: Settings, kinds: Vec<EventKind>) -> (Self, mpsc::Receiver<News>) {
        let (news, heard) = mpsc::channel(UNREAD);
        let task = tokio::spawn(run(uri, settings, kinds, news));
        let session = Session {
            task: task.abort_handle(),
        };
        (session, heard)
    }
}

async fn run(uri: Uri, settings: Settings, kinds: Vec<EventKind>, news: mpsc::Sender<News>) {
    let mut failures = 0u32;
    loop {
        let why = match begin(&uri, &settings, &kinds).await {
            Ok((connection, events)) => {
                failures = 0;
                if !serve(connection, events, &news).await {
                    return;
                }
                Error::Closed
            }
            Err(error) => error,
        };
        failures = failures.saturating_add(1);
        if news.send(News::Lost(why.to_string())).await.is_err() {
            return;
        }
        tokio::time::sleep(dial::pause(failures)).await;
    }
}

async fn begin(uri: &Uri, settings: &Settings, kinds: &[EventKind]) -> Result<(Connection, Events), Error> {
    let (connection, events) = Connection::open(uri, settings).await?;
    for kind in kinds {
        match connection.listen(&[*kind]).await {
            Err(error) if error.is_unsupported() => {
                tracing::debug!(?kind, "libvirt: no such events: {error}");
            }
            listening => listening?,
        }
    }
    Ok((connection, events))
}

/// Until the connection ends; `false` when nobody listens any more.
async fn serve(connection: Connection, mut events: Events, news: &mpsc::Sender<News>) -> bool {
    if news.send(News::Connected(connection.clone())).await.is_err() {
        return false;
    }
    while let Some(event) = events.recv().await {
        if news.send(News::Event(event)).await.is_err() {
            return false;
        }
    }
    true
}
