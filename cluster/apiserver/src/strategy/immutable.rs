//! Fields that stay as they were created.

use apimachinery::field::FieldError;
use serde_json::Value;

use super::{Context, volume};

/// (group, plural, path): the path may not change.
const FIXED: [(&str, &str, &str); 14] = [
    ("apps", "deployments", "spec.selector"),
    ("apps", "replicasets", "spec.selector"),
    ("apps", "daemonsets", "spec.selector"),
    ("batch", "jobs", "spec.selector"),
    ("batch", "jobs", "spec.completionMode"),
    ("rbac.authorization.k8s.io", "rolebindings", "roleRef"),
    ("rbac.authorization.k8s.io", "clusterrolebindings", "roleRef"),
    ("storage.k8s.io", "storageclasses", "provisioner"),
    ("storage.k8s.io", "storageclasses", "parameters"),
    ("storage.k8s.io", "storageclasses", "reclaimPolicy"),
    ("storage.k8s.io", "storageclasses", "volumeBindingMode"),
    ("", "secrets", "type"),
    ("scheduling.k8s.io", "priorityclasses", "value"),
    ("node.k8s.io", "runtimeclasses", "handler"),
];

/// What a StatefulSet's update may touch.
const STATEFUL_SET: [&str; 8] = [
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
    "podManagementPolicy",
];

fn at<'a>(object: &'a Value, path: &str) -> &'a Value {
    path.split('.').fold(object, |value, part| &value[part])
}

pub(super) fn validate(context: &Context<'_>, object: &Value, old: &Value) -> Vec<FieldError> {
    let (group, plural) = context.resource();
    let mut errors: Vec<FieldError> = FIXED
        .iter()
        .filter(|(g, p, path)| *g == group && *p == plural && at(object, path) != at(old, path))
        .map(|(_, _, path)| FieldError::invalid(path, at(object, path).clone(), "field is immutable"))
        .collect();
    match (group, plural) {
        ("", "configmaps" | "secrets") if old["immutable"] == true => {
            for field in ["data", "binaryData", "immutable"] {
                if object.get(field) != old.get(field) {
                    errors.push(FieldError::forbidden(
                        field,
                        "field is immutable when `immutable` is set",
                    ));
                }
            }
        }
        ("apps", "statefulsets") => {
            let differs = |map: &Value, other: &Value| {
                map.as_object().into_iter().flatten().any(|(field, value)| {
                    !STATEFUL_SET.contains(&field.as_str()) && other.get(field) != Some(value)
                })
            };
            if differs(&object["spec"], &old["spec"]) || differs(&old["spec"], &object["spec"]) {
                errors.push(FieldError::forbidden(
                    "spec",
                    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', \
                     'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and \
                     'minReadySeconds' are forbidden",
                ));
            }
        }
        ("", "persistentvolumeclaims") => errors.extend(volume::validate_claim(object, old)),
        ("", "persistentvolumes") => errors.extend(volume::validate_volume(object, old)),
        ("batch", "jobs") if old["spec"]["suspend"] != true => {
            let (new, old) = (&object["spec"]["template"], &old["spec"]["template"]);
            if new != old {
                errors.push(FieldError::invalid(
                    "spec.template",
                    new.clone(),
                    "field is immutable",
                ));
            }
        }
        _ => {}
    }
    errors
}
