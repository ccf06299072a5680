//! What happens to an object while a pass over it is under way.

use futures::TryStreamExt;
use futures::stream::StreamExt;
use kube::ResourceExt;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use serde_json::json;
use test_harness::eventually;

use crate::parade::World;

#[tokio::test(flavor = "multi_thread")]
async fn a_status_lands_on_no_other_object_of_the_same_name() {
    let world = World::start().await;
    world
        .parade("spring", json!({"floats": ["dragon"], "band": "late"}))
        .await;
    eventually("the band is on its way", async || {
        world.street.playing().contains("on its way").then_some(())
    })
    .await;
    let deleted = world.parades.delete("spring", &DeleteParams::default()).await;
    deleted.expect("deleted");
    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    let params = PatchParams::default();
    let freed = world.parades.patch("spring", &params, &free).await;
    freed.expect("let go");
    let object = json!({"apiVersion": "test.c5c3.io/v1", "kind": "Parade",
        "metadata": {"name": "spring"}, "spec": {"floats": ["whale", "crane"]}});
    let object: DynamicObject = serde_json::from_value(object).expect("an object");
    let anew = world.parades.create(&PostParams::default(), &object).await;
    let version = anew.expect("made anew").resource_version().expect("a version");

    let params = WatchParams::default().fields("metadata.name=spring");
    let events = world.parades.watch(&params, &version).await.expect("a watch");
    let mut events = events.boxed();
    loop {
        let event = events.try_next().await.expect("readable").expect("no end");
        let WatchEvent::Modified(object) = event else {
            continue;
        };
        match object.data.pointer("/status/floats") {
            Some(floats) if floats == 2 => break,
            Some(floats) => panic!("{floats} floats had the one before"),
            None => {}
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_done_is_told_whoever_wrote_meanwhile() {
    let world = World::start().await;
    world
        .parade("spring", json!({"floats": [], "band": "late"}))
        .await;
    eventually("the band is on its way", async || {
        world.street.playing().contains("on its way").then_some(())
    })
    .await;
    let weather = json!({"apiVersion": "test.c5c3.io/v1", "kind": "Parade",
        "metadata": {"name": "spring"}, "status": {"weather": "rain"}});
    let params = PatchParams::apply("weather");
    let written = world
        .parades
        .patch_status("spring", &params, &Patch::Apply(weather))
        .await;
    written.expect("written");
    // Once it plays, no later pass knows who began.
    eventually("the beginning is told", async || {
        let object = world.parades.get("spring").await.ok()?;
        let status = &object.data["status"];
        (status["begun"] == 1 && status["weather"] == "rain").then_some(())
    })
    .await;
    world.stop().await;
}
