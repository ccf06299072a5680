//! What is not written: repetitions, and secrets.

use std::time::Duration;

use futures::future::join_all;
use test_harness::{eventually, settles, steadily, within};

use super::world::{World, spec};
use c5c3_api::c5c3::SecretAggregate;
use kube::api::{ListParams, PostParams};

const ONE: &[(&str, &[&str])] = &[("database", &[])];

async fn writes(world: &World) -> Vec<(String, u64)> {
    let all = world.cluster.writes().await;
    let ours = ["secrets", "secretaggregates", "events"];
    all.into_iter()
        .filter(|(resource, _)| ours.contains(&resource.as_str()))
        .collect()
}

fn own_writes(world: &World) -> Vec<String> {
    let text = world.metrics.render();
    text.lines()
        .filter(|line| line.starts_with("c5c3_api_writes_total"))
        .map(str::to_owned)
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_aggregates_are_merged_and_then_nothing_is_written() {
    let world = World::start().await;
    let count = 1000;
    for name in 0..20 {
        world
            .secret(&format!("source-{name}"), &[(&format!("key-{name}"), "x")])
            .await;
    }
    let names: Vec<usize> = (0..count).collect();
    for chunk in names.chunks(50) {
        let made = chunk.iter().map(|i| {
            let (a, b) = (format!("source-{}", i % 20), format!("source-{}", (i + 1) % 20));
            let object = SecretAggregate::new(
                &format!("a-{i}"),
                spec(&[(&a, &[]), (&b, &[])], &format!("t-{i}")),
            );
            let api = world.aggregates.clone();
            async move {
                api.create(&PostParams::default(), &object)
                    .await
                    .expect("created")
            }
        });
        join_all(made).await;
    }
    within(
        Duration::from_secs(300),
        Duration::from_secs(1),
        "all are Ready",
        async || {
            let list = world
                .aggregates
                .list(&ListParams::default())
                .await
                .expect("readable");
            let ready = list.items.iter().filter(|object| {
                let conditions = object.status.iter().flat_map(|status| &status.conditions);
                conditions
                    .into_iter()
                    .any(|c| c.type_ == "Ready" && c.status == "True")
            });
            (ready.count() == count).then_some(())
        },
    )
    .await;
    settles("the number of writes", Duration::from_secs(60), async || {
        tokio::time::sleep(Duration::from_secs(1)).await;
        // A server from outside serves other tests too: there our own count must do.
        let counted = if world.cluster.is_embedded() {
            writes(&world).await
        } else {
            Vec::new()
        };
        (counted, own_writes(&world))
    })
    .await;
    let text = world.metrics.render();
    assert!(
        text.contains("c5c3_queue_depth{controller=\"secret-aggregate\"} 0"),
        "{text}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_touched_source_with_the_same_content_writes_nothing() {
    let world = World::start().await;
    world.secret("database", &[("password", "x")]).await;
    world.aggregate("all", ONE, "merged").await;
    world.until("all", "Ready", "True", "Ready").await;
    let version = async || {
        let target = world
            .secrets
            .get("merged")
            .await
            .expect("there")
            .metadata
            .resource_version;
        let object = world
            .aggregates
            .get("all")
            .await
            .expect("there")
            .metadata
            .resource_version;
        (target, object)
    };
    let before = version().await;
    let mut source = world.secrets.get("database").await.expect("there");
    source.metadata.labels = Some([("touched".to_owned(), "yes".to_owned())].into());
    world
        .secrets
        .replace("database", &PostParams::default(), &source)
        .await
        .expect("replaced");
    let after = steadily("the versions", Duration::from_secs(2), version).await;
    assert_eq!(before, after);
}

#[tokio::test(flavor = "multi_thread")]
async fn events_tell_of_changes_once_and_of_no_secret() {
    let world = World::start().await;
    world.aggregate("all", ONE, "merged").await;
    world.until("all", "Ready", "False", "SecretMissing").await;
    world
        .secret("database", &[("password", "correct-horse-battery")])
        .await;
    world.until("all", "Ready", "True", "Ready").await;
    world
        .secret("database", &[("password", "correct-horse-staple")])
        .await;
    world
        .until_content("merged", &[("password", "correct-horse-staple")])
        .await;
    world.delete_secret("database").await;
    world.until("all", "Ready", "False", "SecretMissing").await;
    let reasons = eventually("three events", async || {
        let events = world.events("all").await;
        let reasons: Vec<_> = events.iter().filter_map(|e| e.reason.clone()).collect();
        (reasons.len() >= 3).then_some(reasons)
    })
    .await;
    assert_eq!(reasons, ["SecretMissing", "Ready", "SecretMissing"]);
    let object = world.aggregates.get("all").await.expect("there");
    for text in [
        serde_json::to_string(&object).expect("JSON"),
        serde_json::to_string(&world.events("all").await).expect("JSON"),
        world.metrics.render(),
    ] {
        assert!(!text.contains("correct-horse"), "a secret value got out: {text}");
    }
}
