//! TLS towards a service: the machine's trusted roots, or the CA that the cloud names.

use std::io;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio_rustls::TlsConnector;

use dial::Stream;

#[derive(Clone)]
pub struct Tls(Arc<ClientConfig>);

impl Tls {
    /// The text says which certificate is wrong.
    pub fn new(ca: Option<&str>) -> Result<Self, String> {
        let mut roots = RootCertStore::empty();
        match ca {
            Some(pem) => {
                for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
                    let certificate = certificate.map_err(|e| format!("the CA is not PEM: {e}"))?;
                    roots
                        .add(certificate)
                        .map_err(|e| format!("the CA is not usable: {e}"))?;
                }
                if roots.is_empty() {
                    return Err("the CA holds no certificate".to_owned());
                }
            }
            None => {
                let found = rustls_native_certs::load_native_certs();
                roots.add_parsable_certificates(found.certs);
            }
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|e| e.to_string())?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self(Arc::new(config)))
    }

    pub async fn wrap(&self, host: &str, stream: Box<dyn Stream>) -> io::Result<Box<dyn Stream>> {
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let stream = TlsConnector::from(self.0.clone()).connect(name, stream).await?;
        Ok(Box::new(stream))
    }
}
