//! The pods of a cloud, judged by themselves, whatever the cloud's own status says. Pure.

use std::collections::BTreeSet;

use serde_json::Value;

use super::health::{health, is_owned, name, text};
use super::snapshot::Snapshot;

/// A pod of the cloud that is not ready, and why. After a restart of the machine what is stored
/// of a cloud may be older than what its nodes say of the pods.
pub(crate) fn not_ready(seen: &Snapshot, plane: &str) -> Option<String> {
    let belonging = belonging(seen, plane);
    seen.of_kind("", "Pod")
        .filter(|pod| belonging.contains(text(pod, "/metadata/uid")) && !is_over(pod))
        .find_map(|pod| {
            let health = health(pod)?;
            Some(format!("Pod {}: {}", name(pod), health.trouble()?.message))
        })
}

/// One that has ended, well or not, or is about to: others stand in for it.
fn is_over(pod: &Value) -> bool {
    let ended = ["Succeeded", "Failed"].contains(&text(pod, "/status/phase"));
    ended || !text(pod, "/metadata/deletionTimestamp").is_empty()
}

/// Uids of what an object owns, and of what that owns.
fn belonging<'a>(seen: &'a Snapshot, owner: &'a str) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::from([owner]);
    loop {
        let before = found.len();
        for object in &seen.objects {
            if found.iter().any(|owner| is_owned(object, owner)) {
                found.insert(text(object, "/metadata/uid"));
            }
        }
        if found.len() == before {
            return found;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(kind: &str, uid: &str, owner: &str, status: Value) -> Value {
        let version = if kind == "Pod" { "v1" } else { "apps/v1" };
        json!({"apiVersion": version, "kind": kind, "status": status,
            "metadata": {"name": uid, "uid": uid, "ownerReferences": [{"uid": owner}]}})
    }

    fn seen(pod: Value) -> Snapshot {
        Snapshot {
            objects: vec![
                pod,
                object("ReplicaSet", "set", "deployment", json!({})),
                object("Deployment", "deployment", "plane", json!({})),
                object("Pod", "stranger", "other", json!({"phase": "Pending"})),
            ],
        }
    }

    #[test]
    fn a_pod_of_the_cloud_holds_it_up_until_it_is_ready_or_over() {
        let ready =
            |status: &str| json!({"phase": "Running", "conditions": [{"type": "Ready", "status": status}]});
        let pod = |status: Value| object("Pod", "pod", "set", status);
        let told = not_ready(&seen(pod(ready("False"))), "plane");
        assert!(told.is_some_and(|told| told.starts_with("Pod pod: ")));
        assert_eq!(not_ready(&seen(pod(ready("True"))), "plane"), None);
        assert_eq!(not_ready(&seen(pod(json!({"phase": "Failed"}))), "plane"), None);
        let mut leaving = pod(ready("False"));
        leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert_eq!(not_ready(&seen(leaving), "plane"), None);
    }
}
