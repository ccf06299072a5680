//! Errors that stop a service from being deployed. Texts name Secrets and keys, never values.

use c5c3_api::conditions::{DATABASE_READY, DEPLOYMENT_READY, MESSAGING_READY, service};
use c5c3_api::foreign::memcached::Memcached;
use c5c3_api::foreign::rabbitmq::RabbitmqCluster;
use c5c3_api::ovn::OvnCluster;
use c5c3_kit::fault::variant;
use c5c3_kit::{Fault, Kind, ReadError, Reference, Retry};
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Secret};

use crate::config::ConfigError;
use crate::keys::KeyError;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "metadata.name: {name} is too long: with its suffix the name of a Job would exceed 63 characters; use at most {longest}"
    )]
    NameTooLong { name: String, longest: usize },
    #[error(
        "metadata.name: {0} cannot name a Service: use lowercase letters, digits and dashes, starting with a letter"
    )]
    NameNotUsable(String),
    #[error("Secret {0} is missing: create it, or correct the name in the spec")]
    SecretMissing(String),
    #[error("Secret {secret} has no value under {key}: add it, or name another Secret")]
    KeyMissing { secret: String, key: String },
    #[error("{0}; nothing was rolled out")]
    InvalidConfig(ConfigError),
    #[error("policyOverrides.configMapRef: ConfigMap {name} {}", if *.found { "has no key policy.yaml" } else { "is missing" })]
    PolicyMissing { name: String, found: bool },
    #[error("policyOverrides.configMapRef: policy.yaml of ConfigMap {name} is not a map of rules: {reason}")]
    PolicyInvalid { name: String, reason: String },
    #[error("Memcached {0} is missing: create it, or set cache.servers")]
    CacheMissing(String),
    #[error("RabbitmqCluster {0} is missing: create it, or set messaging.hosts")]
    BrokerMissing(String),
    #[error("RabbitmqCluster {0} reports no address yet (status.defaultUser.serviceReference)")]
    BrokerUnknown(String),
    #[error("OVNCluster {0} is missing: create it, or set ovn.nbConnection and ovn.sbConnection")]
    OvnMissing(String),
    #[error("OVNCluster {0} reports no addresses yet (status.endpoints)")]
    OvnUnknown(String),
    #[error(
        "OVNCluster {0} uses TLS and does not tell yet which Secret clients log in with (status.clientSecrets): \
         wait for its operator, or name one in ovn.tls.certSecretRef"
    )]
    OvnWithoutSecrets(String),
    #[error(
        "ovn.{field}: {value} is an ssl: address, which takes certificates: name a Secret with tls.crt, tls.key and ca.crt in \
         ovn.tls.certSecretRef"
    )]
    OvnUncertified { field: &'static str, value: String },
    #[error(
        "ovn.tls: certificates go with ssl: addresses, and {0} tcp: turn TLS on there, or leave ovn.tls out"
    )]
    OvnInPlaintext(String),
    #[error("Secret {secret} for OVN is missing: create it with tls.crt, tls.key and ca.crt")]
    OvnSecretMissing { secret: String },
    #[error("Secret {secret} for OVN has no value under {key}: add it")]
    OvnKeyMissing { secret: String, key: &'static str },
    #[error("Secret {secret} for OVN has no {what} under {key}: it must be PEM")]
    OvnNotPem {
        secret: String,
        key: &'static str,
        what: &'static str,
    },
    #[error(
        "{what} {name:?} leads to the name {made}, which is longer than {longest} characters: use a shorter one"
    )]
    PartTooLong {
        what: &'static str,
        name: String,
        made: String,
        longest: usize,
    },
    #[error(
        "PersistentVolumeClaim {claim} is ReadWriteOnce and cannot serve several replicas: set replicas to 1, or move the data into a ReadWriteMany claim"
    )]
    ClaimOfOne { claim: String, part: &'static str },
    #[error("{field}: {value} is not supported yet: {way_out}")]
    NotSupported {
        field: &'static str,
        value: &'static str,
        way_out: &'static str,
    },
    #[error("{field}: Neutron has no driver {value:?}; use some of {known}")]
    UnknownDriver {
        field: &'static str,
        value: String,
        known: String,
    },
    #[error(
        "image: {to} is older than {from}, whose schema is in the database; a schema cannot be downgraded: \
         set {from}, or restore a backup into a new object"
    )]
    Downgrade { from: String, to: String },
    #[error(
        "image: {from} (release {release}) cannot be upgraded to {to} directly; set an image of {} first",
        next.join(" or ")
    )]
    ReleaseSkipped {
        from: String,
        release: String,
        to: String,
        next: Vec<String>,
    },
    #[error("Secret {secret} has no certificate in {key}: it must hold PEM, as in a file ca.crt")]
    NoCertificate { secret: String, key: String },
    #[error("database: neither clusterRef nor host is set")]
    NoDatabase,
    #[error("Secret {secret}: {error}; restore it from a backup, or delete it to start with new keys")]
    BadKeys {
        secret: String,
        part: &'static str,
        error: KeyError,
    },
    #[error("rotation schedule {schedule:?}: {reason}")]
    BadSchedule {
        schedule: String,
        part: &'static str,
        reason: String,
    },
    #[error(
        "rotation schedule {schedule:?} with {most} keys drops a key after {kept} s, but what it encrypted must stay readable for {readable} s: keep more keys, rotate less often or, for tokens, shorten [token] expiration"
    )]
    KeysTooFew {
        schedule: String,
        most: usize,
        kept: u64,
        readable: u64,
        part: &'static str,
    },
    #[error("cannot make certificates for hypervisors: {0}")]
    Uncertified(#[from] c5c3_authority::Error),
    #[error(transparent)]
    Unreadable(#[from] ReadError),
}

impl Fault for Error {
    fn part(&self) -> Option<&'static str> {
        match self {
            Error::BadKeys { part, .. }
            | Error::BadSchedule { part, .. }
            | Error::KeysTooFew { part, .. }
            | Error::ClaimOfOne { part, .. } => Some(part),
            Error::NoDatabase | Error::Downgrade { .. } | Error::ReleaseSkipped { .. } => {
                Some(DATABASE_READY)
            }
            Error::Uncertified(_) => Some(service::CELLS_READY),
            Error::BrokerMissing(_) | Error::BrokerUnknown(_) => Some(MESSAGING_READY),
            Error::OvnMissing(_)
            | Error::OvnUnknown(_)
            | Error::OvnWithoutSecrets(_)
            | Error::OvnUncertified { .. }
            | Error::OvnInPlaintext(_)
            | Error::OvnSecretMissing { .. }
            | Error::OvnKeyMissing { .. }
            | Error::OvnNotPem { .. } => Some(service::OVN_CONNECTED),
            Error::InvalidConfig(_)
            | Error::NotSupported { .. }
            | Error::UnknownDriver { .. }
            | Error::PolicyMissing { .. }
            | Error::PolicyInvalid { .. }
            | Error::CacheMissing(_) => Some(DEPLOYMENT_READY),
            Error::NameTooLong { .. }
            | Error::PartTooLong { .. }
            | Error::NameNotUsable(_)
            | Error::SecretMissing(_)
            | Error::KeyMissing { .. }
            | Error::NoCertificate { .. }
            | Error::Unreadable(_) => None,
        }
    }

    fn retry(&self) -> Retry {
        match self {
            Error::Unreadable(_) | Error::Uncertified(_) => Retry::Backoff,
            // What is named is watched: its change brings the next pass.
            _ => Retry::OnChange,
        }
    }

    fn reason(&self) -> String {
        variant(self)
    }

    fn blocker(&self) -> Option<Reference> {
        let (kind, name) = match self {
            Error::SecretMissing(name) => (Kind::of::<Secret>(), name),
            Error::KeyMissing { secret, .. }
            | Error::NoCertificate { secret, .. }
            | Error::BadKeys { secret, .. } => (Kind::of::<Secret>(), secret),
            Error::PolicyMissing { name, .. } | Error::PolicyInvalid { name, .. } => {
                (Kind::of::<ConfigMap>(), name)
            }
            Error::CacheMissing(name) => (Kind::of::<Memcached>(), name),
            Error::BrokerMissing(name) | Error::BrokerUnknown(name) => (Kind::of::<RabbitmqCluster>(), name),
            Error::OvnMissing(name) | Error::OvnUnknown(name) | Error::OvnWithoutSecrets(name) => {
                (Kind::of::<OvnCluster>(), name)
            }
            Error::OvnSecretMissing { secret }
            | Error::OvnKeyMissing { secret, .. }
            | Error::OvnNotPem { secret, .. } => (Kind::of::<Secret>(), secret),
            Error::ClaimOfOne { claim, .. } => (Kind::of::<PersistentVolumeClaim>(), claim),
            _ => return None,
        };
        Some(kind.named(None, name))
    }
}
