//! CredentialRotation, with K-ORC played by the test.

mod ceph;

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use test_harness::eventually;

use crate::clouds::world::World;

async fn apply(world: &World, kind: &str, name: &str, body: &Value) {
    let resource = crate::clouds::world::resource(kind);
    let mut object = json!({"apiVersion": resource.api_version, "kind": kind, "metadata": {"name": name}});
    object["spec"] = body.clone();
    let params = PatchParams::apply("test").force();
    world
        .api(kind)
        .patch(name, &params, &Patch::Apply(&object))
        .await
        .expect("accepted");
}

async fn rotation(world: &World) {
    let spec = json!({"targetServiceUser": "nova", "schedule": {"intervalDays": 90, "preRotationDays": 7}});
    apply(world, "CredentialRotation", "nova", &spec).await;
}

const ADMIN: &str = "clouds: {admin: {auth: {auth_url: 'http://keystone/v3', password: root}}}";

async fn secret(world: &World, name: &str, key: &str, text: &str) {
    let secret =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": {key: text}});
    let params = PatchParams::apply("test").force();
    let secrets = &world.secrets;
    let applied = secrets.patch(name, &params, &Patch::Apply(&secret)).await;
    applied.expect("accepted");
}

fn managed(resource: &Value) -> Value {
    json!({"cloudCredentialsRef": {"cloudName": "admin", "secretName": "clouds"}, "managementPolicy": "managed",
        "resource": resource})
}

fn nova() -> Value {
    managed(&json!({"name": "nova", "defaultProjectRef": "service", "passwordRef": "nova-service-user"}))
}

/// A user who can log in, as K-ORC made it.
async fn user(world: &World) {
    secret(world, "clouds", "clouds.yaml", ADMIN).await;
    secret(world, "nova-service-user", "password", "first").await;
    apply(world, "Project", "service", &managed(&json!({}))).await;
    apply(world, "User", "nova", &nova()).await;
    world.ready("Project", "service").await;
    world.ready("User", "nova").await;
}

async fn until_message(world: &World, part: &str) -> Value {
    eventually(&format!("the message has {part:?}"), async || {
        let live = world.get("CredentialRotation", "nova").await?;
        live["status"]["conditions"]
            .to_string()
            .contains(part)
            .then_some(live)
    })
    .await
}

async fn until_condition(world: &World, status: &str, reason: &str) -> Value {
    eventually(&format!("Ready is {status} {reason}"), async || {
        let live = world.get("CredentialRotation", "nova").await?;
        let list = live["status"]["conditions"].as_array()?.clone();
        let ready = list.into_iter().find(|c| c["type"] == "Ready")?;
        (ready["status"] == status && ready["reason"] == reason).then_some(live)
    })
    .await
}

async fn until_credential(world: &World, name: &str) -> Secret {
    eventually(&format!("consumers read {name}"), async || {
        let secret = world
            .secrets
            .get_opt("nova-app-credential")
            .await
            .expect("readable")?;
        let id = secret.data.as_ref()?.get("application_credential_id")?;
        (id.0 == format!("id of {name}").into_bytes()).then_some(secret)
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_credential_is_made_used_and_replaced_when_it_is_lost() {
    let world = World::start().await;
    rotation(&world).await;
    let waiting = until_condition(&world, "False", "UserMissing").await;
    assert!(waiting["status"]["conditions"].to_string().contains("User nova"));
    user(&world).await;
    world.until_there("ApplicationCredential", "nova-1").await;
    until_condition(&world, "False", "Rotating").await;
    assert!(
        world.get("Secret", "nova-app-credential").await.is_none(),
        "nothing is promised too early"
    );
    world.credential_made("nova-1").await;
    until_credential(&world, "nova-1").await;
    let live = until_condition(&world, "True", "Ready").await;
    assert_eq!(live["status"]["currentCredentialRef"]["name"], "nova-1");
    assert!(live["status"]["nextRotation"].is_string() && live["status"]["lastRotation"].is_string());

    // Somebody deletes it by hand.
    let credentials = world.api("ApplicationCredential");
    credentials
        .delete("nova-1", &DeleteParams::default())
        .await
        .expect("deleted");
    world.until_there("ApplicationCredential", "nova-2").await;
    until_credential(&world, "nova-1").await;
    world.credential_made("nova-2").await;
    until_credential(&world, "nova-2").await;
    until_condition(&world, "True", "Ready").await;

    // The interval gets so short that the next one is due: both are there, consumers move on.
    let spec = json!({"targetServiceUser": "nova", "schedule": {"intervalDays": 1, "preRotationDays": 0}, "gracePeriodDays": 0});
    apply(&world, "CredentialRotation", "nova", &spec).await;
    let params = PatchParams::default();
    let soon = jiff::Timestamp::now() + jiff::SignedDuration::from_mins(30);
    let patch = json!({"spec": {"resource": {"expiresAt": soon.to_string()}}});
    credentials
        .patch("nova-2", &params, &Patch::Merge(&patch))
        .await
        .expect("accepted");
    world.credential_made("nova-3").await;
    until_credential(&world, "nova-3").await;
    assert!(
        world.get("ApplicationCredential", "nova-2").await.is_some(),
        "the old one lives until it expires"
    );
    let past = jiff::Timestamp::now() - jiff::SignedDuration::from_secs(1);
    let patch = json!({"spec": {"resource": {"expiresAt": past.to_string()}}});
    credentials
        .patch("nova-2", &params, &Patch::Merge(&patch))
        .await
        .expect("accepted");
    world.until_gone("ApplicationCredential", "nova-2").await;

    world
        .api("CredentialRotation")
        .delete("nova", &DeleteParams::default())
        .await
        .expect("deleted");
    for (kind, name) in [
        ("ApplicationCredential", "nova-3"),
        ("Secret", "nova-app-credential"),
        ("Secret", "nova-login"),
        ("CredentialRotation", "nova"),
    ] {
        world.until_gone(kind, name).await;
    }
}

async fn annotate(world: &World, value: &str) {
    let patch = json!({"metadata": {"annotations": {"c5c3.io/rotate-now": value}}});
    let params = PatchParams::default();
    let rotations = world.api("CredentialRotation");
    rotations
        .patch("nova", &params, &Patch::Merge(&patch))
        .await
        .expect("accepted");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rotation_on_request_takes_nothing_away_from_who_still_uses_it() {
    let world = World::start().await;
    user(&world).await;
    let spec = json!({"targetServiceUser": "nova", "schedule": {"intervalDays": 90, "preRotationDays": 7}, "gracePeriodDays": 0});
    apply(&world, "CredentialRotation", "nova", &spec).await;
    world.credential_made("nova-1").await;
    until_credential(&world, "nova-1").await;
    let pods: Api<Pod> = Api::namespaced(world.cluster.client(), &world.namespace);
    let pod = json!({"metadata": {"name": "nova-api", "labels": {"app.kubernetes.io/instance": "nova", "app.kubernetes.io/part-of": "c5c3"}},
        "spec": {"containers": [{"name": "api", "image": "x"}]}});
    let pod: Pod = serde_json::from_value(pod).expect("a Pod");
    pods.create(&PostParams::default(), &pod).await.expect("created");
    // Times are whole seconds.
    tokio::time::sleep(Duration::from_secs(2)).await;

    annotate(&world, "first").await;
    world.until_there("ApplicationCredential", "nova-2").await;
    until_credential(&world, "nova-1").await;
    world.credential_made("nova-2").await;
    until_credential(&world, "nova-2").await;
    let live = until_message(&world, "nova-1 is still used by nova-api").await;
    assert_eq!(live["status"]["rotateNow"], "first");
    assert!(world.get("ApplicationCredential", "nova-1").await.is_some());
    if world.cluster.is_embedded() {
        // However long it lags, nothing is read over and over.
        let reads = async || world.cluster.reads().await;
        test_harness::settles("the number of reads", Duration::from_secs(12), reads).await;
    }
    let now = DeleteParams::default().grace_period(0);
    pods.delete("nova-api", &now).await.expect("deleted");
    let deleted = Instant::now();
    world.until_gone("ApplicationCredential", "nova-1").await;
    // The next look of its own is minutes away.
    let took = deleted.elapsed();
    assert!(
        took < Duration::from_secs(30),
        "the watch of pods reports it: {took:?}"
    );
    world.until_gone("Secret", "nova-app-credential-1").await;
    until_credential(&world, "nova-2").await;
    assert!(
        world.get("ApplicationCredential", "nova-3").await.is_none(),
        "once"
    );
    annotate(&world, "second").await;
    world.until_there("ApplicationCredential", "nova-3").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_k_orc_gave_up_on_is_told_and_a_request_tries_again_at_once() {
    let world = World::start().await;
    user(&world).await;
    rotation(&world).await;
    world.credential_made("nova-1").await;
    until_credential(&world, "nova-1").await;
    annotate(&world, "first").await;
    world.until_there("ApplicationCredential", "nova-2").await;
    let words = "invalid configuration creating resource: no such role";
    let refused = |type_: &str| json!({"type": type_, "status": "False", "reason": "InvalidConfiguration", "message": words});
    let status = json!({"conditions": [refused("Available"), refused("Progressing")]});
    world.say("ApplicationCredential", "nova-2", status).await;
    until_condition(&world, "False", "Failed").await;
    until_message(&world, words).await;
    // The next try of its own is a minute away.
    annotate(&world, "second").await;
    world.credential_made("nova-3").await;
    until_credential(&world, "nova-3").await;
    until_condition(&world, "True", "Ready").await;
    world.until_gone("ApplicationCredential", "nova-2").await;
    world.until_gone("Secret", "nova-app-credential-2").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_credential_waits_for_its_user_and_for_each_role() {
    let world = World::start().await;
    secret(&world, "clouds", "clouds.yaml", ADMIN).await;
    let plain = managed(&json!({"name": "nova", "defaultProjectRef": "service"}));
    apply(&world, "User", "nova", &plain).await;
    rotation(&world).await;
    until_condition(&world, "False", "PasswordMissing").await;
    apply(&world, "User", "nova", &nova()).await;
    let roles = json!({"metadata": {"annotations": {"c5c3.io/roles": "admin,service"}}});
    let users = world.api("User");
    let patched = users
        .patch("nova", &PatchParams::default(), &Patch::Merge(&roles))
        .await;
    patched.expect("accepted");

    // Each is noticed by a watch: the next look of its own is a quarter of an hour away.
    until_message(&world, "User nova: K-ORC has not created it yet").await;
    until_condition(&world, "False", "Waiting").await;
    world.ready("User", "nova").await;
    until_message(&world, "Project service is missing").await;
    apply(&world, "Project", "service", &managed(&json!({}))).await;
    until_message(&world, "Project service: K-ORC has not created it yet").await;
    world.ready("Project", "service").await;
    until_message(&world, "Secret nova-service-user has no key password").await;
    secret(&world, "nova-service-user", "password", "hush").await;
    until_message(&world, "no RoleAssignment of Role admin on Project service").await;
    for role in ["admin", "service"] {
        let name = format!("nova-{role}");
        let grant = json!({"roleRef": role, "userRef": "nova", "projectRef": "service"});
        apply(&world, "RoleAssignment", &name, &managed(&grant)).await;
        until_message(
            &world,
            &format!("RoleAssignment {name}: K-ORC has not created it yet"),
        )
        .await;
        assert!(world.get("ApplicationCredential", "nova-1").await.is_none());
        world.ready("RoleAssignment", &name).await;
    }
    let made = world.until_there("ApplicationCredential", "nova-1").await;
    let login = json!({"cloudName": "openstack", "secretName": "nova-login"});
    assert_eq!(made["spec"]["cloudCredentialsRef"], login);
    let until_login = async |password: &str| {
        eventually("the login has the password", async || {
            let secret = world.secrets.get_opt("nova-login").await.expect("readable")?;
            let text = String::from_utf8(secret.data?.get("clouds.yaml")?.0.clone()).ok()?;
            let read: Value = serde_json::from_str(&text).expect("JSON");
            let auth = read["clouds"]["openstack"]["auth"].clone();
            (auth["password"] == password).then_some(auth)
        })
        .await
    };
    let auth = until_login("hush").await;
    let ids = (&auth["user_id"], &auth["project_id"]);
    assert_eq!(ids, (&json!("id of nova"), &json!("id of service")));
    secret(&world, "nova-service-user", "password", "whisper").await;
    until_login("whisper").await;
    let told = world.get("CredentialRotation", "nova").await.expect("there");
    let told = told.to_string();
    assert!(!told.contains("hush") && !told.contains("whisper"), "{told}");

    world.credential_made("nova-1").await;
    until_condition(&world, "True", "Ready").await;
    let writes = async || world.writes();
    test_harness::settles("the number of writes", Duration::from_secs(2), writes).await;
}
