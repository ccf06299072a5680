//! What is written for each service: every option is one that the release knows, and the objects are
//! as they were looked at by a person.

use std::collections::BTreeMap;

use c5c3_catalogue::{Catalogue, releases};
use c5c3_kit::Observed;
use serde_json::{Value, json};

use crate::build;
use crate::config::check;
use crate::names::Names;
use crate::reconcile::Services;
use crate::subject::Subject;
use crate::testing::*;

fn stores() -> [(&'static str, Value); 3] {
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

fn known_in_all_releases<S: Subject>(subject: &S) {
    let mut facts = facts();
    let cache = facts.caches.get_mut("memcached").expect("there");
    cache.spec.replicas = Some(3);
    let subject = in_full(subject);
    let options = build::options(&subject, &facts).expect("options");
    let options: BTreeMap<_, _> = options
        .iter()
        .map(|(group, all)| (group.clone(), all.clone()))
        .collect();
    for release in releases() {
        let catalogue = Catalogue::load(&release, S::DESCRIPTOR.name).expect("a catalogue");
        if let Err(error) = check(&options, &catalogue, &subject.free_groups()) {
            panic!("{} {}: {error}", catalogue.service, catalogue.version);
        }
    }
}

#[test]
fn every_option_is_known_to_every_release() {
    assert!(releases().len() > 1);
    known_in_all_releases(&keystone());
    known_in_all_releases(&placement());
    for (_, storage) in stores() {
        known_in_all_releases(&glance(storage));
    }
}

/// Deployment and Job, without what every change of a line would turn over.
fn golden<S: Subject>(mut seen: Observed<Services<S>>) -> String {
    let name = Names::of(&seen.object).name;
    let job = object(&seen, "Job").expect("a Job");
    take_job(&mut seen, &format!("{name}-"), Some("Complete"));
    let mut text = String::new();
    for mut object in [job, object(&seen, "Deployment").expect("a Deployment")] {
        let command = object.pointer_mut("/spec/template/spec/containers/0/command");
        for word in command.and_then(Value::as_array_mut).into_iter().flatten() {
            if word.as_str().is_some_and(|word| word.contains('\n')) {
                *word = "<steps.py>".into();
            }
        }
        let yaml = serde_saphyr::to_string(&object).expect("writes");
        for secret in [
            "pass/word",
            "pass%2Fword",
            "topsecret",
            "hush",
            "pw12",
            "ak12",
            "sk12",
        ] {
            assert!(!yaml.contains(secret), "{yaml}");
        }
        text.push_str("---\n");
        text.push_str(&without_hashes(&yaml));
    }
    text
}

/// Names end in a hash of what they stand for, which says nothing to a reader.
fn without_hashes(text: &str) -> String {
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
    plain.collect()
}

#[test]
fn deployments_and_jobs_are_as_they_were_looked_at() {
    insta::assert_snapshot!("keystone", golden(observed(keystone(), facts())));
    insta::assert_snapshot!("placement", golden(observed(placement(), facts())));
    for (store, storage) in stores() {
        insta::assert_snapshot!(
            format!("glance-{store}"),
            golden(observed(glance(storage), facts()))
        );
    }
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
        build::options(&keystone(), &facts).expect("options")
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
