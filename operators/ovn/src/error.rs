//! What can keep OVN from being brought up. Texts name Secrets and keys, never values.

use c5c3_api::conditions::ovn::{CONTROLLERS_READY, NORTHBOUND_READY, SOUTHBOUND_READY};
use c5c3_kit::{Fault, Kind, ReadError, Reference, Retry};
use k8s_openapi::api::core::v1::Secret;

use crate::names::Side;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "metadata.name: {name} cannot name a Service: use at most {longest} lowercase letters, digits and dashes, starting with a letter"
    )]
    NameNotUsable { name: String, longest: usize },
    #[error(
        "neutronIntegration: the Service {name} of the {} database has the name of another one of this OVNCluster: choose another",
        .side.field()
    )]
    ServiceTaken { name: String, side: Side },
    #[error(
        "{}.replicas: {wished} is fewer than the {there} members that the raft cluster has, and members cannot be taken away: set it to {there}",
        .side.field()
    )]
    CannotShrink { side: Side, wished: i32, there: i32 },
    #[error("tls.{field}: Secret {secret} is missing: create it with tls.crt, tls.key and ca.crt")]
    SecretMissing { field: &'static str, secret: String },
    #[error("tls.{field}: Secret {secret} has no value under {key}: add it")]
    KeyMissing {
        field: &'static str,
        secret: String,
        key: &'static str,
    },
    #[error(
        "tls.hypervisorSecretRef: {0} goes with certificates of yours: set tls.certSecretRef as well, or leave both out"
    )]
    HypervisorsAlone(String),
    #[error(
        "tls.enabled: cannot change while the {} database has several members, which then no longer reach each other: \
         set it back to {}, or make a new OVNCluster",
        .side.field(), .enabled
    )]
    CannotSwitch { side: Side, enabled: bool },
    #[error("cannot make a certificate: {0}")]
    Uncertified(#[from] c5c3_authority::Error),
    #[error("cannot take chassis {chassis} out of the southbound database: {source}")]
    ChassisStays {
        chassis: String,
        source: ovsdb_client::Error,
    },
    #[error("cannot query the chassis: {0}")]
    NotAsked(ovsdb_client::Error),
    #[error(transparent)]
    Unreadable(#[from] ReadError),
    #[error("cannot read what is on the hypervisors: {0}")]
    NoHypervisors(String),
}

impl Error {
    fn of_side(side: Side) -> &'static str {
        match side {
            Side::Northbound => NORTHBOUND_READY,
            Side::Southbound => SOUTHBOUND_READY,
        }
    }
}

impl Fault for Error {
    fn part(&self) -> Option<&'static str> {
        match self {
            Error::ServiceTaken { side, .. }
            | Error::CannotShrink { side, .. }
            | Error::CannotSwitch { side, .. } => Some(Self::of_side(*side)),
            Error::ChassisStays { .. } | Error::NotAsked(_) => Some(CONTROLLERS_READY),
            _ => None,
        }
    }

    fn retry(&self) -> Retry {
        match self {
            Error::Unreadable(_)
            | Error::NoHypervisors(_)
            | Error::Uncertified(_)
            | Error::ChassisStays { .. }
            | Error::NotAsked(_) => Retry::Backoff,
            _ => Retry::OnChange,
        }
    }

    fn blocker(&self) -> Option<Reference> {
        match self {
            Error::SecretMissing { secret, .. } | Error::KeyMissing { secret, .. } => {
                Some(Kind::of::<Secret>().named(None, secret))
            }
            _ => None,
        }
    }
}
