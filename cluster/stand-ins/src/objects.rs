//! Pieces that all stand-ins use.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

pub fn labels(server: &str, instance: &str) -> Value {
    json!({"app.kubernetes.io/name": server, "app.kubernetes.io/instance": instance})
}

pub fn metadata(namespace: &str, name: &str, server: &str, instance: &str) -> Value {
    json!({"namespace": namespace, "name": name, "labels": labels(server, instance)})
}

/// Not root, no capabilities, nothing writable but what is mounted.
pub fn pod_security(uid: i64) -> Value {
    json!({
        "runAsNonRoot": true, "runAsUser": uid, "runAsGroup": uid, "fsGroup": uid,
        "seccompProfile": {"type": "RuntimeDefault"},
    })
}

pub fn container_security() -> Value {
    json!({"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]}})
}

pub fn hash(value: &Value) -> String {
    Sha256::digest(value.to_string())
        .iter()
        .take(5)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

pub fn encode(text: &str) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(text)
}
