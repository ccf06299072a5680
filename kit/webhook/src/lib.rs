//! What programs share that are called from outside: a small HTTP server, certificates that are exchanged
//! while it serves, and the AdmissionReviews of an API server.

mod certificate;
mod review;
mod server;

pub use certificate::{Files, Held, Tls};
pub use review::{Review, Verdict, review};
pub use server::{Answer, Call, Server};

use std::net::SocketAddr;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot listen on {address}: {why}. Choose another address with --listen")]
    Listen {
        address: SocketAddr,
        why: std::io::Error,
    },
    #[error("certificate {}: {why}", path.display())]
    Certificate { path: PathBuf, why: String },
}
