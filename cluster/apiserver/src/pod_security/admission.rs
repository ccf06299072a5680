//! Asks the checks about pods, templates and namespaces that are written.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    Level, LevelVersion, evaluate,
    pod::{Pod, Violation, name},
    policy::Policy,
};
use crate::{
    semantics,
    status::{ApiError, Result},
    strategy::Context,
};

/// Parts of a pod whose writes cannot make it ask for more.
const IGNORED: [&str; 8] = [
    "exec",
    "attach",
    "binding",
    "eviction",
    "log",
    "portforward",
    "proxy",
    "status",
];
/// Pods of a namespace that are looked at when its level rises.
const MOST_PODS: usize = 3000;

/// Refuses pods that their namespace does not let in, and namespaces whose labels mean nothing.
pub(crate) fn judge(context: &Context<'_>, object: &Value, old: Option<&Value>) -> Result<()> {
    match context.resource() {
        ("", "namespaces") if context.subresource.is_empty() => namespace(context, object, old),
        ("", "pods") if !IGNORED.contains(&context.subresource) => {
            if old.is_some_and(|old| !is_significant(object, old)) {
                return Ok(());
            }
            pod(context, &Pod::of(object), object, true)
        }
        _ if context.subresource.is_empty() => match template(context.resource(), object) {
            Some(template) if template["spec"].is_object() => pod(context, &Pod::of(template), object, false),
            _ => Ok(()),
        },
        _ => Ok(()),
    }
}

fn template<'a>(resource: (&str, &str), object: &'a Value) -> Option<&'a Value> {
    match resource {
        ("", "podtemplates") => Some(&object["template"]),
        ("", "replicationcontrollers")
        | ("apps", "deployments" | "replicasets" | "statefulsets" | "daemonsets")
        | ("batch", "jobs") => Some(&object["spec"]["template"]),
        ("batch", "cronjobs") => Some(&object["spec"]["jobTemplate"]["spec"]["template"]),
        _ => None,
    }
}

/// Of what a running pod may change, only images and new containers matter.
fn is_significant(object: &Value, old: &Value) -> bool {
    let list = |pod: &Value, field: &str| pod["spec"][field].as_array().cloned().unwrap_or_default();
    for field in ["containers", "initContainers"] {
        let (new, before) = (list(object, field), list(old, field));
        let same =
            new.len() == before.len() && new.iter().zip(&before).all(|(a, b)| a["image"] == b["image"]);
        if !same {
            return true;
        }
    }
    let before = list(old, "ephemeralContainers");
    list(object, "ephemeralContainers").iter().any(|container| {
        let was = before.iter().find(|other| other["name"] == container["name"]);
        was.is_none_or(|was| was["image"] != container["image"])
    })
}

fn policy_of(object: &Value) -> (Policy, Vec<apimachinery::field::FieldError>) {
    Policy::of_labels(|label| object["metadata"]["labels"][label].as_str())
}

fn told(standard: LevelVersion, violations: &[Violation]) -> String {
    let list: Vec<String> = violations.iter().map(ToString::to_string).collect();
    format!("PodSecurity \"{standard}\": {}", list.join(", "))
}

fn pod(context: &Context<'_>, pod: &Pod<'_>, object: &Value, enforce: bool) -> Result<()> {
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
    let Some(stored) = context.cluster.get("", "namespaces", "", namespace) else {
        // Only what was in a namespace before it went is still written there.
        return Ok(());
    };
    let labels = stored.labels();
    let (policy, _) = Policy::of_labels(|wanted| {
        let found = labels.iter().find(|(label, _)| label == wanted);
        found.map(|(_, value)| value.as_str())
    });
    if policy.is_privileged() {
        return Ok(());
    }
    let (group, resource) = context.resource();
    if enforce {
        let violations = evaluate(policy.enforce, pod);
        if !violations.is_empty() {
            let what = format!("violates {}", told(policy.enforce, &violations));
            return Err(ApiError::forbidden(
                group,
                resource,
                name(&object["metadata"]),
                &what,
            ));
        }
    }
    let violations = evaluate(policy.audit, pod);
    if !violations.is_empty() {
        tracing::info!(
            namespace,
            resource,
            name = name(&object["metadata"]),
            user = context.identity.user,
            "would violate {}",
            told(policy.audit, &violations)
        );
    }
    let violations = evaluate(policy.warn, pod);
    if !violations.is_empty() {
        let text = format!("would violate {}", told(policy.warn, &violations));
        context.warnings.tell(text);
    }
    Ok(())
}

fn namespace(context: &Context<'_>, object: &Value, old: Option<&Value>) -> Result<()> {
    let (policy, errors) = policy_of(object);
    let Some(old) = old else {
        return semantics::refuse(context.kind, object, &errors);
    };
    let (before, old_errors) = policy_of(old);
    let texts = |errors: &[apimachinery::field::FieldError]| -> Vec<String> {
        errors.iter().map(ToString::to_string).collect()
    };
    // Whoever changes something else need not fix labels of others.
    if texts(&errors) != texts(&old_errors) {
        semantics::refuse(context.kind, object, &errors)?;
    }
    let (new, before) = (policy.enforce, before.enforce);
    let relaxed = new.version == before.version && new.level <= before.level;
    if new.level != Level::Privileged && !relaxed {
        for warning in existing_pods(context, name(&object["metadata"]), new) {
            context.warnings.tell(warning);
        }
    }
    Ok(())
}

/// Pods that are there stay, but their owner hears that they would not be let in again.
fn existing_pods(context: &Context<'_>, namespace: &str, standard: LevelVersion) -> Vec<String> {
    let pods = context.cluster.list("", "pods", Some(namespace)).objects;
    let all = pods.len();
    // By what they violate: the first pod's name and how many there are.
    let mut found: BTreeMap<String, (String, usize)> = BTreeMap::new();
    for stored in pods.into_iter().take(MOST_PODS) {
        let pod = stored.value();
        let violations = evaluate(standard, &Pod::of(&pod));
        if violations.is_empty() {
            continue;
        }
        let reasons: Vec<&str> = violations
            .iter()
            .map(|violation| violation.reason.as_str())
            .collect();
        let entry = found
            .entry(reasons.join(", "))
            .or_insert_with(|| (stored.key.name.to_string(), 0));
        entry.1 += 1;
    }
    let mut warnings = Vec::new();
    if all > MOST_PODS {
        warnings.push(format!(
            "new PodSecurity enforce level only checked against the first {MOST_PODS} of {all} existing pods"
        ));
    }
    if !found.is_empty() {
        warnings.push(format!(
            "existing pods in namespace {namespace:?} violate the new PodSecurity enforce level \"{standard}\""
        ));
    }
    let mut lines: Vec<String> = found
        .into_iter()
        .map(|(reasons, (pod, count))| match count {
            1 => format!("{pod}: {reasons}"),
            2 => format!("{pod} (and 1 other pod): {reasons}"),
            many => format!("{pod} (and {} other pods): {reasons}", many - 1),
        })
        .collect();
    lines.sort();
    warnings.extend(lines);
    warnings
}
