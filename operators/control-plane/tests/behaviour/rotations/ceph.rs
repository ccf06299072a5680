//! Keys of Ceph, with Rook played by the test.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use test_harness::eventually;

use super::{apply, secret};
use crate::clouds::world::World;

async fn annotate(world: &World, value: &str) {
    let patch = json!({"metadata": {"annotations": {"c5c3.io/rotate-now": value}}});
    let rotations = world.api("CredentialRotation");
    let (params, patch) = (PatchParams::default(), Patch::Merge(&patch));
    let patched = rotations.patch("ceph-cinder", &params, &patch).await;
    patched.expect("accepted");
}

/// As Rook does it: the Secret, then the phase.
async fn made(world: &World, user: &str) {
    world.until_there("CephClient", user).await;
    secret(
        world,
        &format!("rook-ceph-client-{user}"),
        "userKey",
        &format!("key of {user}"),
    )
    .await;
    world.say("CephClient", user, json!({"phase": "Ready"})).await;
}

async fn until_keyring(world: &World, users: &[&str]) {
    eventually(&format!("the keyring has {users:?}"), async || {
        let secret = world
            .secrets
            .get_opt("ceph-client-cinder")
            .await
            .expect("readable")?;
        let text = String::from_utf8(secret.data?.get("keyring")?.0.clone()).ok()?;
        let expected: String = users
            .iter()
            .map(|user| format!("[client.{user}]\n\tkey = key of {user}\n"))
            .collect();
        (text == expected).then_some(())
    })
    .await;
}

async fn until_message(world: &World, part: &str) -> Value {
    eventually(&format!("the message has {part:?}"), async || {
        let live = world.get("CredentialRotation", "ceph-cinder").await?;
        let told = live["status"]["conditions"].to_string();
        told.contains(part).then_some(live)
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_of_ceph_is_replaced_when_nobody_works_with_it_any_more() {
    let world = World::start().await;
    let caps = json!({"mon": "profile rbd", "osd": "profile rbd pool=volumes"});
    let spec = json!({
        "rotationType": "cephClient", "targetServiceUser": "cinder",
        "cephClient": {"namespace": world.namespace, "caps": caps},
        "schedule": {"intervalDays": 90, "preRotationDays": 7}, "gracePeriodDays": 0,
    });
    apply(&world, "CredentialRotation", "ceph-cinder", &spec).await;
    let first = world.until_there("CephClient", "cinder-1").await;
    assert_eq!(first["spec"], json!({"caps": caps}));
    until_message(&world, "client.cinder-1: Rook has not created it yet").await;
    made(&world, "cinder-1").await;
    until_keyring(&world, &["cinder-1"]).await;
    until_message(&world, "client.cinder-1 is in use").await;
    let writes = async || world.writes();
    test_harness::settles("the number of writes", Duration::from_secs(2), writes).await;

    let pods: Api<Pod> = Api::namespaced(world.cluster.client(), &world.namespace);
    let pod = json!({"metadata": {"name": "cinder-volume", "labels": {"ceph.c5c3.io/user.cinder-1": ""}},
        "spec": {"containers": [{"name": "volume", "image": "x"}]}});
    let pod: Pod = serde_json::from_value(pod).expect("a Pod");
    pods.create(&PostParams::default(), &pod).await.expect("created");
    annotate(&world, "leak").await;
    made(&world, "cinder-2").await;
    until_keyring(&world, &["cinder-2", "cinder-1"]).await;
    let told = until_message(&world, "cinder-1 is still used by Pod cinder-volume").await;
    assert_eq!(told["status"]["currentCredentialRef"]["name"], "cinder-2");
    assert!(!told.to_string().contains("key of"), "{told}");
    let now = DeleteParams::default().grace_period(0);
    pods.delete("cinder-volume", &now).await.expect("deleted");
    world.until_gone("CephClient", "cinder-1").await;
    until_keyring(&world, &["cinder-2"]).await;
    assert!(world.get("CephClient", "cinder-3").await.is_none(), "once");
    test_harness::settles("the number of writes", Duration::from_secs(2), async || {
        world.writes()
    })
    .await;

    let rotations = world.api("CredentialRotation");
    let deleted = rotations.delete("ceph-cinder", &DeleteParams::default()).await;
    deleted.expect("deleted");
    for (kind, name) in [
        ("CephClient", "cinder-2"),
        ("Secret", "ceph-client-cinder"),
        ("CredentialRotation", "ceph-cinder"),
    ] {
        world.until_gone(kind, name).await;
    }
}
