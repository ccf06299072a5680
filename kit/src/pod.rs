//! Parts that most pods are built from.

use k8s_openapi::api::core::v1::{
    Capabilities, EmptyDirVolumeSource, EnvVar, EnvVarSource, ObjectFieldSelector, PodSecurityContext,
    SeccompProfile, SecretKeySelector, SecurityContext, Volume, VolumeMount,
};

/// An environment variable with this value.
pub fn env(name: impl Into<String>, value: impl Into<String>) -> EnvVar {
    EnvVar {
        name: name.into(),
        value: Some(value.into()),
        ..EnvVar::default()
    }
}

/// An environment variable with the value of a field of the pod.
pub fn env_field(name: &str, path: &str) -> EnvVar {
    from_source(
        name,
        EnvVarSource {
            field_ref: Some(ObjectFieldSelector {
                field_path: path.to_owned(),
                ..ObjectFieldSelector::default()
            }),
            ..EnvVarSource::default()
        },
    )
}

/// An environment variable with the value of a key in a Secret.
pub fn env_secret(name: &str, secret: &str, key: &str) -> EnvVar {
    from_source(
        name,
        EnvVarSource {
            secret_key_ref: Some(SecretKeySelector {
                name: secret.to_owned(),
                key: key.to_owned(),
                ..SecretKeySelector::default()
            }),
            ..EnvVarSource::default()
        },
    )
}

fn from_source(name: &str, source: EnvVarSource) -> EnvVar {
    EnvVar {
        name: name.to_owned(),
        value_from: Some(source),
        ..EnvVar::default()
    }
}

pub fn mount(name: &str, path: &str) -> VolumeMount {
    VolumeMount {
        name: name.to_owned(),
        mount_path: path.to_owned(),
        ..VolumeMount::default()
    }
}

pub fn mount_read_only(name: &str, path: &str) -> VolumeMount {
    VolumeMount {
        read_only: Some(true),
        ..mount(name, path)
    }
}

/// An empty volume that lives as long as the pod.
pub fn scratch(name: &str) -> Volume {
    Volume {
        name: name.to_owned(),
        empty_dir: Some(EmptyDirVolumeSource::default()),
        ..Volume::default()
    }
}

/// As this user, who also owns the pod's volumes; passes the restricted Pod Security Standard.
pub fn run_as(user: i64) -> PodSecurityContext {
    PodSecurityContext {
        run_as_non_root: Some(true),
        run_as_user: Some(user),
        run_as_group: Some(user),
        fs_group: Some(user),
        seccomp_profile: Some(default_seccomp()),
        ..PodSecurityContext::default()
    }
}

/// The seccomp profile of the container runtime.
pub fn default_seccomp() -> SeccompProfile {
    SeccompProfile {
        type_: "RuntimeDefault".to_owned(),
        ..SeccompProfile::default()
    }
}

/// No capabilities and no way to more; passes the restricted Pod Security Standard.
pub fn unprivileged() -> SecurityContext {
    SecurityContext {
        allow_privilege_escalation: Some(false),
        capabilities: Some(Capabilities {
            drop: Some(vec!["ALL".to_owned()]),
            ..Capabilities::default()
        }),
        ..SecurityContext::default()
    }
}
