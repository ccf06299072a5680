//! One controller, objects in two clusters.

use kube::api::DeleteParams;
use serde_json::json;
use test_harness::eventually;

use crate::parade::{World, floats};

async fn until_away(world: &World, names: &[&str]) {
    let away = world.away();
    eventually(&format!("away are {names:?}"), async || {
        (floats(&away).await == names).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_of_another_cluster_are_made_followed_and_pruned() {
    let world = World::start().await;
    world
        .parade(
            "spring",
            json!({"floats": ["dragon", "away-crane", "away-whale"]}),
        )
        .await;
    world.until_floats(&["dragon"]).await;
    until_away(&world, &["away-crane", "away-whale"]).await;
    world.condition("spring", "Ready", "Ready").await;

    // What somebody deletes over there comes back: that cluster is watched too.
    let away = world.away();
    let first = away.get("away-crane").await.expect("there").metadata.uid;
    away.delete("away-crane", &DeleteParams::default())
        .await
        .expect("deleted");
    eventually("it is made anew", async || {
        let now = away.get_opt("away-crane").await.expect("readable")?;
        (now.metadata.uid != first).then_some(())
    })
    .await;

    world
        .parade("spring", json!({"floats": ["dragon", "away-whale"]}))
        .await;
    until_away(&world, &["away-whale"]).await;
    // No owner reference reaches over there, and yet nothing is left.
    world.delete("spring").await;
    until_away(&world, &[]).await;
}
