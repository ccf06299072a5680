use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot listen on {address}: {why}. Choose another address with --listen")]
    Listen {
        address: std::net::SocketAddr,
        why: std::io::Error,
    },
    #[error("cannot read {}: {why}", path.display())]
    Read { path: PathBuf, why: std::io::Error },
    #[error("--track {name:?} is not a metric of the operations log; known are: {known}")]
    UnknownFamily { name: String, known: String },
    #[error("{} is no position of a log: {why}. Remove the file to start at the end of the log", path.display())]
    Position { path: PathBuf, why: serde_json::Error },
    #[error("cannot wait for signals: {0}")]
    Signals(std::io::Error),
    #[error("--log: {0}")]
    Filter(String),
    #[error("what is printed cannot be written: {0}")]
    Print(std::io::Error),
    #[error("NATS at {url}: {why}")]
    Nats { url: String, why: String },
    #[error("--admin-url {0:?} is no address of RadosGW: use http://HOST:PORT or https://HOST:PORT")]
    AdminUrl(String),
    #[error("no key of RadosGW: set --keys DIRECTORY, or {0} in the environment")]
    NoKeys(String),
    #[error("{address}: {why}")]
    Admin { address: String, why: String },
    #[error("the certificates of the system cannot be read: {0}. Name others with --ca")]
    Roots(std::io::Error),
    #[error("certificate {}: {why}", path.display())]
    Certificate { path: PathBuf, why: String },
    #[error("{program}: {why}")]
    Tool { program: String, why: String },
    #[error("this command needs NATS: name the server with --nats or NATS_URL")]
    NoNats,
}
