//! Cells of storage and quotas.

use serde_json::{Value, json};

use super::cells::{Fields, deleting, or, quantity};

pub(super) fn cell(kind: &str, column: &str, object: &Value) -> Option<Value> {
    let unset = |pointer: &str| json!(object.at(pointer).as_str().unwrap_or("<unset>"));
    let phase = || {
        if deleting(object) {
            json!("Terminating")
        } else {
            json!(object.text("/status/phase"))
        }
    };
    let bound = !object.text("/spec/volumeName").is_empty();
    Some(match (kind, column) {
        ("PersistentVolume" | "PersistentVolumeClaim", "Status") => phase(),
        ("PersistentVolume" | "PersistentVolumeClaim", "VolumeMode") => unset("/spec/volumeMode"),
        ("PersistentVolume" | "PersistentVolumeClaim", "VolumeAttributesClass") => {
            unset("/spec/volumeAttributesClassName")
        }
        ("PersistentVolume" | "PersistentVolumeClaim", "StorageClass") => json!(class(object)),
        ("PersistentVolume", "Capacity") => json!(quantity(object.at("/spec/capacity/storage"))),
        ("PersistentVolume", "Access Modes") => json!(modes(object.items("/spec/accessModes"))),
        ("PersistentVolume", "Reclaim Policy") => {
            json!(object.text("/spec/persistentVolumeReclaimPolicy"))
        }
        ("PersistentVolume", "Claim") => match object.at("/spec/claimRef") {
            Value::Null => json!(""),
            claim => json!(format!("{}/{}", claim.text("/namespace"), claim.text("/name"))),
        },
        ("PersistentVolume", "Reason") => json!(object.text("/status/reason")),
        ("PersistentVolumeClaim", "Volume") => json!(object.text("/spec/volumeName")),
        ("PersistentVolumeClaim", "Capacity") if bound => {
            json!(quantity(object.at("/status/capacity/storage")))
        }
        ("PersistentVolumeClaim", "Access Modes") if bound => {
            json!(modes(object.items("/status/accessModes")))
        }
        ("StorageClass", "Name") => {
            let default = "/metadata/annotations/storageclass.kubernetes.io~1is-default-class";
            let mark = if object.text(default) == "true" {
                " (default)"
            } else {
                ""
            };
            json!(format!("{}{mark}", object.text("/metadata/name")))
        }
        ("CSIStorageCapacity", "Capacity") => match object.at("/capacity") {
            Value::Null => json!("<unset>"),
            capacity => json!(quantity(capacity)),
        },
        ("ResourceQuota", "Request") => json!(quota(object, false)),
        ("ResourceQuota", "Limit") => json!(quota(object, true)),
        _ => return None,
    })
}

fn class(object: &Value) -> &str {
    let annotation = object.text("/metadata/annotations/volume.beta.kubernetes.io~1storage-class");
    or(annotation, object.text("/spec/storageClassName"))
}

/// Access modes in their short form, each once.
fn modes(modes: &[Value]) -> String {
    let short = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let listed: Vec<_> = short
        .iter()
        .filter(|(mode, _)| modes.iter().any(|m| m.as_str() == Some(mode)))
        .map(|(_, short)| *short)
        .collect();
    listed.join(",")
}

fn quota(object: &Value, limits: bool) -> String {
    let hard = object.at("/status/hard").as_object();
    let entries: Vec<_> = hard
        .into_iter()
        .flatten()
        .filter(|(name, _)| name.starts_with("limits.") == limits)
        .map(|(name, hard)| {
            let used = object.at("/status/used").get(name).unwrap_or(&Value::Null);
            format!("{name}: {}/{}", quantity(used), quantity(hard))
        })
        .collect();
    entries.join(", ")
}
