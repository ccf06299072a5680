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
    #[error("--track {name:?} is not a metric of the operations log; use one of: {known}")]
    UnknownFamily { name: String, known: String },
    #[error("{} is not a log position: {why}. Remove the file to start at the end of the log", path.display())]
    Position { path: PathBuf, why: serde_json::Error },
    #[error("cannot wait for signals: {0}")]
    Signals(std::io::Error),
    #[error("--log: {0}")]
    Filter(String),
    #[error("cannot write the output: {0}")]
    Print(std::io::Error),
    #[error("NATS at {url}: {why}")]
    Nats { url: String, why: String },
    #[error("--admin-url {0:?} is not an address of RadosGW: use http://HOST:PORT or https://HOST:PORT")]
    AdminUrl(String),
    #[error("there is no key for RadosGW: set --keys DIRECTORY, or {0} in the environment")]
    NoKeys(String),
    #[error("{address}: {why}")]
    Admin { address: String, why: String },
    #[error("cannot read the system's certificates: {0}. Name others with --ca")]
    Roots(std::io::Error),
    #[error("certificate {}: {why}", path.display())]
    Certificate { path: PathBuf, why: String },
    #[error(transparent)]
    Serve(#[from] c5c3_webhook::Error),
    #[error("{program}: {why}")]
    Tool { program: String, why: String },
    #[error("this command needs NATS: name the server with --nats or NATS_URL")]
    NoNats,
}
