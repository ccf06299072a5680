//! TLS as libvirt does it: both sides show a certificate, and the server's names its host.

use std::io;

use dial::{HostName, Stream};
use tokio::io::AsyncReadExt;

use crate::error::Error;

/// Our certificate with its key, and the authority that the server's comes from.
#[derive(Clone, Debug)]
pub struct Certificates(dial::Certificates);

impl Certificates {
    /// All three are PEM: clientcert.pem, clientkey.pem and cacert.pem of libvirt.
    pub fn new(certificate: &[u8], key: &[u8], authority: &[u8]) -> Result<Self, Error> {
        let made = dial::Certificates::new(
            ("certificate", certificate),
            ("key", key),
            ("authority", authority),
            HostName::Compared,
        );
        made.map(Certificates).map_err(|error| Error::Tls(error.0))
    }

    pub(crate) async fn wrap(&self, host: &str, stream: Box<dyn Stream>) -> io::Result<Box<dyn Stream>> {
        let mut stream = self.0.wrap(host, stream).await?;
        // After the handshake the server says with one byte whether our certificate pleases it.
        match stream.read_u8().await? {
            1 => Ok(stream),
            _ => Err(io::Error::other("the server does not accept our certificate")),
        }
    }
}
