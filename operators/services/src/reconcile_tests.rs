use std::collections::BTreeMap;

use c5c3_api::common::ObjectRef;
use c5c3_api::conditions::{CEPH_CONNECTED, DATABASE_READY, DEPLOYMENT_READY, service};
use c5c3_api::openstack::{Glance, Keystone};
use serde_json::{Value, json};

use super::*;
use crate::testing::*;

/// A Keystone that was set up once.
fn installed() -> Observed<Services<Keystone>> {
    let mut seen = observed(keystone(), facts());
    take_job(&mut seen, "keystone-db-sync", Some("Complete"));
    seen
}

fn template(seen: &Observed<Services<Keystone>>) -> Option<Value> {
    Some(object(seen, "Deployment")?["spec"]["template"].clone())
}

#[test]
fn a_first_install_waits_for_nothing_that_it_can_do_without() {
    let mut seen = observed(keystone(), facts());
    seen.facts
        .backend_objects
        .insert(("Database", "keystone".into()), Err("not ready yet".into()));
    assert_eq!((count(&seen, "Job"), count(&seen, "Deployment")), (1, 1));
    let waits = state(&seen, DATABASE_READY);
    assert_eq!(
        waits,
        ("Waiting".into(), "Database keystone: not ready yet".into())
    );
    assert_eq!(
        state(&seen, service::BOOTSTRAP_READY).1,
        "waiting for the database"
    );
    // Placement reads its database when it starts.
    assert_eq!(count(&observed(placement(), facts()), "Deployment"), 0);
}

#[test]
fn a_change_rolls_out_when_the_schema_fits_and_not_before() {
    let mut seen = installed();
    seen.object.spec.common.image.tag = Some("29.1.0".into());
    assert_eq!((count(&seen, "Job"), count(&seen, "Deployment")), (1, 0));
    assert_eq!(
        state(&seen, DEPLOYMENT_READY).1,
        "waiting for the database schema"
    );
    take_job(&mut seen, "keystone-db-sync", Some("Complete"));
    assert_eq!(
        (count(&seen, "Job"), count(&seen, "Deployment")),
        (0, 1),
        "a Job is written once"
    );
    // A status alone is enough to know that there is something to lose.
    let mut restored = observed(keystone(), facts());
    restored.object.status = serde_json::from_value(json!({"installedRelease": "28.1.0"})).expect("a status");
    assert_eq!(count(&restored, "Deployment"), 0);
}

#[test]
fn options_and_policies_roll_the_pods_without_a_schema_job() {
    let mut seen = installed();
    let before = template(&seen);
    let options = [(
        "token".to_owned(),
        [("expiration".to_owned(), "60".to_owned())].into(),
    )];
    seen.object.spec.common.extra_config = options.into();
    assert_eq!(count(&seen, "Job"), 0);
    let with_option = template(&seen);
    assert_ne!(with_option, before);
    seen.object.spec.common.policy_overrides =
        serde_json::from_value(json!({"rules": {"identity:get_user": "role:reader"}})).expect("a policy");
    assert_eq!(count(&seen, "Job"), 0);
    assert_ne!(template(&seen), with_option);
}

#[test]
fn replicas_and_a_new_admin_password_restart_nothing() {
    let mut seen = installed();
    let before = template(&seen);
    seen.object.spec.replicas = 5;
    assert_eq!(template(&seen), before);
    let password = secret(&[("password", "another")]);
    seen.facts.secrets.insert("admin".to_owned(), password);
    assert_eq!(
        count(&seen, "Job"),
        1,
        "bootstrap gives the admin the new password"
    );
    take_job(&mut seen, "keystone-db-sync", Some("Complete"));
    assert_eq!(template(&seen), before);
}

#[test]
fn a_new_database_password_rolls_the_pods() {
    let mut seen = installed();
    let before = template(&seen);
    let changed = secret(&[("username", "keystone"), ("password", "new1")]);
    seen.facts.secrets.insert("keystone-db".to_owned(), changed);
    take_job(&mut seen, "keystone-db-sync", Some("Complete"));
    assert_ne!(template(&seen), before);
}

#[test]
fn a_failed_step_tells_its_last_words_without_secrets() {
    let mut seen = observed(keystone(), facts());
    take_job(&mut seen, "keystone-db-sync", None);
    let ended = |code: i32| json!({"terminated": {"exitCode": code, "message": "Traceback\n\nAccess denied for keystone:pass%2Fword (pass/word)\n"}});
    let waiting = json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}});
    let words = "Traceback | Access denied for keystone:*** (***); it will be retried";
    seen.facts.pods = vec![job_pod(&waiting, &ended(1))];
    let (reason, message) = state(&seen, DATABASE_READY);
    assert_eq!(
        (reason.as_str(), message),
        ("Failed", format!("db-sync failed: {words}"))
    );
    assert_eq!(state(&seen, service::BOOTSTRAP_READY).1, "waiting for db-sync");

    seen.facts.pods = vec![job_pod(&ended(2), &json!({}))];
    assert_eq!(state(&seen, DATABASE_READY).1, "db-sync done");
    assert_eq!(
        state(&seen, service::BOOTSTRAP_READY).1,
        format!("bootstrap failed: {words}")
    );

    seen.facts.pods = vec![job_pod(&json!({"terminated": {"exitCode": 137}}), &json!({}))];
    assert_eq!(
        state(&seen, DATABASE_READY).1,
        "db-sync failed: exit code 137; it will be retried"
    );

    let pulling = json!({"waiting": {"reason": "ErrImagePull", "message": "no such image"}});
    seen.facts.pods = vec![job_pod(&pulling, &json!({}))];
    assert_eq!(
        state(&seen, DATABASE_READY).1,
        "db-sync failed: ErrImagePull: no such image; it will be retried"
    );
}

#[test]
fn secrets_are_in_secrets_alone() {
    let seen = observed(keystone(), facts());
    for object in objects(&seen).iter().filter(|object| object["kind"] != "Secret") {
        let text = object.to_string();
        for secret in ["pass/word", "pass%2Fword", "topsecret"] {
            assert!(!text.contains(secret), "{} holds a secret", object["kind"]);
        }
    }
    let glance = observed(glance(json!({"backend": "file"})), facts());
    let job = object(&glance, "Job").expect("wanted").to_string();
    assert!(!job.contains("credentials-"), "a step needs the database alone");
}

#[test]
fn a_service_is_set_up_while_its_credential_is_on_its_way() {
    let mut seen = observed(glance(json!({"backend": "file"})), facts());
    seen.facts.secrets.remove("service-app");
    assert_eq!((count(&seen, "Job"), count(&seen, "Deployment")), (1, 0));
    let (reason, message) = state(&seen, DEPLOYMENT_READY);
    assert_eq!(reason, "SecretMissing");
    assert!(message.starts_with("Secret service-app is missing"), "{message}");
}

#[test]
fn what_it_depends_on_holds_the_first_start_and_no_later_one() {
    let mut seen = observed(keystone(), facts());
    seen.facts.unmet = Some(trouble("waiting for Valkey valkey, which is missing"));
    assert_eq!((count(&seen, "Job"), count(&seen, "Deployment")), (0, 0));
    assert_eq!(
        state(&seen, DATABASE_READY),
        (
            "DependencyNotReady".into(),
            "waiting for Valkey valkey, which is missing".into()
        )
    );
    let mut running = installed();
    running.facts.unmet = Some(trouble("waiting for Valkey valkey, which is missing"));
    assert_eq!(count(&running, "Deployment"), 1);
}

#[test]
fn an_autoscaler_decides_the_replicas() {
    let mut seen = installed();
    seen.object.spec.replicas = 1;
    assert_eq!(count(&seen, "PodDisruptionBudget"), 0);
    seen.object.spec.common.autoscaling = serde_json::from_value(json!({"maxReplicas": 4})).expect("scaling");
    let scaler = object(&seen, "HorizontalPodAutoscaler").expect("wanted");
    assert_eq!(scaler["spec"]["scaleTargetRef"]["name"], "keystone");
    assert_eq!(
        (&scaler["spec"]["minReplicas"], &scaler["spec"]["maxReplicas"]),
        (&json!(1), &json!(4))
    );
    assert_eq!(count(&seen, "PodDisruptionBudget"), 1);
    // The number that runs is sent until somebody else owns it: dropped, it would fall to one.
    let sent = |seen: &Observed<Services<Keystone>>| {
        object(seen, "Deployment").expect("wanted")["spec"]
            .get("replicas")
            .cloned()
    };
    assert_eq!(sent(&seen), Some(json!(1)), "the first time");
    take_deployments(&mut seen);
    let live = seen.facts.deployments.get_mut("keystone").expect("there");
    live.spec.replicas = Some(3);
    let owner = |manager: &str| json!([{"manager": manager, "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:replicas": {}}}}]);
    live.metadata.managed_fields = serde_json::from_value(owner("keystone")).expect("fields");
    assert_eq!(sent(&seen), Some(json!(3)));
    let live = seen.facts.deployments.get_mut("keystone").expect("there");
    live.metadata.managed_fields = serde_json::from_value(owner("autoscaler")).expect("fields");
    assert_eq!(sent(&seen), None);
}

#[test]
fn a_network_policy_lets_in_the_own_namespace_and_those_named() {
    let mut seen = installed();
    assert_eq!(count(&seen, "NetworkPolicy"), 0);
    seen.object.spec.common.network_policy =
        serde_json::from_value(json!({"allowedNamespaces": ["ingress"]})).expect("a policy");
    let policy = object(&seen, "NetworkPolicy").expect("wanted");
    let from = &policy["spec"]["ingress"][0]["from"][0]["namespaceSelector"]["matchExpressions"][0];
    assert_eq!(from["values"], json!(["openstack", "ingress"]));
    assert_eq!(policy["spec"]["policyTypes"], json!(["Ingress"]));
}

#[test]
fn pods_have_no_rights_that_they_do_without() {
    let deployment = object(&installed(), "Deployment").expect("wanted");
    let pod = &deployment["spec"]["template"]["spec"];
    assert_eq!(pod["automountServiceAccountToken"], false);
    assert_eq!(pod["securityContext"]["runAsUser"], 42424);
    assert_eq!(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
    let container = &pod["containers"][0]["securityContext"];
    assert_eq!(container["readOnlyRootFilesystem"], true);
    assert_eq!(container["capabilities"]["drop"], json!(["ALL"]));
    let update = &deployment["spec"]["strategy"]["rollingUpdate"];
    assert_eq!(
        (&update["maxUnavailable"], &update["maxSurge"]),
        (&json!(0), &json!(1))
    );
}

#[test]
fn credentials_are_encrypted_anew_before_the_next_rotation() {
    let mut seen = installed();
    let rotated = |seen: &Observed<Services<Keystone>>| {
        let is = |object: &&Value| object["metadata"]["name"] == "keystone-credential-keys";
        let objects = objects(seen);
        let secret = objects.iter().find(is).expect("wanted");
        secret["data"].as_object().expect("keys").len()
    };
    let key = |byte: u8| crate::keys::key([byte; 32]);
    let stored = secret(&[("0", &key(9)), ("1", &key(8)), ("2", &key(7))]);
    let stored = keys(stored, "2025-01-01T00:00:00Z");
    seen.facts.key_secrets.insert("credential-keys", stored);
    // A rotation is due and the one before was never finished.
    assert_eq!(
        (rotated(&seen), count(&seen, "Job")),
        (3, 1),
        "the Job comes first"
    );
    let (reason, message) = state(&seen, service::CREDENTIAL_KEYS_READY);
    assert_eq!(reason, "Waiting");
    assert!(message.starts_with("a rotation is due"), "{message}");
    let job = object(&seen, "Job").expect("wanted").to_string();
    assert!(
        job.contains("credential_migrate") && job.contains("/credential-keys/2"),
        "{job}"
    );
    take_job(&mut seen, "keystone-credential-migrate", Some("Complete"));
    let is = |object: &&Value| object["metadata"]["name"] == "keystone-credential-keys";
    let after = objects(&seen);
    let data = after.iter().find(is).expect("wanted")["data"].clone();
    assert!(
        data.get("3").is_some() && data.get("1").is_none(),
        "rotated: {data}"
    );
}

#[test]
fn a_database_of_others_gets_no_objects_of_ours() {
    let mut brownfield = keystone();
    brownfield.spec.database.cluster_ref = None;
    brownfield.spec.database.host = Some("db.example.org".to_owned());
    let seen = observed(brownfield, facts());
    for kind in ["Database", "User", "Grant"] {
        assert_eq!(count(&seen, kind), 0);
    }
    assert_eq!(count(&seen, "Job"), 1, "its schema is made at once");
}

#[test]
fn glance_knows_its_three_stores() {
    let cases = [
        (
            json!({"backend": "file"}),
            "filesystem_store_datadir = /var/lib/glance/images",
            1,
        ),
        (
            json!({"backend": "rbd", "rbd": {"pool": "images", "cephSecretRef": {"name": "ceph"}}}),
            "rbd_store_pool = images\nrbd_store_user = glance",
            0,
        ),
        (
            json!({"backend": "s3", "s3": {"endpoint": "http://s3", "bucket": "images", "secretRef": {"name": "s3"}}}),
            "s3_store_bucket = images",
            0,
        ),
    ];
    for (storage, line, claims) in cases {
        let seen = observed(glance(storage), facts());
        let config = object(&seen, "ConfigMap").expect("configured");
        let text = config["data"]["glance-api.conf"].as_str().expect("a file");
        assert!(text.contains(line) && !text.contains("hush"), "{text}");
        assert_eq!(count(&seen, "PersistentVolumeClaim"), claims);
    }
}

#[test]
fn a_keyring_alone_does_not_prove_that_ceph_is_there() {
    let storage = json!({"backend": "rbd", "rbd": {"pool": "images", "cephSecretRef": {"name": "ceph"}}});
    let mut seen = observed(glance(storage), facts());
    take_job(&mut seen, "glance-db-sync", Some("Complete"));
    let first =
        object(&seen, "Deployment").expect("made")["spec"]["template"]["spec"]["initContainers"].clone();
    let command = first[0]["command"].as_array().expect("a command");
    assert_eq!(command[3..], [json!("glance"), json!("images")]);
    let mounts = first[0]["volumeMounts"].to_string();
    assert!(
        mounts.contains("/etc/ceph") && !mounts.contains("/etc/glance"),
        "{mounts}"
    );
    let told = |seen: &_| state::<Glance>(seen, CEPH_CONNECTED);
    assert_eq!(
        told(&seen).1,
        "api has not opened pool images as client.glance yet"
    );
    take_check(
        &mut seen,
        "api",
        Some("Ceph does not open pool images: [errno 13] denied\n"),
    );
    let refused = (
        "Failed".to_owned(),
        "api: Ceph does not open pool images: [errno 13] denied".to_owned(),
    );
    assert_eq!(told(&seen), refused);
    take_check(&mut seen, "api", None);
    assert_eq!(told(&seen).1, "api opened pool images as client.glance");
}

#[test]
fn what_rook_says_of_the_user_comes_first() {
    let storage = json!({"backend": "rbd", "rbd": {"pool": "images", "cephSecretRef": {"name": "ceph"}, "cephClientRef": {"name": "images"}}});
    let mut seen = observed(glance(storage), facts());
    let config = object(&seen, "ConfigMap").expect("configured").to_string();
    assert!(config.contains("rbd_store_user = images"), "{config}");
    assert_eq!(state(&seen, CEPH_CONNECTED).1, "CephClient images is missing");
    let client = |phase: &str| {
        let client =
            json!({"metadata": {"name": "images"}, "spec": {"caps": {}}, "status": {"phase": phase}});
        let reference = ObjectRef {
            name: "images".into(),
            namespace: None,
        };
        BTreeMap::from([(reference, serde_json::from_value(client).expect("a CephClient"))])
    };
    seen.facts.ceph_clients = client("Progressing");
    assert_eq!(state(&seen, CEPH_CONNECTED).1, "CephClient images is Progressing");
    seen.facts.ceph_clients = client("Ready");
    assert_eq!(state(&seen, CEPH_CONNECTED).0, "Progressing");
    take_check(&mut seen, "api", None);
    assert_eq!(state(&seen, CEPH_CONNECTED).0, "Ready");
    seen.facts.secrets.remove("ceph");
    assert!(
        state(&seen, CEPH_CONNECTED)
            .1
            .starts_with("Secret ceph is missing")
    );
}
