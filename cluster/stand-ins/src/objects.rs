//! Pieces that all stand-ins use.

use std::collections::BTreeMap;

use c5c3_api::foreign::ConditionsStatus;
use c5c3_kit::pod::{run_as, unprivileged};
use k8s_openapi::ByteString;
use k8s_openapi::api::apps::v1::{StatefulSet, StatefulSetSpec};
use k8s_openapi::api::core::v1::{
    ConfigMap, ConfigMapVolumeSource, Container, ContainerPort, ExecAction, KeyToPath, PersistentVolumeClaim,
    PersistentVolumeClaimSpec, Pod, PodSpec, PodTemplateSpec, Probe, Secret, SecretVolumeSource,
    SecurityContext, Service, ServicePort, ServiceSpec, TCPSocketAction, TopologySpreadConstraint, Volume,
    VolumeResourceRequirements,
};
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// Labels of objects and pods.
pub(crate) type Labels = BTreeMap<String, String>;
/// The files of a ConfigMap.
pub(crate) type Files = BTreeMap<&'static str, String>;

/// The servers of one object: what they are called, and the objects that they consist of.
pub(crate) struct Instance {
    namespace: String,
    name: String,
    server: &'static str,
}

/// What makes one StatefulSet different from another.
pub(crate) struct Set<'a> {
    pub name: String,
    pub replicas: usize,
    /// The headless Service that gives each pod a name.
    pub headless: String,
    /// A change of them restarts the pods.
    pub files: &'a Files,
    pub pod: PodSpec,
    pub claim: Option<PersistentVolumeClaim>,
}

impl Instance {
    pub(crate) fn of(server: &'static str, object: &impl ResourceExt) -> Self {
        Self::named(server, object, &object.name_any())
    }

    /// For an object that is part of the instance `name`.
    pub(crate) fn named(server: &'static str, object: &impl ResourceExt, name: &str) -> Self {
        Self {
            namespace: object.namespace().unwrap_or_default(),
            name: name.to_owned(),
            server,
        }
    }

    pub(crate) fn labels(&self) -> Labels {
        [
            ("app.kubernetes.io/name", self.server),
            ("app.kubernetes.io/instance", self.name.as_str()),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into()
    }

    pub(crate) fn meta(&self, own: &str) -> ObjectMeta {
        ObjectMeta {
            namespace: Some(self.namespace.clone()),
            name: Some(own.to_owned()),
            labels: Some(self.labels()),
            ..ObjectMeta::default()
        }
    }

    pub(crate) fn pods(&self) -> LabelSelector {
        LabelSelector {
            match_labels: Some(self.labels()),
            ..LabelSelector::default()
        }
    }

    pub(crate) fn secret<'k>(&self, own: &str, data: impl IntoIterator<Item = (&'k str, String)>) -> Secret {
        opaque(self.meta(own), data)
    }

    pub(crate) fn config_map(&self, own: &str, files: &Files) -> ConfigMap {
        let file = |(name, text): (&&str, &String)| ((*name).to_owned(), text.clone());
        ConfigMap {
            metadata: self.meta(own),
            data: Some(files.iter().map(file).collect()),
            ..ConfigMap::default()
        }
    }

    pub(crate) fn service(&self, own: &str, selector: Labels, ports: &[(&str, u16)]) -> Service {
        Service {
            metadata: self.meta(own),
            spec: Some(ServiceSpec {
                selector: Some(selector),
                ports: Some(
                    ports
                        .iter()
                        .map(|(name, port)| service_port(name, *port))
                        .collect(),
                ),
                ..ServiceSpec::default()
            }),
            ..Service::default()
        }
    }

    /// A Service without an address of its own.
    pub(crate) fn headless(&self, own: &str, ports: &[(&str, u16)]) -> Service {
        let mut service = self.service(own, self.labels(), ports);
        if let Some(spec) = &mut service.spec {
            spec.cluster_ip = Some("None".to_owned());
        }
        service
    }

    /// The headless Service of a StatefulSet, whose pods find each other before they are ready.
    pub(crate) fn members(&self, own: &str, ports: &[(&str, u16)]) -> Service {
        let mut service = self.headless(own, ports);
        if let Some(spec) = &mut service.spec {
            spec.publish_not_ready_addresses = Some(true);
        }
        service
    }

    /// One pod at a time may be evicted.
    pub(crate) fn budget(&self, own: &str) -> PodDisruptionBudget {
        PodDisruptionBudget {
            metadata: self.meta(own),
            spec: Some(PodDisruptionBudgetSpec {
                max_unavailable: Some(IntOrString::Int(1)),
                selector: Some(self.pods()),
                ..PodDisruptionBudgetSpec::default()
            }),
            ..PodDisruptionBudget::default()
        }
    }

    /// Not root, without a token; one on each node while nodes suffice, so that a node that fails takes one
    /// server with it.
    pub(crate) fn pod(&self, user: i64, containers: Vec<Container>) -> PodSpec {
        PodSpec {
            security_context: Some(run_as(user)),
            automount_service_account_token: Some(false),
            enable_service_links: Some(false),
            topology_spread_constraints: Some(vec![TopologySpreadConstraint {
                max_skew: 1,
                topology_key: "kubernetes.io/hostname".to_owned(),
                when_unsatisfiable: "ScheduleAnyway".to_owned(),
                label_selector: Some(self.pods()),
                ..TopologySpreadConstraint::default()
            }]),
            containers,
            ..PodSpec::default()
        }
    }

    /// All pods start together: servers that form a cluster wait for each other.
    pub(crate) fn stateful_set(&self, set: Set<'_>) -> StatefulSet {
        let annotations = [("c5c3.io/config".to_owned(), hash(&json!(set.files)))];
        StatefulSet {
            metadata: self.meta(&set.name),
            spec: StatefulSetSpec {
                replicas: Some(i32::try_from(set.replicas).unwrap_or(i32::MAX)),
                service_name: Some(set.headless),
                pod_management_policy: Some("Parallel".to_owned()),
                selector: self.pods(),
                template: PodTemplateSpec {
                    metadata: Some(ObjectMeta {
                        labels: Some(self.labels()),
                        annotations: Some(annotations.into()),
                        ..ObjectMeta::default()
                    }),
                    spec: Some(set.pod),
                },
                volume_claim_templates: set.claim.map(|claim| vec![claim]),
                ..StatefulSetSpec::default()
            },
            ..StatefulSet::default()
        }
    }
}

fn service_port(name: &str, port: u16) -> ServicePort {
    ServicePort {
        name: Some(name.to_owned()),
        port: port.into(),
        target_port: Some(IntOrString::Int(port.into())),
        ..ServicePort::default()
    }
}

pub(crate) fn opaque<'k>(metadata: ObjectMeta, data: impl IntoIterator<Item = (&'k str, String)>) -> Secret {
    let entry = |(key, value): (&str, String)| (key.to_owned(), ByteString(value.into_bytes()));
    Secret {
        metadata,
        type_: Some("Opaque".to_owned()),
        data: Some(data.into_iter().map(entry).collect()),
        ..Secret::default()
    }
}

/// The pod label by which a Service finds one pod of a StatefulSet.
pub(crate) const POD_NAME: &str = "statefulset.kubernetes.io/pod-name";

pub(crate) fn container_port(name: &str, port: u16) -> ContainerPort {
    ContainerPort {
        name: Some(name.to_owned()),
        container_port: port.into(),
        ..ContainerPort::default()
    }
}

/// No capabilities, nothing writable but what is mounted.
pub(crate) fn read_only() -> SecurityContext {
    SecurityContext {
        read_only_root_filesystem: Some(true),
        ..unprivileged()
    }
}

/// It accepts connections.
pub(crate) fn accepts(port: u16) -> Probe {
    Probe {
        tcp_socket: Some(TCPSocketAction {
            port: IntOrString::Int(port.into()),
            ..TCPSocketAction::default()
        }),
        ..Probe::default()
    }
}

/// The command succeeds.
pub(crate) fn succeeds(command: &[&str]) -> Probe {
    Probe {
        exec: Some(ExecAction {
            command: Some(words(command)),
        }),
        ..Probe::default()
    }
}

pub(crate) fn words(command: &[&str]) -> Vec<String> {
    command.iter().map(|word| (*word).to_owned()).collect()
}

pub(crate) fn config_volume(name: &str, map: &str, mode: Option<i32>) -> Volume {
    Volume {
        name: name.to_owned(),
        config_map: Some(ConfigMapVolumeSource {
            name: map.to_owned(),
            default_mode: mode,
            ..ConfigMapVolumeSource::default()
        }),
        ..Volume::default()
    }
}

/// A Secret as files; only this key of it if one is named.
pub(crate) fn secret_volume(name: &str, secret: &str, key: Option<&str>) -> Volume {
    let item = |key: &str| KeyToPath {
        key: key.to_owned(),
        path: key.to_owned(),
        ..KeyToPath::default()
    };
    Volume {
        name: name.to_owned(),
        secret: Some(SecretVolumeSource {
            secret_name: Some(secret.to_owned()),
            items: key.map(|key| vec![item(key)]),
            ..SecretVolumeSource::default()
        }),
        ..Volume::default()
    }
}

/// The claim of each pod of a StatefulSet.
pub(crate) fn claim(name: &str, size: Option<Quantity>, class: Option<String>) -> PersistentVolumeClaim {
    let size = size.unwrap_or_else(|| Quantity("1Gi".to_owned()));
    PersistentVolumeClaim {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        spec: Some(PersistentVolumeClaimSpec {
            access_modes: Some(vec!["ReadWriteOnce".to_owned()]),
            resources: Some(VolumeResourceRequirements {
                requests: Some([("storage".to_owned(), size)].into()),
                ..VolumeResourceRequirements::default()
            }),
            storage_class_name: class,
            ..PersistentVolumeClaimSpec::default()
        }),
        ..PersistentVolumeClaim::default()
    }
}

pub(crate) fn hash(value: &Value) -> String {
    hex::encode(&Sha256::digest(value.to_string())[..5])
}

pub(crate) fn encode(text: &str) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(text)
}

/// The text of a Secret's key.
pub(crate) fn secret_value(secret: Option<Secret>, key: &str) -> Option<String> {
    String::from_utf8(secret?.data?.remove(key)?.0).ok()
}

pub(crate) fn is_pod_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    let ready = conditions.is_some_and(|all| all.iter().any(|c| c.type_ == "Ready" && c.status == "True"));
    ready && pod.metadata.deletion_timestamp.is_none()
}

/// Whether a foreign object says that it is ready.
pub(crate) fn is_ready(status: Option<&ConditionsStatus>) -> bool {
    status.is_some_and(|status| {
        let conditions = &status.conditions;
        conditions
            .iter()
            .any(|c| c.type_ == "Ready" && c.status == "True")
    })
}

/// Selects what [`Instance::labels`] marks.
pub(crate) fn labels_selector(server: &str, instance: &str) -> String {
    format!("app.kubernetes.io/name={server},app.kubernetes.io/instance={instance}")
}
