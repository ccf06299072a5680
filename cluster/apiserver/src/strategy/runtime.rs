//! What a pod asks of the machine below it: its runtime class and its kernel settings.

use apimachinery::field::FieldError;
use serde_json::{Map, Value};

use super::{Context, sent_name};
use crate::status::{ApiError, Result};

const SYSCTL_LENGTH: usize = 253;
const SYSCTL_RULE: &str = "must have at most 253 characters and match regex \
     ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";

/// A new pod gets what its class costs and where the class is.
pub(super) fn admit(context: &Context<'_>, object: &mut Value) -> Result<()> {
    let refuse = |object: &Value, why: &str| {
        let what = format!("pod rejected: {why}");
        Err(ApiError::forbidden("", "pods", sent_name(object), &what))
    };
    let class = object["spec"]["runtimeClassName"].as_str().unwrap_or_default();
    let has_overhead = object["spec"]["overhead"]
        .as_object()
        .is_some_and(|map| !map.is_empty());
    if class.is_empty() {
        return if has_overhead {
            refuse(
                object,
                "Pod Overhead set without corresponding RuntimeClass defined Overhead",
            )
        } else {
            Ok(())
        };
    }
    let Some(stored) = context.cluster.get("node.k8s.io", "runtimeclasses", "", class) else {
        let why = format!("RuntimeClass {class:?} not found");
        return refuse(object, &why);
    };
    let class = stored.value();
    let overhead = &class["overhead"]["podFixed"];
    if has_overhead && object["spec"]["overhead"] != *overhead {
        let why = "Pod's Overhead doesn't match RuntimeClass's defined Overhead";
        return refuse(object, why);
    }
    if overhead.is_object() {
        object["spec"]["overhead"] = overhead.clone();
    }
    let scheduling = &class["scheduling"];
    for (label, value) in scheduling["nodeSelector"].as_object().unwrap_or(&Map::new()) {
        let asked = &object["spec"]["nodeSelector"][label];
        if !asked.is_null() && asked != value {
            let why = format!(
                "conflict: runtimeClass.scheduling.nodeSelector[{label}] = {}; pod.spec.nodeSelector[{label}] = {}",
                value.as_str().unwrap_or_default(),
                asked.as_str().unwrap_or_default()
            );
            return refuse(object, &why);
        }
        object["spec"]["nodeSelector"][label] = value.clone();
    }
    for toleration in scheduling["tolerations"].as_array().into_iter().flatten() {
        match &mut object["spec"]["tolerations"] {
            Value::Array(all) if all.contains(toleration) => {}
            Value::Array(all) => all.push(toleration.clone()),
            other => *other = Value::Array(vec![toleration.clone()]),
        }
    }
    Ok(())
}

/// Names of kernel settings; `path` is that of the pod's spec.
pub(super) fn sysctls(spec: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut seen: Vec<String> = Vec::new();
    let all = spec["securityContext"]["sysctls"].as_array();
    for (i, sysctl) in all.into_iter().flatten().enumerate() {
        let at = format!("{path}.securityContext.sysctls[{i}].name");
        let name = sysctl["name"].as_str().unwrap_or_default();
        let plain = name.replace('/', ".");
        if name.is_empty() {
            errors.push(FieldError::required(at, ""));
        } else if !is_sysctl(name) {
            errors.push(FieldError::invalid(at, name, SYSCTL_RULE));
        } else if seen.contains(&plain) {
            errors.push(FieldError::duplicate(at, name));
        }
        seen.push(plain);
    }
    errors
}

fn is_sysctl(name: &str) -> bool {
    let end = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let segment = |text: &str| {
        let bytes = text.as_bytes();
        bytes.first().copied().is_some_and(end)
            && bytes.last().copied().is_some_and(end)
            && bytes
                .iter()
                .all(|&byte| end(byte) || byte == b'-' || byte == b'_')
    };
    name.len() <= SYSCTL_LENGTH && name.split(['.', '/']).all(segment)
}
