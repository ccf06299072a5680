//! How clients reach a host: plain TCP, or whatever way leads into a cluster. With certificates where the host
//! wants them, and again after a pause when the connection is lost.

mod again;
mod tls;

use std::fmt::Debug;
use std::io;

use async_trait::async_trait;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

pub use again::pause;
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
