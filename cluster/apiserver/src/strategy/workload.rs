//! Workloads: a selector that selects their own pods.

use apimachinery::{
    field::FieldError,
    selector::{LabelSelector, LabelSelectorSpec},
};
use serde_json::Value;

use super::paths;
use crate::registry::Kind;

pub(super) fn validate(kind: &Kind, object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let spec = &object["spec"];
    for field in [
        "replicas",
        "minReadySeconds",
        "revisionHistoryLimit",
        "parallelism",
        "completions",
        "backoffLimit",
    ] {
        if spec[field].as_i64().is_some_and(|number| number < 0) {
            let path = format!("spec.{field}");
            errors.push(FieldError::invalid(
                path,
                spec[field].clone(),
                "must be greater than or equal to 0",
            ));
        }
    }
    if spec["template"].is_object() {
        // A StatefulSet's pods also have the volumes of its claims.
        let claims = spec["volumeClaimTemplates"].as_array().into_iter().flatten();
        let claims: Vec<&str> = claims
            .filter_map(|claim| claim["metadata"]["name"].as_str())
            .collect();
        errors.extend(containers(
            &spec["template"]["spec"],
            "spec.template.spec",
            &claims,
        ));
        errors.extend(restart_policy(kind, &spec["template"]["spec"]["restartPolicy"]));
    }
    if kind.plural == "controllerrevisions" || spec["selector"].is_null() {
        return errors;
    }
    let selector = match LabelSelectorSpec::selector_of(spec.get("selector")) {
        Ok(selector) => selector,
        Err(error) => {
            errors.push(FieldError::invalid(
                "spec.selector",
                spec["selector"].clone(),
                error.to_string(),
            ));
            return errors;
        }
    };
    if kind.group == "apps" && selector == LabelSelector::everything() {
        let detail = "empty selector is invalid for deployment".replace("deployment", &kind.singular);
        errors.push(FieldError::invalid(
            "spec.selector",
            spec["selector"].clone(),
            detail,
        ));
    } else if spec["template"].is_object() && !selector.matches_object(&spec["template"]) {
        let labels = spec["template"]["metadata"]["labels"].clone();
        errors.push(FieldError::invalid(
            "spec.template.metadata.labels",
            labels,
            "`selector` does not match template `labels`",
        ));
    }
    errors
}

fn restart_policy(kind: &Kind, policy: &Value) -> Option<FieldError> {
    let allowed: &[&str] = match kind.plural.as_str() {
        "jobs" => &["OnFailure", "Never"],
        "deployments" | "daemonsets" | "replicasets" | "statefulsets" => &["Always"],
        _ => return None,
    };
    let policy = policy.as_str().unwrap_or_default();
    let path = "spec.template.spec.restartPolicy";
    (!allowed.contains(&policy)).then(|| FieldError::not_supported(path, policy, allowed.iter().copied()))
}

/// A template alone; one that is not there is no fault.
pub(super) fn template(template: &Value, path: &str) -> Vec<FieldError> {
    if !template["spec"].is_object() {
        return Vec::new();
    }
    containers(&template["spec"], &format!("{path}.spec"), &[])
}

/// Names of containers and volumes: there, well-formed, once; paths that stay in their volumes.
pub(super) fn containers(spec: &Value, path: &str, claims: &[&str]) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if spec["containers"].as_array().is_none_or(Vec::is_empty) {
        errors.push(FieldError::required(format!("{path}.containers"), ""));
    }
    errors.extend(super::runtime::sysctls(spec, path));
    let mut seen: Vec<&str> = Vec::new();
    for list in ["initContainers", "containers", "volumes"] {
        if list == "volumes" {
            seen.clear();
        }
        for (i, item) in spec[list].as_array().into_iter().flatten().enumerate() {
            let at = format!("{path}.{list}[{i}]");
            let name = item["name"].as_str().unwrap_or_default();
            if !name.is_empty() {
                for fault in apimachinery::names::dns1123_label(name) {
                    errors.push(FieldError::invalid(format!("{at}.name"), name, fault));
                }
                if seen.contains(&name) {
                    errors.push(FieldError::duplicate(format!("{at}.name"), name));
                }
                seen.push(name);
            }
            if list != "volumes" && item["image"].as_str().is_none_or(str::is_empty) {
                errors.push(FieldError::required(format!("{at}.image"), ""));
            }
        }
    }
    let volumes: Vec<&str> = spec["volumes"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|v| v["name"].as_str())
        .chain(claims.iter().copied())
        .collect();
    for list in ["initContainers", "containers"] {
        for (i, container) in spec[list].as_array().into_iter().flatten().enumerate() {
            errors.extend(paths::mounts(container, &format!("{path}.{list}[{i}]")));
            for (j, mount) in container["volumeMounts"]
                .as_array()
                .into_iter()
                .flatten()
                .enumerate()
            {
                let name = mount["name"].as_str().unwrap_or_default();
                if !name.is_empty() && !volumes.contains(&name) {
                    let at = format!("{path}.{list}[{i}].volumeMounts[{j}].name");
                    errors.push(FieldError::not_found(at, name));
                }
            }
        }
    }
    errors.extend(paths::volumes(spec, path));
    errors
}
