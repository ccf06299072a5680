//! Kinds without a controller: their objects get a condition that says so.

use futures::future::join_all;
use futures::stream::StreamExt;
use jiff::Timestamp;
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::runtime::watcher::{self, Event};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use crate::kinds::{self, Kind};
use crate::reconcile::watch::{events, is_unknown};
use crate::report::conditions::READY;
use crate::stop::Stop;

/// The field manager. A controller that comes later takes the condition over.
const MANAGER: &str = "c5c3-unserved";
const REASON: &str = "NotSupported";

/// Marks the objects of these kinds until the stop: `Ready` is False, and why.
pub async fn mark_unserved(client: Client, kinds: Vec<Kind>, namespace: Option<String>, stop: Stop) {
    let follow = join_all(
        kinds
            .iter()
            .map(|kind| follow(&client, kind, namespace.as_deref())),
    );
    tokio::select! {
        () = stop.requested() => {}
        _ = follow => {}
    }
}

async fn follow(client: &Client, kind: &Kind, namespace: Option<&str>) {
    let namespace = namespace.filter(|_| !kind.everywhere);
    let api = kinds::api(client, &kind.resource, namespace);
    let mut events = events(api, &kind.resource, watcher::Config::default());
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Apply(object) | Event::InitApply(object)) => mark(client, kind, &object).await,
            Ok(Event::Init | Event::InitDone | Event::Delete(_)) => {}
            Err(error) if is_unknown(&error) => {}
            Err(error) => tracing::warn!(kind = kind.resource.kind, "watch starts again: {error}"),
        }
    }
}

async fn mark(client: &Client, kind: &Kind, object: &DynamicObject) {
    let Some(body) = told(kind, object, Timestamp::now()) else {
        return;
    };
    let api = kinds::api(client, &kind.resource, object.namespace().as_deref());
    let params = PatchParams::apply(MANAGER).force();
    if let Err(error) = api
        .patch_status(&object.name_any(), &params, &Patch::Apply(&body))
        .await
    {
        let name = object.name_any();
        tracing::warn!(kind = kind.resource.kind, name, "not marked: {error}");
    }
}

/// Pure: the status to apply; none where it is said already, or where the object goes.
fn told(kind: &Kind, object: &DynamicObject, now: Timestamp) -> Option<Value> {
    if object.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let generation = object.metadata.generation;
    let conditions = object
        .data
        .pointer("/status/conditions")
        .and_then(Value::as_array);
    let ready = conditions.into_iter().flatten().find(|one| one["type"] == READY);
    let said = ready.is_some_and(|one| one["reason"] == REASON && one["status"] == "False");
    if said && ready.and_then(|one| one["observedGeneration"].as_i64()) == generation {
        return None;
    }
    let since = ready
        .filter(|_| said)
        .map(|one| one["lastTransitionTime"].clone());
    let message = format!(
        "{} has no controller yet: the object is stored, but nothing acts on it",
        kind.resource.kind
    );
    Some(json!({
        "apiVersion": kind.resource.api_version, "kind": kind.resource.kind,
        "metadata": {"name": object.name_any(), "namespace": object.namespace()},
        "status": {"conditions": [{
            "type": READY, "status": "False", "reason": REASON, "message": message,
            "observedGeneration": generation,
            "lastTransitionTime": since.unwrap_or_else(|| json!(now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())),
        }]},
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::ConfigMap;

    #[test]
    fn it_is_said_once_for_each_generation() {
        let kind = Kind::of::<ConfigMap>();
        let now = Timestamp::UNIX_EPOCH;
        let mut object = json!({"metadata": {"name": "a", "namespace": "ns", "generation": 1}});
        let told = |object: &Value| {
            let object = serde_json::from_value(object.clone()).expect("an object");
            told(&kind, &object, now)
        };
        let first = told(&object).expect("news");
        let condition = &first["status"]["conditions"][0];
        assert_eq!(
            (&condition["status"], &condition["reason"]),
            (&json!("False"), &json!("NotSupported"))
        );
        object["status"] = first["status"].clone();
        assert_eq!(told(&object), None, "nothing changed, nothing written");
        object["metadata"]["generation"] = json!(2);
        object["status"]["conditions"][0]["lastTransitionTime"] = json!("2020-01-01T00:00:00Z");
        let again = told(&object).expect("another generation");
        assert_eq!(
            again["status"]["conditions"][0]["lastTransitionTime"],
            "2020-01-01T00:00:00Z"
        );
        object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert_eq!(told(&object), None);
    }
}
