use super::{Process, Rbd};
use crate::common::{Cache, Database, KeystoneAuth, Messaging, ServiceCommon, ServiceStatus, is_default};
use crate::schema::{self, rules};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// The volume service.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "cinder.openstack.c5c3.io",
    version = "v1alpha1",
    kind = "Cinder",
    plural = "cinders",
    namespaced,
    status = "CinderStatus",
    category = "c5c3",
    category = "openstack",
    derive = "PartialEq",
    doc = "The volume service.",
    printcolumn(name = "Backends", type_ = "string", json_path = ".spec.backends[*].name")
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[
    (
        "!has(self.defaultVolumeType) || self.backends.exists(b, b.name == self.defaultVolumeType)",
        "defaultVolumeType: must be the name of one of the backends",
    ),
    (
        "!has(self.backup) || self.backends.all(b, has(b.rbd))",
        "backup: takes volumes in Ceph only; leave it out, or give every backend rbd",
    ),
])))]
pub struct CinderSpec {
    #[serde(flatten)]
    pub common: ServiceCommon,
    /// The API.
    #[serde(default, skip_serializing_if = "is_default")]
    pub api: Process,
    /// The scheduler.
    #[serde(default, skip_serializing_if = "is_default")]
    pub scheduler: Process,
    /// The processes that manage the backends.
    #[serde(default, skip_serializing_if = "is_default")]
    pub volume: CinderVolume,
    /// The database.
    pub database: Database,
    /// The message bus.
    pub messaging: Messaging,
    /// The cache.
    pub cache: Option<Cache>,
    /// Credentials with which it logs in to Keystone.
    pub keystone: KeystoneAuth,
    /// Where volumes are kept.
    #[schemars(
        length(min = 1, max = 16),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub backends: Vec<CinderBackend>,
    /// The default backend, for volumes that name no type.
    #[serde(default)]
    #[schemars(schema_with = "schema::label")]
    pub default_volume_type: Option<String>,
    /// Backups of volumes; disabled when left out.
    pub backup: Option<CinderBackup>,
}

/// Backups of volumes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CinderBackup {
    /// The pool that keeps them, in the Ceph of the backends, and a user of its own for it.
    pub rbd: Rbd,
}

/// The processes that manage the backends.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CinderVolume {
    /// Number of replicas for each backend; more than one is not supported.
    #[schemars(range(min = 1, max = 64))]
    pub replicas: i32,
}

impl Default for CinderVolume {
    fn default() -> Self {
        Self { replicas: 1 }
    }
}

/// Where volumes are kept.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[
    (
        "(self.driver == 'cinder.volume.drivers.rbd.RBDDriver') == has(self.rbd)",
        "backends.rbd: the RBD driver needs pool and cephSecretRef, and no other driver takes them",
    ),
    (
        "(self.driver == 'cinder.volume.drivers.nfs.NfsDriver') == has(self.file)",
        "backends.file: the NFS driver needs it, and no other driver takes it",
    ),
])))]
pub struct CinderBackend {
    /// Name of the backend and of its volume type.
    #[schemars(schema_with = "schema::label")]
    pub name: String,
    /// Class of the driver.
    #[serde(default = "CinderBackend::rbd_driver")]
    #[schemars(regex(pattern = r"^[A-Za-z0-9_.]+$"), length(max = 253))]
    pub driver: String,
    /// Ceph block devices.
    pub rbd: Option<Rbd>,
    /// Files on a volume of the cluster, by Cinder's NFS driver.
    pub file: Option<CinderFile>,
}

/// Size of a claim of which nothing is said.
pub const CINDER_FILE_SIZE: &str = "10Gi";

/// A volume that Kubernetes mounts in cinder-volume and on every hypervisor: a share of NFS or any
/// other file system that nodes share.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CinderFile {
    /// Size of the volume; 10Gi when left out.
    #[serde(default)]
    #[schemars(schema_with = "schema::size")]
    pub size: Option<String>,
    /// StorageClass, the cluster's default when left out; it must allow ReadWriteMany.
    #[serde(default)]
    #[schemars(schema_with = "schema::name")]
    pub storage_class: Option<String>,
}

impl CinderBackend {
    /// What follows Cinder's name in that of the claim with the volumes' files.
    pub fn claim_suffix(&self) -> String {
        format!("volumes-{}", self.name)
    }

    /// The claim with the volumes' files of the Cinder of this name.
    pub fn claim(&self, cinder: &str) -> String {
        format!("{cinder}-{}", self.claim_suffix())
    }

    fn rbd_driver() -> String {
        "cinder.volume.drivers.rbd.RBDDriver".to_owned()
    }
}

/// What was seen of Cinder.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CinderStatus {
    #[serde(flatten)]
    pub common: ServiceStatus,
    /// Each backend.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub backends: Vec<CinderBackendStatus>,
}

/// One backend.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CinderBackendStatus {
    /// Name of the backend.
    pub name: String,
    /// Ready, or what it waits for.
    pub status: String,
    /// Free space in GiB.
    pub available_capacity_gb: Option<i64>,
    /// Whole space in GiB.
    pub total_capacity_gb: Option<i64>,
}
