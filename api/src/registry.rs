//! Every kind, in the order in which they are best read and installed.

use crate::{c5c3, ceph, composite, cortex, crossplane, foreign, hypervisor, openstack, ovn, ovs, publish};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::sync::LazyLock;

/// Whose kind it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    /// Ours: a strict schema.
    Ours,
    /// Ours, served by Crossplane.
    Composite,
    /// Somebody else's: any spec and status are accepted.
    Foreign,
}

/// A kind and its definition.
#[derive(Clone, Debug)]
pub struct Kind {
    /// Whose kind it is.
    pub origin: Origin,
    /// API group.
    pub group: String,
    /// Version.
    pub version: String,
    /// Kind.
    pub kind: String,
    /// Plural name, as in URLs.
    pub plural: String,
    /// Does it live in namespaces?
    pub namespaced: bool,
    definition: CustomResourceDefinition,
    through_type: fn(Value) -> serde_json::Result<Value>,
}

fn through<K: DeserializeOwned + Serialize>(object: Value) -> serde_json::Result<Value> {
    serde_json::to_value(serde_json::from_value::<K>(object)?)
}

impl Kind {
    fn new<K: CustomResourceExt + DeserializeOwned + Serialize>(origin: Origin) -> Self {
        let crd = K::crd();
        let definition = match origin {
            Origin::Ours | Origin::Composite => publish::ours(crd),
            Origin::Foreign => publish::foreign(crd),
        };
        let spec = &definition.spec;
        Self {
            origin,
            group: spec.group.clone(),
            version: spec.versions.first().map(|v| v.name.clone()).unwrap_or_default(),
            kind: spec.names.kind.clone(),
            plural: spec.names.plural.clone(),
            namespaced: spec.scope == "Namespaced",
            definition,
            through_type: through::<K>,
        }
    }

    /// Reads an object of this kind into its type and writes it again: defaults are filled in,
    /// fields that the type does not know are gone.
    pub fn through_type(&self, object: Value) -> serde_json::Result<Value> {
        (self.through_type)(object)
    }

    /// The definition for an API server. For a composite this is what Crossplane would install.
    pub fn crd(&self) -> &CustomResourceDefinition {
        &self.definition
    }

    /// What a person installs: a CustomResourceDefinition, or Crossplane's
    /// CompositeResourceDefinition.
    pub fn manifest(&self) -> Value {
        match self.origin {
            Origin::Composite => composite::definition(&self.definition),
            Origin::Ours | Origin::Foreign => serde_json::to_value(&self.definition).unwrap_or_default(),
        }
    }

    /// `group/version`.
    pub fn api_version(&self) -> String {
        format!("{}/{}", self.group, self.version)
    }

    /// The claim that people write instead of a composite, as the definition that Crossplane makes.
    pub fn claim(&self) -> Option<CustomResourceDefinition> {
        (self.origin == Origin::Composite).then(|| composite::claim(&self.definition))
    }
}

/// Every kind: ours, then Crossplane's, then foreign ones. Made once.
pub fn registry() -> &'static [Kind] {
    static KINDS: LazyLock<Vec<Kind>> = LazyLock::new(kinds);
    &KINDS
}

fn kinds() -> Vec<Kind> {
    use Origin::{Composite, Foreign, Ours};
    vec![
        Kind::new::<c5c3::ControlPlane>(Ours),
        Kind::new::<c5c3::SecretAggregate>(Ours),
        Kind::new::<c5c3::CredentialRotation>(Ours),
        Kind::new::<openstack::Keystone>(Ours),
        Kind::new::<openstack::Glance>(Ours),
        Kind::new::<openstack::Placement>(Ours),
        Kind::new::<openstack::Nova>(Ours),
        Kind::new::<openstack::Neutron>(Ours),
        Kind::new::<openstack::Cinder>(Ours),
        Kind::new::<openstack::Tempest>(Ours),
        Kind::new::<ovn::OvnCluster>(Ours),
        Kind::new::<ovn::OvnChassis>(Ours),
        Kind::new::<ovs::OvsNode>(Ours),
        Kind::new::<ovs::OvsTrace>(Ours),
        Kind::new::<ovs::OvsCapture>(Ours),
        Kind::new::<hypervisor::Hypervisor>(Ours),
        Kind::new::<hypervisor::Eviction>(Ours),
        Kind::new::<hypervisor::Migration>(Ours),
        Kind::new::<ceph::RemoteCluster>(Ours),
        Kind::new::<ceph::RemoteArbiter>(Ours),
        Kind::new::<cortex::Cortex>(Ours),
        Kind::new::<cortex::Pipeline>(Ours),
        Kind::new::<cortex::Datasource>(Ours),
        Kind::new::<cortex::Knowledge>(Ours),
        Kind::new::<cortex::Kpi>(Ours),
        Kind::new::<cortex::Decision>(Ours),
        Kind::new::<cortex::Descheduling>(Ours),
        Kind::new::<cortex::Reservation>(Ours),
        Kind::new::<crossplane::XControlPlaneCluster>(Composite),
        Kind::new::<crossplane::XHypervisorCluster>(Composite),
        Kind::new::<crossplane::XStorageCluster>(Composite),
        Kind::new::<foreign::mariadb::MariaDb>(Foreign),
        Kind::new::<foreign::mariadb::Database>(Foreign),
        Kind::new::<foreign::mariadb::User>(Foreign),
        Kind::new::<foreign::mariadb::Grant>(Foreign),
        Kind::new::<foreign::rabbitmq::RabbitmqCluster>(Foreign),
        Kind::new::<foreign::rabbitmq::Vhost>(Foreign),
        Kind::new::<foreign::rabbitmq::User>(Foreign),
        Kind::new::<foreign::rabbitmq::Permission>(Foreign),
        Kind::new::<foreign::memcached::Memcached>(Foreign),
        Kind::new::<foreign::valkey::Valkey>(Foreign),
        Kind::new::<foreign::external_secrets::ExternalSecret>(Foreign),
        Kind::new::<foreign::external_secrets::PushSecret>(Foreign),
        Kind::new::<foreign::external_secrets::ClusterSecretStore>(Foreign),
        Kind::new::<foreign::cert_manager::Certificate>(Foreign),
        Kind::new::<foreign::rook::CephCluster>(Foreign),
        Kind::new::<foreign::rook::CephClient>(Foreign),
        Kind::new::<foreign::rook::CephBlockPool>(Foreign),
        Kind::new::<foreign::rook::CephObjectStore>(Foreign),
        Kind::new::<foreign::rook::CephObjectStoreUser>(Foreign),
        Kind::new::<foreign::gateway::HttpRoute>(Foreign),
        Kind::new::<foreign::gardener::Shoot>(Foreign),
        Kind::new::<foreign::korc::Domain>(Foreign),
        Kind::new::<foreign::korc::Project>(Foreign),
        Kind::new::<foreign::korc::Role>(Foreign),
        Kind::new::<foreign::korc::Group>(Foreign),
        Kind::new::<foreign::korc::Service>(Foreign),
        Kind::new::<foreign::korc::Endpoint>(Foreign),
        Kind::new::<foreign::korc::User>(Foreign),
        Kind::new::<foreign::korc::RoleAssignment>(Foreign),
        Kind::new::<foreign::korc::ApplicationCredential>(Foreign),
    ]
}
