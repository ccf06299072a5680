//! The controllers on an API server, against a simulated Keystone with faults.

mod roles;
mod world;

use std::time::{Duration, Instant};

use c5c3_api::foreign::is_true;
use c5c3_api::foreign::korc::{
    ApplicationCredential, Domain, Endpoint, Group, Project, Role, RoleAssignment, Service, User,
};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, DeleteParams, ListParams};
use openstack_client::{Assignment, Auth, Connect, Fault, Fields, Kind, Simulator};
use serde_json::json;
use test_harness::{eventually, settles, within};

use super::observe::value;
use super::resource::Resource;
use world::{LOOK, World};

#[tokio::test(flavor = "multi_thread")]
async fn all_kinds_settle_in_any_order_and_the_credential_works() {
    let world = World::start().await;
    // Those that need others come first.
    world.credential().await;
    let waits = "Waiting for Secret/glance-login to be created";
    world
        .says::<ApplicationCredential>("glance-1", "Progressing", waits)
        .await;
    let role = json!({"roleRef": "service", "userRef": "glance", "projectRef": "service"});
    world.managed::<RoleAssignment>("glance-service", role).await;
    let waits = "Waiting for Role/service to be created";
    world
        .says::<RoleAssignment>("glance-service", "Progressing", waits)
        .await;
    world.glance().await;
    world
        .managed::<Endpoint>(
            "glance-public",
            json!({"serviceRef": "glance", "interface": "public", "url": "http://g"}),
        )
        .await;
    world
        .says::<Endpoint>(
            "glance-public",
            "Progressing",
            "Waiting for Service/glance to be created",
        )
        .await;
    world.managed::<Service>("glance", json!({"type": "image"})).await;
    world
        .managed::<Group>("operators", json!({"domainRef": "default"}))
        .await;
    world
        .managed::<Domain>("guests", json!({"description": "others"}))
        .await;
    world.available::<Group>("operators").await;
    world.available::<Domain>("guests").await;
    let endpoint = world.available::<Endpoint>("glance-public").await;
    let live = world
        .admin()
        .get(&Kind::Endpoint, &endpoint)
        .await
        .expect("an answer")
        .expect("there");
    assert_eq!(live.text("region"), Some("RegionOne"), "that of the login");
    world.available::<ApplicationCredential>("glance-1").await;
    assert!(world.logs_in("glance-1").await);
    let live = world.api::<Domain>().get("default").await.expect("there");
    assert_eq!(live.head().id, Some("default"));
    let shown = live.head().shown.and_then(|shown| shown.get("name")).cloned();
    assert_eq!(shown, Some(json!("Default")));
    // K-ORC has two conditions and no other.
    let types: Vec<&str> = live.head().conditions.iter().map(|c| c.type_.as_str()).collect();
    assert_eq!(types, ["Available", "Progressing"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn drift_is_repaired_and_then_nothing_is_written() {
    let world = World::start().await;
    world.glance().await;
    world
        .managed::<Service>("glance", json!({"type": "image", "description": "Images"}))
        .await;
    let service = world.available::<Service>("glance").await;
    let first = world.available::<ApplicationCredential>("glance-1").await;
    let user = world.available::<User>("glance").await;
    let project = world.available::<Project>("service").await;
    let admin = world.admin();

    let changed = Fields::new()
        .with("description", "by hand")
        .with("enabled", false);
    admin
        .update(&Kind::Service, &service, &changed)
        .await
        .expect("changed");
    eventually("the service is as before", async || {
        let live = admin.get(&Kind::Service, &service).await.ok()??;
        (live.text("description") == Some("Images")).then_some(())
    })
    .await;
    admin.delete(&Kind::Service, &service).await.expect("deleted");
    eventually("the service is made again", async || {
        let live = world.api::<Service>().get("glance").await.ok()?;
        live.head().id.filter(|id| *id != service).map(str::to_owned)
    })
    .await;
    // The role comes back, and then the credential under the same secret.
    let before = world
        .read("glance-1")
        .await
        .and_then(|s| value(&s, "application_credential_secret"));
    let role = Assignment {
        user: user.clone(),
        project: project.clone(),
        role: "role-service".to_owned(),
    };
    admin.revoke(&role).await.expect("revoked");
    let kind = Kind::ApplicationCredential { user };
    admin.delete(&kind, &first).await.expect("deleted");
    eventually("role and credential are back", async || {
        let live = world.api::<ApplicationCredential>().get("glance-1").await.ok()?;
        let fresh = live.head().id.is_some_and(|id| id != first);
        let done = fresh && is_true(live.head().conditions, "Available") && world.logs_in("glance-1").await;
        done.then_some(())
    })
    .await;
    let after = world
        .read("glance-1")
        .await
        .and_then(|s| value(&s, "application_credential_secret"));
    assert_eq!(before, after);

    // Five looks at everything write nothing, here or there.
    let before = world.simulator.calls();
    settles("writes to the API and to Keystone", LOOK * 5, async || {
        (world.cluster.writes().await, world.simulator.calls().writes)
    })
    .await;
    assert!(
        world.simulator.calls().reads > before.reads,
        "but it is looked at"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn passwords_follow_their_secrets() {
    let world = World::start().await;
    world.glance().await;
    world.available::<ApplicationCredential>("glance-1").await;
    let user = world.available::<User>("glance").await;
    let login = async |password: &str| {
        let auth = Auth::Password {
            user: openstack_client::UserName::Id(user.clone()),
            password: openstack_client::Secret::new(password),
            scope: openstack_client::Scope::Unscoped,
        };
        let session = world
            .simulator
            .connect(Simulator::admin("").with_auth(auth))
            .expect("a session");
        session.identify().await.is_ok()
    };
    assert!(login("one").await);
    world.secret("glance-service-user", "password", "two").await;
    eventually("the new password works", async || {
        login("two").await.then_some(())
    })
    .await;
    assert!(!login("one").await);
    // The user's own login follows its Secret as any other does.
    let refused = "Check Secret/glance-login";
    world
        .says::<ApplicationCredential>("glance-1", "TransientError", refused)
        .await;
    world.login("two").await;
    world
        .says::<ApplicationCredential>("glance-1", "Success", "up to date")
        .await;
    let live = world.api::<User>().get("glance").await.expect("there");
    let text = serde_json::to_string(&live).expect("JSON");
    assert!(!text.contains("\"one\"") && !text.contains("\"two\""), "{text}");

    // The admin's own: a wrong one is named, the right one is taken at once.
    world.clouds("guess").await;
    world
        .says::<User>("glance", "TransientError", "Check Secret/k-orc-clouds-yaml")
        .await;
    world.clouds("admin").await;
    world.says::<User>("glance", "Success", "up to date").await;

    // The status tells which Secret it was, and not before it is true.
    let applied = async |name: &str| {
        eventually(&format!("the password of {name} is set"), async || {
            let live = world.api::<User>().get("glance").await.expect("there");
            (live.status?.resource?.get("appliedPasswordRef")? == name).then_some(())
        })
        .await;
    };
    applied("glance-service-user").await;
    let other = json!({"domainRef": "default", "defaultProjectRef": "service", "passwordRef": "other"});
    world.managed::<User>("glance", other).await;
    world
        .says::<User>("glance", "Progressing", "Waiting for Secret/other")
        .await;
    applied("glance-service-user").await;
    world.secret("other", "password", "three").await;
    applied("other").await;
    assert!(login("three").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_done_is_said() {
    let world = World::start().await;
    world.glance().await;
    world
        .imported::<Role>("auditor", json!({"name": "auditor"}))
        .await;
    world
        .says::<Role>(
            "auditor",
            "Progressing",
            r#"created externally: no role with name "auditor""#,
        )
        .await;
    world
        .apply::<Role>(
            "by-id",
            json!({"managementPolicy": "unmanaged", "import": {"id": "nope"}}),
        )
        .await;
    world
        .says::<Role>("by-id", "UnrecoverableError", "no role nope")
        .await;
    world
        .apply::<Role>("empty", json!({"managementPolicy": "unmanaged"}))
        .await;
    world
        .says::<Role>("empty", "InvalidConfiguration", "spec.import is missing")
        .await;
    world.apply::<Group>("empty", json!({})).await;
    world
        .says::<Group>("empty", "InvalidConfiguration", "spec.resource is missing")
        .await;
    world
        .managed::<User>("no-secret", json!({"passwordRef": "nowhere"}))
        .await;
    world
        .says::<User>(
            "no-secret",
            "Progressing",
            "Waiting for Secret/nowhere to be created",
        )
        .await;
    world.managed::<Service>("odd", json!({"type": ""})).await;
    world
        .says::<Service>("odd", "InvalidConfiguration", "'type' is a required property")
        .await;

    world.available::<ApplicationCredential>("glance-1").await;
    world.imported::<Role>("admin", json!({"name": "admin"})).await;
    let more = json!({"userRef": "glance", "roleRefs": ["service", "admin"], "secretRef": "glance-1",
        "expiresAt": "2099-01-01T00:00:00Z"});
    world.managed::<ApplicationCredential>("glance-1", more).await;
    world
        .says::<ApplicationCredential>("glance-1", "InvalidConfiguration", "spec.resource.roleRefs")
        .await;
    let later = json!({"userRef": "glance", "roleRefs": ["service"], "secretRef": "glance-1",
        "expiresAt": "2098-01-01T00:00:00Z"});
    world.managed::<ApplicationCredential>("glance-1", later).await;
    world
        .says::<ApplicationCredential>("glance-1", "InvalidConfiguration", "spec.resource.expiresAt")
        .await;
    let past = json!({"userRef": "glance", "roleRefs": ["service"], "secretRef": "past", "expiresAt": "2020-01-01T00:00:00Z"});
    world.managed::<ApplicationCredential>("past", past).await;
    world
        .says::<ApplicationCredential>("past", "UnrecoverableError", "expired at 2020-01-01")
        .await;
    world.secret("taken", "other", "x").await;
    let taken = json!({"userRef": "glance", "roleRefs": ["service"], "secretRef": "taken"});
    world.managed::<ApplicationCredential>("taken", taken).await;
    world
        .says::<ApplicationCredential>("taken", "InvalidConfiguration", "Secret/taken is not ours")
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_secret_is_replaced_and_a_given_one_is_used() {
    let world = World::start().await;
    world.glance().await;
    let first = world.available::<ApplicationCredential>("glance-1").await;
    let api: Api<Secret> = Api::namespaced(world.client(), &world.namespace);
    api.delete("glance-1", &DeleteParams::default())
        .await
        .expect("deleted");
    eventually("another credential is handed out", async || {
        let live = world.api::<ApplicationCredential>().get("glance-1").await.ok()?;
        let fresh = live.head().id.is_some_and(|id| id != first);
        (fresh && world.logs_in("glance-1").await).then_some(())
    })
    .await;

    // As with K-ORC itself: the secret is chosen by who makes the object.
    world.secret("mine", "value", "chosen").await;
    let mine = json!({"userRef": "glance", "roleRefs": ["service"], "secretRef": "mine"});
    world.managed::<ApplicationCredential>("mine", mine).await;
    let id = world.available::<ApplicationCredential>("mine").await;
    let auth = Auth::ApplicationCredential {
        id,
        secret: openstack_client::Secret::new("chosen"),
    };
    let session = world
        .simulator
        .connect(Simulator::admin("").with_auth(auth))
        .expect("a session");
    session.identify().await.expect("it works");
    let secret = world.read("mine").await.expect("there");
    assert_eq!(secret.data.map(|data| data.len()), Some(1), "not written to");
}

#[tokio::test(flavor = "multi_thread")]
async fn deletion_removes_from_keystone_and_leaves_imports_alone() {
    let world = World::start().await;
    world.glance().await;
    world.managed::<Domain>("guests", json!({})).await;
    world.available::<Domain>("guests").await;
    world.available::<ApplicationCredential>("glance-1").await;
    // The user before its credential: Keystone takes both.
    world.gone::<User>("glance").await;
    world.gone::<ApplicationCredential>("glance-1").await;
    world.gone::<RoleAssignment>("glance-service").await;
    world.gone::<Project>("service").await;
    world.gone::<Domain>("guests").await;
    world.gone::<Role>("service").await;
    world.gone::<Domain>("default").await;
    let left = |collection| world.simulator.count(collection);
    assert_eq!(
        (left("users"), left("projects"), left("domains")),
        (1, 1, 1),
        "what bootstrap made"
    );
    assert_eq!((left("application_credentials"), left("roles")), (0, 5));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_keystone_that_comes_up_late_is_used_at_once() {
    // Only the probe can tell in time: the objects' own looks are far apart.
    let world = World::looking(super::LOOK).await;
    // When it answers, its admin is not there yet.
    let id = "user-admin";
    let set = |password: &str| Fields::new().with("password", password);
    world
        .admin()
        .update(&Kind::User, id, &set("other"))
        .await
        .expect("set");
    world.simulator.set_down(true);
    world.glance_user().await;
    world
        .says::<Domain>("default", "TransientError", "no connection to simulator")
        .await;
    for n in 0..30 {
        world
            .managed::<Service>(&format!("s{n}"), json!({"type": "t"}))
            .await;
    }
    world
        .says::<Service>("s29", "TransientError", "no connection")
        .await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    world.simulator.set_down(false);
    world
        .says::<Service>("s29", "TransientError", "401 Unauthorized")
        .await;
    let other = world.simulator.connect(Simulator::admin("other"));
    let other = other.expect("a session");
    other.update(&Kind::User, id, &set("admin")).await.expect("set");
    let start = Instant::now();
    world.assigned("glance-service").await;
    for n in 0..30 {
        world.available::<Service>(&format!("s{n}")).await;
    }
    // Told, and not found by the next look.
    assert!(start.elapsed() < super::LOOK / 2, "{:?}", start.elapsed());
}

/// Answers that are lost, refused logins, conflicts: all is there in the end, and nothing twice.
#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_objects_survive_faults() {
    const COUNT: usize = 1000;
    let world = World::looking(super::LOOK).await;
    let faults = [
        Fault::Lost,
        Fault::Status(500),
        Fault::Status(401),
        Fault::Status(409),
        Fault::Timeout,
    ];
    world
        .simulator
        .inject_into_writes(faults.clone().into_iter().cycle().take(20));
    // The others are spread over the work: one for every few calls.
    let simulator = world.simulator.clone();
    let trouble = tokio::spawn(async move {
        let done = || simulator.calls().reads + simulator.calls().writes;
        for fault in faults.into_iter().cycle().take(200) {
            let next = done() + 8;
            while done() < next {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            simulator.inject([fault]);
        }
    });
    let start = Instant::now();
    let all = (0..COUNT).map(|n| {
        let world = &world;
        async move { world.managed::<Group>(&format!("g{n}"), json!({})).await }
    });
    futures::future::join_all(all).await;
    let api = world.api::<Group>();
    within(
        Duration::from_secs(120),
        Duration::from_millis(200),
        "all are available",
        async || {
            let list = api.list(&ListParams::default()).await.ok()?;
            let ready = list
                .items
                .iter()
                .filter(|g| is_true(g.head().conditions, "Available"));
            (ready.count() == COUNT).then_some(())
        },
    )
    .await;
    println!(
        "{COUNT} objects in {:?}, {:?}",
        start.elapsed(),
        world.simulator.calls()
    );
    trouble.abort();
    assert_eq!(world.simulator.count("groups"), COUNT);
    assert!(
        world.simulator.calls().writes > COUNT as u64,
        "some writes had to be repeated"
    );
}
