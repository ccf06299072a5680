//! From one object to a cloud that is Ready.

use std::io::Write as _;
use std::time::Duration;

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use test_harness::{eventually, settles};

use super::world::World;

#[tokio::test(flavor = "multi_thread")]
async fn a_small_cloud_becomes_ready_and_then_nothing_is_written() {
    let world = World::start().await;
    world.apply("cloud", &json!({})).await;
    // What need not wait is there at once; what lives in Keystone is not.
    for (kind, name) in [
        ("MariaDB", "mariadb"),
        ("Keystone", "keystone"),
        ("Glance", "glance"),
        ("Placement", "placement"),
    ] {
        world.until_there(kind, name).await;
    }
    world.until("InfrastructureReady", "False", "Progressing").await;
    assert!(world.get("User", "glance").await.is_none() && world.get("Domain", "default").await.is_none());
    world.ready("MariaDB", "mariadb").await;
    world.ready("Memcached", "memcached").await;
    world.until("InfrastructureReady", "True", "Ready").await;
    world
        .fail(
            "Keystone",
            "keystone",
            "Failed",
            "db-sync failed: access denied for user keystone",
        )
        .await;
    let ready = world.until("Ready", "False", "Failed").await;
    assert_eq!(
        ready.message,
        "Keystone: db-sync failed: access denied for user keystone"
    );
    world.bring_up().await;

    let status = world.status().await;
    assert_eq!(status.installed_release.as_deref(), Some("2025.2"));
    assert_eq!(
        status.services.keys().collect::<Vec<_>>(),
        ["glance", "keystone", "placement"]
    );
    assert!(
        status
            .services
            .values()
            .all(|service| service.ready && service.version.is_some()),
        "{status:?}"
    );
    world.until("ServicesReady", "True", "AllServicesReady").await;
    world.until("CrossClusterSyncReady", "True", "NotRequired").await;
    let stable = world
        .secrets
        .get("glance-app-credential")
        .await
        .expect("there")
        .data
        .unwrap_or_default();
    assert_eq!(stable["application_credential_id"].0, b"id of glance-1");
    let clouds = world
        .secrets
        .get("k-orc-clouds-yaml")
        .await
        .expect("there")
        .data
        .unwrap_or_default();
    let text = String::from_utf8_lossy(&clouds["clouds.yaml"].0).into_owned();
    assert!(
        text.contains(&format!("http://keystone.{}.svc:5000/v3", world.namespace)),
        "an address"
    );

    settles("the number of writes", Duration::from_secs(5), async || {
        world.writes()
    })
    .await;
    if world.cluster.is_embedded() {
        // Nobody else asks this server anything.
        let reads = async || world.cluster.reads().await;
        settles("the number of reads", Duration::from_secs(5), reads).await;
    }
    // No secret got out.
    let password = &world
        .secrets
        .get("keystone-admin-credentials")
        .await
        .expect("there")
        .data
        .unwrap_or_default()["password"];
    let password = String::from_utf8_lossy(&password.0).into_owned();
    let cloud = serde_json::to_string(&world.clouds.get("cloud").await.expect("there")).expect("JSON");
    assert!(password.len() >= 32 && !cloud.contains(&password));
}

#[tokio::test(flavor = "multi_thread")]
async fn ready_waits_for_the_generation_that_was_asked_for() {
    let world = World::start().await;
    world.apply("cloud", &json!({})).await;
    world.bring_up().await;
    world
        .apply(
            "cloud",
            &json!({"spec": {"services": {"keystone": {"replicas": 2}}}}),
        )
        .await;
    // Its Ready is about the generation before.
    let blocker = world.until("Ready", "False", "Progressing").await;
    assert_eq!(
        blocker.message,
        "Keystone: its latest change has not been processed yet"
    );
    world.ready("Keystone", "keystone").await;
    world.until("Ready", "True", "Ready").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_of_others_are_used_and_ours_never_change() {
    let world = World::start().await;
    let given = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keystone-admin-credentials"},
        "stringData": {"password": "from the vault"}});
    let given = serde_json::from_value(given).expect("a Secret");
    world
        .secrets
        .create(&kube::api::PostParams::default(), &given)
        .await
        .expect("created");
    world.apply("cloud", &json!({})).await;
    let clouds = eventually("clouds.yaml follows", async || {
        world
            .secrets
            .get_opt("k-orc-clouds-yaml")
            .await
            .expect("readable")
    })
    .await;
    let text = String::from_utf8_lossy(&clouds.data.unwrap_or_default()["clouds.yaml"].0).into_owned();
    assert!(text.contains("\"from the vault\""));
    let admin = world
        .secrets
        .get("keystone-admin-credentials")
        .await
        .expect("there");
    assert!(admin.metadata.owner_references.is_none(), "it is not ours");
    let before = world
        .secrets
        .get("keystone-db-credentials")
        .await
        .expect("there")
        .data;
    world
        .apply(
            "cloud",
            &json!({"spec": {"services": {"glance": {"replicas": 2}}}}),
        )
        .await;
    eventually("the change arrives", async || {
        (world.get("Glance", "glance").await?["spec"]["replicas"] == 2).then_some(())
    })
    .await;
    assert_eq!(
        world
            .secrets
            .get("keystone-db-credentials")
            .await
            .expect("there")
            .data,
        before
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_that_somebody_changes_is_not_changed_back() {
    let world = World::start().await;
    world.apply("cloud", &json!({})).await;
    world.until_there("Keystone", "keystone").await;
    let patch = json!({"stringData": {"password": "by hand"}});
    let name = "glance-db-credentials";
    let params = kube::api::PatchParams::default();
    let patch = kube::api::Patch::Merge(&patch);
    world
        .secrets
        .patch(name, &params, &patch)
        .await
        .expect("accepted");
    world.bring_up().await;
    let kept = world
        .secrets
        .get(name)
        .await
        .expect("there")
        .data
        .unwrap_or_default();
    assert_eq!(kept["password"].0, b"by hand");
}

#[tokio::test(flavor = "multi_thread")]
async fn ready_has_the_words_of_the_program_that_fails() {
    let world = World::start().await;
    world.apply("cloud", &json!({})).await;
    world.ready("MariaDB", "mariadb").await;
    world.ready("Memcached", "memcached").await;
    let words = "db-sync failed: (1045, \"Access denied for user 'keystone'@'10.0.0.7' (using password: YES)\"); \
                 pod keystone-setup-x7k2p: exit code 1";
    world.fail("Keystone", "keystone", "Failed", words).await;
    let ready = world.until("Ready", "False", "Failed").await;
    assert_eq!(ready.message, format!("Keystone: {words}"));
    let keystone = world.until("KeystoneReady", "False", "Failed").await;
    assert_eq!(keystone.message, ready.message);
    let service = world.status().await.services.remove("keystone").expect("listed");
    assert_eq!(service.message.as_deref(), Some(ready.message.as_str()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cloud_on_servers_of_others_becomes_ready() {
    let world = World::start().await;
    world
        .apply(
            "cloud",
            &json!({"spec": {"infrastructure": {
                "database": {"replicas": null, "host": "db.example.com", "port": 3307},
                "cache": {"replicas": null, "servers": ["cache.example.com:11211"]},
                "messaging": {"hosts": ["rabbit.example.com:5672"]},
            }}}),
        )
        .await;
    let missing = world.until("Ready", "False", "SecretMissing").await;
    assert!(
        missing.message.contains("-db-credentials is missing"),
        "{}",
        missing.message
    );
    for service in ["keystone", "glance", "placement"] {
        let secret = json!({"metadata": {"name": format!("{service}-db-credentials")},
            "stringData": {"username": service, "password": "theirs"}});
        let secret = serde_json::from_value(secret).expect("a Secret");
        let params = kube::api::PostParams::default();
        world.secrets.create(&params, &secret).await.expect("created");
    }
    world.until("InfrastructureReady", "True", "NotRequired").await;
    world.bring_up_services().await;
    let keystone = world.until_there("Keystone", "keystone").await;
    assert_eq!(keystone["spec"]["database"]["host"], "db.example.com");
    assert_eq!(
        keystone["spec"]["cache"]["servers"],
        json!(["cache.example.com:11211"])
    );
    for (kind, name) in [
        ("MariaDB", "mariadb"),
        ("Memcached", "memcached"),
        ("RabbitmqCluster", "rabbitmq"),
    ] {
        assert!(world.get(kind, name).await.is_none(), "{kind}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_input_is_told_and_what_runs_is_left_alone() {
    let world = World::start().await;
    world.apply("cloud", &json!({})).await;
    world.bring_up().await;
    let version = async |kind: &str, name: &str| {
        world.until_there(kind, name).await["metadata"]["resourceVersion"].clone()
    };
    let before = (
        version("Keystone", "keystone").await,
        version("Glance", "glance").await,
    );
    world
        .apply("cloud", &json!({"spec": {"openStackRelease": "2019.1"}}))
        .await;
    let refused = world.until("Ready", "False", "UnknownRelease").await;
    assert!(
        refused.message.contains("2019.1") && refused.message.contains("2025.2"),
        "{}",
        refused.message
    );
    assert_eq!(
        (
            version("Keystone", "keystone").await,
            version("Glance", "glance").await
        ),
        before
    );
    world.until("KeystoneReady", "True", "Ready").await;
    // A second cloud has no room here.
    world.apply("late", &json!({})).await;
    let conflict = world.until_of("late", "Ready", "False", "Conflict").await;
    assert!(
        conflict.message.contains("ControlPlane cloud"),
        "{}",
        conflict.message
    );
    world.delete("late").await;
    eventually("the second one is gone", async || {
        world
            .clouds
            .get_opt("late")
            .await
            .expect("readable")
            .is_none()
            .then_some(())
    })
    .await;
    let valkey = json!({"spec": {"infrastructure": {"valkey": {"replicas": 1}}}});
    world.apply("cloud", &valkey).await;
    let refused = world.until("InfrastructureReady", "False", "NotSupported").await;
    assert!(
        refused.message.contains("infrastructure.valkey"),
        "{}",
        refused.message
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_password_of_a_service_user_reaches_the_login_when_keystone_has_it() {
    let world = World::start().await;
    world.apply("cloud", &json!({})).await;
    world.bring_up().await;
    let password_ref = async |other: &str| {
        eventually("the User names another Secret", async || {
            let user = world.get("User", "glance").await?;
            let name = user["spec"]["resource"]["passwordRef"].as_str()?.to_owned();
            (name != other).then_some(name)
        })
        .await
    };
    let applied = async |name: &str| {
        let status = json!({"resource": {"appliedPasswordRef": name}});
        world.say("User", "glance", status).await;
    };
    let login = async || {
        let secret = world.secrets.get("glance-login").await.expect("there");
        let text = String::from_utf8(secret.data.unwrap_or_default()["clouds.yaml"].0.clone()).expect("text");
        let read: Value = serde_json::from_str(&text).expect("JSON");
        read["clouds"]["openstack"]["auth"]["password"]
            .as_str()
            .map(str::to_owned)
    };
    let before = password_ref("").await;
    applied(&before).await;
    let old = login().await;

    let patch = Patch::Merge(json!({"stringData": {"password": "whisper"}}));
    let params = PatchParams::default();
    let patched = world.secrets.patch("glance-service-user", &params, &patch);
    patched.await.expect("accepted");
    let after = password_ref(&before).await;
    world.until_gone("Secret", &before).await;
    let copy = world.secrets.get(&after).await.expect("there");
    assert_eq!(copy.data.unwrap_or_default()["password"].0, b"whisper");
    // Nothing has to be made now: the rotation is healthy, and its login is the one that works.
    assert_eq!(login().await, old);
    applied(&after).await;
    eventually("the login has the new password", async || {
        (login().await.as_deref() == Some("whisper")).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_that_is_not_there_is_told_and_used_when_it_comes() {
    let world = World::start_without("RabbitmqCluster").await;
    // One server for all tests has it from another one.
    if !world.cluster.is_embedded() {
        let _ = writeln!(
            std::io::stderr(),
            "skipped: other tests have installed the kind on this server"
        );
        return;
    }
    let messaging = json!({"spec": {"infrastructure": {"messaging": {"replicas": 1}}}});
    world.apply("cloud", &messaging).await;
    let told = world.until("Ready", "False", "KindMissing").await;
    let words = "no kind RabbitmqCluster of rabbitmq.com: install RabbitMQ's cluster operator";
    assert!(told.message.contains(words), "{told:?}");
    world.until_there("MariaDB", "mariadb").await;
    world.until_there("Glance", "glance").await;
    let kinds = c5c3_api::registry();
    let kind = kinds
        .iter()
        .find(|kind| kind.kind == "RabbitmqCluster")
        .expect("known");
    world.cluster.install(kind.crd()).await;
    world.until_there("RabbitmqCluster", "rabbitmq").await;
    world.until("Ready", "False", "Progressing").await;
}
