use std::collections::BTreeMap;

use serde_json::json;

use super::{Calls, Fault, Simulator};
use crate::{
    Allocation, Assignment, Auth, Class, Connect, Content, Fields, Identity, ImageDraft, Images, Inventory,
    Kind, Placement, Scope, Secret, UserName,
};

fn admin(simulator: &Simulator) -> std::sync::Arc<dyn Identity> {
    simulator.connect(Simulator::admin("admin")).expect("a session")
}

#[tokio::test]
async fn logins_need_the_right_password_and_a_role() {
    let simulator = Simulator::default();
    assert!(admin(&simulator).identify().await.is_ok());
    let wrong = simulator.connect(Simulator::admin("guess")).expect("a session");
    assert_eq!(
        wrong.identify().await.expect_err("wrong").class(),
        Class::Unauthorized
    );

    let admin = admin(&simulator);
    let user = Fields::new().with("name", "glance").with("password", "pw");
    let user = admin.create(&Kind::User, &user).await.expect("a user");
    assert_eq!(user.fields.text("password"), None);
    let scoped = Simulator::admin("").with_auth(Auth::Password {
        user: UserName::Id(user.id.clone()),
        password: Secret::new("pw"),
        scope: Scope::ProjectId("project-admin".to_owned()),
    });
    let own = simulator.connect(scoped).expect("a session");
    assert!(own.identify().await.is_err(), "no role yet");
    let role = Assignment {
        user: user.id.clone(),
        project: "project-admin".to_owned(),
        role: "role-service".to_owned(),
    };
    admin.assign(&role).await.expect("a role");
    assert_eq!(own.identify().await.expect("logged in").user, user.id);

    let kind = Kind::ApplicationCredential {
        user: user.id.clone(),
    };
    let fields = Fields::new().with("name", "c").with("secret", "s");
    assert_eq!(
        admin
            .create(&kind, &fields)
            .await
            .expect_err("not the user")
            .class(),
        Class::Forbidden
    );
    let more = fields.clone().with("roles", json!([{"id": "role-admin"}]));
    let refused = own.create(&kind, &more).await.expect_err("not its role");
    assert_eq!(refused.class(), Class::Invalid);
    let fields = fields.with("roles", json!([{"id": "role-service"}]));
    let credential = own.create(&kind, &fields).await.expect("a credential");
    let by_credential = Simulator::admin("").with_auth(Auth::ApplicationCredential {
        id: credential.id,
        secret: Secret::new("s"),
    });
    let by_credential = simulator.connect(by_credential).expect("a session");
    assert_eq!(by_credential.identify().await.expect("logged in").user, user.id);
    admin.revoke(&role).await.expect("revoked");
    assert!(by_credential.identify().await.is_err(), "nothing without a role");
}

#[tokio::test]
async fn faults_come_in_order_and_are_counted() {
    let simulator = Simulator::default();
    let admin = admin(&simulator);
    simulator.inject([Fault::Status(500), Fault::Timeout, Fault::Lost]);
    let group = Fields::new().with("name", "g");
    let mut errors = Vec::new();
    for _ in 0..3 {
        errors.push(
            admin
                .create(&Kind::Group, &group)
                .await
                .expect_err("a fault")
                .class(),
        );
    }
    assert_eq!(errors, [Class::Unavailable; 3]);
    assert_eq!(simulator.count("groups"), 1, "the lost one was made");
    assert_eq!(
        admin
            .create(&Kind::Group, &group)
            .await
            .expect_err("taken")
            .class(),
        Class::Conflict
    );
    simulator.set_down(true);
    assert!(admin.ping().await.expect_err("down").unreachable());
    assert_eq!(
        simulator.calls(),
        Calls {
            logins: 0,
            reads: 1,
            writes: 4
        }
    );
}

#[tokio::test]
async fn images_and_allocations() {
    let simulator = Simulator::default();
    let image = simulator
        .create_image(&ImageDraft::raw("tiny"))
        .await
        .expect("an image");
    simulator
        .upload_image(&image.id, Content::bytes("abc"))
        .await
        .expect("an upload");
    let again = simulator.upload_image(&image.id, Content::bytes("abc")).await;
    assert_eq!(again.expect_err("has content").class(), Class::Conflict);
    let content = simulator.download_image(&image.id).await.expect("a download");
    assert_eq!(content.collect(10).await.expect("bytes"), b"abc");
    assert_eq!(
        simulator.images(Some("tiny")).await.expect("a list")[0].status,
        "active"
    );

    let provider = simulator
        .create_resource_provider("node")
        .await
        .expect("a provider");
    let inventories = BTreeMap::from([("VCPU".to_owned(), Inventory::of(4))]);
    simulator
        .set_inventories(&provider.uuid, 0, &inventories)
        .await
        .expect("set");
    let stale = simulator.set_inventories(&provider.uuid, 0, &inventories).await;
    assert_eq!(stale.expect_err("another generation").class(), Class::Conflict);
    let take = |amount: i64| Allocation {
        resources: BTreeMap::from([(
            provider.uuid.clone(),
            BTreeMap::from([("VCPU".to_owned(), amount)]),
        )]),
        ..Allocation::default()
    };
    simulator.set_allocation("a", &take(3)).await.expect("room");
    assert_eq!(
        simulator
            .set_allocation("b", &take(2))
            .await
            .expect_err("full")
            .class(),
        Class::Conflict
    );
    assert_eq!(simulator.usages(&provider.uuid).await.expect("usages")["VCPU"], 3);
    assert!(simulator.delete_resource_provider(&provider.uuid).await.is_err());
    simulator.delete_allocation("a").await.expect("freed");
    simulator
        .delete_resource_provider(&provider.uuid)
        .await
        .expect("gone");
}
