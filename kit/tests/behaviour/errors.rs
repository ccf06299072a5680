//! What happens when something goes wrong.

use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, ListParams};
use serde_json::json;
use test_harness::eventually;

use crate::parade::{Lacks, World};

#[tokio::test(flavor = "multi_thread")]
async fn a_malformed_object_says_so_and_harms_no_other() {
    let world = World::start().await;
    world.parade("broken", json!({"floats": "not a list"})).await;
    world.parade("whole", json!({"floats": ["dragon"]})).await;
    let malformed = world.condition("broken", "Ready", "Malformed").await;
    assert_eq!(malformed.status, "False");
    assert!(malformed.message.contains("sequence"), "{malformed:?}");
    world.condition("broken", "FloatsReady", "NotReached").await;
    world.until_floats(&["dragon"]).await;
    world.parade("broken", json!({"floats": ["whale"]})).await;
    world.until_floats(&["dragon", "whale"]).await;
    world.condition("broken", "Ready", "Ready").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_is_an_error_of_one_object() {
    let world = World::start().await;
    world
        .parade("cursed", json!({"floats": [], "band": "panic"}))
        .await;
    world.parade("whole", json!({"floats": ["dragon"]})).await;
    world.until_floats(&["dragon"]).await;
    world.condition("cursed", "Ready", "Panicked").await;
    eventually("the panic is counted, and tried again", async || {
        let text = world.metrics.render();
        let line = "c5c3_reconcile_errors_total{controller=\"parade\",reason=\"Panicked\"} ";
        let count = text
            .lines()
            .find_map(|l| l.strip_prefix(line)?.parse::<u32>().ok())?;
        (count >= 2).then_some(())
    })
    .await;
    world.parade("cursed", json!({"floats": ["whale"]})).await;
    world.until_floats(&["dragon", "whale"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_action_is_a_condition_a_metric_and_no_reason_to_lose_the_rest() {
    let world = World::start().await;
    world
        .parade("spring", json!({"floats": ["dragon"], "band": "drunk"}))
        .await;
    let ready = world.condition("spring", "Ready", "DrunkBand").await;
    assert_eq!(ready.message, "the band drunk is drunk");
    let band = world.condition("spring", "BandPlaying", "DrunkBand").await;
    assert_eq!(band.status, "False", "a report cannot hide an error");
    world.condition("spring", "FloatsReady", "Built").await;
    world.until_floats(&["dragon"]).await;
    // Errors are counted when the pass has ended, after its conditions are written.
    eventually("the error is counted", async || {
        let text = world.metrics.render();
        text.contains("reason=\"DrunkBand\"").then_some(())
    })
    .await;
    let object = world.parades.get("spring").await.expect("there");
    assert_eq!(object.data["status"]["floats"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_cannot_be_listed_holds_up_the_last_pass_alone() {
    let world = World::lacking(Lacks {
        kind: false,
        away: true,
    })
    .await;
    world.parade("spring", json!({"floats": ["dragon"]})).await;
    world.until_floats(&["dragon"]).await;
    world.condition("spring", "Ready", "Ready").await;
    world.delete("spring").await;
    // It is not known what is left over there, and that is said.
    let events: Api<Event> = Api::namespaced(world.cluster.client(), &world.namespace);
    let note = eventually("the event", async || {
        let list = events.list(&ListParams::default()).await.expect("readable");
        let left = |event: &Event| event.reason.as_deref() == Some("LeftBehind");
        list.items.into_iter().find(left)?.note
    })
    .await;
    assert!(note.contains("ConfigMap in cluster away"), "{note}");
}
