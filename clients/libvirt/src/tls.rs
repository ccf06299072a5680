//! TLS as libvirt does it: both sides show a certificate, and the server's names its host.

use std::io;
use std::sync::Arc;

use dial::Stream;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::AsyncReadExt;
use tokio_rustls::TlsConnector;

use crate::error::Error;

/// Our certificate with its key, and the authority that the server's comes from.
#[derive(Clone)]
pub struct Certificates(Arc<ClientConfig>);

impl std::fmt::Debug for Certificates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Certificates")
    }
}

impl Certificates {
    /// All three are PEM: clientcert.pem, clientkey.pem and cacert.pem of libvirt.
    pub fn new(certificate: &[u8], key: &[u8], authority: &[u8]) -> Result<Self, Error> {
        let tls = |what: &str, error: &dyn std::fmt::Display| Error::Tls(format!("{what}: {error}"));
        let read = |what: &str, pem: &[u8]| {
            let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
            match all {
                Ok(all) if all.is_empty() => Err(Error::Tls(format!("{what}: holds no certificate"))),
                Ok(all) => Ok(all),
                Err(error) => Err(tls(what, &error)),
            }
        };
        let mut roots = RootCertStore::empty();
        for root in read("authority", authority)? {
            roots.add(root).map_err(|error| tls("authority", &error))?;
        }
        // The text of this error may quote the file.
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|_| Error::Tls("key: holds no private key in PEM".to_owned()))?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| tls("versions", &error))?
            .with_root_certificates(roots)
            .with_client_auth_cert(read("certificate", certificate)?, key)
            .map_err(|error| tls("certificate and key", &error))?;
        Ok(Certificates(Arc::new(config)))
    }

    pub(crate) async fn wrap(&self, host: &str, stream: Box<dyn Stream>) -> io::Result<Box<dyn Stream>> {
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let mut stream = TlsConnector::from(self.0.clone()).connect(name, stream).await?;
        // After the handshake the server says with one byte whether our certificate pleases it.
        match stream.read_u8().await? {
            1 => Ok(Box::new(stream)),
            _ => Err(io::Error::other("the server does not accept our certificate")),
        }
    }
}
