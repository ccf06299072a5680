//! Serving certificates that are replaced from time to time.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use crate::Error;

/// Where a server gets its certificate.
pub enum Tls {
    Files(Files),
    Held(Held),
}

impl Tls {
    /// `None`: there is none yet.
    pub(crate) fn acceptor(&self) -> Result<Option<TlsAcceptor>, Error> {
        match self {
            Tls::Files(files) => files.acceptor().map(Some),
            Tls::Held(held) => Ok(held.acceptor()),
        }
    }
}

/// In files: read again when they are written.
pub struct Files {
    certificate: PathBuf,
    key: PathBuf,
    loaded: Mutex<Option<(SystemTime, TlsAcceptor)>>,
}

impl Files {
    pub fn new(certificate: PathBuf, key: PathBuf) -> Self {
        Files {
            certificate,
            key,
            loaded: Mutex::default(),
        }
    }

    fn acceptor(&self) -> Result<TlsAcceptor, Error> {
        let unreadable = |why: String| Error::Certificate {
            path: self.certificate.clone(),
            why,
        };
        let read = |path: &PathBuf| std::fs::read(path).map_err(|error| error.to_string());
        let written = std::fs::metadata(&self.certificate)
            .and_then(|file| file.modified())
            .map_err(|error| unreadable(error.to_string()))?;
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((then, acceptor)) = &*loaded
            && *then == written
        {
            return Ok(acceptor.clone());
        }
        let made = read(&self.certificate)
            .and_then(|certificate| Ok((certificate, read(&self.key)?)))
            .and_then(|(certificate, key)| acceptor(&certificate, &key));
        match (made, &*loaded) {
            (Ok(acceptor), _) => {
                *loaded = Some((written, acceptor.clone()));
                Ok(acceptor)
            }
            // Half of a pair was exchanged: the one that is loaded serves on until the other follows.
            (Err(_), Some((_, acceptor))) => Ok(acceptor.clone()),
            (Err(why), None) => Err(unreadable(why)),
        }
    }
}

/// In memory. Cheap to clone; every clone is the same one.
#[derive(Clone, Default)]
pub struct Held(Arc<Mutex<Option<TlsAcceptor>>>);

impl Held {
    /// From PEM. What cannot be used leaves the one before in place.
    pub fn put(&self, certificate: &[u8], key: &[u8]) -> io::Result<()> {
        let acceptor = acceptor(certificate, key).map_err(io::Error::other)?;
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(acceptor);
        Ok(())
    }

    fn acceptor(&self) -> Option<TlsAcceptor> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn acceptor(certificate: &[u8], key: &[u8]) -> Result<TlsAcceptor, String> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificate).collect();
    let chain = chain.map_err(|error| error.to_string())?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| error.to_string())?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|error| error.to_string())?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}
