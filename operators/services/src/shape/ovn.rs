//! The network virtualization that a service builds on.

use c5c3_api::common::ObjectRef;
use c5c3_api::openstack::NeutronOvnTls;

/// Files of certificates, as every part of OVN calls them.
pub const OVN_KEY: &str = "tls.key";
pub const OVN_CERTIFICATE: &str = "tls.crt";
pub const OVN_AUTHORITY: &str = "ca.crt";

/// Where OVN's databases are, and with what one logs in there.
#[derive(Debug, Clone)]
pub struct Ovn {
    pub place: OvnPlace,
    /// Certificates that the spec names.
    pub tls: Option<NeutronOvnTls>,
}

#[derive(Debug, Clone)]
pub enum OvnPlace {
    /// An OVNCluster tells.
    Cluster(ObjectRef),
    /// The spec tells: the northbound and the southbound database.
    Given(String, String),
}

/// Who logs in. Hypervisors have certificates of their own, and use the southbound database alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OvnCaller {
    ControlPlane,
    Hypervisor,
}

impl Ovn {
    pub fn cluster(&self) -> Option<&ObjectRef> {
        match &self.place {
            OvnPlace::Cluster(cluster) => Some(cluster),
            OvnPlace::Given(..) => None,
        }
    }

    /// Secrets that the spec names, in the namespace of the service.
    pub fn secrets(&self) -> impl Iterator<Item = &str> {
        let tls = self.tls.iter();
        tls.flat_map(|tls| [Some(&tls.cert_secret_ref), tls.hypervisor_secret_ref.as_ref()])
            .flatten()
            .map(|secret| secret.name.as_str())
    }
}
