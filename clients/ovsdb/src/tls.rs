//! TLS as OVS does it: both sides show a certificate of the same authority. Names are not compared,
//! for members are known by address.

use std::io;
use std::sync::Arc;

use dial::Stream;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio_rustls::TlsConnector;

use crate::error::Error;

/// Our certificate with its key, and the authority that everybody's comes from.
#[derive(Clone)]
pub struct Certificates(Arc<ClientConfig>);

impl std::fmt::Debug for Certificates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Certificates")
    }
}

impl Certificates {
    /// All three are PEM.
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
        for root in read("ca.crt", authority)? {
            roots.add(root).map_err(|error| tls("ca.crt", &error))?;
        }
        let chain = read("tls.crt", certificate)?;
        // The text of this error may quote the file.
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|_| Error::Tls("tls.key: holds no private key in PEM".to_owned()))?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let inner = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone())
            .build()
            .map_err(|error| tls("ca.crt", &error))?;
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| tls("versions", &error))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Nameless(inner)))
            .with_client_auth_cert(chain, key)
            .map_err(|error| tls("tls.crt and tls.key", &error))?;
        Ok(Certificates(Arc::new(config)))
    }

    pub(crate) async fn wrap(&self, host: &str, stream: Box<dyn Stream>) -> io::Result<Box<dyn Stream>> {
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
