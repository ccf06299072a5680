//! The pod that every process and every step of a service shares.

use c5c3_api::common::{PodSettings, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde_json::{Value, json};

use super::Configured;
use super::secrets::file_elsewhere;
use crate::names::Names;
use crate::shape::{OPENSTACK_UID, Rights, Service, Variable, Volume, VolumeSource};

/// One container in a pod: nothing is writable but /tmp and what is mounted.
pub struct Container<'a> {
    pub name: &'a str,
    pub image: String,
    pub command: Value,
    pub environment: Vec<Value>,
    pub volumes: &'a [Volume],
    pub rights: &'a Rights,
    /// It needs what the processes log in with.
    pub credentials: bool,
    /// It runs in another cluster: Secrets that it mounts are copies.
    pub elsewhere: bool,
    /// An autoscaler measures it.
    pub scaled: bool,
}

/// What a container is sure of when the spec says nothing. Without a request a pod is the first to go
/// when a node runs out of memory.
const MEMORY: &str = "64Mi";
const CPU: &str = "25m";
/// An autoscaler counts in percent of the request: about what one busy API process uses.
const CPU_SCALED: &str = "250m";

/// What the spec says, with requests for what it says nothing of. A limit is a request too.
fn resources(given: Option<&ResourceRequirements>, scaled: bool) -> ResourceRequirements {
    let mut resources = given.cloned().unwrap_or_default();
    let cpu = if scaled { CPU_SCALED } else { CPU };
    for (name, least) in [("cpu", cpu), ("memory", MEMORY)] {
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

pub fn variable(name: &str, value: &Variable) -> Value {
    match value {
        Variable::Text(text) => json!({"name": name, "value": text}),
        Variable::Field(path) => json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}),
    }
}

pub fn spec(service: &Service, configured: Option<&Configured>, shape: Container<'_>) -> Value {
    let names = &service.names;
    let mut volumes = vec![json!({"name": "tmp", "emptyDir": {}})];
    let mut mounts = vec![json!({"name": "tmp", "mountPath": "/tmp"})];
    if let Some(configured) = configured {
        volumes.insert(
            0,
            json!({"name": "config", "configMap": {"name": configured.config_map_name()}}),
        );
        mounts.insert(
            0,
            json!({"name": "config", "mountPath": format!("/etc/{}", names.service), "readOnly": true}),
        );
    }
    for set in &service.key_sets {
        volumes.push(json!({"name": set.name, "secret": {"secretName": names.suffixed(set.name), "defaultMode": 0o440}}));
        mounts.push(json!({"name": set.name, "mountPath": set.path, "readOnly": true}));
    }
    let copied = configured
        .and_then(Configured::files_name)
        .filter(|_| shape.elsewhere);
    for extra in shape.volumes {
        let (source, mount) = volume(names, extra, copied);
        volumes.push(source);
        mounts.push(mount);
    }
    let fixed = service
        .environment
        .iter()
        .map(|(name, value)| json!({"name": name, "value": value}));
    let environment: Vec<Value> = fixed.chain(shape.environment).collect();
    let secrets = [
        configured.and_then(Configured::connections_name),
        configured
            .and_then(Configured::credentials_name)
            .filter(|_| shape.credentials),
    ];
    let secrets: Vec<Value> = secrets
        .into_iter()
        .flatten()
        .map(|name| json!({"secretRef": {"name": name}}))
        .collect();
    let mut container = json!({
        "name": shape.name,
        "image": shape.image,
        "command": shape.command,
        "env": environment,
        "envFrom": secrets,
        "volumeMounts": mounts,
        // The last lines of a failed step reach the condition this way.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": container_rights(shape.rights),
    });
    let resources = resources(service.common.resources.as_ref(), shape.scaled);
    container["resources"] = serde_json::to_value(resources).unwrap_or_default();
    let mut pod = json!({
        "automountServiceAccountToken": false,
        "enableServiceLinks": false,
        "securityContext": pod_rights(shape.rights),
        "containers": [container],
        "volumes": volumes,
    });
    if let Some(settings) = &service.common.pods {
        placed(&mut pod, settings);
    }
    if *shape.rights != Rights::None {
        pod["hostNetwork"] = true.into();
        pod["dnsPolicy"] = "ClusterFirstWithHostNet".into();
        // What runs beside guests stays while its node is under pressure or being drained.
        pod["tolerations"] = json!([{"operator": "Exists"}]);
        pod["priorityClassName"] = "system-node-critical".into();
    }
    if let Rights::Privileged { host_pid: true } = shape.rights {
        pod["hostPID"] = true.into();
    }
    pod
}

fn placed(pod: &mut Value, settings: &PodSettings) {
    let mut put = |field: &str, value: Value, is_set: bool| {
        if is_set {
            pod[field] = value;
        }
    };
    put(
        "imagePullSecrets",
        json!(settings.image_pull_secrets),
        !settings.image_pull_secrets.is_empty(),
    );
    put(
        "nodeSelector",
        json!(settings.node_selector),
        !settings.node_selector.is_empty(),
    );
    put(
        "tolerations",
        json!(settings.tolerations),
        !settings.tolerations.is_empty(),
    );
    put(
        "priorityClassName",
        json!(settings.priority_class_name),
        settings.priority_class_name.is_some(),
    );
}

fn container_rights(rights: &Rights) -> Value {
    match rights {
        Rights::None => json!({
            "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]},
        }),
        Rights::Host { capabilities } => json!({
            "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
            "capabilities": {"drop": ["ALL"], "add": capabilities},
        }),
        Rights::Privileged { .. } => json!({"privileged": true}),
    }
}

fn pod_rights(rights: &Rights) -> Value {
    match rights {
        Rights::None => json!({
            "runAsNonRoot": true, "runAsUser": OPENSTACK_UID, "runAsGroup": OPENSTACK_UID, "fsGroup": OPENSTACK_UID,
            // A volume with a million images is not gone through at every start.
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        }),
        Rights::Host { .. } => json!({
            "runAsNonRoot": false, "runAsUser": 0, "runAsGroup": 0, "seccompProfile": {"type": "RuntimeDefault"},
        }),
        Rights::Privileged { .. } => json!({"runAsNonRoot": false, "runAsUser": 0, "runAsGroup": 0}),
    }
}

/// The volume and its mount. `copied` holds the files of Secrets in another cluster.
fn volume(names: &Names, extra: &Volume, copied: Option<&str>) -> (Value, Value) {
    let mut mount = json!({"name": extra.name, "mountPath": extra.path});
    let volume = match &extra.source {
        VolumeSource::Claim { .. } => {
            let claim = json!({"claimName": names.suffixed(&extra.name)});
            json!({"name": extra.name, "persistentVolumeClaim": claim})
        }
        VolumeSource::Lent { claim } => {
            json!({"name": extra.name, "persistentVolumeClaim": {"claimName": claim}})
        }
        VolumeSource::Secret { name, files, .. } => {
            let items: Vec<Value> = files
                .iter()
                .map(|(key, path)| match copied {
                    Some(_) => json!({"key": file_elsewhere(&extra.name, key), "path": path}),
                    None => json!({"key": key, "path": path}),
                })
                .collect();
            let name = copied.unwrap_or(name);
            mount["readOnly"] = true.into();
            json!({"name": extra.name, "secret": {"secretName": name, "defaultMode": 0o440, "items": items}})
        }
        VolumeSource::NodeCertificates { .. } => {
            mount["readOnly"] = true.into();
            let secret = json!({"secretName": names.suffixed(&extra.name), "defaultMode": 0o400});
            json!({"name": extra.name, "secret": secret})
        }
        VolumeSource::Scratch => json!({"name": extra.name, "emptyDir": {}}),
        VolumeSource::Host { path, shared } => {
            if *shared {
                mount["mountPropagation"] = "Bidirectional".into();
            }
            json!({"name": extra.name, "hostPath": {"path": path, "type": "DirectoryOrCreate"}})
        }
    };
    (volume, mount)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_container_is_sure_of_something() {
        let given = |value: Value| serde_json::from_value::<ResourceRequirements>(value).expect("resources");
        let told = |value: Option<Value>, scaled: bool| json!(resources(value.map(given).as_ref(), scaled));
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
