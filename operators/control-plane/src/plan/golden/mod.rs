//! Golden files of plans: a table of clouds and of what is seen of them.

mod fields;
mod others;
mod properties;
mod refusals;
mod updates;
mod verification;
pub(crate) mod world;

use super::*;
use c5c3_api::common::Blocker;
use c5c3_api::health::Trouble;
use serde_json::json;
use world::*;

#[test]
fn a_small_cloud_comes_up_step_by_step() {
    let object = small(&json!({}));
    snapshot("small-1-fresh", &object, &empty(&object));
    let starting = |_: &str| Health::progressing("is starting");
    snapshot(
        "small-2-starting",
        &object,
        &carried_out(&object, empty(&object), starting),
    );
    let infrastructure = |name: &str| match name {
        "MariaDB" | "Memcached" => Health::Ready,
        "Keystone" => Health::progressing("db-sync runs"),
        _ => failed("Secret glance-app-credential is missing".to_owned()),
    };
    snapshot(
        "small-3-infrastructure",
        &object,
        &carried_out(&object, empty(&object), infrastructure),
    );
    let keystone = |name: &str| match name {
        "MariaDB" | "Memcached" | "Keystone" => Health::Ready,
        "User glance" => Health::progressing("waits for Project service"),
        _ => Health::progressing("is starting"),
    };
    snapshot(
        "small-4-keystone",
        &object,
        &carried_out(&object, empty(&object), keystone),
    );
    let credentials = |name: &str| match name {
        "Glance" => Health::progressing("0 of 1 replicas up"),
        _ => Health::Ready,
    };
    snapshot(
        "small-5-credentials",
        &object,
        &carried_out(&object, empty(&object), credentials),
    );
    snapshot("small-6-ready", &object, &running(&object));
    let complete = installed(object.clone(), "2025.2");
    snapshot("small-7-complete", &complete, &running(&complete));
}

#[test]
fn the_blocker_is_named_down_to_the_words_of_the_program() {
    let object = small(&json!({}));
    let words = "db-sync failed: access denied for user keystone";
    let denied = |name: &str| match name {
        "MariaDB" | "Memcached" => Health::Ready,
        "Keystone" => failed(words.to_owned()),
        _ => Health::progressing("is starting"),
    };
    let seen = carried_out(&object, empty(&object), denied);
    let plan = plan(&object, &seen);
    assert_eq!(
        plan.blocker().map(Step::text).as_deref(),
        Some(format!("Keystone: {words}").as_str())
    );
    // A part that restarts does not take away what runs.
    let restarting = |name: &str| match name {
        "Memcached" => Health::progressing("0 of 1 servers are up"),
        _ => Health::Ready,
    };
    let seen = carried_out(&object, running(&object), restarting);
    snapshot("cache-restarts", &object, &seen);
}

#[test]
fn a_credential_that_was_just_written_is_no_failure() {
    let object = small(&json!({}));
    let behind = |name: &str| match name {
        "Glance" => Health::Failed(Trouble {
            reason: reason::SECRET_MISSING.to_owned(),
            message: "Secret glance-app-credential is missing: create it".to_owned(),
            blocker: Some(Blocker {
                kind: "Secret".to_owned(),
                name: "glance-app-credential".to_owned(),
                ..Blocker::default()
            }),
        }),
        _ => Health::Ready,
    };
    let seen = carried_out(&object, empty(&object), behind);
    let plan = plan(&object, &seen);
    let blocker = plan.blocker().expect("blocked");
    assert_eq!(
        blocker.state,
        State::Running("Glance is loading its new credential".to_owned())
    );
}

#[test]
fn objects_in_full() {
    let object = small(&json!({
        "region": "north",
        "infrastructure": {
            "database": {"replicas": 3, "storageClass": "fast", "storageSize": "5Gi"},
            "cache": {"replicas": 2, "memory": "1Gi"},
            "messaging": {"replicas": 3, "storageSize": "1Gi"},
        },
        "services": {
            "keystone": {
                "publicEndpoint": "https://identity.example.com/v3",
                "fernet": {"rotationInterval": "24h", "maxActiveKeys": 4},
                "policyOverrides": {"configMapRef": {"name": "keystone-policy"}},
            },
            "glance": {
                "image": {"repository": "example.com/glance", "tag": "mine"},
                "publicEndpoint": "https://image.example.com",
                "policyOverrides": {"rules": {"b": "own"}},
                "extraConfig": {"DEFAULT": {"debug": "true"}},
                "resources": {"requests": {"cpu": "1"}},
            },
        },
        "global": {"policyOverrides": {"rules": {"a": "global", "b": "global"}, "configMapRef": {"name": "policy"}}},
    }));
    insta::assert_json_snapshot!("objects", bodies(&plan(&object, &running(&object))));
}

#[test]
fn clusters_of_which_nothing_is_said_are_as_the_api_tells() {
    let specs = |infrastructure: Value| {
        let object =
            small(&json!({"infrastructure": infrastructure, "services": {"nova": {"enabled": true}}}));
        let specs: BTreeMap<String, Value> = bodies(&plan(&object, &empty(&object)))
            .into_iter()
            .map(|body| {
                (
                    body["kind"].as_str().unwrap_or_default().to_owned(),
                    body["spec"].clone(),
                )
            })
            .collect();
        specs
    };
    let found = specs(json!({"database": {"replicas": null}, "cache": {"replicas": null}}));
    assert_eq!(found["MariaDB"]["replicas"], 3);
    assert_eq!(found["MariaDB"]["storage"]["size"], c5c3_api::c5c3::DATABASE_SIZE);
    assert_eq!(found["Memcached"]["replicas"], 3);
    let broker = &found["RabbitmqCluster"];
    assert_eq!(broker["replicas"], 3);
    assert_eq!(broker["persistence"]["storage"], c5c3_api::c5c3::MESSAGING_SIZE);
    assert!(
        broker["delayStartSeconds"].is_null(),
        "members have to find each other"
    );
    let small = specs(json!({"messaging": {"replicas": 1, "resources": {"requests": {"cpu": "2"}}}}));
    let broker = &small["RabbitmqCluster"];
    assert_eq!(broker["delayStartSeconds"], 0);
    assert_eq!(broker["resources"], json!({"requests": {"cpu": "2"}}));
}

#[test]
fn servers_have_the_images_of_the_release() {
    let object = small(&json!({"global": {"imageRegistry": "registry.example/cloud"}}));
    let mut seen = empty(&object);
    for release in &mut seen.releases {
        let versions = [("mariadb", "11.8"), ("memcached", "1.6")];
        release
            .versions
            .extend(versions.map(|(name, version)| (name.to_owned(), version.to_owned())));
    }
    let image = |seen: &Seen, object: &ControlPlane, kind: &str| {
        let all = bodies(&plan(object, seen));
        let found = all.iter().find(|body| body["kind"] == kind).cloned();
        found.map(|body| body["spec"]["image"].clone())
    };
    assert_eq!(
        image(&seen, &object, "MariaDB"),
        Some(json!("registry.example/cloud/mariadb:11.8"))
    );
    assert_eq!(
        image(&seen, &object, "Memcached"),
        Some(json!("registry.example/cloud/memcached:1.6"))
    );
    // A release that nobody knows changes no image.
    let unknown = small(&json!({"openStackRelease": "2031.1"}));
    let server = json!({"apiVersion": "k8s.mariadb.com/v1alpha1", "kind": "MariaDB",
        "metadata": {"namespace": "openstack", "name": "mariadb"}, "spec": {"image": "theirs:1"}});
    let mut seen = empty(&unknown);
    seen.children.insert(reference(&server), Child::of(&server));
    assert_eq!(image(&seen, &unknown, "MariaDB"), Some(json!("theirs:1")));
}

#[test]
fn roles_of_service_users_are_imported_whatever_else_is() {
    let object = small(&json!({"korc": {"bootstrapResources": ["domains", "projects"]}}));
    let plan = plan(&object, &running(&object));
    let names = |kind: &str| -> Vec<String> {
        let of_kind = plan.wanted().filter(|value| value["kind"] == kind);
        of_kind
            .map(|value| value["metadata"]["name"].as_str().unwrap_or("").to_owned())
            .collect()
    };
    let roles = names("Role");
    assert_eq!(roles, ["admin", "service"]);
    assert_eq!(names("Domain"), ["default"]);
    for grant in plan.wanted().filter(|value| value["kind"] == "RoleAssignment") {
        let role = grant["spec"]["resource"]["roleRef"]
            .as_str()
            .unwrap_or("")
            .to_owned();
        assert!(roles.contains(&role), "nothing imports Role {role}");
    }
}

#[test]
fn without_korc_the_credentials_are_given() {
    let object = small(&json!({"korc": {"enabled": false}}));
    snapshot("no-korc", &object, &carried_out(&object, empty(&object), ready));
}

#[test]
fn what_is_not_supported_yet_says_how_to_leave_it_out() {
    let object = small(&json!({"global": {"monitoring": {"enabled": true}}}));
    snapshot("not-supported", &object, &running(&object));
}

#[test]
fn servers_and_networks_come_with_their_bus_and_ovn() {
    let on = json!({"enabled": true});
    let object = small(&json!({"services": {"nova": on, "neutron": on}}));
    snapshot("servers-1-fresh", &object, &empty(&object));
    snapshot("servers-2-ready", &object, &running(&object));
    // Brokers of others are one bus: a second cell would share it.
    let hosts = json!({"messaging": {"hosts": ["mq:5672"]}});
    let two = json!({"enabled": true, "cells": ["cell1", "cell2"]});
    let object = small(&json!({"infrastructure": hosts, "services": {"nova": two}}));
    let plan = plan(&object, &running(&object));
    let nova = plan
        .steps
        .iter()
        .find(|step| step.name == "nova")
        .expect("a step");
    assert!(
        nova.text().starts_with("services.nova.cells: several cells need"),
        "{}",
        nova.text()
    );
}

#[test]
fn hypervisors_are_told_where_volumes_are() {
    let ceph = json!({"pool": "volumes", "cephSecretRef": {"name": "ceph"}});
    let backends = json!([
        {"name": "files", "driver": "cinder.volume.drivers.nfs.NfsDriver", "file": {}},
        {"name": "fast", "rbd": ceph}, {"name": "large", "rbd": ceph},
    ]);
    let compute = |enabled: bool| {
        let cinder = json!({"enabled": enabled, "backends": backends});
        let object = small(&json!({"services": {"nova": {"enabled": true}, "cinder": cinder}}));
        let plan = plan(&object, &running(&object));
        let nova = plan
            .steps
            .iter()
            .find(|step| step.name == "nova")
            .expect("a step");
        let nova = nova.objects.iter().find_map(|object| match object {
            Object::Apply(value) if value["kind"] == "Nova" => Some(value.clone()),
            _ => None,
        });
        nova.expect("a Nova")["spec"]["compute"].clone()
    };
    let told = compute(true);
    assert_eq!(told["volumeClaims"], json!([{"name": "cinder-volumes-files"}]));
    // One key, though two backends use it.
    assert_eq!(told["volumeUsers"], json!([{"cephSecretRef": {"name": "ceph"}}]));
    let without = compute(false);
    assert!(without["volumeClaims"].is_null() && without["volumeUsers"].is_null());
}

#[test]
fn a_cinder_without_a_place_for_volumes_is_told_and_stays() {
    let backend = json!([{"name": "fast", "driver": "x.y.Z"}]);
    let object = small(&json!({"services": {"cinder": {"enabled": true, "backends": backend}}}));
    let seen = running(&object);
    let emptied = small(&json!({"services": {"cinder": {"enabled": true}}}));
    let plan = plan(&emptied, &seen);
    let cinder = plan
        .steps
        .iter()
        .find(|step| step.name == "cinder")
        .expect("a step");
    assert!(
        cinder
            .text()
            .starts_with("services.cinder.backends: Cinder has no place"),
        "{}",
        cinder.text()
    );
    assert!(
        matches!(cinder.objects.as_slice(), [Object::Keep(_)]),
        "{cinder:?}"
    );
    assert!(
        plan.removal
            .now
            .iter()
            .all(|gone| !gone.kind.starts_with("Cinder."))
    );
}

#[test]
fn what_is_turned_off_goes_in_reverse_order() {
    let before = small(&json!({"infrastructure": {"messaging": {"replicas": 1}}}));
    let mut seen = running(&before);
    let object = small(&json!({"services": {"glance": {"enabled": false}}}));
    let mut rounds = 0;
    loop {
        let plan = plan(&object, &seen);
        if plan.removal.is_empty() {
            break;
        }
        rounds += 1;
        insta::assert_snapshot!(format!("removal-{rounds}"), told(&plan));
        seen.owned
            .retain(|(reference, _)| !plan.removal.now.contains(reference));
        seen.children
            .retain(|reference, _| !plan.removal.now.contains(reference));
    }
    assert_eq!(
        rounds, 6,
        "service, rotation, endpoints, user and service, message bus, secrets"
    );
}

#[test]
fn an_update_goes_from_tier_to_tier() {
    let before = small(&json!({}));
    let mut seen = running(&before);
    let object = installed(small(&json!({"openStackRelease": "2026.1"})), "2025.2");
    let mut phases = Vec::new();
    for round in 1..10 {
        let plan = plan(&object, &seen);
        let images: Vec<String> = plan
            .wanted()
            .filter(|value| value.pointer("/spec/image").is_some())
            .map(line)
            .collect();
        let told = answered(&object, &plan, &seen);
        phases.push(format!("{round} {:?}: {}", told.update, images.join(", ")));
        if told.update == UpdatePhase::Complete {
            assert_eq!(told.installed.as_deref(), Some("2026.1"));
            assert_eq!(told.blocker(), None);
            break;
        }
        assert!(told.blocker().is_some(), "Ready in the middle of an update");
        assert_eq!(told.installed.as_deref(), Some("2025.2"));
        // First it changes, then it is ready.
        let changed: Vec<Value> = plan
            .wanted()
            .filter(|value| value.pointer("/spec/image").is_some())
            .filter(|value| seen.children[&reference(value)].image != value.pointer("/spec/image").cloned())
            .cloned()
            .collect();
        let settled: Vec<Value> = plan.wanted().cloned().collect();
        if changed.is_empty() {
            settled.iter().for_each(|value| take_in(&mut seen, value, &ready));
        } else {
            let updating = |_: &str| Health::progressing("db-sync runs");
            changed
                .iter()
                .for_each(|value| take_in(&mut seen, value, &updating));
        }
    }
    insta::assert_snapshot!("update-phases", phases.join("\n"));
}

#[test]
fn a_tier_waits_until_the_schema_of_the_one_before_is_new() {
    let before = small(&json!({}));
    let object = installed(small(&json!({"openStackRelease": "2026.1"})), "2025.2");
    let tag = |plan: &Plan, kind: &str| {
        let found = plan.wanted().find(|value| value["kind"] == kind).expect("there");
        found["spec"]["image"]["tag"].as_str().unwrap_or("").to_owned()
    };
    let mut seen = running(&before);
    let keystone = plan(&object, &seen)
        .wanted()
        .find(|value| value["kind"] == "Keystone")
        .cloned()
        .expect("there");
    // It has the new image and says Ready, but its database is of the release before.
    take_in(&mut seen, &keystone, &ready);
    let child = seen.children.get_mut(&reference(&keystone)).expect("there");
    child.installed = Some("28.1.0".to_owned());
    let lagging = plan(&object, &seen);
    assert_eq!(tag(&lagging, "Glance"), "31.1.0");
    assert_eq!(lagging.update, UpdatePhase::UpdatingKeystone);
    let said: Vec<String> = lagging
        .steps
        .iter()
        .map(Step::text)
        .filter(|text| text.contains("updated"))
        .collect();
    assert_eq!(
        said,
        [
            "Keystone is updated to 2026.1",
            "Glance is updated after Keystone",
            "Placement is updated after Keystone"
        ]
    );
    take_in(&mut seen, &keystone, &ready);
    assert_eq!(tag(&plan(&object, &seen), "Glance"), "32.0.0");
}

#[test]
fn what_is_asked_for_and_not_there_yet_is_told() {
    let global =
        json!({"tls": {"enabled": true, "issuerRef": {"name": "ca"}}, "monitoring": {"enabled": true}});
    let object = small(&json!({"global": global}));
    let plan = plan(&object, &running(&object));
    let blocker = plan.blocker().expect("blocked");
    assert_eq!(
        (blocker.reason(), blocker.text().as_str()),
        (
            reason::NOT_SUPPORTED,
            "TLS is not supported yet: set global.tls.enabled: false"
        )
    );
    assert!(
        plan.steps
            .iter()
            .any(|step| step.text().contains("set global.monitoring.enabled: false"))
    );
    assert!(
        plan.wanted().any(|value| value["kind"] == "Glance"),
        "the rest runs"
    );
}
