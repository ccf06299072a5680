//! From one release to the next.

use c5c3_api::c5c3::UpdatePhase;
use serde_json::{Value, json};
use test_harness::eventually;

use super::world::World;

async fn tag(world: &World, kind: &str, name: &str) -> Value {
    world.until_there(kind, name).await["spec"]["image"]["tag"].clone()
}

async fn until_phase(world: &World, phase: UpdatePhase) {
    eventually(&format!("the phase is {phase:?}"), async || {
        (world.status().await.update_phase == Some(phase)).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn keystone_is_updated_before_the_others() {
    let world = World::start().await;
    world.apply("cloud", &json!({})).await;
    world.bring_up().await;
    let old = tag(&world, "Glance", "glance").await;
    world
        .apply("cloud", &json!({"spec": {"openStackRelease": "2026.1"}}))
        .await;
    until_phase(&world, UpdatePhase::UpdatingKeystone).await;
    assert_ne!(tag(&world, "Keystone", "keystone").await, json!("28.1.0"));
    assert_eq!(tag(&world, "Glance", "glance").await, old);
    world.ready("Keystone", "keystone").await;
    until_phase(&world, UpdatePhase::UpdatingServices).await;
    eventually("Glance gets its new image", async || {
        (tag(&world, "Glance", "glance").await != old).then_some(())
    })
    .await;
    assert_eq!(world.status().await.installed_release.as_deref(), Some("2025.2"));
    // Half way there is no way back.
    world
        .apply("cloud", &json!({"spec": {"openStackRelease": "2025.2"}}))
        .await;
    until_phase(&world, UpdatePhase::Validating).await;
    let refused = world.until("Ready", "False", "RestoreNeeded").await;
    assert!(
        refused.message.contains("restore a backup"),
        "{}",
        refused.message
    );
    world
        .apply("cloud", &json!({"spec": {"openStackRelease": "2026.1"}}))
        .await;
    let refuse = Err("ask image through its public endpoint: 503".to_owned());
    *world.answers.0.lock().expect("whole") = refuse;
    world.ready("Glance", "glance").await;
    world.ready("Placement", "placement").await;
    // Every part is Ready, and yet the cloud does not serve.
    until_phase(&world, UpdatePhase::Verifying).await;
    eventually("the refusal is told", async || {
        let unserved = world.until("Ready", "False", "Progressing").await;
        let told = unserved.message.contains("image through its public endpoint");
        told.then_some(())
    })
    .await;
    assert_eq!(world.status().await.installed_release.as_deref(), Some("2025.2"));
    *world.answers.0.lock().expect("whole") = Ok(());
    until_phase(&world, UpdatePhase::Complete).await;
    assert_eq!(world.status().await.installed_release.as_deref(), Some("2026.1"));
    world.until("Ready", "True", "Ready").await;
}
