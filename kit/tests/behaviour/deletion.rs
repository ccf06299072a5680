//! Finalizers: held until the outside is clean, but not forever.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use k8s_openapi::api::events::v1::Event;
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams};
use kube::client::Body;
use serde_json::json;
use test_harness::eventually;

use crate::parade::{Lacks, World};

#[tokio::test(flavor = "multi_thread")]
async fn the_outside_is_cleaned_before_the_object_goes() {
    let world = World::start().await;
    world
        .parade("spring", json!({"floats": ["dragon"], "band": "brass"}))
        .await;
    world.condition("spring", "Ready", "Ready").await;
    assert!(world.street.playing().contains("brass"));
    world.delete("spring").await;
    assert!(world.street.playing().is_empty());
    world.until_floats(&[]).await;
    let text = world.metrics.render();
    assert!(!text.contains("reconcile_errors_total{"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_cannot_be_cleaned_goes_in_time_and_names_what_it_leaves() {
    let world = World::start().await;
    world
        .parade("spring", json!({"floats": [], "band": "stubborn"}))
        .await;
    world.condition("spring", "Ready", "Ready").await;
    world
        .parades
        .delete("spring", &DeleteParams::default())
        .await
        .expect("deleted");
    let deleting = world.condition("spring", "Ready", "Deleting").await;
    assert_eq!(
        (deleting.status.as_str(), deleting.message.as_str()),
        ("False", "still there: band stubborn")
    );
    eventually("spring is gone", async || {
        world
            .parades
            .get_opt("spring")
            .await
            .expect("readable")
            .is_none()
            .then_some(())
    })
    .await;
    let events: Api<Event> = Api::namespaced(world.cluster.client(), &world.namespace);
    let note = eventually("the event", async || {
        let list = events.list(&ListParams::default()).await.expect("readable");
        list.items
            .into_iter()
            .find(|e| e.reason.as_deref() == Some("LeftBehind"))?
            .note
    })
    .await;
    assert!(note.contains("band stubborn"), "{note}");
}

/// Answers writes of parades as a server does to whom they are forbidden; their status is free.
fn held_back(client: Client, forbidden: Arc<AtomicBool>) -> Client {
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let (client, forbidden) = (client.clone(), forbidden.clone());
        async move {
            let path = request.uri().path();
            let finalizers = path.contains("/parades/") && !path.ends_with("/status");
            if request.method() != http::Method::PATCH || !finalizers || !forbidden.load(Ordering::Relaxed) {
                return client.send(request).await;
            }
            let refusal = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403,
                "reason": "Forbidden", "message": "parades are not yours to patch"});
            let mut answer = http::Response::new(Body::from(refusal.to_string().into_bytes()));
            *answer.status_mut() = http::StatusCode::FORBIDDEN;
            Ok(answer)
        }
    });
    Client::new(service, "default")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_finalizer_that_cannot_be_written_shows_on_the_object() {
    let lacks = Lacks {
        kind: false,
        away: false,
    };
    let forbidden = Arc::new(AtomicBool::new(true));
    let world = World::through(lacks, |client| held_back(client, forbidden.clone())).await;
    world
        .parade("spring", json!({"floats": ["dragon"], "band": "brass"}))
        .await;
    let stuck = world.condition("spring", "Ready", "Unwritable").await;
    assert_eq!(stuck.message, "cannot write: parades are not yours to patch");
    assert!(
        world.street.playing().is_empty(),
        "nothing outside without a finalizer"
    );

    forbidden.store(false, Ordering::Relaxed);
    world.condition("spring", "Ready", "Ready").await;
    forbidden.store(true, Ordering::Relaxed);
    let deleted = world.parades.delete("spring", &DeleteParams::default()).await;
    deleted.expect("deleted");
    let stuck = world.condition("spring", "Ready", "Deleting").await;
    assert_eq!(
        stuck.message,
        "nothing is left; the finalizer stays: cannot write: parades are not yours to patch"
    );
    forbidden.store(false, Ordering::Relaxed);
    eventually("spring is gone", async || {
        let object = world.parades.get_opt("spring").await.expect("readable");
        object.is_none().then_some(())
    })
    .await;
}
