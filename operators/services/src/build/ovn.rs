//! OVN: its addresses, and the certificates with which a process logs in there.

use k8s_openapi::api::core::v1::{Container, EnvVar};

use super::secrets::Values;
use crate::error::Error;
use crate::facts::Facts;
use crate::shape::{
    OVN_AUTHORITY, OVN_CERTIFICATE, OVN_KEY, OvnCaller, OvnPlace, Process, Service, Settings, VolumeSource,
};

/// The container that tries the certificates of a pod.
pub const OVN_CHECK: &str = "ovn";

/// What is known of OVN.
pub struct Ovn {
    pub northbound: String,
    pub southbound: String,
    /// With TLS.
    pub secrets: Option<Secrets>,
}

/// Names of the Secrets with certificates.
pub struct Secrets {
    control_plane: String,
    hypervisors: String,
}

impl Secrets {
    pub fn of(&self, caller: OvnCaller) -> &str {
        match caller {
            OvnCaller::ControlPlane => &self.control_plane,
            OvnCaller::Hypervisor => &self.hypervisors,
        }
    }
}

/// The spec names the addresses of the databases.
pub fn is_given(service: &Service) -> bool {
    let ovn = service.ovn.as_ref();
    ovn.is_some_and(|ovn| matches!(ovn.place, OvnPlace::Given(..)))
}

/// One of several addresses is enough.
fn is_secured(addresses: &str) -> bool {
    addresses.split(',').any(|address| address.starts_with("ssl:"))
}

/// Addresses and Secrets of a service that builds on OVN, as the spec has them or the OVNCluster tells them.
pub fn ovn(service: &Service, facts: &Facts) -> Result<Ovn, Error> {
    let none = || Error::OvnMissing(String::new());
    let wanted = service.ovn.as_ref().ok_or_else(none)?;
    let ((northbound, southbound), place) = match &wanted.place {
        OvnPlace::Given(northbound, southbound) => {
            let given = (northbound.clone(), southbound.clone());
            (given, "ovn.nbConnection and ovn.sbConnection use".to_owned())
        }
        OvnPlace::Cluster(cluster) => {
            let used = format!("OVNCluster {} uses", cluster.name);
            (told(&cluster.name, facts)?, used)
        }
    };
    let fields = [("nbConnection", &northbound), ("sbConnection", &southbound)];
    let secured = fields.into_iter().find(|(_, addresses)| is_secured(addresses));
    let secrets = match (secured, &wanted.tls, &wanted.place) {
        (None, None, _) => None,
        (None, Some(_), _) => return Err(Error::OvnInPlaintext(place)),
        (Some(_), Some(tls), _) => Some(Secrets {
            control_plane: tls.cert_secret_ref.name.clone(),
            hypervisors: tls
                .hypervisor_secret_ref
                .as_ref()
                .unwrap_or(&tls.cert_secret_ref)
                .name
                .clone(),
        }),
        (Some((field, value)), None, OvnPlace::Given(..)) => {
            let value = value.clone();
            return Err(Error::OvnUncertified { field, value });
        }
        (Some(_), None, OvnPlace::Cluster(cluster)) => {
            let status = facts.ovn.as_ref().and_then(|ovn| ovn.status.as_ref());
            let told = status.and_then(|status| status.client_secrets.clone());
            let told = told.ok_or_else(|| Error::OvnWithoutSecrets(cluster.name.clone()))?;
            Some(Secrets {
                control_plane: told.control_plane.name,
                hypervisors: told.hypervisors.name,
            })
        }
    };
    Ok(Ovn {
        northbound,
        southbound,
        secrets,
    })
}

/// The addresses of the databases, as their object tells them.
fn told(name: &str, facts: &Facts) -> Result<(String, String), Error> {
    let missing = || Error::OvnMissing(name.to_owned());
    let cluster = facts.ovn.as_ref().ok_or_else(missing)?;
    let status = cluster.status.as_ref();
    let endpoints = status.and_then(|status| status.endpoints.as_ref());
    let known =
        endpoints.and_then(|endpoints| endpoints.northbound.clone().zip(endpoints.southbound.clone()));
    known.ok_or_else(|| Error::OvnUnknown(name.to_owned()))
}

/// As whom a process logs in.
pub fn caller(process: &Process) -> Option<OvnCaller> {
    process.volumes.iter().find_map(|volume| match volume.source {
        VolumeSource::OvnCertificates(caller) => Some(caller),
        _ => None,
    })
}

/// The certificates that processes with these settings log in with; nothing without TLS.
pub(super) fn certificates(service: &Service, settings: &Settings, facts: &Facts) -> Result<Values, Error> {
    let mut readers = service
        .processes
        .iter()
        .filter(|process| process.settings == settings.name);
    let Some(caller) = readers.find_map(caller) else {
        return Ok(Values::new());
    };
    let Some(secrets) = ovn(service, facts)?.secrets else {
        return Ok(Values::new());
    };
    let secret = secrets.of(caller);
    let files = [
        (OVN_CERTIFICATE, "CERTIFICATE", "certificate"),
        (OVN_KEY, "PRIVATE KEY", "private key"),
        (OVN_AUTHORITY, "CERTIFICATE", "certificate"),
    ];
    let read = |(key, mark, what)| Ok((str::to_owned(key), pem(facts, secret, key, mark, what)?));
    files.into_iter().map(read).collect()
}

fn pem(
    facts: &Facts,
    secret: &str,
    key: &'static str,
    mark: &str,
    what: &'static str,
) -> Result<String, Error> {
    let secret = || secret.to_owned();
    let data = facts.ovn_secrets.get(&secret());
    let data = data.ok_or_else(|| Error::OvnSecretMissing { secret: secret() })?;
    let value = data.get(key).filter(|value| !value.is_empty());
    let value = value.ok_or_else(|| Error::OvnKeyMissing {
        secret: secret(),
        key,
    })?;
    let text = String::from_utf8(value.clone()).ok();
    // Keys have a word before: EC PRIVATE KEY.
    let is_pem = |text: &String| text.contains("-----BEGIN ") && text.contains(&format!("{mark}-----"));
    text.filter(is_pem).ok_or_else(|| Error::OvnNotPem {
        secret: secret(),
        key,
        what,
    })
}

/// Before the program starts its way to OVN is tried: where nobody answers, or its certificates are not accepted, it
/// would try for ever, and pods that serve would have made way for it. Databases of an OVNCluster are its own
/// business: with it, a database that is away is waited for.
pub(super) fn tries(
    service: &Service,
    process: &Process,
    container: &Container,
    facts: &Facts,
) -> Option<Container> {
    let caller = caller(process)?;
    let known = ovn(service, facts).ok()?;
    let given = is_given(service);
    if known.secrets.is_none() && !given {
        return None;
    }
    let volume = process
        .volumes
        .iter()
        .find(|volume| matches!(volume.source, VolumeSource::OvnCertificates(_)))?;
    let mut command = ["-c", include_str!("ovn.py"), volume.path.as_str()]
        .map(str::to_owned)
        .to_vec();
    if caller == OvnCaller::ControlPlane {
        command.push(known.northbound);
    }
    command.push(known.southbound);
    let mut check = super::workload::before(container, OVN_CHECK, command, &[&volume.name]);
    check.env = given.then(|| {
        vec![EnvVar {
            name: "MUST_ANSWER".to_owned(),
            value: Some("yes".to_owned()),
            ..EnvVar::default()
        }]
    });
    Some(check)
}
