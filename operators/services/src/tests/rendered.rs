//! What is written for each service: every option is one that the release knows, and the objects are
//! as they were looked at by a person.

use std::collections::BTreeMap;

use c5c3_catalogue::{Catalogue, releases};
use c5c3_kit::Observed;
use serde_json::{Value, json};

use crate::build;
use crate::config::check;
use crate::reconcile::Services;
use crate::shape::Subject;
use crate::testing::*;

pub(super) fn stores() -> [(&'static str, Value); 3] {
    let rbd =
        json!({"pool": "images", "cephSecretRef": {"name": "ceph"}, "cephClientRef": {"name": "images"}});
    let s3 = json!({"endpoint": "http://s3", "bucket": "images", "secretRef": {"name": "s3"}});
    [
        ("file", json!({"backend": "file"})),
        ("rbd", json!({"backend": "rbd", "rbd": rbd})),
        ("s3", json!({"backend": "s3", "s3": s3})),
    ]
}

/// With all that a spec can turn on.
fn in_full<S: Subject>(subject: &S) -> S {
    let mut object = serde_json::to_value(subject).expect("writes");
    let spec = &mut object["spec"];
    spec["logging"] = json!({"level": "WARNING", "format": "json"});
    spec["policyOverrides"] = json!({"rules": {"a": "!"}});
    spec["publicEndpoint"] = "https://cloud.example.org/v3".into();
    if spec["keystone"].is_object() {
        spec["keystone"]["caSecretRef"] = json!({"name": "keystone-ca", "key": "cacert"});
    }
    spec["cache"] = json!({"clusterRef": {"name": "memcached"}, "backend": "oslo_cache.memcache_pool"});
    serde_json::from_value(object).expect("reads")
}

/// Contexts of oslo.privsep: libraries make these groups when they are called, so no catalogue has them.
fn is_privsep(group: &str) -> bool {
    group.starts_with("privsep") || group.ends_with("_sys_admin") || group == "vif_plug_ovs_privileged"
}

fn known_in_all_releases<S: Subject>(subject: &S) {
    let mut facts = facts();
    let cache = facts.caches.get_mut("memcached").expect("there");
    cache.spec.replicas = Some(3);
    let service = in_full(subject).shape();
    let free: Vec<&str> = service.free_groups.iter().map(String::as_str).collect();
    for settings in &service.settings {
        let options = build::options(&service, settings, &facts).expect("options");
        let options: BTreeMap<_, _> = options
            .iter()
            .filter(|(group, _)| !is_privsep(group))
            .map(|(group, all)| (group.clone(), all.clone()))
            .collect();
        for release in releases() {
            let catalogue = Catalogue::load(&release, S::SERVICE).expect("a catalogue");
            if let Err(error) = check(&options, &catalogue, &free) {
                panic!(
                    "{} {} {}: {error}",
                    catalogue.service, catalogue.version, settings.name
                );
            }
        }
    }
}

#[test]
fn every_option_is_known_to_every_release() {
    assert!(releases().len() > 1);
    known_in_all_releases(&keystone());
    known_in_all_releases(&placement());
    known_in_all_releases(&nova(json!({})));
    known_in_all_releases(&crate::tests::nova_guests::with_consoles());
    known_in_all_releases(&neutron());
    known_in_all_releases(&crate::tests::neutron_tls::given(
        json!({"certSecretRef": {"name": "ovn"}}),
    ));
    known_in_all_releases(&cinder());
    known_in_all_releases(&crate::tests::ceph::with_backup());
    for (_, storage) in stores() {
        known_in_all_releases(&glance(storage));
    }
}

/// Names end in a hash of what they stand for, which says nothing to a reader.
pub(super) fn without_hashes(text: &str) -> String {
    let is_hash = |word: &str| word.len() == 10 && word.bytes().all(|b| b.is_ascii_hexdigit());
    let words = text.split_inclusive(|c: char| !c.is_ascii_alphanumeric());
    let plain = words.map(|word| {
        let bare = word.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
        if is_hash(bare) {
            word.replace(bare, "<hash>")
        } else {
            word.to_owned()
        }
    });
    let plain: String = plain.collect();
    // One that consists of digits is quoted.
    plain
        .replace("\"<hash>\"", "<hash>")
        .replace("'<hash>'", "<hash>")
}

/// The settings, processes and steps of a service, as a person reads them.
fn outline<S: Subject>(subject: &S) -> String {
    let service = subject.shape();
    let mut text = String::new();
    for settings in &service.settings {
        let knows = |all: Vec<String>| {
            if all.is_empty() {
                "-".to_owned()
            } else {
                all.join(" ")
            }
        };
        let databases = settings
            .databases
            .iter()
            .map(|(group, name)| format!("{group}={name}"));
        let buses = settings
            .buses
            .iter()
            .map(|(group, name)| format!("{group}={name}"));
        let logins = settings.logins.iter().map(|login| login.group.to_owned());
        text += &format!(
            "settings {:?}: databases {}; buses {}; logs in as {}\n",
            settings.name,
            knows(databases.collect()),
            knows(buses.collect()),
            knows(logins.collect())
        );
    }
    for process in &service.processes {
        text += &format!(
            "process {}: {:?}, reads {:?}, after {:?}, {}, rights {:?}\n",
            process.name, process.workload, process.settings, process.after, process.part, process.rights
        );
    }
    for (phase, steps) in [
        ("schema", &service.schema.steps),
        ("expand", &service.schema.expand),
        ("contract", &service.schema.contract),
    ] {
        for step in steps {
            text += &format!("{phase} {}: {}\n", step.name, step.words().join(" "));
        }
    }
    for recurring in &service.recurring {
        for step in &recurring.steps {
            text += &format!("recurring {}: {}\n", step.name, step.words().join(" "));
        }
    }
    text
}

#[test]
fn shapes_are_as_they_were_looked_at() {
    insta::assert_snapshot!("shape-keystone", outline(&keystone()));
    insta::assert_snapshot!("shape-glance", outline(&glance(json!({"backend": "file"}))));
    insta::assert_snapshot!("shape-placement", outline(&placement()));
    insta::assert_snapshot!("shape-nova", outline(&nova(json!({}))));
    insta::assert_snapshot!("shape-neutron", outline(&neutron()));
    insta::assert_snapshot!("shape-cinder", outline(&cinder()));
    insta::assert_snapshot!("shape-cortex", outline(&super::cortex::cortex(json!({})).object));
    insta::assert_snapshot!("shape-tempest", outline(&super::tempest::tempest(None).object));
}

#[test]
fn processes_and_steps_read_settings_that_are_there() {
    fn check<S: Subject>(subject: &S) {
        let service = subject.shape();
        let there = |name: &String| service.settings.iter().any(|settings| settings.name == *name);
        let read = service.processes.iter().map(|process| &process.settings);
        for name in read.chain([&service.schema.settings]) {
            assert!(there(name), "{} has no settings {name:?}", S::SERVICE);
        }
        for settings in &service.settings {
            for (_, database) in &settings.databases {
                assert!(service.database(database).is_some(), "{database}");
            }
            for (_, bus) in &settings.buses {
                assert!(service.bus(bus).is_some(), "{bus}");
            }
        }
        let unique = |mut names: Vec<&String>| {
            let all = names.len();
            names.sort();
            names.dedup();
            names.len() == all
        };
        assert!(unique(service.settings.iter().map(|one| &one.name).collect()));
        assert!(unique(service.processes.iter().map(|one| &one.name).collect()));
        assert!(unique(service.databases.iter().map(|one| &one.name).collect()));
        let parts: Vec<&str> = S::PARTS.iter().map(|part| part.name).collect();
        for process in &service.processes {
            assert!(
                parts.contains(&process.part),
                "{} has no condition {}",
                S::SERVICE,
                process.part
            );
        }
    }
    check(&keystone());
    check(&glance(json!({"backend": "rbd"})));
    check(&placement());
    check(&nova(json!({})));
    // Names of cells that look like something else.
    for name in [
        "setup",
        "libvirt",
        "api",
        "default",
        "compute-cell1",
        "connections",
    ] {
        let bus = json!({"clusterRef": {"name": "rabbitmq"}, "secretRef": {"name": "cell2-bus"}});
        check(&nova(
            json!({"cells": [{"name": "cell1"}, {"name": name, "messaging": bus}]}),
        ));
    }
    check(&neutron());
    check(&cinder());
}

#[test]
fn a_busy_glance_is_left_at_work() {
    let seen = observed(glance(json!({"backend": "file"})), facts());
    let deployment = object(&seen, "Deployment").expect("wanted");
    let pod = &deployment["spec"]["template"]["spec"];
    assert_eq!(pod["terminationGracePeriodSeconds"], 600);
    let container = &pod["containers"][0];
    assert_eq!(container["livenessProbe"]["tcpSocket"]["port"], "api");
    assert_eq!(container["readinessProbe"]["httpGet"]["path"], "/healthcheck");
    let config = object(&seen, "ConfigMap").expect("there")["data"]["api-uwsgi.ini"].to_string();
    assert!(
        config.contains("threads = 16") && config.contains("worker-reload-mercy = 585"),
        "{config}"
    );
}

#[test]
fn glance_can_stage_whatever_its_store() {
    for (store, storage) in stores() {
        let seen = observed(glance(storage), facts());
        let pod = object(&seen, "Deployment").expect("wanted")["spec"]["template"]["spec"].clone();
        let mounts = pod["containers"][0]["volumeMounts"]
            .as_array()
            .expect("mounts")
            .clone();
        let mount = mounts
            .iter()
            .find(|mount| mount["mountPath"] == "/var/lib/glance");
        assert!(mount.is_some_and(|mount| mount["readOnly"] != true), "{store}");
        let told = pod.to_string().contains("OS_DEFAULT__WORKER_SELF_REFERENCE_URL");
        assert_eq!(told, store != "file", "a claim is shared by all pods");
    }
}

#[test]
fn what_must_hold_at_once_is_not_cached_by_servers_that_share_a_name() {
    let options = |replicas: i32| {
        let mut facts = facts();
        facts.caches.get_mut("memcached").expect("there").spec.replicas = Some(replicas);
        let service = keystone().shape();
        build::options(&service, &service.settings[0], &facts).expect("options")
    };
    assert_eq!(options(1).get("revoke", "caching"), None);
    assert_eq!(options(3).get("revoke", "caching"), Some("false"));
    assert_eq!(
        options(3).get("cache", "backend"),
        Some("oslo_cache.memcache_pool")
    );
    assert_eq!(options(3).get("cache", "memcache_dead_retry"), Some("10"));
}

#[test]
fn names_that_follow_from_secrets_tell_nothing_to_whom_lacks_the_key() {
    fn changed<S: Subject>(mut seen: Observed<Services<S>>) -> Vec<String> {
        let names = |seen: &Observed<Services<S>>| -> Vec<String> {
            let name = |object: &Value| format!("{} {}", object["kind"], object["metadata"]["name"]);
            objects(seen).iter().map(name).collect()
        };
        let before = names(&seen);
        assert!(
            before[0].ends_with("-naming-key\""),
            "what follows is named by it"
        );
        seen.facts.naming = "another".into();
        let after = names(&seen);
        let others = before.iter().filter(|name| !after.contains(name));
        others.map(|name| without_hashes(name).replace('"', "")).collect()
    }
    assert_eq!(
        changed(observed(keystone(), facts())),
        [
            "User keystone-<hash>",
            "Secret keystone-<hash>-account",
            "Grant keystone-<hash>",
            "Secret keystone-connections-<hash>",
            "Job keystone-db-sync-<hash>",
        ]
    );
    let s3 = json!({"backend": "s3", "s3": {"endpoint": "http://s3", "bucket": "images", "secretRef": {"name": "s3"}}});
    let changed = changed(observed(glance(s3), facts()));
    assert!(
        changed.contains(&"Secret glance-credentials-<hash>".to_owned()),
        "{changed:?}"
    );
    // Bootstrap's password alone names the Job as well.
    let job = |naming: &str| {
        let mut own = keystone();
        own.spec.database.cluster_ref = None;
        own.spec.database.host = Some("db".into());
        let mut seen = observed(own, facts());
        seen.facts.naming = naming.into();
        let user = objects(&seen).into_iter().find(|object| object["kind"] == "User");
        assert_eq!(user, None);
        job_names(&seen)
    };
    assert_ne!(job("a"), job("b"));
}

/// `make conformance` sends these to a real kube-apiserver with the definitions of those operators.
#[test]
fn objects_for_the_operators_of_others_in_full() {
    let of_others = |object: &Value| {
        let version = object["apiVersion"].as_str().unwrap_or_default().to_owned();
        version.starts_with("k8s.mariadb.com/") || version.starts_with("rabbitmq.com/")
    };
    let all = [
        objects(&observed(keystone(), facts())),
        objects(&observed(nova(json!({})), facts())),
    ];
    let all: Vec<Value> = all.into_iter().flatten().filter(of_others).collect();
    insta::assert_json_snapshot!("foreign", all);
}
