//! Every change of an image is shown and goes from tier to tier, whatever it comes from.

use c5c3_api::c5c3::{ControlPlaneStatus, UpdatePolicy};
use serde_json::json;

use super::super::*;
use super::world::*;

/// The tag of a service that the plan wants.
fn tag(plan: &Plan, kind: &str) -> String {
    let found = plan.wanted().find(|value| value["kind"] == kind).expect("there");
    found["spec"]["image"]["tag"].as_str().unwrap_or("").to_owned()
}

fn tags(plan: &Plan) -> [String; 3] {
    ["Keystone", "Glance", "Placement"].map(|kind| tag(plan, kind))
}

/// The cloud with what its last plan told.
fn told(mut object: ControlPlane, plan: &Plan) -> ControlPlane {
    object.status = Some(ControlPlaneStatus {
        update_phase: Some(plan.update),
        installed_release: plan.installed.clone(),
        services: plan.services.clone(),
        ..ControlPlaneStatus::default()
    });
    object
}

/// A cloud that runs and has said so.
fn complete(changes: &Value) -> (ControlPlane, Seen) {
    let object = small(changes);
    let seen = running(&object);
    let plan = plan(&object, &seen);
    (told(object, &plan), seen)
}

/// A newer program knows newer builds of the same release, and no longer the ones before.
fn newer_builds(seen: &mut Seen) {
    let release = seen.releases.iter_mut().find(|release| release.name == "2025.2");
    let versions = &mut release.expect("there").versions;
    for (service, version) in [
        ("keystone", "28.1.1"),
        ("glance", "31.1.1"),
        ("placement", "14.0.1"),
    ] {
        versions.insert(service.to_owned(), version.to_owned());
    }
}

#[test]
fn newer_builds_of_a_release_go_from_tier_to_tier() {
    let (mut object, mut seen) = complete(&json!({}));
    newer_builds(&mut seen);
    let mut phases = Vec::new();
    for _ in 0..8 {
        let plan = plan(&object, &seen);
        let progress = answered(&object, &plan, &seen);
        phases.push(format!("{:?}: {}", progress.update, tags(&plan).join(" ")));
        assert_eq!(progress.installed.as_deref(), Some("2025.2"));
        if progress.update == UpdatePhase::Complete {
            break;
        }
        assert!(progress.blocker().is_some(), "Ready in the middle of an update");
        for value in plan.wanted() {
            take_in(&mut seen, value, &ready);
        }
        object = told(object, &plan);
    }
    assert_eq!(
        phases,
        [
            "UpdatingKeystone: 28.1.1 31.1.0 14.0.0",
            "UpdatingServices: 28.1.1 31.1.1 14.0.1",
            "Complete: 28.1.1 31.1.1 14.0.1"
        ]
    );
}

#[test]
fn newer_builds_are_held_where_the_cloud_says_so() {
    let (mut object, mut seen) = complete(&json!({"updatePolicy": "Hold"}));
    newer_builds(&mut seen);
    let held = plan(&object, &seen);
    assert_eq!(tags(&held), ["28.1.0", "31.1.0", "14.0.0"]);
    assert_eq!((held.update, held.blocker()), (UpdatePhase::Idle, None));
    let keystone = &held.services["keystone"];
    assert_eq!(
        keystone.message.as_deref(),
        Some("updatePolicy holds back 28.1.1")
    );
    assert_eq!(
        keystone.release.as_deref(),
        Some("2025.2"),
        "as it was told when the build was known"
    );
    // Another release is asked for by hand.
    object.spec.open_stack_release = "2026.1".to_owned();
    assert_eq!(tag(&plan(&object, &seen), "Keystone"), "29.1.0");
    object.spec.open_stack_release = "2025.2".to_owned();
    object.spec.update_policy = UpdatePolicy::Automatic;
    assert_eq!(tag(&plan(&object, &seen), "Keystone"), "28.1.1");
}

#[test]
fn newer_builds_of_infrastructure_are_held_too() {
    let on = json!({"enabled": true});
    let mut object = small(
        &json!({"updatePolicy": "Hold", "services": {"nova": on, "neutron": on}, "infrastructure": {"messaging": {"replicas": 1}}}),
    );
    let parts = ["mariadb", "memcached", "rabbitmq", "ovn", "ovs"];
    let versions = |seen: &mut Seen, version: &str| {
        for release in &mut seen.releases {
            // What has the same version in two releases tells of neither.
            for service in ["nova", "neutron"] {
                let own = release.name.clone();
                release.versions.insert(service.to_owned(), own);
            }
            for part in parts {
                release.versions.insert(part.to_owned(), version.to_owned());
            }
        }
    };
    let images = |plan: &Plan| {
        let find = |kind: &str, field: &str| {
            let found = plan.wanted().find(|value| value["kind"] == kind).expect(kind);
            let image = &found["spec"][field];
            let text = image.as_str().or(image["tag"].as_str()).unwrap_or_default();
            text.rsplit(':').next().unwrap_or_default().to_owned()
        };
        [
            find("MariaDB", "image"),
            find("Memcached", "image"),
            find("RabbitmqCluster", "image"),
            find("OVNCluster", "ovnImage"),
            find("OVNCluster", "ovsImage"),
        ]
    };
    let mut seen = empty(&object);
    versions(&mut seen, "1.0");
    let mut seen = carried_out(&object, seen, ready);
    object = told(object.clone(), &plan(&object, &seen));
    versions(&mut seen, "1.1");
    let held = plan(&object, &seen);
    assert_eq!(images(&held), ["1.0"; 5]);
    assert_eq!((held.update, held.blocker()), (UpdatePhase::Idle, None));
    for (step, newer) in [
        ("database", "ghcr.io/c5c3/mariadb:1.1"),
        ("cache", "ghcr.io/c5c3/memcached:1.1"),
        ("messaging", "ghcr.io/c5c3/rabbitmq:1.1"),
        ("ovn", "ghcr.io/c5c3/ovn:1.1 and ghcr.io/c5c3/ovs:1.1"),
    ] {
        let step = held.steps.iter().find(|found| found.name == step).expect("there");
        let words = format!("updatePolicy holds back {newer}");
        assert_eq!(step.note.as_deref(), Some(words.as_str()), "{}", step.name);
    }
    // What the spec names is what somebody wants.
    let mut pinned = object.clone();
    pinned.spec.infrastructure.database.image = Some("mirror.example.com/mariadb:1.2".to_owned());
    pinned.spec.infrastructure.ovn.image =
        serde_json::from_value(json!({"repository": "mirror.example.com/ovn", "tag": "1.2"})).ok();
    assert_eq!(images(&plan(&pinned, &seen)), ["1.2", "1.0", "1.0", "1.2", "1.0"]);
    object.spec.update_policy = UpdatePolicy::Automatic;
    let free = plan(&object, &seen);
    assert_eq!(images(&free), ["1.1"; 5]);
    assert!(free.steps.iter().all(|step| step.note.is_none()));
}

#[test]
fn a_pin_waits_for_its_tier_and_is_told() {
    let (object, seen) = complete(&json!({}));
    let image = |tag: &str| serde_json::from_value(json!({"repository": "example.com/x", "tag": tag})).ok();
    let mut pinned = object.clone();
    pinned.spec.services.keystone.common.image = image("28.1.0-mine");
    pinned.spec.services.glance.common.image = image("31.1.0-mine");
    let first = plan(&pinned, &seen);
    assert_eq!(tags(&first), ["28.1.0-mine", "31.1.0", "14.0.0"]);
    assert_eq!(first.update, UpdatePhase::UpdatingKeystone);
    assert!(first.services["glance"].pinned && !first.services["placement"].pinned);
    let words = first.services["glance"].message.clone().unwrap_or_default();
    assert!(words.contains("Glance is updated after Keystone"), "{words}");
    assert!(words.contains("services.glance.image names its image"), "{words}");
}

#[test]
fn a_release_that_changes_nothing_is_not_complete() {
    let pin = |tag: &str| json!({"image": {"repository": "example.com/x", "tag": tag}});
    let services = json!({"keystone": pin("28.1.0"), "glance": pin("31.1.0"), "placement": pin("14.0.0")});
    let object = small(&json!({"services": services}));
    let seen = running(&object);
    let mut object = installed(object, "2025.2");
    object.spec.open_stack_release = "2026.1".to_owned();
    let plan = plan(&object, &seen);
    assert_eq!(tags(&plan), ["28.1.0", "31.1.0", "14.0.0"]);
    assert_eq!(
        (plan.update, plan.installed.as_deref()),
        (UpdatePhase::Idle, Some("2025.2"))
    );
    assert!(plan.services.values().all(|service| service.pinned));
}

#[test]
fn nothing_that_is_broken_is_updated() {
    let (mut object, seen) = complete(&json!({}));
    let broken = |name: &str| match name {
        "Glance" => failed("db-sync failed: no space left on device"),
        _ => Health::Ready,
    };
    let seen = carried_out(&object, seen, broken);
    object.spec.open_stack_release = "2026.1".to_owned();
    let plan = plan(&object, &seen);
    assert_eq!(plan.update, UpdatePhase::Validating);
    assert_eq!(tags(&plan), ["28.1.0", "31.1.0", "14.0.0"]);
    let release = plan.steps.first().expect("a step").text();
    assert!(
        release.contains("no space left on device") && release.contains("services.glance.image"),
        "{release}"
    );
    // A new build of the release that runs may be what repairs it.
    object.spec.open_stack_release = "2025.2".to_owned();
    let mut newer = seen;
    newer_builds(&mut newer);
    assert_eq!(tag(&super::super::plan(&object, &newer), "Keystone"), "28.1.1");
}

#[test]
fn the_way_back_is_open_until_a_schema_is_contracted() {
    let (before, seen) = complete(&json!({}));
    let mut object = before.clone();
    object.spec.open_stack_release = "2026.1".to_owned();
    let updating = plan(&object, &seen);
    let mut seen = seen;
    for value in updating.wanted() {
        let new = |name: &str| match name {
            "Keystone" => Health::progressing("db-expand runs"),
            _ => Health::Ready,
        };
        take_in(&mut seen, value, &new);
    }
    object = told(object, &updating);
    object.spec.open_stack_release = "2025.2".to_owned();
    let back = plan(&object, &seen);
    assert_eq!(
        (back.update, tag(&back, "Keystone").as_str()),
        (UpdatePhase::RollingBack, "28.1.0")
    );
    for value in back.wanted() {
        take_in(&mut seen, value, &ready);
    }
    let object = told(object, &back);
    assert_eq!(plan(&object, &seen).update, UpdatePhase::Idle);
    let keystone = seen
        .children
        .iter_mut()
        .find(|(found, _)| found.kind.starts_with("Keystone."));
    keystone.expect("there").1.contracting = Some("29.1.0".to_owned());
    let refused = plan(&object, &seen);
    let text = refused.blocker().expect("blocked").text();
    assert!(text.contains("restore a backup"), "{text}");
    assert_eq!(refused.update, UpdatePhase::Validating);
}

#[test]
fn what_comes_with_an_image_changes_with_it() {
    let on = json!({"enabled": true});
    let (mut object, mut seen) = complete(&json!({"services": {"nova": on, "neutron": on}}));
    let nova = |plan: &Plan| {
        let found = plan
            .wanted()
            .find(|value| value["kind"] == "Nova")
            .expect("there");
        found["spec"]["compute"]["libvirtImage"]["tag"].clone()
    };
    let release = seen
        .releases
        .iter_mut()
        .find(|release| release.name == "2026.1")
        .expect("there");
    for image in ["nova", "neutron", "libvirt", "ovn", "ovs"] {
        release.versions.insert(image.to_owned(), "2.0".to_owned());
    }
    object.spec.open_stack_release = "2026.1".to_owned();
    let first = plan(&object, &seen);
    assert_eq!(nova(&first), "1.0", "Nova waits, and so does its libvirt");
    // The infrastructure comes first.
    assert_eq!(
        (first.update, tag(&first, "Keystone").as_str()),
        (UpdatePhase::UpdatingInfra, "28.1.0")
    );
    let ovn = first
        .wanted()
        .find(|value| value["kind"] == "OVNCluster")
        .cloned()
        .expect("there");
    assert_eq!(ovn["spec"]["ovnImage"]["tag"], "2.0");
    take_in(&mut seen, &ovn, &ready);
    let second = plan(&object, &seen);
    assert_eq!(
        (second.update, tag(&second, "Keystone").as_str()),
        (UpdatePhase::UpdatingKeystone, "29.1.0")
    );
    // A refusal takes nothing away.
    object.spec.open_stack_release = "2026.2".to_owned();
    assert_eq!(nova(&plan(&object, &seen)), "1.0");
}

#[test]
fn another_image_of_a_server_is_an_update_of_infrastructure() {
    let image = |tag: &str| json!({"infrastructure": {"database": {"image": format!("mirror.example.com/mariadb:{tag}")}}});
    let (object, seen) = complete(&image("11.8.3"));
    let mut newer = small(&image("11.8.4"));
    newer.status.clone_from(&object.status);
    newer.spec.open_stack_release = "2026.1".to_owned();
    let plan = plan(&newer, &seen);
    let mariadb = plan
        .wanted()
        .find(|value| value["kind"] == "MariaDB")
        .expect("there");
    assert_eq!(mariadb["spec"]["image"], "mirror.example.com/mariadb:11.8.4");
    assert_eq!(plan.update, UpdatePhase::UpdatingInfra);
    assert_eq!(tag(&plan, "Keystone"), "28.1.0", "services wait for it");
}

#[test]
fn an_image_of_a_server_alone_is_an_update_too() {
    let image = |tag: &str| json!({"infrastructure": {"database": {"image": format!("mirror.example.com/mariadb:{tag}")}}});
    let (object, mut seen) = complete(&image("11.8.3"));
    let mut newer = small(&image("11.8.4"));
    newer.status.clone_from(&object.status);
    let installed = object
        .status
        .as_ref()
        .and_then(|status| status.installed_release.clone());

    let first = plan(&newer, &seen);
    assert_eq!(first.update, UpdatePhase::UpdatingInfra);
    assert_eq!(first.installed, installed, "no other release comes");

    // The server restarts with it: the phase stays.
    let mariadb = first
        .wanted()
        .find(|value| value["kind"] == "MariaDB")
        .cloned()
        .expect("there");
    take_in(&mut seen, &mariadb, &|_: &str| Health::progressing("restarts"));
    newer.status.as_mut().expect("complete").update_phase = Some(first.update);
    assert_eq!(plan(&newer, &seen).update, UpdatePhase::UpdatingInfra);

    take_in(&mut seen, &mariadb, &ready);
    let last = plan(&newer, &seen);
    assert_eq!(last.update, UpdatePhase::Verifying);
    assert_eq!(answered(&newer, &last, &seen).update, UpdatePhase::Complete);
}
