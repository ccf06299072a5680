//! `rabbitmq.com/v1beta1`, by the RabbitMQ cluster and topology operators.

use super::{ConditionsStatus, NameRef};
use k8s_openapi::api::core::v1::{Affinity, PodTemplateSpec, ResourceRequirements, Toleration};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::CustomResource;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// A RabbitMQ cluster.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[kube(
    group = "rabbitmq.com",
    version = "v1beta1",
    kind = "RabbitmqCluster",
    plural = "rabbitmqclusters",
    namespaced,
    schema = "disabled",
    status = "RabbitmqClusterStatus",
    shortname = "rmq",
    derive = "PartialEq",
    derive = "Default",
    printcolumn(
        name = "AllReplicasReady",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"AllReplicasReady\")].status"
    ),
    printcolumn(
        name = "ReconcileSuccess",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"ReconcileSuccess\")].status"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct RabbitmqClusterSpec {
    pub replicas: Option<i32>,
    pub image: Option<String>,
    pub persistence: Option<Persistence>,
    pub rabbitmq: Option<RabbitmqConfig>,
    pub resources: Option<ResourceRequirements>,
    pub delay_start_seconds: Option<i32>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub image_pull_secrets: Vec<NameRef>,
    pub affinity: Option<Affinity>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Toleration>,
    #[serde(rename = "override")]
    pub override_: Option<Override>,
}

/// What the operator has no field for.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Override {
    pub stateful_set: Option<StatefulSetOverride>,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct StatefulSetOverride {
    pub spec: Option<StatefulSetOverrideSpec>,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct StatefulSetOverrideSpec {
    pub template: Option<PodTemplateSpec>,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Persistence {
    pub storage_class_name: Option<String>,
    pub storage: Option<Quantity>,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RabbitmqConfig {
    pub additional_config: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub additional_plugins: Vec<String>,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RabbitmqClusterStatus {
    #[serde(flatten)]
    pub common: ConditionsStatus,
    pub default_user: Option<DefaultUser>,
    pub binding: Option<NameRef>,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DefaultUser {
    pub secret_reference: Option<DefaultUserSecret>,
    pub service_reference: Option<DefaultUserService>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DefaultUserSecret {
    pub name: String,
    #[serde(default)]
    pub namespace: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DefaultUserService {
    pub name: String,
    #[serde(default)]
    pub namespace: String,
}

/// Which cluster a topology object belongs to.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterReference {
    pub name: Option<String>,
    pub namespace: Option<String>,
    /// Secret with uri, username and password of a cluster that is not ours.
    pub connection_secret: Option<NameRef>,
}

/// A virtual host.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[kube(
    group = "rabbitmq.com",
    version = "v1beta1",
    kind = "Vhost",
    plural = "vhosts",
    namespaced,
    schema = "disabled",
    status = "ConditionsStatus",
    derive = "PartialEq",
    derive = "Default"
)]
#[serde(rename_all = "camelCase")]
pub struct VhostSpec {
    pub name: String,
    pub default_queue_type: Option<String>,
    pub rabbitmq_cluster_reference: ClusterReference,
}

/// A user of a cluster.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[kube(
    group = "rabbitmq.com",
    version = "v1beta1",
    kind = "User",
    plural = "users",
    namespaced,
    schema = "disabled",
    status = "UserStatus",
    derive = "PartialEq",
    derive = "Default"
)]
#[serde(rename_all = "camelCase")]
pub struct UserSpec {
    pub rabbitmq_cluster_reference: ClusterReference,
    pub import_credentials_secret: Option<NameRef>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UserStatus {
    #[serde(flatten)]
    pub common: ConditionsStatus,
    pub username: Option<String>,
    pub credentials: Option<NameRef>,
}

/// What a user may do in a virtual host.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[kube(
    group = "rabbitmq.com",
    version = "v1beta1",
    kind = "Permission",
    plural = "permissions",
    namespaced,
    schema = "disabled",
    status = "ConditionsStatus",
    derive = "PartialEq",
    derive = "Default"
)]
#[serde(rename_all = "camelCase")]
pub struct PermissionSpec {
    pub vhost: String,
    pub user: Option<String>,
    pub user_reference: Option<NameRef>,
    pub permissions: VhostPermissions,
    pub rabbitmq_cluster_reference: ClusterReference,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct VhostPermissions {
    pub configure: Option<String>,
    pub write: Option<String>,
    pub read: Option<String>,
}
