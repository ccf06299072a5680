//! What is made in the other cluster. Pure.

use std::collections::BTreeMap;

use c5c3_api::ceph::{ArbiterServiceType, RemoteArbiter};
use c5c3_kit::pod::{env, env_field, mount, mount_read_only, run_as, scratch, unprivileged};
use k8s_openapi::ByteString;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec, DeploymentStrategy};
use k8s_openapi::api::core::v1::{
    ConfigMap, ConfigMapVolumeSource, Container, ContainerPort, ExecAction, KeyToPath, PodSpec,
    PodTemplateSpec, Probe, Secret, SecretVolumeSource, SecurityContext, Service, ServicePort, ServiceSpec,
    Volume,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::ResourceExt;
use kube::api::ObjectMeta;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::endpoints::{Address, V1, V2};
use crate::remote::Kind;

/// The user `ceph` of Ceph's own images. A volume of the pod is all that it writes to.
const UID: i64 = 167;
/// On the Deployment: the name and the address with which the monitor joined. Both stay in Ceph's map.
pub(crate) const JOINED_AS: &str = "ceph.c5c3.io/joined-as";
/// Longest name: `-mon` is added, and a Service has 63 letters.
pub(super) const LONGEST: usize = 59;
/// Its own word, by its own socket: in the quorum it leads or follows.
const IN_QUORUM: &str =
    r#"ceph --admin-daemon /run/ceph/mon.asok mon_status | grep -Eq '"state": *"(leader|peon)"'"#;

const LOGGED: &[&str] = &[
    "--default-log-to-stderr=true",
    "--default-err-to-stderr=true",
    "--default-mon-cluster-log-to-stderr=true",
    "--default-log-stderr-prefix=debug ",
    "--default-log-to-file=false",
    "--default-mon-cluster-log-to-file=false",
    "--admin-socket=/run/ceph/mon.asok",
    "--keyring=/etc/ceph-keyring/keyring",
];

pub(super) type Labels = BTreeMap<String, String>;

/// The same for all four.
pub(super) fn name(arbiter: &RemoteArbiter) -> String {
    format!("{}-mon", arbiter.name_any())
}

/// What never changes: by these its pods are found.
pub(super) fn selector(arbiter: &RemoteArbiter) -> Labels {
    BTreeMap::from([
        ("app.kubernetes.io/name".to_owned(), "ceph-mon".to_owned()),
        ("app.kubernetes.io/instance".to_owned(), arbiter.name_any()),
    ])
}

fn meta(arbiter: &RemoteArbiter, namespace: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name(arbiter)),
        namespace: Some(namespace.to_owned()),
        labels: Some(selector(arbiter)),
        ..ObjectMeta::default()
    }
}

/// What all of it is made of.
pub(super) struct Material<'a> {
    pub arbiter: &'a RemoteArbiter,
    /// Over there.
    pub namespace: &'a str,
    pub id: &'a str,
    pub fsid: &'a str,
    pub image: &'a str,
    /// The key of the monitors alone.
    pub keyring: &'a str,
    pub mon_host: &'a str,
    /// What a person set for all daemons.
    pub config: &'a str,
}

/// It holds a key, so there is no Debug.
impl Material<'_> {
    pub(super) fn secret(&self) -> Value {
        let keyring = ByteString(self.keyring.as_bytes().to_vec());
        value(
            Kind::Secret,
            &Secret {
                metadata: meta(self.arbiter, self.namespace),
                data: Some(BTreeMap::from([("keyring".to_owned(), keyring)])),
                type_: Some("Opaque".to_owned()),
                ..Secret::default()
            },
        )
    }

    pub(super) fn config_map(&self) -> Value {
        let pairs = [("mon_host", self.mon_host), ("ceph.conf", self.config)];
        let data = pairs.map(|(key, text)| (key.to_owned(), text.to_owned()));
        value(
            Kind::ConfigMap,
            &ConfigMap {
                metadata: meta(self.arbiter, self.namespace),
                data: Some(BTreeMap::from(data)),
                ..ConfigMap::default()
            },
        )
    }

    pub(super) fn service(&self) -> Value {
        let port = |name: &str, number: u16| ServicePort {
            name: Some(name.to_owned()),
            port: number.into(),
            protocol: Some("TCP".to_owned()),
            ..ServicePort::default()
        };
        let kind = match self.arbiter.spec.service.type_ {
            ArbiterServiceType::ClusterIP => "ClusterIP",
            ArbiterServiceType::NodePort => "NodePort",
            ArbiterServiceType::LoadBalancer => "LoadBalancer",
        };
        value(
            Kind::Service,
            &Service {
                metadata: meta(self.arbiter, self.namespace),
                spec: Some(ServiceSpec {
                    type_: Some(kind.to_owned()),
                    selector: Some(selector(self.arbiter)),
                    // Monitors have to meet before this one is in the quorum.
                    publish_not_ready_addresses: Some(true),
                    ports: Some(vec![port("msgr2", V2), port("msgr1", V1)]),
                    ..ServiceSpec::default()
                }),
                ..Service::default()
            },
        )
    }

    pub(super) fn deployment(&self, address: &Address) -> Value {
        let labels = selector(self.arbiter);
        let wishes = &self.arbiter.spec.deployment;
        let mut metadata = meta(self.arbiter, self.namespace);
        metadata.annotations = Some(joined(self.id, address));
        let pod = PodSpec {
            containers: vec![self.container(address)],
            node_selector: (!wishes.node_selector.is_empty()).then(|| wishes.node_selector.clone()),
            affinity: wishes.affinity.clone(),
            automount_service_account_token: Some(false),
            enable_service_links: Some(false),
            security_context: Some(run_as(UID)),
            volumes: Some(self.volumes()),
            ..PodSpec::default()
        };
        value(
            Kind::Deployment,
            &Deployment {
                metadata,
                spec: DeploymentSpec {
                    replicas: Some(1),
                    // Two monitors of one name must never meet.
                    strategy: Some(DeploymentStrategy {
                        type_: Some("Recreate".to_owned()),
                        ..DeploymentStrategy::default()
                    }),
                    selector: LabelSelector {
                        match_labels: Some(labels.clone()),
                        ..LabelSelector::default()
                    },
                    template: PodTemplateSpec {
                        metadata: Some(ObjectMeta {
                            labels: Some(labels),
                            annotations: Some(self.followed()),
                            ..ObjectMeta::default()
                        }),
                        spec: Some(pod),
                    },
                    ..DeploymentSpec::default()
                },
                ..Deployment::default()
            },
        )
    }

    /// A new key or new settings need a new start; new addresses of others do not.
    fn followed(&self) -> Labels {
        let digest = Sha256::new()
            .chain_update(self.keyring)
            .chain_update([0])
            .chain_update(self.config)
            .finalize();
        let text = hex::encode(&digest[..8]);
        BTreeMap::from([("ceph.c5c3.io/keyring-and-settings".to_owned(), text)])
    }

    fn container(&self, address: &Address) -> Container {
        let mut command: Vec<String> = ["sh", "-ec", include_str!("mon.sh"), "mon"]
            .map(str::to_owned)
            .to_vec();
        command.push(format!("--fsid={}", self.fsid));
        command.push(address.argument());
        command.extend(LOGGED.iter().map(|argument| (*argument).to_owned()));
        let asked = |period: i32, failures: i32| Probe {
            exec: Some(ExecAction {
                command: Some(["sh", "-c", IN_QUORUM].map(str::to_owned).to_vec()),
            }),
            period_seconds: Some(period),
            timeout_seconds: Some(10),
            failure_threshold: Some(failures),
            ..Probe::default()
        };
        let port = |name: &str, number: u16| ContainerPort {
            name: Some(name.to_owned()),
            container_port: number.into(),
            protocol: Some("TCP".to_owned()),
            ..ContainerPort::default()
        };
        Container {
            name: "mon".to_owned(),
            image: Some(self.image.to_owned()),
            command: Some(command),
            env: Some(vec![
                env("ID", self.id),
                env_field("POD_IP", "status.podIP"),
                // Python of the tools writes nothing beside its sources.
                env("PYTHONDONTWRITEBYTECODE", "1"),
            ]),
            ports: Some(vec![port("msgr2", V2), port("msgr1", V1)]),
            readiness_probe: Some(asked(5, 2)),
            // One that finds nobody for ten minutes restarts, with the addresses that are known then.
            liveness_probe: Some(asked(30, 20)),
            resources: self.arbiter.spec.deployment.resources.clone(),
            security_context: Some(SecurityContext {
                read_only_root_filesystem: Some(true),
                ..unprivileged()
            }),
            volume_mounts: Some(vec![
                mount_read_only("config", "/etc/ceph"),
                mount_read_only("mons", "/etc/ceph-mons"),
                mount_read_only("keyring", "/etc/ceph-keyring"),
                // All of it: in an image it may be closed to this user.
                mount("data", "/var/lib/ceph"),
                mount("run", "/run/ceph"),
                mount("tmp", "/tmp"),
            ]),
            ..Container::default()
        }
    }

    fn volumes(&self) -> Vec<Volume> {
        let file = |key: &str| {
            Some(vec![KeyToPath {
                key: key.to_owned(),
                path: key.to_owned(),
                ..KeyToPath::default()
            }])
        };
        let map = |volume: &str, key: &str| Volume {
            name: volume.to_owned(),
            config_map: Some(ConfigMapVolumeSource {
                name: name(self.arbiter),
                items: file(key),
                ..ConfigMapVolumeSource::default()
            }),
            ..Volume::default()
        };
        let keyring = Volume {
            name: "keyring".to_owned(),
            secret: Some(SecretVolumeSource {
                secret_name: Some(name(self.arbiter)),
                items: file("keyring"),
                default_mode: Some(0o440),
                ..SecretVolumeSource::default()
            }),
            ..Volume::default()
        };
        vec![
            map("config", "ceph.conf"),
            map("mons", "mon_host"),
            keyring,
            scratch("data"),
            scratch("run"),
            scratch("tmp"),
        ]
    }
}

fn joined(id: &str, address: &Address) -> Labels {
    BTreeMap::from([(JOINED_AS.to_owned(), format!("{id} {address}"))])
}

fn value(kind: Kind, object: &impl serde::Serialize) -> Value {
    // A Kubernetes type has string keys only, so this cannot fail; were it to, the server refuses null.
    let mut value = serde_json::to_value(object).unwrap_or_default();
    if let Some(fields) = value.as_object_mut() {
        fields.remove("status");
        let version = if kind == Kind::Deployment { "apps/v1" } else { "v1" };
        fields.insert("apiVersion".to_owned(), version.into());
        fields.insert("kind".to_owned(), kind.to_string().into());
    }
    value
}

/// The entry of the monitors in Rook's keyring. That of the administrator stays at home.
pub(super) fn mon_keyring(keyring: &str) -> Option<String> {
    let mut lines = keyring.lines().skip_while(|line| line.trim() != "[mon.]");
    let header = lines.next()?;
    let own = lines.take_while(|line| !line.trim_start().starts_with('['));
    let lines: Vec<&str> = [header].into_iter().chain(own).map(str::trim).collect();
    let has_key = lines.iter().any(|line| line.starts_with("key"));
    has_key.then(|| {
        let kept = lines.iter().filter(|line| !line.is_empty());
        kept.map(|line| format!("{line}\n")).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_of_the_administrator_stays_at_home() {
        let rooks = "[mon.]\n\tkey = MON\n\tcaps mon = \"allow *\"\n\n[client.admin]\n\tkey = ADMIN\n";
        let own = mon_keyring(rooks).expect("a key");
        assert_eq!(own, "[mon.]\nkey = MON\ncaps mon = \"allow *\"\n");
        assert_eq!(mon_keyring("[client.admin]\n\tkey = ADMIN\n"), None);
        assert_eq!(mon_keyring("[mon.]\n"), None);
    }
}
