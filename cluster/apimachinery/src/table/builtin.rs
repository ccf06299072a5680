//! Cells of the built-in kinds, by kind and column.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::cells::{Fields, age, joined, labels, name, or, selector};
use super::{events, network, nodes, pods, scaling, storage, workloads};

/// Columns that show one text field: kind, column, field, and what stands for a missing one.
const TEXTS: [(&str, &str, &str, &str); 18] = [
    ("Namespace", "Status", "/status/phase", ""),
    ("Secret", "Type", "/type", ""),
    ("Lease", "Holder", "/spec/holderIdentity", ""),
    ("IngressClass", "Controller", "/spec/controller", ""),
    ("EndpointSlice", "AddressType", "/addressType", ""),
    ("StorageClass", "Provisioner", "/provisioner", ""),
    ("StorageClass", "ReclaimPolicy", "/reclaimPolicy", "Delete"),
    (
        "StorageClass",
        "VolumeBindingMode",
        "/volumeBindingMode",
        "Immediate",
    ),
    ("VolumeAttributesClass", "DriverName", "/driverName", ""),
    ("CSIStorageCapacity", "StorageClassName", "/storageClassName", ""),
    ("VolumeAttachment", "Attacher", "/spec/attacher", ""),
    ("VolumeAttachment", "PV", "/spec/source/persistentVolumeName", ""),
    ("VolumeAttachment", "Node", "/spec/nodeName", ""),
    ("PriorityClass", "PreemptionPolicy", "/preemptionPolicy", ""),
    ("RuntimeClass", "Handler", "/handler", ""),
    (
        "CertificateSigningRequest",
        "SignerName",
        "/spec/signerName",
        "<none>",
    ),
    ("CertificateSigningRequest", "Requestor", "/spec/username", ""),
    (
        "ValidatingAdmissionPolicyBinding",
        "PolicyName",
        "/spec/policyName",
        "",
    ),
];

/// Columns that show one number.
const NUMBERS: [(&str, &str, &str); 17] = [
    ("ReplicationController", "Desired", "/spec/replicas"),
    ("ReplicationController", "Current", "/status/replicas"),
    ("ReplicationController", "Ready", "/status/readyReplicas"),
    ("ReplicaSet", "Desired", "/spec/replicas"),
    ("ReplicaSet", "Current", "/status/replicas"),
    ("ReplicaSet", "Ready", "/status/readyReplicas"),
    ("DaemonSet", "Desired", "/status/desiredNumberScheduled"),
    ("DaemonSet", "Current", "/status/currentNumberScheduled"),
    ("DaemonSet", "Ready", "/status/numberReady"),
    ("DaemonSet", "Up-to-date", "/status/updatedNumberScheduled"),
    ("DaemonSet", "Available", "/status/numberAvailable"),
    ("Deployment", "Up-to-date", "/status/updatedReplicas"),
    ("Deployment", "Available", "/status/availableReplicas"),
    ("ControllerRevision", "Revision", "/revision"),
    (
        "PodDisruptionBudget",
        "Allowed Disruptions",
        "/status/disruptionsAllowed",
    ),
    ("PriorityClass", "Value", "/value"),
    ("Scale", "Desired", "/spec/replicas"),
];

/// Columns that count the items of a list or map.
const COUNTS: [(&str, &str, &str); 6] = [
    ("Secret", "Data", "/data"),
    ("CSINode", "Drivers", "/spec/drivers"),
    ("MutatingWebhookConfiguration", "Webhooks", "/webhooks"),
    ("ValidatingWebhookConfiguration", "Webhooks", "/webhooks"),
    ("ValidatingAdmissionPolicy", "Validations", "/spec/validations"),
    ("MutatingAdmissionPolicy", "Mutations", "/spec/mutations"),
];

/// Columns that show a truth, with the default.
const FLAGS: [(&str, &str, &str, bool); 6] = [
    (
        "StorageClass",
        "AllowVolumeExpansion",
        "/allowVolumeExpansion",
        false,
    ),
    ("CSIDriver", "AttachRequired", "/spec/attachRequired", true),
    ("CSIDriver", "PodInfoOnMount", "/spec/podInfoOnMount", false),
    ("CSIDriver", "StorageCapacity", "/spec/storageCapacity", false),
    ("VolumeAttachment", "Attached", "/status/attached", false),
    ("PriorityClass", "Global-Default", "/globalDefault", false),
];

/// The cell of a column. A column that nothing is known of is empty.
pub(super) fn cell(kind: &str, column: &str, object: &Value, now: Timestamp) -> Value {
    simple(kind, column, object)
        .or_else(|| special(kind, column, object, now))
        .unwrap_or_else(|| common(column, object, now))
}

fn simple(kind: &str, column: &str, object: &Value) -> Option<Value> {
    let is = |k: &str, c: &str| k == kind && c == column;
    if let Some((_, _, field, missing)) = TEXTS.iter().find(|(k, c, ..)| is(k, c)) {
        return Some(json!(or(object.text(field), missing)));
    }
    if let Some((_, _, field)) = NUMBERS.iter().find(|(k, c, _)| is(k, c)) {
        return Some(json!(object.number(field)));
    }
    if let Some((_, _, field)) = COUNTS.iter().find(|(k, c, _)| is(k, c)) {
        return Some(json!(count(object.at(field))));
    }
    let (_, _, field, default) = FLAGS.iter().find(|(k, c, ..)| is(k, c))?;
    Some(json!(object.at(field).as_bool().unwrap_or(*default)))
}

fn special(kind: &str, column: &str, object: &Value, now: Timestamp) -> Option<Value> {
    match kind {
        "Pod" => pods::cell(column, object, now),
        "Node" => nodes::cell(column, object),
        "Event" => events::cell(column, object, now),
        "Deployment"
        | "StatefulSet"
        | "DaemonSet"
        | "Job"
        | "CronJob"
        | "ControllerRevision"
        | "PodTemplate"
        | "PodDisruptionBudget"
        | "ReplicationController" => workloads::cell(kind, column, object, now),
        "Service" | "Endpoints" | "EndpointSlice" | "Ingress" | "IngressClass" | "NetworkPolicy"
        | "IPAddress" | "ServiceCIDR" => network::cell(kind, column, object),
        "PersistentVolume"
        | "PersistentVolumeClaim"
        | "StorageClass"
        | "CSIStorageCapacity"
        | "ResourceQuota" => storage::cell(kind, column, object),
        "HorizontalPodAutoscaler" => scaling::cell(column, object),
        "ConfigMap" if column == "Data" => {
            let entries = count(object.at("/data")) + count(object.at("/binaryData"));
            Some(json!(entries))
        }
        "RoleBinding" | "ClusterRoleBinding" => binding(column, object),
        "ComponentStatus" | "CertificateSigningRequest" => status(kind, column, object),
        "ValidatingAdmissionPolicy" | "MutatingAdmissionPolicy" if column == "ParamKind" => {
            let kind = object.at("/spec/paramKind");
            Some(json!(if kind.is_null() {
                "<unset>".to_string()
            } else {
                format!("{}/{}", kind.text("/apiVersion"), kind.text("/kind"))
            }))
        }
        "ValidatingAdmissionPolicyBinding" | "MutatingAdmissionPolicyBinding" => {
            policy_binding(column, object)
        }
        _ => None,
    }
}

/// Columns that mean the same for every kind that has them.
fn common(column: &str, object: &Value, now: Timestamp) -> Value {
    match column {
        "Name" => name(object),
        "Age" => age(object, now),
        "Created At" => object.at("/metadata/creationTimestamp").clone(),
        "Containers" => json!(joined(object.items("/spec/template/spec/containers"), "/name")),
        "Images" => json!(joined(object.items("/spec/template/spec/containers"), "/image")),
        "Selector" => json!(selector(object.at("/spec/selector"))),
        "Node Selector" => json!(labels(object.at("/spec/template/spec/nodeSelector"))),
        _ => json!(""),
    }
}

fn count(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.len(),
        Value::Object(fields) => fields.len(),
        _ => 0,
    }
}

fn binding(column: &str, object: &Value) -> Option<Value> {
    let subjects = |kind: &str| {
        let names: Vec<_> = object
            .items("/subjects")
            .iter()
            .filter(|subject| subject.text("/kind") == kind)
            .map(|subject| match subject.text("/namespace") {
                "" => subject.text("/name").to_string(),
                namespace => format!("{namespace}/{}", subject.text("/name")),
            })
            .collect();
        json!(names.join(", "))
    };
    match column {
        "Role" => {
            let (kind, name) = (object.text("/roleRef/kind"), object.text("/roleRef/name"));
            Some(json!(format!("{kind}/{name}")))
        }
        "Users" => Some(subjects("User")),
        "Groups" => Some(subjects("Group")),
        "ServiceAccounts" => Some(subjects("ServiceAccount")),
        _ => None,
    }
}

fn status(kind: &str, column: &str, object: &Value) -> Option<Value> {
    if kind == "CertificateSigningRequest" {
        return match column {
            "RequestedDuration" => {
                let seconds = object.at("/spec/expirationSeconds").as_i64();
                let text = seconds.map_or("<none>".to_string(), super::duration::human);
                Some(json!(text))
            }
            "Condition" => Some(json!(signing_status(object))),
            _ => None,
        };
    }
    let healthy = object
        .items("/conditions")
        .iter()
        .find(|condition| condition.text("/type") == "Healthy");
    let field = |pointer: &str| healthy.map_or("", |condition| condition.text(pointer));
    match column {
        "Status" => Some(json!(match field("/status") {
            _ if healthy.is_none() => "Unknown",
            "True" => "Healthy",
            _ => "Unhealthy",
        })),
        "Message" => Some(json!(field("/message"))),
        "Error" => Some(json!(field("/error"))),
        _ => None,
    }
}

fn signing_status(object: &Value) -> String {
    let has = |kind: &str| super::cells::condition(object, kind).is_some();
    let mut status = match (has("Denied"), has("Approved")) {
        (true, _) => "Denied",
        (_, true) => "Approved",
        _ => "Pending",
    }
    .to_string();
    if has("Failed") {
        status.push_str(",Failed");
    }
    if !object.text("/status/certificate").is_empty() {
        status.push_str(",Issued");
    }
    status
}

fn policy_binding(column: &str, object: &Value) -> Option<Value> {
    match column {
        "PolicyName" => Some(json!(object.text("/spec/policyName"))),
        "ParamRef" => {
            let reference = object.at("/spec/paramRef");
            let text = match (reference.text("/namespace"), reference.text("/name")) {
                (_, "") if !reference.at("/selector").is_null() => selector(reference.at("/selector")),
                (_, "") => "<unset>".to_string(),
                ("", name) => format!("*/{name}"),
                (namespace, name) => format!("{namespace}/{name}"),
            };
            Some(json!(text))
        }
        _ => None,
    }
}
