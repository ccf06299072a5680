use std::io;
use std::time::Duration;

/// Why a database cannot be asked. No text holds a value of a row.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0:?} is not a remote: write tcp:ADDRESS:PORT, ssl:ADDRESS:PORT or unix:PATH")]
    BadRemote(String),
    #[error("cannot reach {remote}: {source}")]
    Unreachable { remote: String, source: io::Error },
    #[error("TLS: {0}")]
    Tls(String),
    #[error("the connection is closed")]
    Closed,
    #[error("a message is longer than {limit} bytes")]
    TooLong { limit: usize },
    #[error("the server sent something that is not an OVSDB message: {0}")]
    Malformed(String),
    #[error("no answer within {} s", .0.as_secs())]
    TimedOut(Duration),
    /// The server took the request and did not carry it out; nothing was changed.
    #[error("refused: {error}{}", if .details.is_empty() { String::new() } else { format!(": {}", .details) })]
    Refused { error: String, details: String },
    #[error("the server does not know database {0}")]
    NoDatabase(String),
    #[error("the server is not the leader of {0}")]
    NotLeader(String),
    #[error("the server has lost touch with the cluster of {0}")]
    Detached(String),
    #[error("no server is connected{}", .0.as_ref().map(|why| format!(": {why}")).unwrap_or_default())]
    Disconnected(Option<String>),
}
