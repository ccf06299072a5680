//! Pods: what admission adds, which fields may change, how long they get to end.

use apimachinery::field::FieldError;
use rand::RngExt;
use serde_json::{Value, json};

use super::{Context, pod_parts, runtime, sent_name, workload};
use crate::status::{ApiError, Result};

const TOKEN_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// Seconds that a pod stays on a node that went away.
const AWAY: i64 = 300;
const SUFFIX: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// The ServiceAccount with its token, and tolerations of a node that is away for a while.
pub(super) fn admit(context: &Context<'_>, object: &mut Value) -> Result<()> {
    if !object["metadata"]["annotations"]["kubernetes.io/config.mirror"].is_null() {
        return Ok(());
    }
    service_account(context, object)?;
    tolerations(object);
    runtime::admit(context, object)?;
    if object["spec"]["priority"].is_null() {
        priority(context, object)?;
    }
    if object["spec"]["enableServiceLinks"].is_null() {
        object["spec"]["enableServiceLinks"] = true.into();
    }
    Ok(())
}

fn service_account(context: &Context<'_>, object: &mut Value) -> Result<()> {
    let spec = &mut object["spec"];
    if !spec.is_object() {
        return Ok(());
    }
    if spec["serviceAccountName"].as_str().is_none_or(str::is_empty) {
        spec["serviceAccountName"] = "default".into();
        spec["serviceAccount"] = "default".into();
    }
    let account = spec["serviceAccountName"].as_str().unwrap_or_default().to_owned();
    let namespace = object["metadata"]["namespace"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    let Some(stored) = context.cluster.get("", "serviceaccounts", &namespace, &account) else {
        let what = format!(
            "error looking up service account {namespace}/{account}: serviceaccount {account:?} not found"
        );
        return Err(ApiError::forbidden("", "pods", sent_name(object), &what));
    };
    let account = stored.value();
    let spec = &mut object["spec"];
    if spec["imagePullSecrets"].as_array().is_none_or(Vec::is_empty)
        && account["imagePullSecrets"]
            .as_array()
            .is_some_and(|secrets| !secrets.is_empty())
    {
        spec["imagePullSecrets"] = account["imagePullSecrets"].clone();
    }
    let automount = spec["automountServiceAccountToken"]
        .as_bool()
        .or(account["automountServiceAccountToken"].as_bool())
        .unwrap_or(true);
    if automount {
        mount_token(spec);
    }
    Ok(())
}

fn mount_token(spec: &mut Value) {
    let mounted = |container: &Value| {
        container["volumeMounts"]
            .as_array()
            .into_iter()
            .flatten()
            .any(|mount| mount["mountPath"] == TOKEN_PATH)
    };
    let mut random = rand::rng();
    let suffix: String = (0..5)
        .map(|_| char::from(SUFFIX[random.random_range(0..SUFFIX.len())]))
        .collect();
    let volume = format!("kube-api-access-{suffix}");
    let mut used = false;
    for list in ["initContainers", "containers"] {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            if !container.is_object() || mounted(container) {
                continue;
            }
            let mount = json!({"mountPath": TOKEN_PATH, "name": volume, "readOnly": true});
            push(&mut container["volumeMounts"], mount);
            used = true;
        }
    }
    if used {
        let sources = json!([
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [
                {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]}},
        ]);
        push(
            &mut spec["volumes"],
            json!({"name": volume, "projected": {"defaultMode": 420, "sources": sources}}),
        );
    }
}

fn push(list: &mut Value, item: Value) {
    match list {
        Value::Array(items) => items.push(item),
        other => *other = Value::Array(vec![item]),
    }
}

fn tolerations(object: &mut Value) {
    if !object["spec"].is_object() {
        return;
    }
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let tolerated = object["spec"]["tolerations"]
            .as_array()
            .into_iter()
            .flatten()
            .any(|toleration| {
                let effect = toleration["effect"].as_str().unwrap_or_default();
                let all = toleration["key"].as_str().unwrap_or_default().is_empty();
                (all || toleration["key"] == key) && (effect.is_empty() || effect == "NoExecute")
            });
        if !tolerated {
            let toleration =
                json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": AWAY});
            push(&mut object["spec"]["tolerations"], toleration);
        }
    }
}

fn priority(context: &Context<'_>, object: &mut Value) -> Result<()> {
    let Some(name) = object["spec"]["priorityClassName"]
        .as_str()
        .filter(|name| !name.is_empty())
    else {
        object["spec"]["priority"] = 0.into();
        object["spec"]["preemptionPolicy"] = "PreemptLowerPriority".into();
        return Ok(());
    };
    let value = match name {
        "system-node-critical" => json!({"value": 2_000_001_000}),
        "system-cluster-critical" => json!({"value": 2_000_000_000}),
        _ => match context
            .cluster
            .get("scheduling.k8s.io", "priorityclasses", "", name)
        {
            Some(class) => class.value(),
            None => {
                let what = format!("no PriorityClass with name {name} was found");
                return Err(ApiError::forbidden("", "pods", sent_name(object), &what));
            }
        },
    };
    object["spec"]["priority"] = value["value"].clone();
    if let Some(policy) = value.get("preemptionPolicy") {
        object["spec"]["preemptionPolicy"] = policy.clone();
    }
    Ok(())
}

/// The class that the node treats the pod by.
pub(super) fn prepare(object: &mut Value, old: Option<&Value>) {
    if old.is_none() && object["spec"].is_object() {
        let class = quality_of_service(&object["spec"]);
        object["status"] = json!({"phase": "Pending", "qosClass": class});
    }
}

fn quality_of_service(spec: &Value) -> &'static str {
    let mut any = false;
    let mut all = true;
    for list in ["containers", "initContainers"] {
        for container in spec[list].as_array().into_iter().flatten() {
            let resources = &container["resources"];
            for name in ["cpu", "memory"] {
                let (request, limit) = (&resources["requests"][name], &resources["limits"][name]);
                any |= !request.is_null() || !limit.is_null();
                all &= !limit.is_null() && request == limit;
            }
        }
    }
    match (any, all) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

pub(super) fn validate(context: &Context<'_>, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let Some(old) = old else {
        return workload::containers(&object["spec"], "spec", &[]);
    };
    match context.subresource {
        "binding" | "eviction" => return Vec::new(),
        "ephemeralcontainers" => return pod_parts::ephemeral(object, old),
        "resize" => return pod_parts::resized(object, old),
        _ => {}
    }
    let mut expected = old["spec"].clone();
    if let Some(fields) = expected.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    let new = &object["spec"];
    for field in [
        "activeDeadlineSeconds",
        "terminationGracePeriodSeconds",
        "tolerations",
        "schedulingGates",
    ] {
        match new.get(field) {
            Some(value) => expected[field] = value.clone(),
            None => {
                if let Some(map) = expected.as_object_mut() {
                    map.remove(field);
                }
            }
        }
    }
    for list in ["containers", "initContainers"] {
        let images = new[list]
            .as_array()
            .into_iter()
            .flatten()
            .map(|container| &container["image"]);
        let kept = expected.get_mut(list).and_then(Value::as_array_mut);
        for (container, image) in kept.into_iter().flatten().zip(images) {
            container["image"] = image.clone();
        }
    }
    if expected == *new {
        return Vec::new();
    }
    vec![FieldError::forbidden(
        "spec",
        "pod updates may not change fields other than `spec.containers[*].image`,\
         `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to \
         existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was \
         previously negative)",
    )]
}

/// Pods that never ran anywhere, or have ended, go at once.
pub(super) fn grace_period(live: &Value, asked: Option<i64>) -> i64 {
    let unscheduled = live["spec"]["nodeName"].as_str().is_none_or(str::is_empty);
    let ended = matches!(live["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    if unscheduled || ended {
        return 0;
    }
    asked
        .or(live["spec"]["terminationGracePeriodSeconds"].as_i64())
        .unwrap_or(30)
        .max(0)
}
