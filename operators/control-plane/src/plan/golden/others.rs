//! Clouds whose infrastructure or Keystone is external.

use super::super::*;
use super::world::*;
use serde_json::json;

#[test]
fn what_somebody_else_runs_is_used() {
    let object = small(&json!({"infrastructure": {
        "database": {"replicas": null, "host": "db.example.com", "port": 3307},
        "cache": {"replicas": null, "servers": ["cache.example.com:11211"]},
        "messaging": {"hosts": ["rabbit.example.com:5672"]},
    }}));
    snapshot("brownfield-1-secrets-missing", &object, &empty(&object));
    let mut seen = empty(&object);
    for service in ["keystone", "glance", "placement"] {
        let data = [("username", "u"), ("password", "p")].map(|(k, v)| (k.to_owned(), v.as_bytes().to_vec()));
        seen.secrets.insert(
            format!("{service}-db-credentials"),
            SeenSecret {
                data: data.into(),
                ours: false,
            },
        );
    }
    let seen = carried_out(&object, seen, ready);
    snapshot("brownfield-2-ready", &object, &seen);
    let bodies = bodies(&plan(&object, &seen));
    let keystone = bodies
        .iter()
        .find(|body| body["kind"] == "Keystone")
        .expect("there");
    assert_eq!(keystone["spec"]["database"]["host"], "db.example.com");
    assert_eq!(keystone["spec"]["database"]["port"], 3307);
    assert_eq!(
        keystone["spec"]["cache"]["servers"],
        json!(["cache.example.com:11211"])
    );
}

#[test]
fn an_existing_keystone_is_used() {
    let object = small(&json!({
        "services": {"keystone": {"enabled": false}},
        "korc": {"cloudCredentialsRef": {"cloudName": "there", "secretName": "clouds"}},
    }));
    snapshot("existing-keystone-1-missing", &object, &empty(&object));
    let with = |text: &str| {
        let mut seen = empty(&object);
        let data = [("clouds.yaml".to_owned(), text.as_bytes().to_vec())];
        seen.secrets.insert(
            "clouds".into(),
            SeenSecret {
                data: data.into(),
                ours: false,
            },
        );
        seen
    };
    let good = "clouds:\n  there:\n    auth:\n      auth_url: https://identity.example.com/\n      password: hidden-word\n";
    let seen = carried_out(&object, with(good), ready);
    snapshot("existing-keystone-2-ready", &object, &seen);
    let bodies = bodies(&plan(&object, &seen));
    let glance = bodies
        .iter()
        .find(|body| body["kind"] == "Glance")
        .expect("there");
    assert_eq!(
        glance["spec"]["keystone"]["authUrl"],
        "https://identity.example.com/v3"
    );
    assert_eq!(glance["spec"]["keystone"].get("caSecretRef"), None);
    let mut vouched = seen.clone();
    let secret = vouched.secrets.get_mut("clouds").expect("there");
    secret.data.insert("cacert".to_owned(), b"PEM".to_vec());
    let vouched = super::super::plan(&object, &vouched);
    let glance = vouched.wanted().find(|body| body["kind"] == "Glance");
    assert_eq!(
        glance.expect("there")["spec"]["keystone"]["caSecretRef"],
        json!({"name": "clouds", "key": "cacert"})
    );
    // K-ORC takes over what has the same name: nothing that may be theirs has one of ours.
    let managed: Vec<&Value> = bodies
        .iter()
        .filter(|body| body["spec"]["managementPolicy"] == "managed")
        .collect();
    let named: Vec<String> = managed
        .iter()
        .filter(|body| matches!(body["kind"].as_str(), Some("Project" | "Service" | "User")))
        .map(|body| format!("{} {}", body["kind"], body["spec"]["resource"]["name"]).replace('"', ""))
        .collect();
    assert_eq!(
        named,
        [
            "Project openstack-service-u1",
            "Service openstack-glance-u1",
            "User openstack-glance-u1",
            "Service openstack-placement-u1",
            "User openstack-placement-u1",
        ]
    );
    // What is left hangs on these: endpoints of our services, roles of our users on our project.
    let kinds: std::collections::BTreeSet<&str> =
        managed.iter().filter_map(|body| body["kind"].as_str()).collect();
    assert_eq!(
        kinds,
        ["Endpoint", "Project", "RoleAssignment", "Service", "User"].into()
    );
    for (text, words) in [
        ("clouds: {other: {}}", "no cloud \"there\", only other"),
        ("clouds: {there: {}}", "no auth.auth_url"),
        ("hidden-word: [", "not YAML in the form"),
    ] {
        let plan = plan(&object, &carried_out(&object, with(text), ready));
        let blocker = plan.blocker().expect("blocked").text();
        assert!(
            blocker.contains(words) && !blocker.contains("hidden-word"),
            "{blocker}"
        );
    }
    // It was there and is gone: what runs stays.
    let mut seen = seen;
    seen.secrets.remove("clouds");
    snapshot("existing-keystone-3-gone", &object, &seen);
}

#[test]
fn a_kind_that_the_cluster_does_not_have_is_told_and_the_rest_is_made() {
    let object = small(&json!({"infrastructure": {"messaging": {"replicas": 1}}}));
    let mut seen = empty(&object);
    seen.missing = ["RabbitmqCluster.rabbitmq.com".to_owned()].into();
    let first = plan(&object, &seen);
    let blocker = first.blocker().expect("blocked");
    let words =
        "this cluster has no kind RabbitmqCluster of rabbitmq.com: install RabbitMQ's cluster operator";
    assert_eq!(
        (blocker.reason(), blocker.text().as_str()),
        ("KindMissing", words)
    );
    let kinds: Vec<&str> = first
        .wanted()
        .filter_map(|value| value["kind"].as_str())
        .collect();
    assert!(!kinds.contains(&"RabbitmqCluster") && kinds.contains(&"MariaDB") && kinds.contains(&"Glance"));
    seen.missing = ["Keystone.keystone.openstack.c5c3.io".to_owned()].into();
    let text = plan(&object, &seen).blocker().expect("blocked").text();
    assert!(text.contains("install CobaltCore's CRDs (deploy/crds)"), "{text}");
}

/// An OVNCluster tells what its clients log in with; of databases of others the cloud says it.
#[test]
fn tls_of_ovn_goes_where_the_databases_are_known() {
    let made = |ovn: Value| {
        let on = json!({"enabled": true});
        let object = small(&json!({"services": {"nova": on, "neutron": on}, "infrastructure": {"ovn": ovn}}));
        let plan = plan(&object, &running(&object));
        let spec = |kind: &str| {
            let mut wanted = plan.wanted();
            let found = wanted.find(|one| one["kind"] == kind).cloned();
            found.unwrap_or_default()["spec"].clone()
        };
        (
            spec("OVNCluster")["tls"].clone(),
            spec("Neutron")["ovn"]["tls"].clone(),
        )
    };
    let off = Value::Null;
    assert_eq!(made(json!({"replicas": 1})), (off.clone(), off.clone()));
    let on = json!({"enabled": true});
    assert_eq!(made(json!({"tls": on})), (on.clone(), off.clone()));
    let own = json!({"enabled": true, "certSecretRef": {"name": "mine"}, "hypervisorSecretRef": {"name": "theirs"}});
    assert_eq!(made(json!({"tls": own})), (own.clone(), off.clone()));
    let given = json!({"northbound": "ssl:a:1", "southbound": "ssl:a:2", "tls": own});
    let secrets = json!({"certSecretRef": {"name": "mine"}, "hypervisorSecretRef": {"name": "theirs"}});
    assert_eq!(made(given), (off, secrets));
}

/// The topology operator reads no other Secrets, so no vhost would get its user.
#[test]
fn secrets_of_managed_buses_are_marked_for_the_topology_operator() {
    let on = json!({"enabled": true});
    let cells = json!(["cell1", "cell2"]);
    let backend = json!([{"name": "fast", "driver": "x.y.Z"}]);
    let object = small(&json!({"services": {
        "nova": {"enabled": true, "cells": cells}, "neutron": on, "cinder": {"enabled": true, "backends": backend},
    }}));
    let seen = running(&object);
    let fresh = Seen {
        secrets: BTreeMap::new(),
        ..seen.clone()
    };
    let plan = plan(&object, &fresh);
    fn named<'a>(value: &'a Value, found: &mut BTreeSet<&'a str>) {
        match value {
            Value::Object(fields) => {
                if let Some(bus) = fields.get("messaging") {
                    found.extend(bus["secretRef"]["name"].as_str());
                }
                fields.values().for_each(|below| named(below, found));
            }
            Value::Array(items) => items.iter().for_each(|item| named(item, found)),
            _ => {}
        }
    }
    let mut buses = BTreeSet::new();
    plan.wanted().for_each(|object| named(object, &mut buses));
    assert!(buses.len() >= 4, "{buses:?}");
    let marked = plan
        .wanted()
        .filter(|object| object["kind"] == "Secret")
        .filter(|object| object["metadata"]["labels"]["rabbitmq.com/topology-operator"] == "true")
        .filter_map(|object| object["metadata"]["name"].as_str());
    assert_eq!(marked.collect::<BTreeSet<_>>(), buses);
}

#[test]
fn a_release_alone_asks_for_no_volume_that_nodes_share() {
    let object: ControlPlane = serde_json::from_value(json!({
        "apiVersion": "c5c3.io/v1alpha1", "kind": "ControlPlane",
        "metadata": {"name": "cloud", "namespace": "openstack", "uid": "u1"},
        "spec": {"openStackRelease": "2025.2"},
    }))
    .expect("a ControlPlane");
    let seen = running(&object);
    let plan = plan(&object, &seen);
    let found = |kind: &str| {
        plan.wanted()
            .find(|value| value["kind"] == kind)
            .cloned()
            .expect(kind)
    };
    let glance = found("Glance");
    assert_eq!(glance["spec"]["replicas"], 1);
    assert_eq!(glance["spec"]["storage"]["file"]["shared"], Value::Null);
    let bodies = bodies(&plan);
    assert!(!json!(bodies).to_string().contains("ReadWriteMany"));
    for kind in ["MariaDB", "RabbitmqCluster", "OVNCluster"] {
        let named = found(kind).to_string();
        assert!(
            !named.contains("storageClass"),
            "{kind} takes the default class: {named}"
        );
    }
    // What nobody can choose for the user is named with its field; all else is done.
    let open: Vec<String> = plan
        .steps
        .iter()
        .filter(|step| !step.state.is_done())
        .map(Step::text)
        .collect();
    assert!(
        open.iter().all(|text| text.contains("services.cinder.")),
        "{open:?}"
    );
}
