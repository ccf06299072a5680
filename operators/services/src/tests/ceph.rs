//! Who a service is in Ceph follows from the keyring, and changes with it.

use c5c3_api::openstack::Cinder;
use c5c3_kit::Observed;
use serde_json::{Value, json};

use crate::reconcile::Services;
use crate::testing::*;

/// One backend whose user the spec does not name, and backups.
pub(crate) fn with_backup() -> Cinder {
    let mut cinder = cinder();
    let backend = json!([{"name": "fast", "driver": "cinder.volume.drivers.rbd.RBDDriver",
        "rbd": {"pool": "volumes", "cephSecretRef": {"name": "ceph"}}}]);
    cinder.spec.backends = serde_json::from_value(backend).expect("a backend");
    cinder.spec.default_volume_type = None;
    let backup = json!({"rbd": {"pool": "backups", "cephSecretRef": {"name": "ceph-backup"}}});
    cinder.spec.backup = Some(serde_json::from_value(backup).expect("a backup"));
    cinder
}

fn seen(keyring: &str) -> Observed<Services<Cinder>> {
    let cinder = with_backup();
    let mut seen = observed(cinder, facts());
    for (name, keyring) in [
        ("ceph", keyring),
        ("ceph-backup", "[client.cinder-backup]\nkey = C\n"),
    ] {
        let data = [("ceph.conf", "[global]"), ("keyring", keyring)];
        let data = data.map(|(key, text)| (key.to_owned(), text.as_bytes().to_vec()));
        seen.facts.secrets.insert(name.to_owned(), data.into());
    }
    take_job(&mut seen, "cinder-db-sync", Some("Complete"));
    seen
}

const FIRST: &str = "[client.cinder-1]\n\tkey = A\n";
const BOTH: &str = "[client.cinder-2]\n\tkey = B\n[client.cinder-1]\n\tkey = A\n";
const SECOND: &str = "[client.cinder-2]\n\tkey = B\n";

fn find(seen: &Observed<Services<Cinder>>, kind: &str, name: &str) -> Value {
    let all = objects(seen);
    let is = |object: &&Value| {
        let found = object["metadata"]["name"].as_str().unwrap_or_default();
        object["kind"] == kind && found.starts_with(name)
    };
    let found = all.iter().find(is);
    found.unwrap_or_else(|| panic!("{kind} {name}")).clone()
}

/// A backend waits for the process of backups.
fn with_backup_up(keyring: &str) -> Observed<Services<Cinder>> {
    let mut seen = seen(keyring);
    take_deployments(&mut seen);
    seen
}

fn labels(object: &Value) -> Vec<&str> {
    let labels = object["metadata"]["labels"].as_object().expect("labels");
    let ours = labels
        .keys()
        .filter_map(|label| label.strip_prefix("ceph.c5c3.io/"));
    ours.collect()
}

#[test]
fn a_service_is_the_first_user_of_its_keyring() {
    for (keyring, user) in [(FIRST, "cinder-1"), (BOTH, "cinder-2"), (SECOND, "cinder-2")] {
        let seen = with_backup_up(keyring);
        let volume = find(&seen, "Deployment", "cinder-volume-fast");
        let template = &volume["spec"]["template"];
        let label = format!("user.{user}");
        assert_eq!(labels(&volume), [label.as_str()]);
        assert_eq!(labels(template), [label.as_str()], "its pods can be found by it");
        let selector = volume["spec"]["selector"]["matchLabels"].to_string();
        assert!(!selector.contains(user), "a selector never changes");
        let keys = template["spec"]["volumes"].to_string();
        assert!(keys.contains(&format!("ceph.client.{user}.keyring")), "{keys}");
        let command = template["spec"]["initContainers"][0]["command"]
            .as_array()
            .expect("a command");
        assert_eq!(command[3..], [json!(user), json!("volumes")]);
        let text = find(&seen, "ConfigMap", "cinder-volume-fast-config-");
        let text = text["data"]["cinder.conf"].as_str().expect("a file").to_owned();
        let uuid = crate::kinds::ceph::secret_uuid("ceph", user);
        for line in [
            format!("rbd_user = {user}\n"),
            format!("rbd_secret_uuid = {uuid}\n"),
        ] {
            assert!(text.contains(&line), "{line}{text}");
        }
    }
}

/// The second half of a rotation restarts nothing.
#[test]
fn that_the_user_before_goes_is_no_change_for_a_backend() {
    let both = find(&with_backup_up(BOTH), "Deployment", "cinder-volume-fast");
    let one = find(&with_backup_up(SECOND), "Deployment", "cinder-volume-fast");
    assert_eq!(both["spec"]["template"], one["spec"]["template"]);
    let first = find(&with_backup_up(FIRST), "Deployment", "cinder-volume-fast");
    assert_ne!(first["spec"]["template"], one["spec"]["template"]);
}

#[test]
fn backups_have_a_process_with_a_key_of_its_own() {
    let seen = seen(BOTH);
    let backup = find(&seen, "Deployment", "cinder-backup");
    assert_eq!(backup["spec"]["strategy"]["type"], "Recreate");
    let pod = &backup["spec"]["template"]["spec"];
    assert_eq!(pod["terminationGracePeriodSeconds"], 600);
    let volumes = pod["volumes"].as_array().expect("volumes");
    let keys = volumes
        .iter()
        .find(|volume| volume["name"] == "ceph-backup")
        .expect("keys");
    // A backend says as whom its volumes are opened: both keys are there while it changes.
    let sources = json!([
        {"secret": {"name": "ceph-backup", "items": [
            {"key": "ceph.conf", "path": "ceph.conf"},
            {"key": "keyring", "path": "ceph.client.cinder-backup.keyring"}]}},
        {"secret": {"name": "ceph", "items": [
            {"key": "keyring", "path": "ceph.client.cinder-2.keyring"},
            {"key": "keyring", "path": "ceph.client.cinder-1.keyring"}]}},
    ]);
    assert_eq!(keys["projected"]["sources"], sources);
    assert_eq!(labels(&backup), ["user.cinder-2", "user.cinder-backup"]);
    let command = pod["initContainers"][0]["command"].as_array().expect("a command");
    assert_eq!(command[3..], [json!("cinder-backup"), json!("backups")]);
    let text = find(&seen, "ConfigMap", "cinder-backup-config-");
    let text = text["data"]["cinder.conf"].as_str().expect("a file").to_owned();
    for line in [
        "backup_driver = cinder.backup.drivers.ceph.CephBackupDriver\n",
        "backup_ceph_user = cinder-backup\n",
        "backup_ceph_pool = backups\n",
    ] {
        assert!(text.contains(line), "{line}{text}");
    }
    assert!(!text.contains("rbd_user"), "{text}");
}

#[test]
fn backups_have_a_new_key_before_a_backend_tells_of_its_user() {
    let mut seen = with_backup_up(FIRST);
    let keyring = seen.facts.secrets.get_mut("ceph").expect("there");
    keyring.insert("keyring".to_owned(), BOTH.as_bytes().to_vec());
    let all = objects(&seen);
    let wanted = |name: &str| {
        let is = |object: &&Value| object["kind"] == "Deployment" && object["metadata"]["name"] == name;
        all.iter().find(is).map(|object| labels(object).join(" "))
    };
    assert_eq!(
        wanted("cinder-backup").as_deref(),
        Some("user.cinder-2 user.cinder-backup")
    );
    assert_eq!(wanted("cinder-volume-fast"), None, "it stays as it is until then");
}
