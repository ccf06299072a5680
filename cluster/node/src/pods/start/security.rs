//! `securityContext` as the runtime takes it.

use k8s_cri::v1::security_profile::ProfileType;
use k8s_cri::v1::{
    Capability, Int64Value, LinuxContainerSecurityContext, LinuxSandboxSecurityContext, NamespaceMode,
    NamespaceOption, SecurityProfile,
};
use k8s_openapi::api::core::v1::{Container, PodSecurityContext, PodSpec, SeccompProfile};

fn pod_context(spec: &PodSpec) -> PodSecurityContext {
    spec.security_context.clone().unwrap_or_default()
}

/// Which namespaces the pod shares with the node.
pub fn namespaces(spec: &PodSpec) -> NamespaceOption {
    let mode = |host: Option<bool>, own: NamespaceMode| match host {
        Some(true) => NamespaceMode::Node.into(),
        _ => own.into(),
    };
    let pid = match spec.share_process_namespace {
        Some(true) => NamespaceMode::Pod,
        _ => NamespaceMode::Container,
    };
    NamespaceOption {
        network: mode(spec.host_network, NamespaceMode::Pod),
        pid: mode(spec.host_pid, pid),
        ipc: mode(spec.host_ipc, NamespaceMode::Pod),
        ..NamespaceOption::default()
    }
}

/// What no profile says is the runtime's own; a privileged container has none.
fn seccomp(profile: Option<&SeccompProfile>, privileged: bool) -> SecurityProfile {
    let named = profile.map(|p| (p.type_.as_str(), p.localhost_profile.as_deref()));
    let (kind, path) = match named {
        _ if privileged => (ProfileType::Unconfined, ""),
        Some(("Unconfined", _)) => (ProfileType::Unconfined, ""),
        Some(("Localhost", path)) => (ProfileType::Localhost, path.unwrap_or_default()),
        _ => (ProfileType::RuntimeDefault, ""),
    };
    SecurityProfile {
        profile_type: kind.into(),
        localhost_ref: path.into(),
    }
}

fn groups(context: &PodSecurityContext) -> Vec<i64> {
    let mut groups = context.supplemental_groups.clone().unwrap_or_default();
    groups.extend(context.fs_group);
    groups
}

pub fn sandbox(spec: &PodSpec) -> LinuxSandboxSecurityContext {
    let context = pod_context(spec);
    let privileged = crate::pods::observe::view::all_containers(spec).any(is_privileged);
    let int = |value: Option<i64>| value.map(|value| Int64Value { value });
    LinuxSandboxSecurityContext {
        namespace_options: Some(namespaces(spec)),
        run_as_user: int(context.run_as_user),
        // The runtime refuses a group without a user.
        run_as_group: int(context.run_as_user.and(context.run_as_group)),
        supplemental_groups: groups(&context),
        privileged,
        seccomp: Some(seccomp(context.seccomp_profile.as_ref(), privileged)),
        ..LinuxSandboxSecurityContext::default()
    }
}

pub fn is_privileged(container: &Container) -> bool {
    container
        .security_context
        .as_ref()
        .is_some_and(|c| c.privileged == Some(true))
}

/// User of the image: an id, a name, or unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageUser {
    pub id: Option<i64>,
    pub name: String,
}

/// The container's context; the error is the message of `CreateContainerConfigError`.
pub fn container(
    spec: &PodSpec,
    container: &Container,
    image: &ImageUser,
) -> Result<LinuxContainerSecurityContext, String> {
    let pod = pod_context(spec);
    let own = container.security_context.clone().unwrap_or_default();
    let user = own.run_as_user.or(pod.run_as_user);
    let group = own.run_as_group.or(pod.run_as_group);
    if own.run_as_non_root.or(pod.run_as_non_root) == Some(true) {
        match (user, image.id, image.name.as_str()) {
            (Some(0), ..) => {
                return Err("container's runAsUser breaks non-root policy".into());
            }
            (Some(_), ..) | (None, Some(1..), _) => {}
            (None, None, name) if !name.is_empty() => {
                return Err(format!(
                    "container has runAsNonRoot and image has non-numeric user ({name}), \
                     cannot verify user is non-root"
                ));
            }
            _ => {
                return Err("container has runAsNonRoot and image will run as root".into());
            }
        }
    }
    let privileged = own.privileged == Some(true);
    let int = |value: Option<i64>| value.map(|value| Int64Value { value });
    let capabilities = own.capabilities.unwrap_or_default();
    Ok(LinuxContainerSecurityContext {
        privileged,
        namespace_options: Some(namespaces(spec)),
        run_as_user: int(user.or_else(|| group.and(image.id))),
        run_as_group: int(group),
        run_as_username: match (user, group, image.id) {
            (None, Some(_), None) => image.name.clone(),
            _ => String::new(),
        },
        readonly_rootfs: own.read_only_root_filesystem == Some(true),
        supplemental_groups: groups(&pod),
        no_new_privs: own.allow_privilege_escalation == Some(false),
        capabilities: Some(Capability {
            add_capabilities: capabilities.add.unwrap_or_default(),
            drop_capabilities: capabilities.drop.unwrap_or_default(),
            ..Capability::default()
        }),
        seccomp: Some(seccomp(
            own.seccomp_profile.as_ref().or(pod.seccomp_profile.as_ref()),
            privileged,
        )),
        masked_paths: match (privileged, own.proc_mount.as_deref()) {
            (false, None | Some("Default")) => MASKED.map(String::from).into(),
            _ => Vec::new(),
        },
        readonly_paths: match (privileged, own.proc_mount.as_deref()) {
            (false, None | Some("Default")) => READ_ONLY.map(String::from).into(),
            _ => Vec::new(),
        },
        ..LinuxContainerSecurityContext::default()
    })
}

/// What the kernel shows of the machine and a container need not see.
const MASKED: [&str; 10] = [
    "/proc/asound",
    "/proc/acpi",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/sys/firmware",
];
const READ_ONLY: [&str; 5] = [
    "/proc/bus",
    "/proc/fs",
    "/proc/irq",
    "/proc/sys",
    "/proc/sysrq-trigger",
];

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn context(
        pod: serde_json::Value,
        own: serde_json::Value,
        image: &ImageUser,
    ) -> Result<LinuxContainerSecurityContext, String> {
        let spec: PodSpec = serde_json::from_value(json!({
            "securityContext": pod,
            "containers": [{ "name": "c", "securityContext": own }]
        }))
        .unwrap();
        container(&spec, &spec.containers[0], image)
    }

    #[test]
    fn the_container_wins_over_the_pod() {
        let image = ImageUser::default();
        let made = context(
            json!({ "runAsUser": 1, "runAsGroup": 2, "fsGroup": 3, "supplementalGroups": [4],
                "seccompProfile": { "type": "RuntimeDefault" } }),
            json!({ "runAsUser": 9, "readOnlyRootFilesystem": true,
                "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] } }),
            &image,
        )
        .unwrap();
        assert_eq!(made.run_as_user.unwrap().value, 9);
        assert_eq!(made.run_as_group.unwrap().value, 2);
        assert_eq!(made.supplemental_groups, [4, 3]);
        assert!(made.readonly_rootfs && made.no_new_privs && !made.privileged);
        assert_eq!(made.capabilities.unwrap().drop_capabilities, ["ALL"]);
        assert_eq!(made.seccomp.unwrap().profile_type, 0);
    }

    #[test]
    fn calls_are_filtered_unless_somebody_says_otherwise() {
        let kind = |pod: serde_json::Value, own: serde_json::Value| {
            let made = context(pod, own, &ImageUser::default()).unwrap();
            ProfileType::try_from(made.seccomp.unwrap().profile_type).unwrap()
        };
        let profile = |kind: &str| json!({ "seccompProfile": { "type": kind } });
        assert_eq!(kind(json!({}), json!({})), ProfileType::RuntimeDefault);
        assert_eq!(kind(profile("Unconfined"), json!({})), ProfileType::Unconfined);
        assert_eq!(
            kind(profile("Unconfined"), profile("RuntimeDefault")),
            ProfileType::RuntimeDefault
        );
        assert_eq!(kind(json!({}), profile("Unconfined")), ProfileType::Unconfined);
        assert_eq!(
            kind(json!({}), json!({ "privileged": true })),
            ProfileType::Unconfined
        );
    }

    #[test]
    fn non_root_is_verified() {
        let strict = || json!({ "runAsNonRoot": true });
        let image = |id, name: &str| ImageUser {
            id,
            name: name.into(),
        };
        let none = || json!({});
        assert!(context(strict(), none(), &image(Some(0), "")).is_err());
        assert!(context(strict(), none(), &image(None, "")).is_err());
        let said = context(strict(), none(), &image(None, "app")).unwrap_err();
        assert!(said.contains("non-numeric user (app)"), "{said}");
        assert!(context(strict(), none(), &image(Some(5), "")).is_ok());
        assert!(context(strict(), json!({ "runAsUser": 5 }), &image(Some(0), "")).is_ok());
        assert!(context(strict(), json!({ "runAsUser": 0 }), &image(Some(5), "")).is_err());
    }
}
