//! What becomes of the target.

use std::io::Write as _;
use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use serde_json::json;
use test_harness::{eventually, steadily};

use super::world::World;

const ONE: &[(&str, &[&str])] = &[("database", &[])];

#[tokio::test(flavor = "multi_thread")]
async fn the_target_belongs_to_its_aggregate() {
    let world = World::start().await;
    world.secret("database", &[("password", "x")]).await;
    world.aggregate("all", ONE, "merged").await;
    world.until_content("merged", &[("password", "x")]).await;
    let target = world.secrets.get("merged").await.expect("there");
    let owners = target.metadata.owner_references.expect("owners");
    let aggregate = world.aggregates.get("all").await.expect("there");
    assert_eq!(owners.len(), 1);
    assert_eq!(Some(&owners[0].uid), aggregate.metadata.uid.as_ref());
    assert_eq!(owners[0].controller, Some(true));
    assert_eq!(
        target.metadata.labels.expect("labels")["app.kubernetes.io/managed-by"],
        "c5c3"
    );
    assert_eq!(target.type_.as_deref(), Some("Opaque"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_of_somebody_else_is_refused_and_taken_once_it_is_gone() {
    let world = World::start().await;
    world.secret("merged", &[("theirs", "1")]).await;
    world.secret("database", &[("password", "x")]).await;
    world.aggregate("all", ONE, "merged").await;
    let refused = world.until("all", "Ready", "False", "NotOwned").await;
    assert!(refused.message.contains("merged"), "{refused:?}");
    let left = steadily("the foreign Secret", Duration::from_secs(1), async || {
        world.content("merged").await
    });
    assert_eq!(left.await.expect("there").keys().collect::<Vec<_>>(), ["theirs"]);
    world.delete_secret("merged").await;
    world.until_content("merged", &[("password", "x")]).await;
    world.until("all", "Ready", "True", "Ready").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_aggregates_do_not_share_a_target() {
    let world = World::start().await;
    world.secret("database", &[("password", "x")]).await;
    world.secret("cache", &[("servers", "a")]).await;
    world.aggregate("first", ONE, "merged").await;
    world.until_content("merged", &[("password", "x")]).await;
    world.aggregate("second", &[("cache", &[])], "merged").await;
    let refused = world.until("second", "Ready", "False", "NotOwned").await;
    assert!(refused.message.contains("SecretAggregate first"), "{refused:?}");
    world.until_content("merged", &[("password", "x")]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_target_name_removes_the_old_target() {
    let world = World::start().await;
    world.secret("database", &[("password", "x")]).await;
    world.aggregate("all", ONE, "merged").await;
    world.until_content("merged", &[("password", "x")]).await;
    world.aggregate("all", ONE, "renamed").await;
    world.until_content("renamed", &[("password", "x")]).await;
    eventually("the old target is gone", async || {
        world.content("merged").await.is_none().then_some(())
    })
    .await;
    assert!(
        world.content("database").await.is_some(),
        "sources are not ours to prune"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_target_goes_with_its_aggregate() {
    let world = World::start().await;
    if !world.cluster.is_embedded() {
        // Garbage is collected by the controller manager, and an API server alone has none.
        let _ = writeln!(std::io::stderr(), "skipped: this server collects no garbage");
        return;
    }
    world.secret("database", &[("password", "x")]).await;
    world.aggregate("all", ONE, "merged").await;
    world.until_content("merged", &[("password", "x")]).await;
    let params = DeleteParams::default();
    world.aggregates.delete("all", &params).await.expect("deleted");
    eventually("the target is gone", async || {
        world.content("merged").await.is_none().then_some(())
    })
    .await;
    // Nobody makes it again, and what it was made of stays.
    steadily("no target", Duration::from_secs(1), async || {
        world.content("merged").await
    })
    .await;
    assert!(world.content("merged").await.is_none());
    assert!(world.content("database").await.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_that_is_edited_or_deleted_is_restored() {
    let world = World::start().await;
    world.secret("database", &[("password", "x")]).await;
    world.aggregate("all", ONE, "merged").await;
    world.until_content("merged", &[("password", "x")]).await;
    let edit = json!({"stringData": {"password": "edited"}});
    patch(&world.secrets, "merged", &edit).await;
    world.until_content("merged", &[("password", "x")]).await;
    world.delete_secret("merged").await;
    world.until_content("merged", &[("password", "x")]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_others_add_to_the_target_stays() {
    let world = World::start().await;
    world.secret("database", &[("password", "x")]).await;
    world.aggregate("all", ONE, "merged").await;
    world.until_content("merged", &[("password", "x")]).await;
    patch(
        &world.secrets,
        "merged",
        &json!({"metadata": {"labels": {"theirs": "1"}}}),
    )
    .await;
    world.secret("database", &[("password", "y")]).await;
    world.until_content("merged", &[("password", "y")]).await;
    let target = world.secrets.get("merged").await.expect("there");
    assert_eq!(target.metadata.labels.expect("labels")["theirs"], "1");
}

async fn patch(api: &Api<Secret>, name: &str, patch: &serde_json::Value) {
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch))
        .await
        .expect("patched");
}
