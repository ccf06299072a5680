//! How clients reach a host: over plain TCP or into an embedded cluster, with certificates where the host wants
//! them. [`Link`] matches calls and answers on one stream; [`pause`] spaces attempts to reconnect.

mod again;
mod beyond;
mod link;
mod tls;

use std::fmt::Debug;
use std::io;

use async_trait::async_trait;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

pub use again::pause;
pub use beyond::Beyond;
pub use link::{Link, Lost, Protocol, Received};
pub use tls::{Certificates, HostName, TlsError};

/// A connection, whatever it runs over.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// How a host is reached.
#[async_trait]
pub trait Dial: Debug + Send + Sync {
    async fn dial(&self, host: &str, port: u16) -> io::Result<Box<dyn Stream>>;
}

/// Plain TCP from where this process runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tcp;

#[async_trait]
impl Dial for Tcp {
    async fn dial(&self, host: &str, port: u16) -> io::Result<Box<dyn Stream>> {
        let stream = TcpStream::connect((host, port)).await?;
        stream.set_nodelay(true)?;
        Ok(Box::new(stream))
    }
}
