//! Roles of users, and the credentials that need them.

use c5c3_api::foreign::korc::{ApplicationCredential, Project, Role, RoleAssignment, User};
use openstack_client::Assignment;
use serde_json::{Value, json};
use test_harness::eventually;

use super::world::World;
use crate::korc::resource::Resource;

#[tokio::test(flavor = "multi_thread")]
async fn a_role_is_given_kept_and_taken_away() {
    let world = World::start().await;
    world.glance_user().await;
    world.assigned("glance-service").await;
    let user = world.available::<User>("glance").await;
    let project = world.available::<Project>("service").await;
    let admin = world.admin();
    let role = |role: &str| Assignment {
        user: user.clone(),
        project: project.clone(),
        role: role.to_owned(),
    };
    let has = async |wanted: &Assignment| {
        let all = admin.assignments(&user, &project).await.expect("a list");
        all.contains(wanted)
    };
    assert!(has(&role("role-service")).await);
    let live = world.api::<RoleAssignment>().get("glance-service").await;
    let live = live.expect("there");
    let expected = json!({"roleID": "role-service", "userID": user, "projectID": project});
    assert_eq!(live.head().shown.cloned().map(Value::Object), Some(expected));
    assert_eq!(live.head().id, None, "as with K-ORC");

    admin.revoke(&role("role-service")).await.expect("revoked");
    eventually("the role is given again", async || {
        has(&role("role-service")).await.then_some(())
    })
    .await;
    // What is there already is taken over; what is only read stays.
    admin.assign(&role("role-reader")).await.expect("assigned");
    world.imported::<Role>("reader", json!({"name": "reader"})).await;
    let reads = json!({"roleRef": "reader", "userRef": "glance", "projectRef": "service"});
    world.imported::<RoleAssignment>("reads", reads.clone()).await;
    world.assigned("reads").await;
    world.gone::<RoleAssignment>("reads").await;
    assert!(has(&role("role-reader")).await);
    world.managed::<RoleAssignment>("reads", reads.clone()).await;
    world.assigned("reads").await;
    // It cannot become another one.
    world.imported::<Role>("admin", json!({"name": "admin"})).await;
    let other = json!({"roleRef": "admin", "userRef": "glance", "projectRef": "service"});
    world.managed::<RoleAssignment>("reads", other).await;
    world
        .says::<RoleAssignment>(
            "reads",
            "InvalidConfiguration",
            "spec.resource.roleRef cannot be changed",
        )
        .await;
    world.gone::<RoleAssignment>("reads").await;
    assert!(!has(&role("role-reader")).await && !has(&role("role-admin")).await);
    world.imported::<RoleAssignment>("reads", reads).await;
    world
        .says::<RoleAssignment>("reads", "Progressing", "created externally")
        .await;
    let group = json!({"roleRef": "admin", "groupRef": "g", "projectRef": "service"});
    world.managed::<RoleAssignment>("group", group).await;
    world
        .says::<RoleAssignment>("group", "InvalidConfiguration", "groupRef is not supported")
        .await;
    world.gone::<RoleAssignment>("group").await;
    world.gone::<RoleAssignment>("glance-service").await;
    assert!(!has(&role("role-service")).await);
}

/// As with K-ORC: no role and no login appear by magic.
#[tokio::test(flavor = "multi_thread")]
async fn a_credential_needs_the_user_itself_and_its_roles() {
    let world = World::start().await;
    world.glance().await;
    world.available::<ApplicationCredential>("glance-1").await;
    world.imported::<Role>("admin", json!({"name": "admin"})).await;
    let more = json!({"userRef": "glance", "roleRefs": ["admin"], "secretRef": "more"});
    world.managed::<ApplicationCredential>("more", more).await;
    let words = "Could not find role assignment with role: role-admin";
    world
        .says::<ApplicationCredential>("more", "InvalidConfiguration", words)
        .await;
    let admin = json!({"cloudCredentialsRef": {"cloudName": "admin", "secretName": "k-orc-clouds-yaml"},
        "resource": {"userRef": "glance", "roleRefs": ["service"], "secretRef": "other"}});
    world.apply::<ApplicationCredential>("other", admin).await;
    world
        .says::<ApplicationCredential>(
            "other",
            "InvalidConfiguration",
            "only User/glance itself can create its credentials",
        )
        .await;
}
