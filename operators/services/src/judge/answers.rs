//! Reads what steps report, in their termination message, about parts of a service, such as the free
//! space of each backend.

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use serde_json::{Map, Value};

/// The newest answer of the pods with these titles: by name of the part, its fields.
pub(crate) fn newest(pods: &[Pod], titles: &[&str]) -> Map<String, Value> {
    let answers = pods.iter().filter(|pod| {
        let title = pod.labels().get("app.kubernetes.io/component");
        title.is_some_and(|title| titles.contains(&title.as_str()))
    });
    let newest = answers
        .filter_map(|pod| {
            let status = pod.status.as_ref()?.container_statuses.as_ref()?.first()?;
            let ended = status.state.as_ref()?.terminated.as_ref()?;
            let said = ended.message.as_deref().filter(|_| ended.exit_code == 0)?;
            let parsed = serde_json::from_str::<Map<String, Value>>(said).ok()?;
            Some((ended.finished_at.as_ref()?.0, parsed))
        })
        .max_by_key(|(at, _)| *at);
    newest.map(|(_, said)| said).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(title: &str, at: &str, code: i32, said: &str) -> Pod {
        let ended = json!({"exitCode": code, "finishedAt": at, "message": said});
        serde_json::from_value(json!({
            "metadata": {"name": "x", "labels": {"app.kubernetes.io/component": title}},
            "status": {"containerStatuses": [{
                "name": "x", "image": "", "imageID": "", "ready": false, "restartCount": 0,
                "state": {"terminated": ended},
            }]},
        }))
        .expect("a pod")
    }

    #[test]
    fn the_newest_good_answer_counts() {
        let pods = [
            pod("room", "2026-01-01T00:00:00Z", 0, r#"{"fast": {"free": 1}}"#),
            pod("room", "2026-01-01T02:00:00Z", 0, r#"{"fast": {"free": 2}}"#),
            pod("room", "2026-01-01T03:00:00Z", 1, r#"{"fast": {"free": 3}}"#),
            pod("room", "2026-01-01T04:00:00Z", 0, "no JSON"),
            pod("other", "2026-01-01T05:00:00Z", 0, r#"{"fast": {"free": 5}}"#),
        ];
        assert_eq!(newest(&pods, &["room"])["fast"], json!({"free": 2}));
        assert!(newest(&pods[2..], &["room"]).is_empty());
        assert!(newest(&[], &["room"]).is_empty());
    }
}
