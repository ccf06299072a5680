//! `ceph.c5c3.io/v1alpha1`: a Ceph monitor in another cluster, as tie-breaker.

use crate::common::{Condition, ObjectRef, ResourceRequirements, is_default};
use crate::schema::{self, rules};
use k8s_openapi::api::core::v1::Affinity;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use std::collections::BTreeMap;

/// Before the name of a user of Ceph: the label of workloads and pods that work with its key.
pub const USER_LABEL: &str = "ceph.c5c3.io/user.";
/// The label of workloads and pods that hand keys of Ceph on to guests, which outlive them.
pub const GUESTS_LABEL: &str = "ceph.c5c3.io/guests";

/// Access to another Kubernetes cluster.
#[derive(CustomResource, Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "ceph.c5c3.io",
    version = "v1alpha1",
    kind = "RemoteCluster",
    plural = "remoteclusters",
    namespaced,
    status = "RemoteClusterStatus",
    shortname = "rc",
    category = "c5c3",
    derive = "PartialEq",
    doc = "Access to another Kubernetes cluster.",
    printcolumn(name = "State", type_ = "string", json_path = ".status.state"),
    printcolumn(name = "Namespace", type_ = "string", json_path = ".spec.namespace")
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[(
    "duration(self.timeout) < duration(self.checkInterval)",
    "timeout: must be below checkInterval, or checks overlap",
)])))]
pub struct RemoteClusterSpec {
    /// Namespace in that cluster.
    #[serde(default = "RemoteClusterSpec::default_namespace")]
    #[schemars(schema_with = "schema::label")]
    pub namespace: String,
    /// Secret with the kubeconfig.
    pub accesskey_ref: AccessKeyRef,
    /// Time between checks.
    #[serde(default = "one_minute")]
    #[schemars(schema_with = "schema::duration", extend("x-kubernetes-validations" = rules(&[(
        "duration(self) >= duration('5s')",
        "checkInterval: use 5s or more",
    )])))]
    pub check_interval: String,
    /// Time limit for an answer.
    #[serde(default = "RemoteClusterSpec::ten_seconds")]
    #[schemars(schema_with = "schema::duration", extend("x-kubernetes-validations" = rules(&[(
        "duration(self) >= duration('1s')",
        "timeout: use 1s or more",
    )])))]
    pub timeout: String,
}

impl RemoteClusterSpec {
    fn default_namespace() -> String {
        "default".to_owned()
    }
    fn ten_seconds() -> String {
        "10s".to_owned()
    }
}

fn one_minute() -> String {
    "1m".to_owned()
}

/// A Secret with a kubeconfig.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AccessKeyRef {
    /// Name of the Secret.
    #[schemars(schema_with = "schema::name")]
    pub name: String,
    /// Key in the Secret.
    #[serde(default = "AccessKeyRef::kubeconfig")]
    #[schemars(schema_with = "schema::data_key")]
    pub key: String,
}

impl AccessKeyRef {
    fn kubeconfig() -> String {
        "kubeconfig.yaml".to_owned()
    }
}

/// Where an object is in its life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum RemoteState {
    #[default]
    Init,
    Progressing,
    Error,
    Ready,
    Deleting,
}

/// What was seen of the cluster.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RemoteClusterStatus {
    /// Conditions that describe the current state.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// The generation that was processed.
    pub observed_generation: Option<i64>,
    /// Phase of its life cycle.
    pub state: Option<RemoteState>,
    /// Explanation of the state.
    pub message: Option<String>,
}

/// A Ceph monitor in another cluster, as tie-breaker of a stretched cluster.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "ceph.c5c3.io",
    version = "v1alpha1",
    kind = "RemoteArbiter",
    plural = "remotearbiters",
    namespaced,
    status = "RemoteArbiterStatus",
    shortname = "ra",
    category = "c5c3",
    derive = "PartialEq",
    doc = "A Ceph monitor in another cluster, as tie-breaker of a stretched cluster.",
    printcolumn(name = "State", type_ = "string", json_path = ".status.state"),
    printcolumn(name = "Mon", type_ = "string", json_path = ".status.monId"),
    printcolumn(
        name = "Quorum",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"InQuorum\")].status"
    ),
    printcolumn(name = "Ceph", type_ = "string", json_path = ".spec.cephCluster.name")
)]
#[serde(rename_all = "camelCase")]
pub struct RemoteArbiterSpec {
    /// Where the monitor runs.
    #[schemars(extend("x-kubernetes-validations" = rules(&[
        (
            "has(self.name) != has(self.spec)",
            "remoteCluster: set exactly one of name (a RemoteCluster) and spec (written here)",
        ),
        (
            "has(self.name) == has(oldSelf.name) && (!has(self.name) || self.name == oldSelf.name) && \
             (!has(self.spec) || !has(oldSelf.spec) || self.spec.__namespace__ == oldSelf.spec.__namespace__ && self.spec.accesskeyRef == oldSelf.spec.accesskeyRef)",
            "remoteCluster: a monitor does not move; delete this RemoteArbiter and make another",
        ),
    ])))]
    pub remote_cluster: RemoteClusterChoice,
    /// The CephCluster that it joins.
    #[schemars(extend("x-kubernetes-validations" = rules(&[(
        "self == oldSelf",
        "cephCluster: a monitor does not move; delete this RemoteArbiter and make another",
    )])))]
    pub ceph_cluster: ObjectRef,
    /// Prefix of the monitor's name.
    #[serde(default = "RemoteArbiterSpec::ext")]
    #[schemars(
        regex(pattern = r"^[a-z0-9]([-a-z0-9]*)$"),
        length(max = 32),
        extend("x-kubernetes-validations" = rules(&[(
            "self == oldSelf",
            "monIdPrefix: cannot change, the monitor has its name; delete this RemoteArbiter and make another",
        )]))
    )]
    pub mon_id_prefix: String,
    /// Time between checks.
    #[serde(default = "one_minute")]
    #[schemars(schema_with = "schema::duration", extend("x-kubernetes-validations" = rules(&[(
        "duration(self) >= duration('5s')",
        "checkInterval: use 5s or more",
    )])))]
    pub check_interval: String,
    /// How the other monitors reach it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub service: ArbiterService,
    /// Settings of its pod.
    #[serde(default, skip_serializing_if = "is_default")]
    pub deployment: ArbiterDeployment,
}

impl RemoteArbiterSpec {
    fn ext() -> String {
        "ext-".to_owned()
    }
}

/// A RemoteCluster by name, or written out.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RemoteClusterChoice {
    /// A RemoteCluster in the same namespace.
    #[serde(default)]
    #[schemars(schema_with = "schema::name")]
    pub name: Option<String>,
    /// The spec of a RemoteCluster, inline.
    pub spec: Option<RemoteClusterSpec>,
}

/// How other monitors reach the arbiter.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[(
    "!has(self.nodeIp) || self.type == 'NodePort'",
    "service.nodeIp: only goes with service.type NodePort",
)])))]
pub struct ArbiterService {
    /// Type of the Service.
    #[serde(default, rename = "type")]
    pub type_: ArbiterServiceType,
    /// Address of the node, for NodePort.
    #[serde(default)]
    #[schemars(schema_with = "schema::ip")]
    pub node_ip: Option<String>,
}

/// Type of the Service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum ArbiterServiceType {
    #[default]
    ClusterIP,
    NodePort,
    LoadBalancer,
}

/// The pod of the monitor.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ArbiterDeployment {
    /// Labels of the nodes that may run it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::labels")]
    pub node_selector: BTreeMap<String, String>,
    /// Affinity, as in a pod.
    #[serde(default)]
    #[schemars(schema_with = "schema::any_object")]
    pub affinity: Option<Affinity>,
    /// Requests and limits.
    #[serde(default)]
    #[schemars(schema_with = "schema::resources")]
    pub resources: Option<ResourceRequirements>,
}

/// What was seen of the monitor.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RemoteArbiterStatus {
    /// Conditions that describe the current state.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// The generation that was processed.
    pub observed_generation: Option<i64>,
    /// Phase of its life cycle.
    pub state: Option<RemoteState>,
    /// Explanation of the state.
    pub message: Option<String>,
    /// Name of the monitor in Ceph.
    pub mon_id: Option<String>,
}
