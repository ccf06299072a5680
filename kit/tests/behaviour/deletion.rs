//! Finalizers: held until the outside is clean, but not for ever.

use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, DeleteParams, ListParams};
use serde_json::json;
use test_harness::eventually;

use crate::parade::World;

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
