//! What is made, kept and pruned.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ObjectMeta, PostParams};
use serde_json::json;
use test_harness::settles;

use crate::parade::World;

#[tokio::test(flavor = "multi_thread")]
async fn wanted_objects_are_made_and_unwanted_ones_pruned() {
    let world = World::start().await;
    let theirs = ConfigMap {
        metadata: ObjectMeta {
            name: Some("theirs".into()),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    };
    world
        .maps
        .create(&PostParams::default(), &theirs)
        .await
        .expect("created");
    world
        .parade("spring", json!({"floats": ["dragon", "whale"]}))
        .await;
    world.until_floats(&["dragon", "whale"]).await;
    world
        .parade("spring", json!({"floats": ["whale", "crane"]}))
        .await;
    world.until_floats(&["crane", "whale"]).await;
    assert!(world.maps.get_opt("theirs").await.expect("readable").is_some());
    let ready = world.condition("spring", "Ready", "Ready").await;
    assert_eq!(ready.status, "True", "a part that is not required counts as true");
    world.condition("spring", "BandPlaying", "NotRequired").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_lasts_stays_without_its_owner_and_is_taken_over_by_the_next() {
    let world = World::start().await;
    world
        .parade("spring", json!({"floats": ["dragon", "monument"]}))
        .await;
    world.until_floats(&["dragon", "monument"]).await;
    let first = world.maps.get("monument").await.expect("there").metadata;
    assert_eq!(first.owner_references, None);

    world
        .parade("spring", json!({"floats": ["dragon", "whale"]}))
        .await;
    world.until_floats(&["dragon", "monument", "whale"]).await;
    world.delete("spring").await;
    world.until_floats(&["monument"]).await;

    world
        .parade("spring", json!({"floats": ["crane", "monument"]}))
        .await;
    world.condition("spring", "Ready", "Ready").await;
    world.until_floats(&["crane", "monument"]).await;
    let second = world.maps.get("monument").await.expect("there").metadata;
    assert_eq!(
        (first.uid, first.resource_version),
        (second.uid, second.resource_version),
        "the same object, not even written"
    );
    // It is not for the taking by others.
    world.parade("autumn", json!({"floats": ["monument"]})).await;
    world.condition("autumn", "Ready", "NotOwned").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn passes_that_find_nothing_to_do_write_nothing() {
    let world = World::start().await;
    world
        .parade("spring", json!({"floats": ["dragon"], "band": "brass"}))
        .await;
    world.condition("spring", "Ready", "Ready").await;
    // The controller asks to look again twice a second: passes go on, writes do not.
    let counted = |prefix: &str| {
        let text = world.metrics.render();
        text.lines()
            .filter(|l| l.starts_with(prefix))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let passes = counted("c5c3_reconcile_total");
    settles("our writes", Duration::from_secs(3), async || {
        counted("c5c3_api_writes_total")
    })
    .await;
    assert_ne!(
        passes,
        counted("c5c3_reconcile_total"),
        "there were passes in between"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_of_somebody_else_stops_the_whole_decision() {
    let world = World::start().await;
    let theirs = ConfigMap {
        metadata: ObjectMeta {
            name: Some("whale".into()),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    };
    world
        .maps
        .create(&PostParams::default(), &theirs)
        .await
        .expect("created");
    world
        .parade("spring", json!({"floats": ["dragon", "whale"]}))
        .await;
    let refused = world.condition("spring", "Ready", "NotOwned").await;
    assert!(refused.message.contains("ConfigMap"), "{refused:?}");
    assert_eq!(world.floats().await, Vec::<String>::new());
    assert!(
        world
            .maps
            .get("whale")
            .await
            .expect("there")
            .metadata
            .owner_references
            .is_none()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_of_what_we_made_is_not_pruned() {
    let world = World::start().await;
    world.parade("spring", json!({"floats": ["dragon"]})).await;
    world.until_floats(&["dragon"]).await;
    let mut copy = world.maps.get("dragon").await.expect("there");
    copy.metadata = ObjectMeta {
        name: Some("backup".into()),
        labels: copy.metadata.labels,
        annotations: copy.metadata.annotations,
        ..ObjectMeta::default()
    };
    world
        .maps
        .create(&PostParams::default(), &copy)
        .await
        .expect("created");
    world.parade("spring", json!({"floats": ["whale"]})).await;
    world.until_floats(&["backup", "whale"]).await;
    world.condition("spring", "Ready", "Ready").await;
}
