//! Where the content comes from, and what is said when it does not come.

use std::time::Duration;

use test_harness::steadily;

use super::world::World;

const BOTH: &[(&str, &[&str])] = &[("database", &[]), ("cache", &[])];

#[tokio::test(flavor = "multi_thread")]
async fn merges_all_keys_of_all_sources_and_reports_it() {
    let world = World::start().await;
    world
        .secret("database", &[("user", "nova"), ("password", "hunter2")])
        .await;
    world.secret("cache", &[("servers", "a:11211")]).await;
    world.aggregate("all", BOTH, "merged").await;
    world
        .until_content(
            "merged",
            &[("user", "nova"), ("password", "hunter2"), ("servers", "a:11211")],
        )
        .await;
    world
        .until("all", "SourcesResolved", "True", "AllSourcesAvailable")
        .await;
    world.until("all", "Ready", "True", "Ready").await;
    let object = world.aggregates.get("all").await.expect("readable");
    let status = object.status.expect("a status");
    assert_eq!(status.observed_generation, object.metadata.generation);
    assert!(status.last_aggregated.is_some());
    let types: Vec<_> = status.conditions.iter().map(|c| c.type_.as_str()).collect();
    assert_eq!(types, ["Ready", "SourcesResolved"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn takes_only_the_listed_keys() {
    let world = World::start().await;
    world
        .secret("database", &[("user", "nova"), ("password", "x")])
        .await;
    world.secret("cache", &[("user", "memcached")]).await;
    world
        .aggregate("some", &[("database", &["password"]), ("cache", &[])], "merged")
        .await;
    world
        .until_content("merged", &[("password", "x"), ("user", "memcached")])
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn follows_a_changed_source_and_a_key_that_goes() {
    let world = World::start().await;
    world
        .secret("database", &[("password", "old"), ("extra", "1")])
        .await;
    world.secret("cache", &[("servers", "a")]).await;
    world.aggregate("all", BOTH, "merged").await;
    world
        .until_content("merged", &[("password", "old"), ("extra", "1"), ("servers", "a")])
        .await;
    world.secret("database", &[("password", "new")]).await;
    world
        .until_content("merged", &[("password", "new"), ("servers", "a")])
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn follows_a_changed_spec() {
    let world = World::start().await;
    world.secret("database", &[("password", "x")]).await;
    world.secret("cache", &[("servers", "a")]).await;
    world.aggregate("all", &[("database", &[])], "merged").await;
    world.until_content("merged", &[("password", "x")]).await;
    world.aggregate("all", BOTH, "merged").await;
    world
        .until_content("merged", &[("password", "x"), ("servers", "a")])
        .await;
    let ready = world.until("all", "Ready", "True", "Ready").await;
    assert_eq!(ready.observed_generation, Some(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_key_in_two_sources_is_an_error_that_names_both() {
    let world = World::start().await;
    world.secret("database", &[("password", "one")]).await;
    world.secret("cache", &[("servers", "a")]).await;
    world.aggregate("all", BOTH, "merged").await;
    world
        .until_content("merged", &[("password", "one"), ("servers", "a")])
        .await;
    world.secret("cache", &[("password", "two")]).await;
    let resolved = world
        .until("all", "SourcesResolved", "False", "DuplicateKey")
        .await;
    assert!(
        resolved
            .message
            .contains("key password is in Secret database and in Secret cache"),
        "{resolved:?}"
    );
    let ready = world.until("all", "Ready", "False", "DuplicateKey").await;
    assert_eq!(ready.message, resolved.message, "the blocker is named at the top");
    let kept = steadily("the target", Duration::from_secs(1), async || {
        world.content("merged").await
    })
    .await;
    assert_eq!(kept.expect("still there")["password"], "one");
    world.secret("cache", &[("servers", "b")]).await;
    world
        .until_content("merged", &[("password", "one"), ("servers", "b")])
        .await;
    world.until("all", "Ready", "True", "Ready").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_sources_and_missing_keys_are_named() {
    let world = World::start().await;
    world.secret("database", &[("user", "nova")]).await;
    world
        .aggregate(
            "all",
            &[("database", &["user", "password"]), ("cache", &[])],
            "merged",
        )
        .await;
    let missing = world
        .until("all", "SourcesResolved", "False", "SecretMissing")
        .await;
    assert!(missing.message.contains("Secret cache"), "{missing:?}");
    assert_eq!(world.content("merged").await, None);
    world.secret("cache", &[("servers", "a")]).await;
    let missing = world.until("all", "SourcesResolved", "False", "KeyMissing").await;
    assert!(
        missing.message.contains("Secret database has no key password"),
        "{missing:?}"
    );
    world
        .secret("database", &[("user", "nova"), ("password", "x")])
        .await;
    world
        .until_content("merged", &[("user", "nova"), ("password", "x"), ("servers", "a")])
        .await;
    world.until("all", "Ready", "True", "Ready").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_goes_is_named_and_one_that_comes_back_is_taken() {
    let world = World::start().await;
    world.secret("database", &[("password", "old")]).await;
    world.secret("cache", &[("servers", "a")]).await;
    world.aggregate("all", BOTH, "merged").await;
    world
        .until_content("merged", &[("password", "old"), ("servers", "a")])
        .await;
    world.delete_secret("database").await;
    let missing = world.until("all", "Ready", "False", "SecretMissing").await;
    assert!(missing.message.contains("Secret database"), "{missing:?}");
    assert_eq!(world.content("merged").await.expect("kept")["password"], "old");
    world.secret("database", &[("password", "new")]).await;
    world
        .until_content("merged", &[("password", "new"), ("servers", "a")])
        .await;
    world.until("all", "Ready", "True", "Ready").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_aggregate_may_take_from_the_target_of_another() {
    let world = World::start().await;
    world.secret("database", &[("password", "one")]).await;
    world.secret("cache", &[("servers", "a")]).await;
    world
        .aggregate(
            "second",
            &[("first-merged", &[]), ("cache", &[])],
            "second-merged",
        )
        .await;
    world
        .aggregate("first", &[("database", &[])], "first-merged")
        .await;
    world
        .until_content("second-merged", &[("password", "one"), ("servers", "a")])
        .await;
    world.secret("database", &[("password", "two")]).await;
    world
        .until_content("second-merged", &[("password", "two"), ("servers", "a")])
        .await;
}
