//! Whether an object is well, from what it says of itself.

use c5c3_kit::ownership::OWNER_UID;
use serde_json::Value;

/// What an object says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    pub well: bool,
    pub reason: String,
    pub message: String,
}

impl Health {
    fn well() -> Self {
        Health {
            well: true,
            reason: String::new(),
            message: String::new(),
        }
    }

    fn ill(reason: &str, message: impl Into<String>) -> Self {
        Health {
            well: false,
            reason: reason.to_owned(),
            message: message.into(),
        }
    }
}

/// Whether one belongs to the other: by a reference, or by our mark where none is possible.
pub fn is_owned(object: &Value, uid: &str) -> bool {
    let owners = object
        .pointer("/metadata/ownerReferences")
        .and_then(Value::as_array);
    let mut owners = owners.into_iter().flatten();
    let marked = object
        .pointer("/metadata/labels")
        .map_or("", |labels| labels[OWNER_UID].as_str().unwrap_or_default());
    !uid.is_empty() && (marked == uid || owners.any(|owner| text(owner, "/uid") == uid))
}

pub fn text<'a>(object: &'a Value, path: &str) -> &'a str {
    object.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

pub fn name(object: &Value) -> &str {
    text(object, "/metadata/name")
}

pub fn kind(object: &Value) -> &str {
    text(object, "/kind")
}

/// The API group; empty for the core of Kubernetes.
pub fn group(object: &Value) -> &str {
    text(object, "/apiVersion")
        .rsplit_once('/')
        .map_or("", |(group, _)| group)
}

/// `None` for kinds that do not tell, such as a Service.
pub fn health(object: &Value) -> Option<Health> {
    match (group(object), kind(object)) {
        ("", "Pod") => Some(pod(object)),
        ("", "PersistentVolumeClaim") => Some(match text(object, "/status/phase") {
            "Bound" => Health::well(),
            phase => Health::ill("NotBound", format!("the claim is {}", or(phase, "Pending"))),
        }),
        ("", _) => None,
        ("apps", _) => Some(replicas(object)),
        ("batch", "Job") => Some(job(object)),
        _ => Some(by_condition(object)),
    }
}

fn or<'a>(text: &'a str, other: &'a str) -> &'a str {
    if text.is_empty() { other } else { text }
}

fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    let all = object.pointer("/status/conditions")?.as_array()?;
    all.iter().find(|condition| condition["type"] == kind)
}

fn by_condition(object: &Value) -> Health {
    let told = ["Ready", "Available", "AllReplicasReady"]
        .iter()
        .find_map(|kind| condition(object, kind));
    let Some(told) = told else {
        return Health::ill("Unreported", "no controller has reported on it yet");
    };
    let generation = object.pointer("/metadata/generation").and_then(Value::as_i64);
    let seen = told["observedGeneration"].as_i64().or_else(|| {
        object
            .pointer("/status/observedGeneration")
            .and_then(Value::as_i64)
    });
    if told["status"] == "True" {
        return match (generation, seen) {
            (Some(now), Some(seen)) if seen < now => {
                Health::ill("OutOfDate", "its last change has not been looked at yet")
            }
            _ => Health::well(),
        };
    }
    // K-ORC says what it waits for in Progressing.
    let words = match text(told, "/message") {
        "" => condition(object, "Progressing").map_or("", |c| text(c, "/message")),
        words => words,
    };
    Health::ill(
        or(text(told, "/reason"), "NotReady"),
        or(words, "it is not ready"),
    )
}

/// Pods of a workload: those that are ready, and how many there should be.
pub fn counts(object: &Value) -> (i64, i64) {
    let count = |path: &str| object.pointer(path).and_then(Value::as_i64);
    if kind(object) == "DaemonSet" {
        let ready = count("/status/numberReady").unwrap_or(0);
        return (ready, count("/status/desiredNumberScheduled").unwrap_or(0));
    }
    let ready = count("/status/readyReplicas").unwrap_or(0);
    (ready, count("/spec/replicas").unwrap_or(1))
}

fn replicas(object: &Value) -> Health {
    let (ready, wanted) = counts(object);
    if ready >= wanted {
        return Health::well();
    }
    Health::ill("NotEnough", format!("{ready} of {wanted} pods are ready"))
}

fn job(object: &Value) -> Health {
    let holds = |kind| condition(object, kind).filter(|condition| condition["status"] == "True");
    if holds("Complete").is_some() {
        Health::well()
    } else if let Some(failed) = holds("Failed") {
        Health::ill("Failed", or(text(failed, "/message"), "the job failed"))
    } else {
        Health::ill("Running", "the job runs")
    }
}

fn pod(object: &Value) -> Health {
    match text(object, "/status/phase") {
        "Succeeded" => return Health::well(),
        "Running" if condition(object, "Ready").is_some_and(|c| c["status"] == "True") => {
            return Health::well();
        }
        _ => {}
    }
    let statuses = ["/status/initContainerStatuses", "/status/containerStatuses"];
    let containers = statuses
        .iter()
        .filter_map(|path| object.pointer(path)?.as_array())
        .flatten();
    for container in containers {
        let state = &container["state"];
        for state in [
            &state["waiting"],
            &state["terminated"],
            &container["lastState"]["terminated"],
        ] {
            let reason = text(state, "/reason");
            if ["", "Completed", "ContainerCreating", "PodInitializing"].contains(&reason) {
                continue;
            }
            let words = match (text(state, "/message"), state["exitCode"].as_i64()) {
                ("", Some(code)) => format!("it ended with code {code}"),
                (words, _) => words.trim().to_owned(),
            };
            let message = format!("container {}: {words}", text(container, "/name"));
            return Health::ill(reason, message);
        }
    }
    match condition(object, "PodScheduled").filter(|c| c["status"] == "False") {
        Some(unplaced) => Health::ill("Unschedulable", text(unplaced, "/message")),
        None if text(object, "/status/phase") == "Running" => {
            Health::ill("NotReady", "its readiness probe does not answer yet")
        }
        None => Health::ill("Starting", "it is being started"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn ready(status: &str, generation: i64, seen: i64) -> Value {
        json!({"apiVersion": "c5c3.io/v1alpha1", "kind": "ControlPlane", "metadata": {"generation": generation},
            "status": {"observedGeneration": seen,
                "conditions": [{"type": "Ready", "status": status, "reason": "R", "message": "M"}]}})
    }

    #[test]
    fn ready_counts_only_for_this_generation() {
        assert_eq!(health(&ready("True", 2, 2)), Some(Health::well()));
        assert_eq!(
            health(&ready("True", 2, 1)).map(|h| h.reason),
            Some("OutOfDate".into())
        );
        assert_eq!(health(&ready("False", 2, 2)), Some(Health::ill("R", "M")));
        let silent = json!({"apiVersion": "c5c3.io/v1alpha1", "kind": "ControlPlane"});
        assert_eq!(health(&silent).map(|h| h.reason), Some("Unreported".into()));
    }

    #[test]
    fn a_pod_says_which_container_and_why() {
        let waiting = json!({"apiVersion": "v1", "kind": "Pod", "status": {"phase": "Pending", "containerStatuses": [
            {"name": "api", "state": {"waiting": {"reason": "ErrImagePull", "message": "no image x"}}}]}});
        assert_eq!(
            health(&waiting),
            Some(Health::ill("ErrImagePull", "container api: no image x"))
        );
        let unplaced = json!({"apiVersion": "v1", "kind": "Pod", "status": {"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "message": "no node has 4 cpus"}]}});
        assert_eq!(
            health(&unplaced),
            Some(Health::ill("Unschedulable", "no node has 4 cpus"))
        );
        let well = json!({"apiVersion": "v1", "kind": "Pod", "status": {"phase": "Running", "conditions": [
            {"type": "Ready", "status": "True"}]}});
        assert_eq!(health(&well), Some(Health::well()));
    }

    #[test]
    fn workloads_and_jobs_tell_by_their_counts_and_conditions() {
        let half = json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 3}, "status": {"readyReplicas": 1}});
        assert_eq!(
            health(&half),
            Some(Health::ill("NotEnough", "1 of 3 pods are ready"))
        );
        let done = json!({"apiVersion": "batch/v1", "kind": "Job", "status": {"conditions": [{"type": "Complete", "status": "True"}]}});
        assert_eq!(health(&done), Some(Health::well()));
        assert_eq!(health(&json!({"apiVersion": "v1", "kind": "Service"})), None);
    }
}
