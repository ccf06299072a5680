//! What is turned off, and what is deleted.

use std::time::Duration;

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::api::{Api, ListParams, PostParams};
use serde_json::json;
use test_harness::eventually;

use super::world::World;

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_is_turned_off_goes_in_reverse_order() {
    let world = World::start().await;
    world.apply("cloud", &json!({})).await;
    world.bring_up().await;
    world
        .finalizers("Endpoint", "glance-public", &["test/held"])
        .await;
    world
        .apply(
            "cloud",
            &json!({"spec": {"services": {"glance": {"enabled": false}}}}),
        )
        .await;
    for (kind, name) in [
        ("Glance", "glance"),
        ("CredentialRotation", "glance"),
        ("Secret", "glance-login"),
        ("Endpoint", "glance-admin"),
        ("RoleAssignment", "glance-admin"),
    ] {
        world.until_gone(kind, name).await;
    }
    // K-ORC still deletes the endpoint: what it belongs to has to stay.
    assert!(world.get("Service", "glance").await.is_some() && world.get("User", "glance").await.is_some());
    assert!(world.get("Secret", "glance-service-user").await.is_some());
    world.finalizers("Endpoint", "glance-public", &[]).await;
    for (kind, name) in [
        ("Service", "glance"),
        ("User", "glance"),
        ("Secret", "glance-service-user"),
    ] {
        world.until_gone(kind, name).await;
    }
    world.until("Ready", "True", "Ready").await;
    assert!(!world.status().await.services.contains_key("glance"));
    assert!(world.get("User", "placement").await.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cloud_that_is_deleted_leaves_nothing_but_its_volumes() {
    let world = World::start().await;
    world.apply("cloud", &json!({})).await;
    world.bring_up().await;
    claim(&world).await;
    world.finalizers("User", "glance", &["test/held"]).await;
    world.delete("cloud").await;
    world.until_gone("Glance", "glance").await;
    world.until_gone("CredentialRotation", "glance").await;
    world.until_gone("Endpoint", "glance-public").await;
    // Keystone runs as long as something in it is to be deleted.
    assert!(
        world.get("Keystone", "keystone").await.is_some() && world.get("Project", "service").await.is_some()
    );
    let ready = eventually("it tells what is left", async || {
        let cloud = world.clouds.get("cloud").await.expect("there");
        let ready = cloud
            .status?
            .conditions
            .into_iter()
            .find(|c| c.type_ == "Ready")?;
        ready
            .message
            .contains("User.openstack.k-orc.cloud")
            .then_some(ready)
    })
    .await;
    assert_eq!(ready.reason, "Deleting");
    world.finalizers("User", "glance", &[]).await;
    eventually("the cloud is gone", async || {
        world
            .clouds
            .get_opt("cloud")
            .await
            .expect("readable")
            .is_none()
            .then_some(())
    })
    .await;
    for kind in [
        "Keystone",
        "Placement",
        "MariaDB",
        "Memcached",
        "Domain",
        "Role",
        "User",
        "RoleAssignment",
        "CredentialRotation",
        "ApplicationCredential",
    ] {
        let left = world
            .api(kind)
            .list(&ListParams::default())
            .await
            .expect("readable");
        assert!(left.items.is_empty(), "{kind} is left");
    }
    let secrets = world
        .secrets
        .list(&ListParams::default())
        .await
        .expect("readable");
    let left: Vec<_> = secrets
        .items
        .iter()
        .filter_map(|secret| secret.metadata.name.as_deref())
        .collect();
    assert_eq!(left, ["mariadb-root"], "the key to the volumes is kept with them");
    assert!(
        world
            .get("PersistentVolumeClaim", "storage-mariadb-0")
            .await
            .is_some(),
        "volumes are kept"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn volumes_go_when_that_is_asked_for() {
    let world = World::start().await;
    world
        .apply(
            "cloud",
            &json!({"metadata": {"annotations": {"c5c3.io/delete-volumes": "true"}}}),
        )
        .await;
    world.until_there("Keystone", "keystone").await;
    claim(&world).await;
    world.delete("cloud").await;
    eventually("the cloud is gone", async || {
        world
            .clouds
            .get_opt("cloud")
            .await
            .expect("readable")
            .is_none()
            .then_some(())
    })
    .await;
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(world.cluster.client(), &world.namespace);
    let left = claims.list(&ListParams::default()).await.expect("readable");
    let names: Vec<_> = left
        .items
        .iter()
        .filter_map(|claim| claim.metadata.name.clone())
        .collect();
    assert_eq!(names, ["somebody-elses"]);
    assert!(
        world.get("Secret", "mariadb-root").await.is_none(),
        "the key goes with the volume"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_waited_takes_no_volume_and_gets_its_turn_at_once() {
    let world = World::start().await;
    world.apply("cloud", &json!({})).await;
    world.until_there("Keystone", "keystone").await;
    claim(&world).await;
    let greedy = json!({"metadata": {"annotations": {"c5c3.io/delete-volumes": "true"}}});
    world.apply("late", &greedy).await;
    world.until_of("late", "Ready", "False", "Conflict").await;
    world.delete("late").await;
    let gone = async |name: &str| {
        eventually(&format!("{name} is gone"), async || {
            let found = world.clouds.get_opt(name).await.expect("readable");
            found.is_none().then_some(())
        })
        .await;
    };
    gone("late").await;
    assert!(
        world
            .get("PersistentVolumeClaim", "storage-mariadb-0")
            .await
            .is_some(),
        "the volume is that of the first one"
    );
    world.apply("next", &json!({})).await;
    world.until_of("next", "Ready", "False", "Conflict").await;
    // Each change is one more failure. The pause after so many is longer than a test waits for
    // anything: what comes now comes by a watch.
    let changes = 10;
    for replicas in 2..2 + changes {
        let change = json!({"spec": {"services": {"glance": {"replicas": replicas}}}});
        world.apply("next", &change).await;
        world.until_of("next", "Ready", "False", "Conflict").await;
    }
    assert!(c5c3_kit::fault::pause(changes, 1.0) > Duration::from_secs(100));
    world.delete("cloud").await;
    gone("cloud").await;
    world.until_there("Keystone", "keystone").await;
    world
        .until_of("next", "InfrastructureReady", "False", "Progressing")
        .await;
}

/// As the StatefulSet of a MariaDB leaves it, and one of somebody else.
async fn claim(world: &World) {
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(world.cluster.client(), &world.namespace);
    for (name, app) in [("storage-mariadb-0", "mariadb"), ("somebody-elses", "wordpress")] {
        let claim = json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "labels": {"app.kubernetes.io/name": app, "app.kubernetes.io/instance": app}},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        });
        let claim = serde_json::from_value(claim).expect("a claim");
        claims
            .create(&PostParams::default(), &claim)
            .await
            .expect("created");
    }
}
