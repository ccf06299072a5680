//! TLS in which both sides show a certificate.

use std::io;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio_rustls::TlsConnector;

use crate::Stream;

/// Certificates that cannot be used, and why. It quotes nothing of a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TlsError(pub String);

fn failed(what: &str, error: &dyn std::fmt::Display) -> TlsError {
    TlsError(format!("{what}: {error}"))
}

/// Whether the server's certificate has to name the host that was dialled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostName {
    Compared,
    /// The authority alone decides, for servers that are known by address.
    Ignored,
}

/// Our certificate with its key, and the authority that the server's comes from.
#[derive(Clone)]
pub struct Certificates(Arc<ClientConfig>);

impl std::fmt::Debug for Certificates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Certificates")
    }
}

fn read((what, pem): (&str, &[u8])) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match all {
        Ok(all) if all.is_empty() => Err(failed(what, &"holds no certificate")),
        Ok(all) => Ok(all),
        Err(error) => Err(failed(what, &error)),
    }
}

impl Certificates {
    /// All three are PEM; the names say in errors which is which.
    pub fn new(
        certificate: (&str, &[u8]),
        key: (&str, &[u8]),
        authority: (&str, &[u8]),
        name: HostName,
    ) -> Result<Self, TlsError> {
        let mut roots = RootCertStore::empty();
        for root in read(authority)? {
            roots.add(root).map_err(|error| failed(authority.0, &error))?;
        }
        let chain = read(certificate)?;
        // The text of this error may quote the file.
        let private = PrivateKeyDer::from_pem_slice(key.1)
            .map_err(|_| failed(key.0, &"holds no private key in PEM"))?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone())
            .build()
            .map_err(|error| failed(authority.0, &error))?;
        let verifier: Arc<dyn ServerCertVerifier> = match name {
            HostName::Compared => verifier,
            HostName::Ignored => Arc::new(Nameless(verifier)),
        };
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| failed("versions", &error))?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_client_auth_cert(chain, private)
            .map_err(|error| failed(&format!("{} and {}", certificate.0, key.0), &error))?;
        Ok(Certificates(Arc::new(config)))
    }

    /// The handshake with a host, over a stream to it.
    pub async fn wrap(&self, host: &str, stream: Box<dyn Stream>) -> io::Result<Box<dyn Stream>> {
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let stream = TlsConnector::from(self.0.clone()).connect(name, stream).await?;
        Ok(Box::new(stream))
    }
}

/// All is checked but the name.
#[derive(Debug)]
struct Nameless(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for Nameless {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let checked = self
            .0
            .verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match checked {
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
