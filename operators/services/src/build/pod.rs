//! The pod that every process and every step of a service shares.

use c5c3_api::common::{PodSettings, ResourceRequirements};
use c5c3_kit::pod::{default_seccomp, env, env_field, mount, scratch};
use k8s_openapi::api::core::v1::{
    Capabilities, ConfigMapVolumeSource, Container as PodContainer, EnvFromSource, EnvVar,
    HostPathVolumeSource, KeyToPath, LocalObjectReference, PersistentVolumeClaimVolumeSource,
    PodSecurityContext, PodSpec, ProjectedVolumeSource, SecretEnvSource, SecretProjection,
    SecretVolumeSource, SecurityContext, Toleration, Volume as PodVolume, VolumeMount, VolumeProjection,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::Configured;
use super::secrets::file_elsewhere;
use crate::facts::Facts;
use crate::kinds::ceph;
use crate::names::Names;
use crate::shape::{CephLogin, OPENSTACK_UID, Requests, Rights, Service, Variable, Volume, VolumeSource};

/// One container in a pod: nothing is writable but /tmp and what is mounted.
pub(super) struct Container<'a> {
    pub name: &'a str,
    pub image: String,
    pub command: Vec<String>,
    pub environment: Vec<EnvVar>,
    pub volumes: &'a [Volume],
    pub rights: &'a Rights,
    /// It needs what the processes log in with.
    pub credentials: bool,
    /// It runs in another cluster: Secrets that it mounts are copies.
    pub elsewhere: bool,
    /// What it asks for where the spec says nothing.
    pub requests: Requests,
    /// An autoscaler measures it.
    pub scaled: bool,
    /// Who it is in Ceph; no step mounts a keyring.
    pub facts: Option<&'a Facts>,
    /// What it prints is masked before it leaves the container.
    pub masked: bool,
}

/// An autoscaler counts in percent of the request: about what one busy API process uses.
const CPU_SCALED: &str = "250m";

/// What the spec says, with requests for what it says nothing of. A limit is a request too.
fn resources(given: Option<&ResourceRequirements>, least: Requests, scaled: bool) -> ResourceRequirements {
    let mut resources = given.cloned().unwrap_or_default();
    let cpu = if scaled { CPU_SCALED } else { least.cpu };
    for (name, least) in [("cpu", cpu), ("memory", least.memory)] {
        let limited = resources
            .limits
            .as_ref()
            .is_some_and(|limits| limits.contains_key(name));
        if !limited {
            let requests = resources.requests.get_or_insert_default();
            let request = requests.entry(name.to_owned());
            request.or_insert_with(|| Quantity(least.to_owned()));
        }
    }
    resources
}

pub(super) fn variable(name: &str, value: &Variable) -> EnvVar {
    match value {
        Variable::Text(value) => env(name, value),
        Variable::Field(path) => env_field(name, path),
    }
}

pub(super) fn spec(service: &Service, configured: Option<&Configured>, shape: Container<'_>) -> PodSpec {
    let (volumes, mounts) = mounted(service, configured, &shape);
    let fixed = service.environment.iter();
    let fixed = fixed.map(|(name, value)| env(name, value));
    let environment = fixed.chain(shape.environment).collect();
    let secrets = [
        configured.and_then(Configured::connections_name),
        configured
            .and_then(Configured::credentials_name)
            .filter(|_| shape.credentials),
    ];
    let secrets = secrets.into_iter().flatten().map(|name| EnvFromSource {
        secret_ref: Some(SecretEnvSource {
            name: name.to_owned(),
            ..SecretEnvSource::default()
        }),
        ..EnvFromSource::default()
    });
    let container = PodContainer {
        name: shape.name.to_owned(),
        image: Some(shape.image),
        command: Some(shape.command),
        env: Some(environment),
        env_from: Some(secrets.collect()),
        volume_mounts: Some(mounts),
        // The last lines of a failed step reach the condition this way. Those of a program that masks nothing stay in
        // its log: more people may read the status of a pod.
        termination_message_policy: Some(last_lines(shape.masked).to_owned()),
        security_context: Some(container_rights(shape.rights)),
        resources: Some(resources(
            service.common.resources.as_ref(),
            shape.requests,
            shape.scaled,
        )),
        ..PodContainer::default()
    };
    let mut pod = PodSpec {
        automount_service_account_token: Some(false),
        enable_service_links: Some(false),
        security_context: Some(pod_rights(shape.rights)),
        containers: vec![container],
        volumes: Some(volumes),
        ..PodSpec::default()
    };
    if let Some(settings) = &service.common.pods {
        place(&mut pod, settings);
    }
    if *shape.rights != Rights::None {
        pod.host_network = Some(true);
        pod.dns_policy = Some("ClusterFirstWithHostNet".to_owned());
        // What runs beside guests stays while its node is under pressure or being drained.
        pod.tolerations = Some(vec![Toleration {
            operator: Some("Exists".to_owned()),
            ..Toleration::default()
        }]);
        pod.priority_class_name = Some("system-node-critical".to_owned());
    }
    if let Rights::Privileged { host_pid: true } = shape.rights {
        pod.host_pid = Some(true);
    }
    pod
}

fn last_lines(masked: bool) -> &'static str {
    if masked { "FallbackToLogsOnError" } else { "File" }
}

/// The volumes of a pod, and where its container finds them.
fn mounted(
    service: &Service,
    configured: Option<&Configured>,
    shape: &Container<'_>,
) -> (Vec<PodVolume>, Vec<VolumeMount>) {
    let names = &service.names;
    let mut all = Vec::new();
    if let Some(configured) = configured {
        let source = PodVolume {
            name: "config".to_owned(),
            config_map: Some(ConfigMapVolumeSource {
                name: configured.config_map_name().to_owned(),
                ..ConfigMapVolumeSource::default()
            }),
            ..PodVolume::default()
        };
        all.push((
            source,
            read_only(mount("config", &format!("/etc/{}", names.service))),
        ));
    }
    all.push((scratch("tmp"), mount("tmp", "/tmp")));
    for set in &service.key_sets {
        let source = secret(set.name, &names.suffixed(set.name), 0o440, None);
        all.push((source, read_only(mount(set.name, set.path))));
    }
    let copied = configured
        .and_then(Configured::files_name)
        .filter(|_| shape.elsewhere);
    let who = |login: &CephLogin| ceph::who(shape.facts, login);
    let certificates = configured.and_then(Configured::ovn_name);
    all.extend(shape.volumes.iter().filter_map(|extra| match extra.source {
        VolumeSource::OvnCertificates(_) => {
            let source = secret(&extra.name, certificates?, 0o440, None);
            Some((source, read_only(mount(&extra.name, &extra.path))))
        }
        _ => Some(volume(names, extra, copied, &who)),
    }));
    all.into_iter().unzip()
}

fn place(pod: &mut PodSpec, settings: &PodSettings) {
    let secrets = settings.image_pull_secrets.iter();
    let secrets = secrets.map(|secret| LocalObjectReference {
        name: secret.name.clone(),
    });
    pod.image_pull_secrets = Some(secrets.collect()).filter(|all: &Vec<_>| !all.is_empty());
    pod.node_selector = Some(settings.node_selector.clone()).filter(|labels| !labels.is_empty());
    pod.tolerations = Some(settings.tolerations.clone()).filter(|all| !all.is_empty());
    pod.priority_class_name.clone_from(&settings.priority_class_name);
}

fn container_rights(rights: &Rights) -> SecurityContext {
    let add = match rights {
        Rights::None => None,
        Rights::Host { capabilities } => Some(capabilities.iter().map(ToString::to_string).collect()),
        Rights::Privileged { .. } => {
            return SecurityContext {
                privileged: Some(true),
                ..SecurityContext::default()
            };
        }
    };
    SecurityContext {
        allow_privilege_escalation: Some(false),
        read_only_root_filesystem: Some(true),
        capabilities: Some(Capabilities {
            drop: Some(vec!["ALL".to_owned()]),
            add,
        }),
        ..SecurityContext::default()
    }
}

fn pod_rights(rights: &Rights) -> PodSecurityContext {
    let user = if *rights == Rights::None { OPENSTACK_UID } else { 0 };
    let context = PodSecurityContext {
        run_as_non_root: Some(*rights == Rights::None),
        run_as_user: Some(user),
        run_as_group: Some(user),
        ..PodSecurityContext::default()
    };
    let seccomp_profile = Some(default_seccomp());
    match rights {
        Rights::None => PodSecurityContext {
            fs_group: Some(OPENSTACK_UID),
            // A volume with a million images is not gone through at every start.
            fs_group_change_policy: Some("OnRootMismatch".to_owned()),
            seccomp_profile,
            ..context
        },
        Rights::Host { .. } => PodSecurityContext {
            seccomp_profile,
            ..context
        },
        Rights::Privileged { .. } => context,
    }
}

fn read_only(mount: VolumeMount) -> VolumeMount {
    VolumeMount {
        read_only: Some(true),
        ..mount
    }
}

fn claim(name: &str, claim: &str) -> PodVolume {
    PodVolume {
        name: name.to_owned(),
        persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
            claim_name: claim.to_owned(),
            ..PersistentVolumeClaimVolumeSource::default()
        }),
        ..PodVolume::default()
    }
}

fn secret(name: &str, secret: &str, mode: i32, items: Option<Vec<KeyToPath>>) -> PodVolume {
    PodVolume {
        name: name.to_owned(),
        secret: Some(SecretVolumeSource {
            secret_name: Some(secret.to_owned()),
            default_mode: Some(mode),
            items,
            ..SecretVolumeSource::default()
        }),
        ..PodVolume::default()
    }
}

/// The volume and its mount. `copied` holds the files of Secrets in another cluster.
fn volume(
    names: &Names,
    extra: &Volume,
    copied: Option<&str>,
    who: &impl Fn(&CephLogin) -> Vec<String>,
) -> (PodVolume, VolumeMount) {
    let mount = mount(&extra.name, &extra.path);
    match &extra.source {
        VolumeSource::Claim { .. } => (claim(&extra.name, &names.suffixed(&extra.name)), mount),
        VolumeSource::Lent { claim: lent } => (claim(&extra.name, lent), mount),
        VolumeSource::Keyring {
            login,
            files,
            opens,
            also,
            ..
        } => {
            let own = who(login).into_iter().next().unwrap_or_default();
            let path = |file: &str| match (file, opens) {
                // Where librados and os-brick look for it.
                (ceph::KEYRING, Some(_)) => keyring_of(&own),
                _ => file.to_owned(),
            };
            let item = |file: &&'static str| {
                let key = copied.map_or_else(|| (*file).to_owned(), |_| file_elsewhere(&extra.name, file));
                to_path(key, path(file))
            };
            let items = files.iter().map(item).collect();
            let name = copied.unwrap_or(&login.secret);
            let source = if also.is_empty() {
                secret(&extra.name, name, 0o440, Some(items))
            } else {
                projected(&extra.name, beside((&login.secret, &own), items, also, who))
            };
            (source, read_only(mount))
        }
        VolumeSource::NodeCertificates { .. } => {
            let source = secret(&extra.name, &names.suffixed(&extra.name), 0o400, None);
            (source, read_only(mount))
        }
        VolumeSource::Scratch | VolumeSource::OvnCertificates(_) => (scratch(&extra.name), mount),
        VolumeSource::Host { path, shared } => {
            let source = PodVolume {
                name: extra.name.clone(),
                host_path: Some(HostPathVolumeSource {
                    path: (*path).to_owned(),
                    type_: Some("DirectoryOrCreate".to_owned()),
                }),
                ..PodVolume::default()
            };
            let mount_propagation = shared.then(|| "Bidirectional".to_owned());
            let mount = VolumeMount {
                mount_propagation,
                ..mount
            };
            (source, mount)
        }
    }
}

fn keyring_of(user: &str) -> String {
    format!("ceph.client.{user}.keyring")
}

fn to_path(key: String, path: String) -> KeyToPath {
    KeyToPath {
        key,
        path,
        ..KeyToPath::default()
    }
}

/// Files of several Secrets in one directory.
fn projected(name: &str, sources: Vec<VolumeProjection>) -> PodVolume {
    PodVolume {
        name: name.to_owned(),
        projected: Some(ProjectedVolumeSource {
            default_mode: Some(0o440),
            sources: Some(sources),
            ..ProjectedVolumeSource::default()
        }),
        ..PodVolume::default()
    }
}

/// Keys of several Secrets in one directory. Of others a process is told whom to be: while a key is replaced that may
/// be each of the keyring.
fn beside(
    (secret, own): (&str, &str),
    items: Vec<KeyToPath>,
    also: &[CephLogin],
    who: &impl Fn(&CephLogin) -> Vec<String>,
) -> Vec<VolumeProjection> {
    let of = |name: &str, items: Vec<KeyToPath>| VolumeProjection {
        secret: Some(SecretProjection {
            name: name.to_owned(),
            items: Some(items),
            ..SecretProjection::default()
        }),
        ..VolumeProjection::default()
    };
    let mut taken: Vec<String> = vec![own.to_owned()];
    let mut sources = vec![of(secret, items)];
    for login in also {
        let mut users = who(login);
        users.retain(|user| !taken.contains(user));
        let files = users
            .iter()
            .map(|user| to_path(ceph::KEYRING.to_owned(), keyring_of(user)));
        let files: Vec<KeyToPath> = files.collect();
        taken.extend(users);
        if !files.is_empty() {
            sources.push(of(&login.secret, files));
        }
    }
    sources
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn every_container_is_sure_of_something() {
        let given = |value: Value| serde_json::from_value::<ResourceRequirements>(value).expect("resources");
        let told = |value: Option<Value>, scaled: bool| {
            json!(resources(value.map(given).as_ref(), Requests::API, scaled))
        };
        assert_eq!(
            told(None, false),
            json!({"requests": {"cpu": "25m", "memory": "64Mi"}})
        );
        assert_eq!(
            told(None, true)["requests"]["cpu"],
            "250m",
            "an autoscaler has something to count"
        );
        let limits = json!({"limits": {"cpu": "2"}, "requests": {"memory": "1Gi"}});
        assert_eq!(told(Some(limits.clone()), true), limits, "what is said stays");
    }
}
