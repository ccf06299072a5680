//! Parts of pods that several share.

use c5c3_api::ovn::OvnCluster;
use c5c3_kit::pod::{mount, mount_read_only, run_as, unprivileged};
use k8s_openapi::api::core::v1::{
    Container, ExecAction, HostPathVolumeSource, KeyToPath, LocalObjectReference, PodSecurityContext,
    PodSpec, Probe, SecretVolumeSource, SecurityContext, TopologySpreadConstraint, Volume, VolumeMount,
};

use crate::names::{Names, UID};

/// Where certificates are in every pod.
const PLACE: &str = "/tls";
/// Name of the copy of the certificates on the side of the hypervisors.
pub const NODE_TLS: &str = "tls";

/// How the parts talk to each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// `tcp` or `ssl`.
    pub protocol: &'static str,
    /// The Secret with the certificates.
    pub secret: Option<String>,
    /// Its key with the authorities that are trusted, where that is not `ca.crt`.
    pub trusts: Option<&'static str>,
}

impl Tls {
    pub fn volume(&self) -> Option<Volume> {
        let name = self.secret.clone()?;
        let items = self.trusts.map(|trusts| {
            let files = [("tls.crt", "tls.crt"), ("tls.key", "tls.key"), (trusts, "ca.crt")];
            let item = |(key, path): (&str, &str)| KeyToPath {
                key: key.to_owned(),
                path: path.to_owned(),
                ..KeyToPath::default()
            };
            files.map(item).into()
        });
        Some(Volume {
            name: "tls".to_owned(),
            secret: Some(SecretVolumeSource {
                secret_name: Some(name),
                default_mode: Some(0o440),
                items,
                ..SecretVolumeSource::default()
            }),
            ..Volume::default()
        })
    }

    pub fn mount(&self) -> Option<VolumeMount> {
        self.secret.as_ref().map(|_| mount_read_only("tls", PLACE))
    }
}

pub(super) fn script(text: &str) -> Vec<String> {
    ["sh", "-ec", text].map(str::to_owned).into()
}

/// A directory of the node, under its own name in the pod.
pub(super) fn of_node(name: &str, path: &str) -> (Volume, VolumeMount) {
    let volume = Volume {
        name: name.to_owned(),
        host_path: Some(HostPathVolumeSource {
            path: path.to_owned(),
            type_: Some("DirectoryOrCreate".to_owned()),
        }),
        ..Volume::default()
    };
    (volume, mount(name, path))
}

pub(super) fn asks(command: Vec<String>, period: i32, failures: i32) -> Probe {
    Probe {
        exec: Some(ExecAction {
            command: Some(command),
        }),
        period_seconds: Some(period),
        timeout_seconds: Some(5),
        failure_threshold: Some(failures),
        ..Probe::default()
    }
}

/// Not root, no capabilities, nothing writable but what is mounted.
pub(super) fn plain(container: Container) -> Container {
    Container {
        security_context: Some(SecurityContext {
            read_only_root_filesystem: Some(true),
            ..unprivileged()
        }),
        ..container
    }
}

/// With all rights on its node: it makes links and bridges there.
pub(super) fn privileged(container: Container) -> Container {
    Container {
        security_context: Some(SecurityContext {
            privileged: Some(true),
            run_as_user: Some(0),
            run_as_non_root: Some(false),
            read_only_root_filesystem: Some(true),
            ..SecurityContext::default()
        }),
        ..container
    }
}

/// Secrets for pulling images, for the pods of servers and hypervisors alike.
pub(super) fn pull_secrets(cluster: &OvnCluster) -> Option<Vec<LocalObjectReference>> {
    let secrets = cluster.spec.pods.iter().flat_map(|pods| &pods.image_pull_secrets);
    let secrets: Vec<_> = secrets
        .map(|secret| LocalObjectReference {
            name: secret.name.clone(),
        })
        .collect();
    (!secrets.is_empty()).then_some(secrets)
}

/// The pod of a server in the control plane.
pub(super) fn server(
    cluster: &OvnCluster,
    component: &str,
    container: Container,
    volumes: Vec<Volume>,
) -> PodSpec {
    let names = Names::of(cluster);
    let placed = cluster.spec.pods.clone().unwrap_or_default();
    let spread = placed.topology_key;
    PodSpec {
        image_pull_secrets: pull_secrets(cluster),
        node_selector: Some(placed.node_selector).filter(|labels| !labels.is_empty()),
        tolerations: Some(placed.tolerations).filter(|all| !all.is_empty()),
        priority_class_name: placed.priority_class_name,
        automount_service_account_token: Some(false),
        enable_service_links: Some(false),
        containers: vec![container],
        volumes: Some(volumes),
        security_context: Some(PodSecurityContext {
            fs_group_change_policy: Some("OnRootMismatch".to_owned()),
            ..run_as(UID)
        }),
        topology_spread_constraints: Some(vec![TopologySpreadConstraint {
            max_skew: 1,
            topology_key: spread.unwrap_or_else(|| "kubernetes.io/hostname".to_owned()),
            when_unsatisfiable: "ScheduleAnyway".to_owned(),
            label_selector: Some(names.pods(component)),
            ..TopologySpreadConstraint::default()
        }]),
        ..PodSpec::default()
    }
}
