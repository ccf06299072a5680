use std::collections::BTreeMap;

use c5c3_api::openstack::{Glance, Keystone};
use serde_json::json;

use super::*;

fn keystone() -> Keystone {
    serde_json::from_value(json!({
        "apiVersion": "keystone.openstack.c5c3.io/v1alpha1", "kind": "Keystone",
        "metadata": {"namespace": "openstack", "name": "keystone", "uid": "u", "generation": 1},
        "spec": {
            "image": {"repository": "ghcr.io/c5c3/keystone", "tag": "28.1.0"}, "replicas": 3,
            "database": {"clusterRef": {"name": "mariadb"}, "database": "keystone", "secretRef": {"name": "keystone-db"}},
            "cache": {"clusterRef": {"name": "memcached"}},
            "bootstrap": {"adminPasswordSecretRef": {"name": "admin", "key": "password"}},
        },
    }))
    .expect("a Keystone")
}

fn secret(values: &[(&str, &str)]) -> BTreeMap<String, Vec<u8>> {
    values
        .iter()
        .map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec()))
        .collect()
}

fn facts() -> Facts {
    let ready = json!({"conditions": [{"type": "Ready", "status": "True"}]});
    Facts {
        secrets: BTreeMap::from([
            (
                "keystone-db".to_owned(),
                secret(&[("username", "keystone"), ("password", "pass/word")]),
            ),
            ("admin".to_owned(), secret(&[("password", "topsecret")])),
        ]),
        databases: BTreeMap::from([(
            "mariadb".to_owned(),
            serde_json::from_value(json!({"metadata": {"name": "mariadb"}, "spec": {}, "status": ready}))
                .expect("a MariaDB"),
        )]),
        database_objects: ["Database", "User", "Grant"]
            .into_iter()
            .map(|kind| ((kind, "keystone".to_owned()), Ok(())))
            .collect(),
        caches: BTreeMap::from([(
            "memcached".to_owned(),
            serde_json::from_value(json!({"metadata": {"name": "memcached"}, "spec": {}}))
                .expect("a Memcached"),
        )]),
        random: [[1; 32], [2; 32], [3; 32], [4; 32]],
        ..Facts::default()
    }
}

fn observed<S: Subject>(object: S, facts: Facts) -> Observed<Services<S>> {
    Observed {
        object,
        facts,
        now: "2026-01-01T12:00:00Z".parse().expect("a time"),
    }
}

fn names<S: Subject>(observed: &Observed<Services<S>>) -> Vec<String> {
    let decision = Services::<S>::decide(observed).expect("decides");
    let name = |wanted: &Wanted| {
        let object = wanted.object();
        format!(
            "{} {}",
            object["kind"].as_str().unwrap_or_default(),
            object["metadata"]["name"].as_str().unwrap_or_default()
        )
    };
    decision.wanted().iter().map(name).collect()
}

/// Marks the Job of that prefix as ended.
fn end_job(observed: &mut Observed<Services<Keystone>>, prefix: &str, condition: &str) {
    let decision = Services::<Keystone>::decide(observed).expect("decides");
    let mut job = decision
        .wanted()
        .iter()
        .map(Wanted::object)
        .find(|object| {
            object["kind"] == "Job"
                && object["metadata"]["name"]
                    .as_str()
                    .is_some_and(|name| name.starts_with(prefix))
        })
        .expect("the Job is wanted")
        .clone();
    job["status"] = json!({"conditions": [{"type": condition, "status": "True"}]});
    job["metadata"]["uid"] = "job".into();
    let name = job["metadata"]["name"].as_str().expect("a name").to_owned();
    observed
        .facts
        .jobs
        .insert(name, serde_json::from_value(job).expect("a Job"));
}

fn state(observed: &Observed<Services<Keystone>>, part: &str) -> (String, String) {
    let decision = Services::<Keystone>::decide(observed).expect("decides");
    let report = Services::<Keystone>::report(observed, &Applied::rehearse(decision));
    let state = report.states().get(part).expect("said").clone();
    (state.reason, state.message)
}

#[test]
fn each_stage_waits_for_the_one_before() {
    let mut seen = observed(keystone(), facts());
    seen.facts
        .database_objects
        .insert(("Grant", "keystone".to_owned()), Err("not ready yet".to_owned()));
    let kinds = |names: &[String], kind: &str| names.iter().filter(|name| name.starts_with(kind)).count();
    let first = names(&seen);
    assert_eq!(
        (kinds(&first, "Job"), kinds(&first, "Deployment")),
        (0, 0),
        "{first:?}"
    );
    assert_eq!(state(&seen, DATABASE_READY).1, "Grant keystone: not ready yet");

    seen.facts
        .database_objects
        .insert(("Grant", "keystone".to_owned()), Ok(()));
    let second = names(&seen);
    assert_eq!(
        (kinds(&second, "Job"), kinds(&second, "Deployment")),
        (1, 0),
        "{second:?}"
    );

    end_job(&mut seen, "keystone-db-sync", "Complete");
    let third = names(&seen);
    assert_eq!(
        (kinds(&third, "Job"), kinds(&third, "Deployment")),
        (2, 1),
        "{third:?}"
    );
    assert_eq!(kinds(&third, "PodDisruptionBudget"), 1);
}

#[test]
fn a_failed_step_tells_its_last_words_without_secrets() {
    let mut seen = observed(keystone(), facts());
    end_job(&mut seen, "keystone-db-sync", "Failed");
    let pod = json!({"metadata": {"name": "p", "namespace": "openstack", "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "job"}]},
        "status": {"containerStatuses": [{"name": "db-sync", "image": "", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"terminated": {"exitCode": 1, "message": "Traceback\nAccess denied for keystone:pass%2Fword (pass/word)"}}}]}});
    seen.facts.pods.push(serde_json::from_value(pod).expect("a Pod"));
    let (reason, message) = state(&seen, DATABASE_READY);
    assert_eq!(reason, "Failed");
    assert_eq!(
        message,
        "db-sync failed: Traceback | Access denied for keystone:*** (***)"
    );
}

#[test]
fn secrets_are_in_secrets_alone() {
    let mut seen = observed(keystone(), facts());
    end_job(&mut seen, "keystone-db-sync", "Complete");
    let decision = Services::<Keystone>::decide(&seen).expect("decides");
    for wanted in decision
        .wanted()
        .iter()
        .map(Wanted::object)
        .filter(|object| object["kind"] != "Secret")
    {
        let text = wanted.to_string();
        for secret in ["pass/word", "pass%2Fword", "topsecret"] {
            assert!(!text.contains(secret), "{} holds a secret", wanted["kind"]);
        }
    }
}

#[test]
fn a_changed_password_rolls_the_pods_and_nothing_else_does() {
    let mut seen = observed(keystone(), facts());
    end_job(&mut seen, "keystone-db-sync", "Complete");
    let template = |seen: &Observed<Services<Keystone>>| {
        let decision = Services::<Keystone>::decide(seen).expect("decides");
        let found = decision
            .wanted()
            .iter()
            .map(Wanted::object)
            .find(|object| object["kind"] == "Deployment")
            .cloned();
        found.map(|deployment| deployment["spec"]["template"].clone())
    };
    let before = template(&seen);
    seen.object.spec.replicas = 5;
    assert_eq!(
        template(&seen),
        before,
        "another number of replicas restarts nothing"
    );
    let mut changed = observed(keystone(), facts());
    changed.facts.secrets.insert(
        "keystone-db".to_owned(),
        secret(&[("username", "keystone"), ("password", "new")]),
    );
    end_job(&mut changed, "keystone-db-sync", "Complete");
    assert_ne!(template(&changed), before);
}

#[test]
fn wrong_input_is_named_and_nothing_is_decided() {
    let mut missing = observed(keystone(), facts());
    missing.facts.secrets.remove("keystone-db");
    let mut option = observed(keystone(), facts());
    option.object.spec.common.extra_config = BTreeMap::from([(
        "token".to_owned(),
        BTreeMap::from([("expirations".to_owned(), "1".to_owned())]),
    )]);
    let cases = [
        (missing, "Secret keystone-db is missing"),
        (
            option,
            "extraConfig.token.expirations: keystone 28.1.0 has no option `expirations` in [token]; did you mean `expiration`?",
        ),
    ];
    for (observed, expected) in cases {
        let error = Services::<Keystone>::decide(&observed)
            .expect_err("refused")
            .to_string();
        assert!(error.starts_with(expected), "{error}");
    }
}

#[test]
fn a_database_of_others_gets_no_objects_of_ours() {
    let mut brownfield = keystone();
    brownfield.spec.database.cluster_ref = None;
    brownfield.spec.database.host = Some("db.example.org".to_owned());
    let wanted = names(&observed(brownfield, facts()));
    assert!(
        !wanted.iter().any(|name| name.starts_with("Database")
            || name.starts_with("User")
            || name.starts_with("Grant")),
        "{wanted:?}"
    );
    assert!(
        wanted.iter().any(|name| name.starts_with("Job")),
        "its schema is made at once"
    );
}

#[test]
fn glance_knows_its_three_stores() {
    let glance = |storage: Value| -> Glance {
        serde_json::from_value(json!({
            "apiVersion": "glance.openstack.c5c3.io/v1alpha1", "kind": "Glance",
            "metadata": {"namespace": "openstack", "name": "glance", "uid": "g"},
            "spec": {
                "image": {"repository": "ghcr.io/c5c3/glance", "tag": "31.1.0"}, "replicas": 1, "storage": storage,
                "database": {"host": "db", "database": "glance", "secretRef": {"name": "glance-db"}},
                "keystone": {"authUrl": "http://keystone:5000/v3", "appCredentialRef": {"secretName": "glance-app"}},
            },
        }))
        .expect("a Glance")
    };
    let mut facts = facts();
    facts.secrets.insert(
        "glance-db".into(),
        secret(&[("username", "glance"), ("password", "pw")]),
    );
    facts.secrets.insert(
        "glance-app".into(),
        secret(&[
            ("application_credential_id", "id"),
            ("application_credential_secret", "hush"),
        ]),
    );
    facts
        .secrets
        .insert("s3".into(), secret(&[("accessKey", "ak"), ("secretKey", "sk")]));
    let cases = [
        (
            json!({"backend": "file"}),
            "filesystem_store_datadir = /var/lib/glance/images",
            1,
        ),
        (
            json!({"backend": "rbd", "rbd": {"pool": "images", "cephSecretRef": {"name": "ceph"}}}),
            "rbd_store_pool = images",
            0,
        ),
        (
            json!({"backend": "s3", "s3": {"endpoint": "http://s3", "bucket": "images", "secretRef": {"name": "s3"}}}),
            "s3_store_bucket = images",
            0,
        ),
    ];
    for (storage, line, claims) in cases {
        let decision =
            Services::<Glance>::decide(&observed(glance(storage), facts.clone())).expect("decides");
        let objects: Vec<&Value> = decision.wanted().iter().map(Wanted::object).collect();
        let config = objects
            .iter()
            .find(|object| object["kind"] == "ConfigMap")
            .expect("configured");
        let text = config["data"]["glance-api.conf"].as_str().expect("a file");
        assert!(text.contains(line) && !text.contains("hush"), "{text}");
        assert_eq!(
            objects
                .iter()
                .filter(|object| object["kind"] == "PersistentVolumeClaim")
                .count(),
            claims
        );
    }
}
