//! The pod that every process and every step of a service shares.

use serde_json::{Value, json};

use super::Configuration;
use crate::descriptor::OPENSTACK_UID;
use crate::names::Names;
use crate::subject::{ExtraVolume, Subject, VolumeSource};

/// One container in a pod: not root, no capabilities, nothing writable but /tmp and what is mounted.
pub struct Shape<'a> {
    pub container: &'a str,
    pub command: Value,
    pub environment: Vec<Value>,
    /// A long-running process has volumes that a step does without.
    pub process: bool,
    /// It needs what the processes log in with.
    pub credentials: bool,
}

pub fn spec<S: Subject>(subject: &S, configuration: &Configuration, shape: Shape<'_>) -> Value {
    let names = Names::of(subject);
    let descriptor = S::DESCRIPTOR;
    let extras = subject.extras();
    let mut volumes = vec![
        json!({"name": "config", "configMap": {"name": configuration.config_map_name()}}),
        json!({"name": "tmp", "emptyDir": {}}),
    ];
    let mut mounts = vec![
        json!({"name": "config", "mountPath": format!("/etc/{}", descriptor.name), "readOnly": true}),
        json!({"name": "tmp", "mountPath": "/tmp"}),
    ];
    for set in &extras.key_sets {
        volumes.push(json!({"name": set.name, "secret": {"secretName": names.suffixed(set.name), "defaultMode": 0o440}}));
        mounts.push(json!({"name": set.name, "mountPath": set.path, "readOnly": true}));
    }
    for extra in extras.volumes.iter().filter(|_| shape.process) {
        let (source, read_only) = volume(&names, extra);
        volumes.push(source);
        mounts.push(json!({"name": extra.name, "mountPath": extra.path, "readOnly": read_only}));
    }
    for (name, path) in extras.scratch.iter().filter(|_| shape.process) {
        volumes.push(json!({"name": name, "emptyDir": {}}));
        mounts.push(json!({"name": name, "mountPath": path}));
    }
    let fixed = descriptor
        .environment
        .iter()
        .map(|(name, value)| json!({"name": name, "value": value}));
    let environment: Vec<Value> = fixed.chain(shape.environment).collect();
    let secrets = [
        configuration.connections_name(),
        configuration.credentials_name().filter(|_| shape.credentials),
    ];
    let secrets: Vec<Value> = secrets
        .into_iter()
        .flatten()
        .map(|name| json!({"secretRef": {"name": name}}))
        .collect();
    let mut container = json!({
        "name": shape.container,
        "image": subject.common().image.reference(),
        "command": shape.command,
        "env": environment,
        "envFrom": secrets,
        "volumeMounts": mounts,
        // The last lines of a failed step reach the condition this way.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": {
            "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]},
        },
    });
    if let Some(resources) = &subject.common().resources {
        container["resources"] = serde_json::to_value(resources).unwrap_or_default();
    }
    json!({
        "automountServiceAccountToken": false,
        "enableServiceLinks": false,
        "securityContext": {
            "runAsNonRoot": true, "runAsUser": OPENSTACK_UID, "runAsGroup": OPENSTACK_UID, "fsGroup": OPENSTACK_UID,
            // A volume with a million images is not gone through at every start.
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        "volumes": volumes,
    })
}

fn volume(names: &Names, extra: &ExtraVolume) -> (Value, bool) {
    match &extra.source {
        VolumeSource::Claim { .. } => {
            let claim = json!({"claimName": names.suffixed(&extra.name)});
            (json!({"name": extra.name, "persistentVolumeClaim": claim}), false)
        }
        VolumeSource::Secret { name, files, .. } => {
            let items: Vec<Value> = files
                .iter()
                .map(|(key, path)| json!({"key": key, "path": path}))
                .collect();
            let secret = json!({"secretName": name, "defaultMode": 0o440, "items": items});
            (json!({"name": extra.name, "secret": secret}), true)
        }
    }
}
