//! What happens to something that runs: rollouts, keys, configurations, accounts.

use c5c3_api::conditions::{DEPLOYMENT_READY, service};
use c5c3_api::foreign::mariadb;
use c5c3_api::openstack::{Glance, Keystone};
use c5c3_kit::owned::Owned;
use c5c3_kit::{Kind, Observed, States};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use serde_json::{Value, json};

use crate::reconcile::Services;
use crate::testing::*;

#[test]
fn ready_is_of_what_was_applied_and_not_of_what_was_there() {
    let mut seen = running();
    assert_eq!(
        state(&seen, DEPLOYMENT_READY),
        ("Ready".into(), "3 of 3 replicas up".into())
    );
    seen.object.spec.common.resources =
        serde_json::from_value(json!({"requests": {"cpu": "1"}})).expect("resources");
    let (reason, message) = state(&seen, DEPLOYMENT_READY);
    assert_eq!(reason, "Progressing", "{message}");
}

#[test]
fn the_pod_that_is_not_well_is_named_with_its_last_words() {
    let mut seen = running();
    let live = seen.facts.deployments.get_mut("keystone").expect("there");
    live.status.as_mut().expect("a status").available_replicas = Some(2);
    let container = |ready: bool, state: Value, last: Value| {
        json!({"conditions": [{"type": "Ready", "status": "False", "message": "containers with unready status: [api]"}],
            "containerStatuses": [{"name": "api", "image": "", "imageID": "", "ready": ready, "restartCount": 3,
                "state": state, "lastState": last}]})
    };
    let cases = [
        (
            container(
                false,
                json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}}),
                json!({"terminated": {"exitCode": 1, "message": "no access with pass/word"}}),
            ),
            "; pod keystone-1: no access with ***",
        ),
        (
            container(false, json!({"running": {}}), json!({})),
            "; pod keystone-1 is running but not ready: containers with unready status: [api]",
        ),
        (
            json!({"conditions": [{"type": "PodScheduled", "status": "False", "message": "0/3 nodes"}]}),
            "; pod keystone-1 is not scheduled: 0/3 nodes",
        ),
        (
            on_its_way("2026-01-01T11:59:00Z", None),
            "; pod keystone-1 was scheduled at 2026-01-01T11:59:00Z but has not started: see its events",
        ),
        (
            on_its_way("2026-01-01T11:59:00Z", Some("no secret pass/word")),
            "; pod keystone-1 was scheduled at 2026-01-01T11:59:00Z but has not started: no secret ***",
        ),
        (on_its_way("2026-01-01T11:59:01Z", None), ""),
    ];
    for (status, words) in cases {
        seen.facts.pods = vec![process_pod(&status)];
        let (_, message) = state(&seen, DEPLOYMENT_READY);
        assert_eq!(
            message,
            format!("2 of 3 replicas up, 3 with the current configuration{words}")
        );
    }
}

#[test]
fn a_pod_that_hangs_is_looked_for_though_nothing_tells() {
    let mut seen = running();
    let again = |seen: &Observed<Services<Keystone>>| {
        let report = seen.report(&applied(seen));
        format!("{report:?}").contains("again: Some(30s)")
    };
    assert!(!again(&seen));
    seen.facts.pods = vec![process_pod(&on_its_way("2026-01-01T11:59:30Z", None))];
    assert!(again(&seen));
    seen.now = "2026-01-01T12:00:30Z".parse().expect("a time");
    assert!(!again(&seen), "it is named by now");
}

#[test]
fn what_is_stored_is_encrypted_anew_when_no_pod_uses_the_key_before() {
    let mut seen = running();
    let key = |byte: u8| crate::keys::key([byte; 32]);
    let stored = secret(&[("0", &key(9)), ("1", &key(8)), ("2", &key(7))]);
    seen.facts
        .key_secrets
        .insert("credential-keys", keys(stored, "2026-01-01T11:55:01Z"));
    assert_eq!(job_names(&seen).len(), 0);
    assert!(
        state(&seen, service::CREDENTIAL_KEYS_READY)
            .1
            .ends_with("re-encryption of stored data begins at 2026-01-01T12:00:01Z")
    );
    seen.now = "2026-01-01T12:00:01Z".parse().expect("a time");
    assert!(job_names(&seen)[0].starts_with("keystone-credential-migrate-"));
}

#[test]
fn keys_that_go_before_an_expired_token_may_be_asked_for_are_told_of() {
    let mut seen = running();
    let words = |seen: &Observed<Services<Keystone>>| state(seen, service::FERNET_KEYS_READY);
    assert!(!words(&seen).1.contains("allow_expired_window"), "a week each");
    seen.object.spec.fernet.rotation_schedule = "0 0 * * *".into();
    let (reason, message) = words(&seen);
    assert_eq!(reason, "Ready", "a warning, no more");
    assert!(
        message.contains("for another 172800 s ([token] allow_expired_window)"),
        "{message}"
    );
    seen.object.spec.common.extra_config =
        serde_json::from_value(json!({"token": {"allow_expired_window": "7200"}})).expect("options");
    assert!(!words(&seen).1.contains("allow_expired_window"));
}

#[test]
fn keys_are_rotated_while_another_input_is_wrong() {
    let mut seen = running();
    seen.object.spec.federation.enabled = true;
    seen.object.status = serde_json::from_value(json!({"installedRelease": "28.1.0", "conditions": [
        {"type": "DatabaseReady", "status": "True", "reason": "Succeeded", "message": "db-sync done",
            "lastTransitionTime": "2026-01-01T00:00:00Z"}]}))
    .expect("a status");
    seen.now = "2026-02-01T00:00:00Z".parse().expect("a time");
    seen.facts.random = [[5; 32], [6; 32], [7; 32], [8; 32]];
    let decision = seen.decide().expect("decides");
    let names: Vec<&Value> = decision
        .wanted()
        .iter()
        .map(|wanted| &wanted.object()["metadata"]["name"])
        .collect();
    assert_eq!(names, ["keystone-fernet-keys", "keystone-credential-keys"]);
    assert_eq!(
        decision.wanted()[0].object()["data"]
            .as_object()
            .map(serde_json::Map::len),
        Some(3)
    );
    // The error is told as ever; of the rest nothing is said, so it stays as it was told before.
    assert!(refusal(&seen).starts_with("federation.enabled: true is not supported yet"));
    let report = seen.report(&applied(&seen));
    assert_eq!(report.states(), &States::default());
    assert_eq!(report.status_fields()["installedRelease"], "28.1.0");
}

#[test]
fn a_decision_shows_names_and_no_content() {
    let decision = running().decide().expect("decides");
    let shown = format!("{decision:?}");
    assert!(
        shown.contains("Secret keystone-fernet-keys") && !shown.contains("data"),
        "{shown}"
    );
}

#[test]
fn the_newest_three_configurations_stay_and_whatever_is_read() {
    let mut seen = running();
    let map = |name: &str| Kind::of::<ConfigMap>().named(Some("openstack"), name);
    for number in 1..=5 {
        let owned = Owned {
            uid: String::new(),
            created: format!("2026-01-01T00:00:0{number}Z").parse().ok(),
            deleting: false,
        };
        let reference = map(&format!("keystone-config-{number}"));
        seen.facts.owned.push((reference, owned));
    }
    let reads = |name: &str| {
        let mut pod = process_pod(&json!({}));
        let spec = pod.spec.as_mut().expect("a spec");
        let volumes = json!([{"name": "config", "configMap": {"name": name}}]);
        spec.volumes = serde_json::from_value(volumes).expect("volumes");
        pod
    };
    // The watch has reported the first and not yet the last.
    seen.facts.pods = vec![reads("keystone-config-1"), reads("keystone-config-unknown")];
    let names = kept(&seen, "ConfigMap");
    let expected = ["1", "4", "5", "unknown"].map(|end| format!("keystone-config-{end}"));
    assert_eq!(names, expected);
}

#[test]
fn options_that_could_not_be_checked_are_said() {
    let cases = [
        (
            json!({"tag": "latest"}),
            "glance latest belongs to no known release",
        ),
        (
            json!({"digest": "sha256:00"}),
            "the image has a digest but no tag that names its release",
        ),
    ];
    for (image, why) in cases {
        let mut glance: Glance = glance(json!({"backend": "file"}));
        let mut with = image;
        with["repository"] = "glance".into();
        glance.spec.common.image = serde_json::from_value(with).expect("an image");
        glance.spec.common.extra_config =
            serde_json::from_value(json!({"DEFAULT": {"nonsense": "1"}})).expect("options");
        let mut seen = observed(glance, facts());
        take_job(&mut seen, "glance-db-sync", Some("Complete"));
        take_deployments(&mut seen);
        let (reason, message) = state(&seen, DEPLOYMENT_READY);
        assert_eq!(reason, "Ready");
        assert_eq!(
            message,
            format!("1 of 1 replicas up; extraConfig was not checked: {why}")
        );
        // Of a secret any release tells.
        seen.object.spec.common.extra_config =
            serde_json::from_value(json!({"keystone_authtoken": {"password": "hunter2"}})).expect("options");
        let error = refusal(&seen);
        assert!(
            error.contains("extraConfig.keystone_authtoken.password: must not be set here: it is a secret"),
            "{error}"
        );
    }
}

#[test]
fn logging_is_as_asked_for() {
    let mut seen = running();
    let config =
        |seen: &Observed<Services<Keystone>>| object(seen, "ConfigMap").expect("there")["data"].clone();
    seen.object.spec.common.logging =
        serde_json::from_value(json!({"level": "ERROR", "format": "json"})).expect("logging");
    let files = config(&seen);
    let (options, server) = (
        files["keystone.conf"].to_string(),
        files["api-uwsgi.ini"].to_string(),
    );
    assert!(
        options.contains("use_json = true") && options.contains("default_log_levels = root=ERROR"),
        "{options}"
    );
    assert!(server.contains("disable-logging = true"), "{server}");
}

#[test]
fn an_account_stays_while_a_pod_uses_its_password() {
    let mut seen = running();
    let account = |seen: &Observed<Services<Keystone>>| {
        let user = objects(seen).into_iter().find(|object| object["kind"] == "User");
        let user = user.expect("a User");
        (user["metadata"]["name"].clone(), user["spec"]["name"].clone())
    };
    let before = account(&seen);
    let old = before.0.as_str().expect("a name").to_owned();
    let kept_secret = format!("{old}-account");
    for (kind, name) in [
        (Kind::of::<mariadb::User>(), &old),
        (Kind::of::<mariadb::Grant>(), &old),
        (Kind::of::<Secret>(), &kept_secret),
    ] {
        let owned = Owned {
            uid: String::new(),
            created: None,
            deleting: false,
        };
        seen.facts
            .owned
            .push((kind.named(Some("openstack"), name), owned));
    }
    let password = secret(&[("username", "keystone"), ("password", "another")]);
    seen.facts.secrets.insert("keystone-db".to_owned(), password);
    let after = account(&seen);
    assert!(after.0 != before.0 && after.1 != before.1, "{before:?} {after:?}");
    let stays = |seen: &Observed<Services<Keystone>>| {
        let names = [kept(seen, "User"), kept(seen, "Grant")].concat();
        names.iter().filter(|name| **name == old).count()
            + usize::from(kept(seen, "Secret").contains(&kept_secret))
    };
    // Nothing has rolled out yet; then all pods have the new one.
    assert_eq!(stays(&seen), 3);
    take_job(&mut seen, "keystone-db-sync", Some("Complete"));
    take_deployments(&mut seen);
    assert_eq!(stays(&seen), 0);
}

#[test]
fn a_keystone_with_its_own_authority_is_trusted() {
    let mut glance: Glance = glance(json!({"backend": "file"}));
    glance.spec.keystone.ca_secret_ref =
        serde_json::from_value(json!({"name": "keystone-ca", "key": "cacert"})).expect("a reference");
    let mut seen = observed(glance, facts());
    let config = object(&seen, "ConfigMap").expect("there")["data"].clone();
    let text = config["glance-api.conf"].as_str().expect("text");
    assert!(text.contains("cafile = /etc/glance/keystone-ca.crt"), "{text}");
    assert_eq!(
        config["keystone-ca.crt"], "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n",
        "and no key"
    );
    let secret = seen.facts.secrets.get_mut("keystone-ca").expect("there");
    secret.insert("cacert".to_owned(), b"no PEM".to_vec());
    let error = refusal(&seen);
    assert!(
        error.contains("Secret keystone-ca has no certificate in cacert"),
        "{error}"
    );
}

/// Who applied these fields, as the server notes it; lists as wholes.
fn fields(value: &Value) -> Value {
    let fields = value.as_object().into_iter().flatten();
    fields
        .map(|(name, below)| (format!("f:{name}"), fields_below(below)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

fn fields_below(value: &Value) -> Value {
    if value.is_object() {
        fields(value)
    } else {
        json!({})
    }
}

#[test]
fn how_many_run_follows_the_spec_while_a_change_waits() {
    let mut seen = running();
    let applied = object(&seen, "Deployment").expect("wanted");
    let live = seen.facts.deployments.get_mut("keystone").expect("there");
    let ours = json!([{"manager": "keystone", "operation": "Apply", "apiVersion": "apps/v1",
        "fieldsV1": {"f:spec": fields(&applied["spec"])}}]);
    live.metadata.managed_fields = serde_json::from_value(ours).expect("fields");
    // A default of the server's is not ours, and is left to it.
    live.spec.progress_deadline_seconds = Some(600);
    seen.object.spec.common.image.tag = Some("29.1.0".into());
    assert_eq!(job_names(&seen).len(), 1, "the schema comes first");
    assert_eq!(
        (count(&seen, "Deployment"), kept(&seen, "Deployment").len()),
        (0, 1)
    );
    seen.object.spec.replicas = 5;
    let mut expected = applied;
    expected["spec"]["replicas"] = 5.into();
    assert_eq!(object(&seen, "Deployment"), Some(expected), "and nothing else");
    // Where an autoscaler decides, the spec does not.
    seen.object.spec.common.autoscaling =
        serde_json::from_value(json!({"minReplicas": 1, "maxReplicas": 9, "targetCpuUtilization": 80})).ok();
    assert!(seen.object.spec.common.autoscaling.is_some());
    assert_eq!(count(&seen, "Deployment"), 0);
}

#[test]
fn how_many_run_follows_the_spec_while_it_is_refused() {
    let mut seen = running();
    let applied = object(&seen, "Deployment").expect("wanted");
    let live = seen.facts.deployments.get_mut("keystone").expect("there");
    let ours = json!([{"manager": "keystone", "operation": "Apply", "apiVersion": "apps/v1",
        "fieldsV1": {"f:spec": fields(&applied["spec"])}}]);
    live.metadata.managed_fields = serde_json::from_value(ours).expect("fields");
    let wrong = [("expirations".to_owned(), "1".to_owned())];
    seen.object.spec.common.extra_config = [("token".to_owned(), wrong.into())].into();
    seen.object.spec.replicas = 5;
    assert!(refusal(&seen).contains("expirations"));
    let mut expected = applied;
    expected["spec"]["replicas"] = 5.into();
    assert_eq!(object(&seen, "Deployment"), Some(expected));
}

#[test]
fn keys_are_rotated_when_they_are_due_while_it_is_refused() {
    let mut seen = running();
    let wrong = [("expirations".to_owned(), "1".to_owned())];
    seen.object.spec.common.extra_config = [("token".to_owned(), wrong.into())].into();
    assert!(refusal(&seen).contains("expirations"));
    let rotated = |seen: &Observed<Services<Keystone>>| {
        let all = objects(seen);
        let keys = all
            .iter()
            .find(|object| object["metadata"]["name"] == "keystone-fernet-keys");
        let keys = keys.expect("wanted").clone();
        (
            keys["metadata"]["annotations"]["c5c3.io/rotated-at"].clone(),
            keys["data"].clone(),
        )
    };
    let before = rotated(&seen);
    seen.facts.random = [[5; 32], [6; 32], [7; 32], [8; 32]];
    assert_eq!(rotated(&seen), before, "not due yet");
    seen.now = "2026-03-01T12:00:00Z".parse().expect("a time");
    assert!(refusal(&seen).contains("expirations"), "and it is refused still");
    let after = rotated(&seen);
    assert_eq!(after.0, "2026-03-01T12:00:00Z");
    assert_ne!(after.1, before.1);
    assert_eq!(kept(&seen, "Job"), Vec::<String>::new());
    assert_eq!(count(&seen, "Job"), 0, "nothing else begins");
}

#[test]
fn a_service_without_replicas_is_not_ready() {
    let mut seen = running();
    seen.object.spec.replicas = 0;
    take_deployments(&mut seen);
    let (reason, message) = state(&seen, c5c3_api::conditions::DEPLOYMENT_READY);
    assert_eq!(reason, "ScaledToZero");
    assert!(message.contains("set it to 1 or more"), "{message}");
}
