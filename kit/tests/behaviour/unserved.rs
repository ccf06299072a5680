//! Objects of a kind that nobody looks after say so.

use c5c3_kit::{Kind, Stop, mark_unserved};
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};
use test_harness::{TestCluster, eventually};

#[tokio::test(flavor = "multi_thread")]
async fn an_object_without_a_controller_says_not_supported_once_for_each_generation() {
    let cluster = TestCluster::start().await;
    // It comes after the marker, as a definition may.
    let conditions = json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"],
        "items": {"type": "object", "required": ["type"], "properties": {"type": {"type": "string"}},
            "x-kubernetes-preserve-unknown-fields": true}});
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "status": {"type": "object", "properties": {"conditions": conditions}}}});
    let gvk = GroupVersionKind::gvk("test.c5c3.io", "v1", "Kite");
    let resource = ApiResource::from_gvk_with_plural(&gvk, "kites");
    let namespace = cluster.namespace("kites").await;
    let (_stopper, stop) = Stop::channel();
    let kinds = vec![Kind::from(resource.clone())];
    tokio::spawn(mark_unserved(
        cluster.client(),
        kinds,
        Some(namespace.clone()),
        stop,
    ));
    let definition = json!({
        "metadata": {"name": "kites.test.c5c3.io"},
        "spec": {"group": "test.c5c3.io", "scope": "Namespaced",
            "names": {"kind": "Kite", "plural": "kites", "singular": "kite", "listKind": "KiteList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": schema}}]},
    });
    cluster
        .install(&serde_json::from_value(definition).expect("a definition"))
        .await;

    let kites: Api<DynamicObject> = Api::namespaced_with(cluster.client(), &namespace, &resource);
    let apply = async |colour: &str| {
        let kite = json!({"apiVersion": "test.c5c3.io/v1", "kind": "Kite", "metadata": {"name": "red"},
            "spec": {"colour": colour}});
        let made = kites
            .patch("red", &PatchParams::apply("test").force(), &Patch::Apply(&kite))
            .await;
        made.expect("made");
    };
    let told = async |generation: i64| {
        eventually("it says that it is not supported", async || {
            let kite = kites.get("red").await.ok()?;
            let ready = kite
                .data
                .pointer("/status/conditions/0")
                .cloned()
                .unwrap_or(Value::Null);
            let said = ready["reason"] == "NotSupported" && ready["status"] == "False";
            (said && ready["observedGeneration"] == generation).then_some(kite)
        })
        .await
    };
    apply("red").await;
    let first = told(1).await;
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    let later = kites.get("red").await.expect("there");
    assert_eq!(
        first.metadata.resource_version, later.metadata.resource_version,
        "said once"
    );
    apply("blue").await;
    told(2).await;
}
