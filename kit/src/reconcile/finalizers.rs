//! Finalizers of an object: whether ours is there, how the list is changed, and when time is up.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, Patch, PatchOperation, TestOperation};
use serde_json::{Value, json};

pub(crate) fn overdue(live: &Value, within: Duration, now: Timestamp) -> bool {
    let since = live
        .pointer("/metadata/deletionTimestamp")
        .and_then(Value::as_str)
        .and_then(|text| text.parse::<Timestamp>().ok());
    since.is_some_and(|since| is_over(since, within, now))
}

pub(crate) fn is_over(since: Timestamp, within: Duration, now: Timestamp) -> bool {
    let within = SignedDuration::try_from(within).unwrap_or(SignedDuration::MAX);
    now.duration_since(since) >= within
}

fn finalizers(live: &Value) -> Vec<String> {
    let list = live.pointer("/metadata/finalizers").and_then(Value::as_array);
    list.into_iter()
        .flatten()
        .filter_map(|name| name.as_str().map(str::to_owned))
        .collect()
}

pub(crate) fn has_finalizer(live: &Value, name: &str) -> bool {
    finalizers(live).iter().any(|f| f == name)
}

/// Tests the version first, so that a finalizer that somebody else just added is not lost.
pub(crate) fn with_finalizers(live: &Value, change: impl FnOnce(&mut Vec<String>)) -> Patch {
    let mut list = finalizers(live);
    change(&mut list);
    let version = live
        .pointer("/metadata/resourceVersion")
        .cloned()
        .unwrap_or_default();
    Patch(vec![
        PatchOperation::Test(TestOperation {
            path: PointerBuf::from_tokens(["metadata", "resourceVersion"]),
            value: version,
        }),
        PatchOperation::Add(AddOperation {
            path: PointerBuf::from_tokens(["metadata", "finalizers"]),
            value: json!(list),
        }),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finalizer_is_overdue_after_its_time() {
        let live = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
        let at = |text: &str| text.parse::<Timestamp>().expect("a time");
        let hour = Duration::from_secs(3600);
        assert!(!overdue(&live, hour, at("2026-01-01T00:59:59Z")));
        assert!(overdue(&live, hour, at("2026-01-01T01:00:00Z")));
        assert!(!overdue(&json!({}), hour, at("2026-01-01T01:00:00Z")));
    }

    #[test]
    fn finalizers_of_others_stay() {
        let live = json!({"metadata": {"resourceVersion": "7", "finalizers": ["other", "ours"]}});
        let patch = with_finalizers(&live, |list| list.retain(|f| f != "ours"));
        let mut changed = live;
        json_patch::patch(&mut changed, &patch).expect("applies");
        assert_eq!(changed["metadata"]["finalizers"], json!(["other"]));
    }
}
