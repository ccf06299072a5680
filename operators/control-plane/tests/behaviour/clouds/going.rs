//! What is turned off, and what is deleted.

use std::time::Duration;

use c5c3_control_plane::control_plane::{Action, ControlPlanes, Facts};
use c5c3_kit::kinds::Key;
use c5c3_kit::{Clusters, Controller, Observed, Reference};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::api::{Api, ListParams, PostParams};
use serde_json::{Value, json};
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

#[tokio::test(flavor = "multi_thread")]
async fn what_korc_left_is_let_go_after_the_deadline_and_what_others_hold_is_not() {
    let world = World::start().await;
    world.apply("cloud", &json!({})).await;
    world.bring_up().await;
    let korc = "openstack.k-orc.cloud/user";
    world.finalizers("User", "glance", &[korc]).await;
    world
        .finalizers("User", "placement", &[korc, "example.com/audit"])
        .await;
    world.delete("cloud").await;
    eventually("both are being deleted", async || {
        let glance = world.get("User", "glance").await?;
        let placement = world.get("User", "placement").await?;
        let going = |user: &Value| !user["metadata"]["deletionTimestamp"].is_null();
        (going(&glance) && going(&placement)).then_some(())
    })
    .await;
    // The operator of this world waits for K-ORC. Another one looks at the same objects after the deadline.
    let object = world.clouds.get("cloud").await.expect("there");
    let held: Vec<Reference> = ["glance", "placement"]
        .map(|name| Reference {
            cluster: c5c3_kit::HOME,
            kind: "User.openstack.k-orc.cloud".to_owned(),
            key: Key::new(Some(&world.namespace), name),
        })
        .into();
    let mut facts = Facts::default();
    facts.seen.owned = held.iter().map(|held| (held.clone(), true)).collect();
    let late = Observed::<ControlPlanes> {
        object,
        facts,
        now: jiff::Timestamp::now()
            .checked_add(jiff::SignedDuration::from_mins(6))
            .expect("a time"),
    };
    let decision = late.decide().expect("decides");
    assert_eq!(
        decision.actions(),
        [Action::Abandon(held[0].clone()), Action::Abandon(held[1].clone())]
    );
    let clusters = Clusters::of(world.cluster.client());
    let controller = ControlPlanes::new(&clusters, world.answers.clone());
    for action in decision.actions() {
        controller.act(action).await.expect("let go");
    }
    world.until_gone("User", "glance").await;
    let placement = world
        .get("User", "placement")
        .await
        .expect("held by somebody else");
    assert_eq!(placement["metadata"]["finalizers"], json!(["example.com/audit"]));
    // Once more, as the next pass does: what is gone is no failure.
    for action in decision.actions() {
        controller.act(action).await.expect("nothing to do");
    }
    world.finalizers("User", "placement", &[]).await;
    eventually("the cloud is gone", async || {
        let found = world.clouds.get_opt("cloud").await.expect("readable");
        found.is_none().then_some(())
    })
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
