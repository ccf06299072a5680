use super::Rbd;
use crate::common::{Cache, Database, KeystoneAuth, LocalRef, ServiceCommon, ServiceStatus, default};
use crate::schema::{self, rules};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// The image service.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "glance.openstack.c5c3.io",
    version = "v1alpha1",
    kind = "Glance",
    plural = "glances",
    namespaced,
    status = "GlanceStatus",
    shortname = "gl",
    category = "c5c3",
    category = "openstack",
    derive = "PartialEq",
    doc = "The image service.",
    printcolumn(name = "Backend", type_ = "string", json_path = ".spec.storage.backend"),
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    )
)]
#[serde(rename_all = "camelCase")]
// Rules about changes stand here: a ControlPlane has the same storage, and others while Glance is off.
#[schemars(extend("x-kubernetes-validations" = rules(&[
    (
        "self.storage.backend == oldSelf.storage.backend",
        "storage.backend: cannot change, images do not move by themselves; make a new Glance and copy them",
    ),
    (
        "quantity(has(self.storage.file) && has(self.storage.file.size) ? self.storage.file.size : '10Gi').compareTo(quantity(has(oldSelf.storage.file) && has(oldSelf.storage.file.size) ? oldSelf.storage.file.size : '10Gi')) >= 0",
        "storage.file.size: volumes can grow but not shrink, and have 10Gi when it is left out; keep the old size or a larger one",
    ),
    (
        "(has(self.storage.file) && has(self.storage.file.storageClass) ? self.storage.file.storageClass : '') == (has(oldSelf.storage.file) && has(oldSelf.storage.file.storageClass) ? oldSelf.storage.file.storageClass : '')",
        "storage.file.storageClass: cannot change, volumes do not move between classes; make a new Glance and copy the images",
    ),
])))]
pub struct GlanceSpec {
    #[serde(flatten)]
    pub common: ServiceCommon,
    /// Number of API replicas.
    #[serde(default = "default::replicas")]
    #[schemars(range(min = 0, max = 64))]
    pub replicas: i32,
    /// The database.
    pub database: Database,
    /// The cache.
    pub cache: Option<Cache>,
    /// Credentials with which it logs in to Keystone.
    pub keystone: KeystoneAuth,
    /// Where images are kept.
    pub storage: GlanceStorage,
}

/// Where images are kept.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[
    (
        "(self.backend == 'rbd') == has(self.rbd)",
        "storage.rbd: backend rbd needs it and the others do not take it",
    ),
    (
        "(self.backend == 's3') == has(self.s3)",
        "storage.s3: backend s3 needs it and the others do not take it",
    ),
    (
        "self.backend == 'file' || !has(self.file)",
        "storage.file: only backend file takes it",
    ),
])))]
pub struct GlanceStorage {
    /// Kind of store.
    pub backend: GlanceBackend,
    /// Ceph block devices.
    pub rbd: Option<Rbd>,
    /// A volume of the cluster.
    pub file: Option<GlanceFile>,
    /// An object store.
    pub s3: Option<GlanceS3>,
}

/// Kind of image store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum GlanceBackend {
    Rbd,
    File,
    S3,
}

/// Size of a volume of which nothing is said; rules about changes have it too.
pub const GLANCE_FILE_SIZE: &str = "10Gi";

/// A volume of the cluster.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GlanceFile {
    /// Size of the volume; 10Gi when left out.
    #[serde(default)]
    #[schemars(schema_with = "schema::size")]
    pub size: Option<String>,
    /// StorageClass, the cluster's default when left out; for more than one replica it must allow ReadWriteMany.
    #[serde(default)]
    #[schemars(schema_with = "schema::name")]
    pub storage_class: Option<String>,
    /// Make the volume ReadWriteMany even for one replica, so that others can be added later.
    pub shared: Option<bool>,
}

/// An object store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GlanceS3 {
    /// Address of the store.
    #[schemars(schema_with = "schema::url")]
    pub endpoint: String,
    /// Bucket for the images.
    #[schemars(regex(pattern = r"^[a-z0-9][a-z0-9.-]*[a-z0-9]$"), length(min = 3, max = 63))]
    pub bucket: String,
    /// Secret with accessKey and secretKey.
    pub secret_ref: LocalRef,
}

/// What was seen of Glance.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GlanceStatus {
    #[serde(flatten)]
    pub common: ServiceStatus,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::c5c3::GlanceService;

    #[test]
    fn rules_know_the_size_of_which_nothing_is_said() {
        for schema in [
            schemars::schema_for!(GlanceSpec),
            schemars::schema_for!(GlanceService),
        ] {
            let text = schema.to_value().to_string();
            assert_eq!(
                text.matches(&format!(": '{GLANCE_FILE_SIZE}'")).count(),
                2,
                "{text}"
            );
        }
    }
}
