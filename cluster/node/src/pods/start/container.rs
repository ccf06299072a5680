//! A container as the runtime takes it.

use std::collections::HashMap;

use k8s_cri::v1::{
    ContainerConfig, ContainerMetadata, ImageSpec, KeyValue, LinuxContainerConfig, Mount, MountPropagation,
};
use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, VolumeMount};

use crate::pods::start::env;
use crate::pods::start::names;
use crate::pods::start::resources;
use crate::pods::start::sandbox;
use crate::pods::start::security::{self, ImageUser};

/// What was found out for one container before it is made.
#[derive(Clone, Debug, Default)]
pub struct Parts {
    pub attempt: u32,
    pub image: String,
    pub user: ImageUser,
    pub variables: Vec<(String, String)>,
    pub mounts: Vec<Mount>,
}

pub fn log_path(name: &str, attempt: u32) -> String {
    format!("{name}/{attempt}.log")
}

pub fn message_path(container: &Container) -> &str {
    container
        .termination_message_path
        .as_deref()
        .unwrap_or("/dev/termination-log")
}

pub fn config(
    pod: &Pod,
    spec: &PodSpec,
    container: &Container,
    parts: Parts,
) -> Result<ContainerConfig, String> {
    let security = security::container(spec, container, &parts.user)?;
    let expand = |list: &Option<Vec<String>>| -> Vec<String> {
        list.iter()
            .flatten()
            .map(|text| env::expand(text, &parts.variables))
            .collect()
    };
    let mut labels = sandbox::labels(pod);
    labels.insert(names::CONTAINER_NAME.into(), container.name.clone());
    Ok(ContainerConfig {
        metadata: Some(ContainerMetadata {
            name: container.name.clone(),
            attempt: parts.attempt,
        }),
        image: Some(ImageSpec {
            image: parts.image,
            ..ImageSpec::default()
        }),
        command: expand(&container.command),
        args: expand(&container.args),
        working_dir: container.working_dir.clone().unwrap_or_default(),
        envs: parts
            .variables
            .into_iter()
            .map(|(key, value)| KeyValue { key, value })
            .collect(),
        mounts: parts.mounts,
        labels,
        annotations: HashMap::from([
            (names::RESTART_COUNT.into(), parts.attempt.to_string()),
            (names::MESSAGE_PATH.into(), message_path(container).into()),
            (
                names::MESSAGE_POLICY.into(),
                container
                    .termination_message_policy
                    .clone()
                    .unwrap_or_else(|| "File".into()),
            ),
        ]),
        log_path: log_path(&container.name, parts.attempt),
        stdin: container.stdin == Some(true),
        stdin_once: container.stdin_once == Some(true),
        tty: container.tty == Some(true),
        linux: Some(LinuxContainerConfig {
            resources: Some(resources::linux(container)),
            security_context: Some(security),
        }),
        ..ContainerConfig::default()
    })
}

/// A volume at its place in the container.
pub fn mount(wanted: &VolumeMount, host_path: String, read_only: bool) -> Mount {
    let propagation = match wanted.mount_propagation.as_deref() {
        Some("HostToContainer") => MountPropagation::PropagationHostToContainer,
        Some("Bidirectional") => MountPropagation::PropagationBidirectional,
        _ => MountPropagation::PropagationPrivate,
    };
    Mount {
        container_path: if wanted.mount_path.starts_with('/') {
            wanted.mount_path.clone()
        } else {
            format!("/{}", wanted.mount_path)
        },
        host_path,
        readonly: read_only || wanted.read_only == Some(true),
        propagation: propagation.into(),
        ..Mount::default()
    }
}
