//! The server's own certificate authority: who it certifies is who they say.

use std::{
    collections::BTreeSet,
    net::IpAddr,
    path::{Path, PathBuf},
    sync::Arc,
};

use jiff::{Timestamp, ToSpan, tz::TimeZone};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, SanType,
};
use rustls::{
    RootCertStore, ServerConfig,
    client::{WebPkiServerVerifier, danger::ServerCertVerifier},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject},
    server::WebPkiClientVerifier,
};
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use super::files::{self, KeyError};
use crate::identity::{Identity, MASTERS};

/// Years that the authority, and days that a certificate is valid.
const AUTHORITY_YEARS: i64 = 10;
const CERTIFICATE_DAYS: i64 = 365;
/// A certificate with less than this left is replaced at start.
const RENEW_DAYS: i64 = 30;

/// The certificate library holds one entry of each kind in a name, and an organisation has two kinds:
/// by name and by number.
const MOST_GROUPS: usize = 2;
const ORGANIZATION: [u64; 4] = [2, 5, 4, 10];

/// The key that certifies, and what it has certified for the server itself.
pub struct Authority {
    directory: PathBuf,
    certificate: String,
    issuer: Issuer<'static, KeyPair>,
    serving: ClientCertificate,
    admin: ClientCertificate,
}

/// A certificate with its key, as PEM.
#[derive(Clone)]
pub struct ClientCertificate {
    pub certificate: String,
    pub key: String,
}

impl Authority {
    pub fn open(directory: &Path, names: &[String]) -> Result<Self, KeyError> {
        files::directory(directory)?;
        let (certificate, issuer) = authority(directory)?;
        let names = server_names(names);
        // One that an authority made which was moved away serves nobody any more.
        let ours = roots(&directory.join("ca.crt"), &certificate)?;
        let serving = kept(
            directory,
            "serving",
            |der| covers(der, &names) && is_server_of(&ours, der),
            || issue(&issuer, serving_params(&names)?),
        )?;
        let admin = kept(
            directory,
            "admin",
            |der| is_client_of(&ours, der),
            || issue(&issuer, client_params("kubernetes-admin", &[MASTERS])),
        )?;
        Ok(Self {
            directory: directory.to_owned(),
            certificate,
            issuer,
            serving,
            admin,
        })
    }

    /// The authority's certificate, for clients to trust.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// The administrator of the local kubeconfig: the only one in `system:masters`.
    pub fn admin(&self) -> &ClientCertificate {
        &self.admin
    }

    /// A certificate for a user and their groups.
    pub fn issue_client(&self, user: &str, groups: &[&str]) -> Result<ClientCertificate, KeyError> {
        if groups.contains(&MASTERS) {
            return Err(KeyError::Refused(format!(
                "no certificate in {MASTERS} is given out; bind the user {user:?} to cluster-admin instead"
            )));
        }
        if groups.len() > MOST_GROUPS {
            return Err(KeyError::Refused(format!(
                "a certificate names at most {MOST_GROUPS} groups; bind roles to the user {user:?} instead"
            )));
        }
        if user.is_empty() {
            return Err(KeyError::Refused("a certificate needs a user name".to_owned()));
        }
        issue(&self.issuer, client_params(user, groups))
    }

    /// TLS with this authority's certificate; clients may bring one of theirs, and it must be ours.
    pub fn server_config(&self) -> Result<Arc<ServerConfig>, KeyError> {
        let tls = |error: &dyn std::fmt::Display| KeyError::Tls(error.to_string());
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let roots = roots(&self.directory.join("ca.crt"), &self.certificate)?;
        let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider.clone())
            .allow_unauthenticated()
            .build()
            .map_err(|error| tls(&error))?;
        let chain = vec![der(
            &self.directory.join("serving.crt"),
            &self.serving.certificate,
        )?];
        let key = PrivateKeyDer::from_pem_slice(self.serving.key.as_bytes())
            .map_err(|error| KeyError::damaged(&self.directory.join("serving.key"), error))?;
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| tls(&error))?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain, key)
            .map_err(|error| tls(&error))?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

/// User and groups of a certificate: its common name and its organisations.
pub(super) fn identity(der: &[u8]) -> Option<Identity> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let subject = certificate.subject();
    let user = subject.iter_common_name().next()?.as_str().ok()?;
    let groups: Vec<&str> = subject
        .iter_organization()
        .filter_map(|organization| organization.as_str().ok())
        .collect();
    (!user.is_empty()).then(|| Identity::new(user, &groups))
}

fn authority(directory: &Path) -> Result<(String, Issuer<'static, KeyPair>), KeyError> {
    let (certificate_path, key_path) = (directory.join("ca.crt"), directory.join("ca.key"));
    let key = match files::read(&key_path)? {
        Some(pem) => KeyPair::from_pem(&pem).map_err(|error| KeyError::damaged(&key_path, error))?,
        None => {
            let key = KeyPair::generate()?;
            files::write(&key_path, &key.serialize_pem())?;
            key
        }
    };
    let params = authority_params();
    let certificate = match files::read(&certificate_path)? {
        Some(pem) => {
            let der = der(&certificate_path, &pem)?;
            let (_, parsed) = X509Certificate::from_der(&der)
                .map_err(|error| KeyError::damaged(&certificate_path, error))?;
            if parsed.public_key().subject_public_key.data.as_ref() != key.public_key_raw() {
                let reason = "it is not the certificate of ca.key";
                return Err(KeyError::damaged(&certificate_path, reason));
            }
            pem
        }
        None => {
            let pem = params.self_signed(&key)?.pem();
            files::write(&certificate_path, &pem)?;
            pem
        }
    };
    Ok((certificate, Issuer::new(params, key)))
}

/// The certificate in `directory` if it still serves, or a new one.
fn kept(
    directory: &Path,
    name: &str,
    fits: impl Fn(&[u8]) -> bool,
    make: impl FnOnce() -> Result<ClientCertificate, KeyError>,
) -> Result<ClientCertificate, KeyError> {
    let certificate_path = directory.join(format!("{name}.crt"));
    let key_path = directory.join(format!("{name}.key"));
    if let (Some(certificate), Some(key)) = (files::read(&certificate_path)?, files::read(&key_path)?)
        && let Ok(der) = der(&certificate_path, &certificate)
        && is_young(&der)
        && fits(&der)
    {
        return Ok(ClientCertificate { certificate, key });
    }
    let made = make()?;
    files::write(&key_path, &made.key)?;
    files::write(&certificate_path, &made.certificate)?;
    Ok(made)
}

fn roots(path: &Path, certificate: &str) -> Result<Arc<RootCertStore>, KeyError> {
    let mut roots = RootCertStore::empty();
    roots
        .add(der(path, certificate)?)
        .map_err(|error| KeyError::damaged(path, error))?;
    Ok(Arc::new(roots))
}

fn is_client_of(roots: &Arc<RootCertStore>, der: &[u8]) -> bool {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider).build();
    let der = CertificateDer::from(der);
    verifier.is_ok_and(|verifier| verifier.verify_client_cert(&der, &[], UnixTime::now()).is_ok())
}

fn is_server_of(roots: &Arc<RootCertStore>, der: &[u8]) -> bool {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(roots.clone(), provider).build();
    let (der, name) = (CertificateDer::from(der), ServerName::try_from("localhost"));
    verifier.is_ok_and(|verifier| {
        let verify = |name| verifier.verify_server_cert(&der, &[], &name, &[], UnixTime::now());
        name.is_ok_and(|name| verify(name).is_ok())
    })
}

fn is_young(der: &[u8]) -> bool {
    X509Certificate::from_der(der).is_ok_and(|(_, certificate)| {
        let left = certificate.validity().not_after.timestamp() - Timestamp::now().as_second();
        left > RENEW_DAYS * 24 * 3600
    })
}

fn covers(der: &[u8], names: &BTreeSet<String>) -> bool {
    let Ok((_, certificate)) = X509Certificate::from_der(der) else {
        return false;
    };
    let Ok(Some(alternatives)) = certificate.subject_alternative_name() else {
        return false;
    };
    let covered: BTreeSet<String> = alternatives
        .value
        .general_names
        .iter()
        .filter_map(|name| match name {
            GeneralName::DNSName(name) => Some((*name).to_owned()),
            GeneralName::IPAddress(bytes) => match bytes.len() {
                4 => <[u8; 4]>::try_from(*bytes)
                    .ok()
                    .map(|b| IpAddr::from(b).to_string()),
                _ => <[u8; 16]>::try_from(*bytes)
                    .ok()
                    .map(|b| IpAddr::from(b).to_string()),
            },
            _ => None,
        })
        .collect();
    names.is_subset(&covered)
}

fn server_names(given: &[String]) -> BTreeSet<String> {
    let own = [
        "127.0.0.1",
        "::1",
        "localhost",
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
        "kubernetes.default.svc.cluster.local",
    ];
    own.iter()
        .map(|&name| name.to_owned())
        .chain(given.iter().cloned())
        .collect()
}

fn der(path: &Path, pem: &str) -> Result<CertificateDer<'static>, KeyError> {
    CertificateDer::from_pem_slice(pem.as_bytes()).map_err(|error| KeyError::damaged(path, error))
}

fn authority_params() -> CertificateParams {
    let mut params = params("kubernetes", &[], 365 * AUTHORITY_YEARS);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::CrlSign,
        KeyUsagePurpose::DigitalSignature,
    ];
    params
}

fn serving_params(names: &BTreeSet<String>) -> Result<CertificateParams, KeyError> {
    let mut params = params("kube-apiserver", &[], CERTIFICATE_DAYS);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    for name in names {
        params.subject_alt_names.push(match name.parse::<IpAddr>() {
            Ok(address) => SanType::IpAddress(address),
            Err(_) => SanType::DnsName(name.as_str().try_into()?),
        });
    }
    Ok(params)
}

fn client_params(user: &str, groups: &[&str]) -> CertificateParams {
    let mut params = params(user, groups, CERTIFICATE_DAYS);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    params
}

fn params(common_name: &str, organizations: &[&str], days: i64) -> CertificateParams {
    let mut params = CertificateParams::default();
    let mut subject = DistinguishedName::new();
    subject.push(DnType::CommonName, common_name);
    let kinds = [
        DnType::OrganizationName,
        DnType::CustomDnType(ORGANIZATION.to_vec()),
    ];
    for (kind, organization) in kinds.into_iter().zip(organizations) {
        subject.push(kind, *organization);
    }
    params.distinguished_name = subject;
    let day = |offset: i64| {
        let zoned = Timestamp::now().to_zoned(TimeZone::UTC);
        let date = zoned
            .checked_add(offset.days())
            .map_or(zoned.date(), |zoned| zoned.date());
        let (month, day) = (date.month().unsigned_abs(), date.day().unsigned_abs());
        rcgen::date_time_ymd(i32::from(date.year()), month, day)
    };
    // Clocks differ a little.
    params.not_before = day(-1);
    params.not_after = day(days);
    params
}

fn issue(
    issuer: &Issuer<'static, KeyPair>,
    params: CertificateParams,
) -> Result<ClientCertificate, KeyError> {
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, issuer)?;
    Ok(ClientCertificate {
        certificate: certificate.pem(),
        key: key.serialize_pem(),
    })
}
