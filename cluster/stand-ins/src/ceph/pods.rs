//! The Deployment of any daemon: one pod, not root, with a key that is mounted and never named.

use c5c3_kit::pod::{env, env_field, env_secret, mount, mount_read_only, run_as, scratch, unprivileged};
use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec, DeploymentStrategy};
use k8s_openapi::api::core::v1::{
    Affinity, ConfigMapVolumeSource, Container, ContainerPort, EnvVar, KeyToPath,
    PersistentVolumeClaimVolumeSource, PodSpec, PodTemplateSpec, Probe, ResourceRequirements,
    SecretVolumeSource, SecurityContext, TCPSocketAction, TopologySpreadConstraint, Volume,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::api::ObjectMeta;

use super::names::{CONFIG, Daemon, OVERRIDE, map};
use super::placement::Placement;

/// The user of the image.
const UID: i64 = 42464;
/// Where a daemon finds its key.
pub(crate) const KEYRING: &str = "/etc/ceph-keyring/keyring";

/// What all daemons are told: who the cluster is, and to log to the container.
const COMMON: &[&str] = &[
    "--fsid=$(CEPH_FSID)",
    "--mon-host=$(ROOK_CEPH_MON_HOST)",
    "--default-log-to-stderr=true",
    "--default-err-to-stderr=true",
    "--default-mon-cluster-log-to-stderr=true",
    "--default-log-stderr-prefix=debug ",
    "--default-log-to-file=false",
    "--default-mon-cluster-log-to-file=false",
];

/// How a daemon runs.
pub(crate) struct Pod<'a> {
    pub daemon: Daemon<'a>,
    pub image: &'a str,
    pub fsid: &'a str,
    /// A shell script; [`COMMON`] and `arguments` are its arguments.
    pub script: &'a str,
    pub arguments: Vec<String>,
    pub env: Vec<EnvVar>,
    /// Secret and the keys of it that are files.
    pub keys: (String, &'static str),
    /// A claim and where it is mounted.
    pub data: Option<(String, String)>,
    pub ports: &'a [(&'a str, u16)],
    pub ready: Ready,
    pub resources: Option<ResourceRequirements>,
    pub replicas: i32,
    /// It is in the network of its node.
    pub host: bool,
    /// The node that it is bound to.
    pub node: Option<String>,
    pub placement: Option<&'a Placement>,
    /// The label of nodes by which those of one kind are spread over sites.
    pub sites: Option<&'a str>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Ready {
    /// It accepts connections.
    Port(u16),
    /// It has not ended.
    Running,
}

fn file(key: &str, path: &str) -> Option<Vec<KeyToPath>> {
    Some(vec![KeyToPath {
        key: key.to_owned(),
        path: path.to_owned(),
        ..KeyToPath::default()
    }])
}

fn probe(ready: Ready) -> Option<Probe> {
    let often = Probe {
        period_seconds: Some(1),
        failure_threshold: Some(3),
        timeout_seconds: Some(3),
        ..Probe::default()
    };
    match ready {
        Ready::Running => None,
        Ready::Port(port) => Some(Probe {
            tcp_socket: Some(TCPSocketAction {
                port: IntOrString::Int(port.into()),
                ..TCPSocketAction::default()
            }),
            ..often
        }),
    }
}

pub(crate) fn deployment(pod: Pod<'_>) -> Deployment {
    let daemon = pod.daemon;
    let labels = daemon.labels();
    // Several of one kind on different nodes, while nodes suffice.
    let peers = map(&[("app", daemon.app), ("rook_cluster", daemon.namespace)]);
    let keys = ["kubernetes.io/hostname"].into_iter().chain(pod.sites);
    let spread = keys.map(|key| TopologySpreadConstraint {
        max_skew: 1,
        topology_key: key.to_owned(),
        when_unsatisfiable: "ScheduleAnyway".to_owned(),
        label_selector: Some(LabelSelector {
            match_labels: Some(peers.clone()),
            ..LabelSelector::default()
        }),
        ..TopologySpreadConstraint::default()
    });
    let spread = spread.collect();
    let spec = PodSpec {
        containers: vec![container(&pod)],
        volumes: Some(volumes(&pod)),
        automount_service_account_token: Some(false),
        enable_service_links: Some(false),
        host_network: pod.host.then_some(true),
        dns_policy: pod.host.then(|| "ClusterFirstWithHostNet".to_owned()),
        node_selector: (pod.node.as_deref()).map(|node| map(&[("kubernetes.io/hostname", node)])),
        security_context: Some(run_as(UID)),
        affinity: pod.placement.and_then(affinity),
        tolerations: pod
            .placement
            .map(|placement| placement.tolerations.clone())
            .filter(|all| !all.is_empty()),
        topology_spread_constraints: Some(spread),
        ..PodSpec::default()
    };
    Deployment {
        metadata: daemon.meta(),
        spec: DeploymentSpec {
            replicas: Some(pod.replicas),
            // Two daemons of one name, or two on one volume, must never meet.
            strategy: Some(DeploymentStrategy {
                type_: Some("Recreate".to_owned()),
                ..DeploymentStrategy::default()
            }),
            selector: LabelSelector {
                match_labels: Some(daemon.selector()),
                ..LabelSelector::default()
            },
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta {
                    labels: Some(labels),
                    ..ObjectMeta::default()
                }),
                spec: Some(spec),
            },
            ..DeploymentSpec::default()
        },
        ..Deployment::default()
    }
}

fn affinity(placement: &Placement) -> Option<Affinity> {
    let nodes = placement.node_affinity.clone()?;
    Some(Affinity {
        node_affinity: Some(nodes),
        ..Affinity::default()
    })
}

fn container(pod: &Pod<'_>) -> Container {
    let mut command: Vec<String> = ["sh", "-ec", pod.script, pod.daemon.kind]
        .map(str::to_owned)
        .to_vec();
    command.extend(COMMON.iter().map(|argument| (*argument).to_owned()));
    command.extend(pod.arguments.iter().cloned());
    let mut variables = vec![
        env("CEPH_FSID", pod.fsid),
        env_secret("ROOK_CEPH_MON_HOST", CONFIG, "mon_host"),
        env_secret("ROOK_CEPH_MON_INITIAL_MEMBERS", CONFIG, "mon_initial_members"),
        env_field("POD_IP", "status.podIP"),
        env_field("NODE_NAME", "spec.nodeName"),
        env("ID", pod.daemon.id),
        // Python of the tools writes nothing beside its sources.
        env("PYTHONDONTWRITEBYTECODE", "1"),
    ];
    variables.extend(pod.env.iter().cloned());
    let mut mounts = vec![
        mount_read_only("rook-config-override", "/etc/ceph"),
        mount_read_only("keyring", "/etc/ceph-keyring"),
        mount("ceph-daemons-sock-dir", "/run/ceph"),
        mount("rook-ceph-log", "/var/log/ceph"),
        mount("tmp", "/tmp"),
        mount("lib", "/var/lib/ceph"),
    ];
    mounts.extend(pod.data.iter().map(|(_, path)| mount("data", path)));
    let port = |(name, number): &(&str, u16)| ContainerPort {
        name: Some((*name).to_owned()),
        container_port: (*number).into(),
        ..ContainerPort::default()
    };
    Container {
        name: pod.daemon.kind.to_owned(),
        image: Some(pod.image.to_owned()),
        command: Some(command),
        env: Some(variables),
        ports: (!pod.ports.is_empty()).then(|| pod.ports.iter().map(port).collect()),
        volume_mounts: Some(mounts),
        readiness_probe: probe(pod.ready),
        resources: pod.resources.clone(),
        security_context: Some(SecurityContext {
            read_only_root_filesystem: Some(true),
            ..unprivileged()
        }),
        ..Container::default()
    }
}

fn volumes(pod: &Pod<'_>) -> Vec<Volume> {
    let (secret, key) = &pod.keys;
    let mut volumes = vec![
        Volume {
            name: "rook-config-override".to_owned(),
            config_map: Some(ConfigMapVolumeSource {
                name: OVERRIDE.to_owned(),
                items: file("config", "ceph.conf"),
                ..ConfigMapVolumeSource::default()
            }),
            ..Volume::default()
        },
        Volume {
            name: "keyring".to_owned(),
            secret: Some(SecretVolumeSource {
                secret_name: Some(secret.clone()),
                items: file(key, key),
                default_mode: Some(0o440),
                ..SecretVolumeSource::default()
            }),
            ..Volume::default()
        },
        // Names that Rook uses, for whoever adds a container to a pod.
        scratch("ceph-daemons-sock-dir"),
        scratch("rook-ceph-log"),
        scratch("tmp"),
        scratch("lib"),
    ];
    volumes.extend(pod.data.iter().map(|(claim, _)| Volume {
        name: "data".to_owned(),
        persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
            claim_name: claim.clone(),
            ..PersistentVolumeClaimVolumeSource::default()
        }),
        ..Volume::default()
    }));
    volumes
}
