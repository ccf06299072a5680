//! The objects that run Valkey.

use c5c3_api::foreign::valkey::Valkey;
use kube::ResourceExt;
use serde_json::{Value, json};

use super::{SENTINEL, SERVER, UID};
use crate::error::Error;
use crate::image::server_image;
use crate::objects::{container_security, encode, hash, labels, metadata, pod_security, spread};

const PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;

pub(crate) fn replicas(object: &Valkey) -> usize {
    usize::try_from(object.spec.replicas.unwrap_or(1)).unwrap_or(0)
}

pub(crate) fn has_sentinel(object: &Valkey) -> bool {
    object.spec.sentinel.as_ref().is_some_and(|s| s.enabled)
}

pub(crate) fn pod_name(object: &Valkey, ordinal: usize) -> String {
    format!("{}-{ordinal}", object.name_any())
}

/// The Secret for those who use it.
pub(crate) fn binding(object: &Valkey) -> String {
    let named = object.spec.binding.as_ref().and_then(|b| b.secret_name.clone());
    named.unwrap_or_else(|| format!("valkey-{}-binding", object.name_any()))
}

/// The ConfigMap that remembers the primary.
pub(crate) fn last(object: &Valkey) -> String {
    format!("{}-primary", object.name_any())
}

fn headless(object: &Valkey) -> String {
    format!("{}-headless", object.name_any())
}

fn meta(object: &Valkey, own: &str) -> Value {
    let namespace = object.namespace().unwrap_or_default();
    metadata(&namespace, own, SERVER, &object.name_any())
}

pub(crate) fn all(object: &Valkey, password: &str, primary: &str) -> Result<Vec<Value>, Error> {
    let name = object.name_any();
    let pods = labels(SERVER, &name);
    let files = json!({
        "start.sh": include_str!("scripts/start.sh"),
        "primary.sh": include_str!("scripts/primary.sh"),
        "ask.sh": include_str!("scripts/ask.sh"),
        "alive.sh": include_str!("scripts/alive.sh"),
    });
    let map = |own: &str, data: &Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta(object, own), "data": data});
    let service = |own: &str, spec: Value| json!({"apiVersion": "v1", "kind": "Service", "metadata": meta(object, own), "spec": spec});
    let mut ports = vec![json!({"name": "valkey", "port": PORT, "targetPort": PORT})];
    if has_sentinel(object) {
        ports.push(json!({"name": "sentinel", "port": SENTINEL_PORT, "targetPort": SENTINEL_PORT}));
    }
    let mut writer = pods.clone();
    writer["statefulset.kubernetes.io/pod-name"] = primary.into();
    let image = server_image(SERVER, object.spec.image.as_deref())?;
    let mut spec = json!({
        "replicas": replicas(object), "serviceName": headless(object), "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": pods},
        "template": {
            "metadata": {"labels": pods, "annotations": {"c5c3.io/config": hash(&files)}},
            "spec": pod(object, &image),
        },
    });
    let persistence = object.spec.persistence.clone().unwrap_or_default();
    if persistence.enabled {
        let size = persistence.size.map_or_else(|| "1Gi".to_owned(), |size| size.0);
        let mut claim =
            json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}});
        if let Some(class) = persistence.storage_class {
            claim["storageClassName"] = class.into();
        }
        spec["volumeClaimTemplates"] = json!([{"metadata": {"name": "data"}, "spec": claim}]);
    }
    Ok(vec![
        json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": meta(object, &binding(object)),
            "data": credentials(object, password)}),
        map(&format!("{name}-config"), &files),
        map(&last(object), &json!({"primary": primary})),
        service(&name, json!({"selector": writer, "ports": ports})),
        service(
            &headless(object),
            json!({"clusterIP": "None", "publishNotReadyAddresses": true, "selector": pods, "ports": ports}),
        ),
        json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": meta(object, &name), "spec": spec}),
    ])
}

fn credentials(object: &Valkey, password: &str) -> Value {
    let namespace = object.namespace().unwrap_or_default();
    let mut data = json!({
        "host": encode(&format!("{}.{namespace}.svc", object.name_any())),
        "port": encode(&PORT.to_string()),
        "password": encode(password),
    });
    if has_sentinel(object) {
        data["sentinelEnabled"] = encode("true").into();
        data["sentinelHost"] = encode(&format!("{}.{namespace}.svc", headless(object))).into();
        data["sentinelPort"] = encode(&SENTINEL_PORT.to_string()).into();
        data["primaryName"] = encode("primary").into();
    }
    data
}

fn pod(object: &Valkey, image: &str) -> Value {
    let peers: Vec<String> = (0..replicas(object))
        .map(|n| format!("{}.{}", pod_name(object, n), headless(object)))
        .collect();
    // Without sentinels there is nobody to ask.
    let peers = if has_sentinel(object) {
        peers.join(" ")
    } else {
        String::new()
    };
    let container = |name: &str, role: &str, port: u16| {
        json!({
            "name": name, "image": image, "command": ["sh", "/etc/c5c3/config/start.sh", role],
            "env": [
                {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
                {"name": "PEERS", "value": peers},
                {"name": "HEADLESS", "value": headless(object)},
                {"name": "QUORUM", "value": (replicas(object) / 2 + 1).to_string()},
            ],
            "ports": [{"name": name, "containerPort": port}],
            "securityContext": container_security(),
            "volumeMounts": [
                {"name": "data", "mountPath": "/data"},
                {"name": format!("run-{name}"), "mountPath": "/run/valkey"},
                {"name": "config", "mountPath": "/etc/c5c3/config", "readOnly": true},
                {"name": "last", "mountPath": "/etc/c5c3/last", "readOnly": true},
                {"name": "secret", "mountPath": "/etc/c5c3/secret", "readOnly": true},
            ],
            "startupProbe": {"tcpSocket": {"port": port}, "periodSeconds": 1, "failureThreshold": 120},
            "readinessProbe": {"tcpSocket": {"port": port}, "periodSeconds": 5, "failureThreshold": 2},
            "terminationMessagePolicy": "File",
        })
    };
    let mut server = container(SERVER, "server", PORT);
    if let Some(resources) = &object.spec.resources {
        server["resources"] = json!(resources);
    }
    let mut containers = vec![server];
    let mut volumes = vec![
        json!({"name": format!("run-{SERVER}"), "emptyDir": {}}),
        json!({"name": "config", "configMap": {"name": format!("{}-config", object.name_any())}}),
        json!({"name": "last", "configMap": {"name": last(object)}}),
        json!({"name": "secret", "secret": {"secretName": binding(object), "items": [{"key": "password", "path": "password"}]}}),
    ];
    if has_sentinel(object) {
        containers[0]["livenessProbe"] = json!({"exec": {"command": ["sh", "/etc/c5c3/config/alive.sh"]},
            "periodSeconds": 10, "timeoutSeconds": 8, "failureThreshold": 2});
        containers.push(container(SENTINEL, SENTINEL, SENTINEL_PORT));
        volumes.push(json!({"name": format!("run-{SENTINEL}"), "emptyDir": {}}));
    }
    if !object.spec.persistence.as_ref().is_some_and(|p| p.enabled) {
        volumes.push(json!({"name": "data", "emptyDir": {}}));
    }
    json!({
        "securityContext": pod_security(UID),
        "automountServiceAccountToken": false,
        "enableServiceLinks": false,
        "topologySpreadConstraints": spread(&labels(SERVER, &object.name_any())),
        "terminationGracePeriodSeconds": 30,
        "containers": containers,
        "volumes": volumes,
    })
}
