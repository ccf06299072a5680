//! Pieces that all stand-ins use.

use c5c3_api::foreign::ConditionsStatus;
use k8s_openapi::api::core::v1::{Pod, Secret};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

pub(crate) fn labels(server: &str, instance: &str) -> Value {
    json!({"app.kubernetes.io/name": server, "app.kubernetes.io/instance": instance})
}

pub(crate) fn metadata(namespace: &str, name: &str, server: &str, instance: &str) -> Value {
    json!({"namespace": namespace, "name": name, "labels": labels(server, instance)})
}

/// Not root, no capabilities, nothing writable but what is mounted.
pub(crate) fn pod_security(uid: i64) -> Value {
    json!({
        "runAsNonRoot": true, "runAsUser": uid, "runAsGroup": uid, "fsGroup": uid,
        "seccompProfile": {"type": "RuntimeDefault"},
    })
}

pub(crate) fn container_security() -> Value {
    json!({"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]}})
}

/// One on each node while nodes suffice, so that a node takes one of them down.
pub(crate) fn spread(pods: &Value) -> Value {
    json!([{
        "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": pods},
    }])
}

pub(crate) fn hash(value: &Value) -> String {
    hex::encode(&Sha256::digest(value.to_string())[..5])
}

pub(crate) fn encode(text: &str) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(text)
}

/// The text of a Secret's key.
pub(crate) fn secret_value(secret: Option<Secret>, key: &str) -> Option<String> {
    String::from_utf8(secret?.data?.remove(key)?.0).ok()
}

pub(crate) fn is_pod_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    let ready = conditions.is_some_and(|all| all.iter().any(|c| c.type_ == "Ready" && c.status == "True"));
    ready && pod.metadata.deletion_timestamp.is_none()
}

/// Whether a foreign object says that it is ready.
pub(crate) fn is_ready(status: Option<&ConditionsStatus>) -> bool {
    status.is_some_and(|status| {
        let conditions = &status.conditions;
        conditions
            .iter()
            .any(|c| c.type_ == "Ready" && c.status == "True")
    })
}

/// The selector of what [`labels`] marks.
pub(crate) fn labels_selector(server: &str, instance: &str) -> String {
    format!("app.kubernetes.io/name={server},app.kubernetes.io/instance={instance}")
}
