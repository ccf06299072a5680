//! Kinds that a cluster does not have: not asked for, and found when they come.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::client::Body;
use serde_json::json;
use test_harness::eventually;

use crate::parade::{Lacks, World};

/// Counts requests for balloons.
fn counting(client: Client, asked: Arc<AtomicUsize>) -> Client {
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let (client, asked) = (client.clone(), asked.clone());
        async move {
            if request.uri().path().ends_with("/balloons") {
                asked.fetch_add(1, Ordering::Relaxed);
            }
            client.send(request).await
        }
    });
    Client::new(service, "default")
}

fn balloons() -> CustomResourceDefinition {
    serde_json::from_value(json!({
        "metadata": {"name": "balloons.test.c5c3.io"},
        "spec": {"group": "test.c5c3.io", "scope": "Namespaced",
            "names": {"kind": "Balloon", "plural": "balloons", "singular": "balloon", "listKind": "BalloonList"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}}}]},
    }))
    .expect("a definition")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_that_is_not_there_is_not_asked_for_until_it_comes() {
    let lacks = Lacks {
        kind: false,
        away: false,
    };
    let asked = Arc::new(AtomicUsize::new(0));
    let world = World::through(lacks, |client| counting(client, asked.clone())).await;
    world
        .parade("spring", json!({"floats": ["dragon"], "band": ""}))
        .await;
    world.until_floats(&["dragon"]).await;
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(asked.load(Ordering::Relaxed), 1);
    world.cluster.install(&balloons()).await;
    // The list, and the watch after it.
    eventually("balloons are watched", async || {
        (asked.load(Ordering::Relaxed) >= 3).then_some(())
    })
    .await;
    world.delete("spring").await;
}
