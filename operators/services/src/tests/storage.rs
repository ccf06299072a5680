//! Keys of stores are tried by the pods that use them; that they are mounted proves nothing.

use std::io::Write;
use std::process::Command;

use c5c3_api::conditions::{CEPH_CONNECTED, service};
use c5c3_api::openstack::{Glance, Nova};
use c5c3_kit::Observed;
use serde_json::{Value, json};

use crate::reconcile::Services;
use crate::testing::*;

const KEYRING: &[u8] = b"[client.cinder]\n\tkey = A\n";

/// Guests have disks in Ceph, of which Cinder alone knows the pools.
fn with_volumes(more: Value) -> Observed<Services<Nova>> {
    let mut compute = json!({"enabled": true, "virtType": "qemu",
        "libvirtImage": {"repository": "ghcr.io/c5c3/libvirt", "tag": "11.3"},
        "volumeUsers": [{"cephSecretRef": {"name": "ceph"}}]});
    for (field, value) in more.as_object().into_iter().flatten() {
        compute[field] = value.clone();
    }
    let nova = nova(json!({"compute": compute, "cells": [{"name": "cell1"}]}));
    let mut seen = observed(nova, facts());
    let secret = seen.facts.secrets.get_mut("ceph").expect("there");
    secret.insert("keyring".to_owned(), KEYRING.to_vec());
    take_job(&mut seen, "nova-api-db-sync", Some("Complete"));
    for _ in 0..4 {
        take_deployments(&mut seen);
    }
    seen
}

fn pod(seen: &Observed<Services<Nova>>, name: &str) -> Value {
    let all = objects(seen);
    let is = |object: &&Value| object["kind"] == "DaemonSet" && object["metadata"]["name"] == name;
    let found = all.iter().find(is).unwrap_or_else(|| panic!("{name}"));
    found["spec"]["template"]["spec"].clone()
}

fn names(list: &Value) -> Vec<&str> {
    let list = list.as_array().into_iter().flatten();
    list.filter_map(|one| one["name"].as_str()).collect()
}

#[test]
fn keys_that_guests_are_given_are_tried_in_the_pods_of_nova_compute() {
    let seen = with_volumes(json!({}));
    let compute = pod(&seen, "nova-compute-cell1");
    let first = &compute["initContainers"][0];
    assert_eq!(first["name"], "ceph-keys");
    let command = first["command"].as_array().expect("a command");
    assert_eq!(command[3..], [json!("cinder"), json!("/etc/ceph-keys/ceph")]);
    let tried: Vec<&str> = names(&first["volumeMounts"])
        .into_iter()
        .filter(|name| name.starts_with("tried-"))
        .collect();
    assert_eq!(tried.len(), 1);
    let own = names(&compute["containers"][0]["volumeMounts"]);
    assert!(!own.contains(&tried[0]), "nova-compute itself has no use for it");
    let labels = compute_labels(&seen);
    assert!(!labels.contains("ceph.c5c3.io"), "{labels}");
}

fn compute_labels(seen: &Observed<Services<Nova>>) -> String {
    let all = objects(seen);
    let found = all
        .iter()
        .find(|object| object["kind"] == "DaemonSet" && object["metadata"]["name"] == "nova-compute-cell1");
    found.expect("there")["metadata"]["labels"].to_string()
}

#[test]
fn what_opens_a_pool_itself_is_tried_once() {
    let rbd = json!({"rbd": {"pool": "vms", "cephSecretRef": {"name": "ceph"}}});
    let compute = pod(&with_volumes(rbd), "nova-compute-cell1");
    assert_eq!(names(&compute["initContainers"]), ["ceph"]);
}

#[test]
fn ceph_is_connected_when_a_pod_was_let_in() {
    let mut seen = with_volumes(json!({}));
    assert_eq!(
        state(&seen, CEPH_CONNECTED).0,
        "NotRequired",
        "there is no hypervisor"
    );
    let words = "Ceph does not accept the key of client.cinder: [errno 13]";
    take_check_of(&mut seen, "ceph-keys", "compute-cell1", Some(words));
    let (reason, message) = state(&seen, CEPH_CONNECTED);
    assert_eq!(
        (reason.as_str(), message),
        ("Failed", format!("compute-cell1: {words}"))
    );
    take_check_of(&mut seen, "ceph-keys", "compute-cell1", None);
    let (reason, message) = state(&seen, CEPH_CONNECTED);
    assert_eq!(reason, "Ready");
    assert_eq!(message, "compute-cell1 logged in to Ceph as client.cinder");
}

#[test]
fn an_object_store_is_ready_when_a_pod_was_let_in() {
    let s3 = json!({"endpoint": "https://s3.example.com", "bucket": "images", "secretRef": {"name": "s3"}});
    let glance: Glance = glance(json!({"backend": "s3", "s3": s3}));
    let mut seen = observed(glance, facts());
    take_job(&mut seen, "glance-db-sync", Some("Complete"));
    take_deployments(&mut seen);
    let deployment = object(&seen, "Deployment").expect("wanted");
    let pod = &deployment["spec"]["template"]["spec"];
    let first = &pod["initContainers"][0];
    assert_eq!(first["name"], "s3");
    assert_eq!(
        first["envFrom"], pod["containers"][0]["envFrom"],
        "with the key of the program"
    );
    let (reason, message) = state(&seen, service::STORAGE_READY);
    assert_eq!(reason, "Progressing", "{message}");
    take_check_of(
        &mut seen,
        "s3",
        "api",
        Some("refuses bucket images: InvalidAccessKeyId"),
    );
    let (reason, message) = state(&seen, service::STORAGE_READY);
    assert_eq!(
        (reason.as_str(), message.contains("InvalidAccessKeyId")),
        ("Failed", true)
    );
    take_check_of(&mut seen, "s3", "api", None);
    let (reason, message) = state(&seen, service::STORAGE_READY);
    assert_eq!(reason, "Ready");
    assert_eq!(message, "api asked for bucket images at https://s3.example.com");
}

/// Answers as the store does of which the variable tells.
const BOTO: &str = r#"
import os
from botocore.exceptions import ClientError
class Store:
    def list_objects_v2(self, Bucket, MaxKeys):
        code = os.environ["CODE"]
        if code:
            raise ClientError({"Error": {"Code": code, "Message": "no"}}, "ListObjectsV2")
def client(kind, **options):
    assert options["aws_secret_access_key"] == "sk" and options["endpoint_url"] == "https://s3"
    return Store()
"#;
const EXCEPTIONS: &str = r#"
class BotoCoreError(Exception): pass
class ClientError(Exception):
    def __init__(self, response, operation):
        super().__init__(operation)
        self.response = response
"#;

#[test]
fn who_the_store_refuses_is_not_started() {
    if Command::new("python3").arg("--version").output().is_err() {
        let _ = writeln!(std::io::stderr(), "skipped: there is no python3 on this machine");
        return;
    }
    let modules = tempfile::tempdir().expect("a directory");
    let botocore = modules.path().join("botocore");
    std::fs::create_dir(&botocore).expect("made");
    let config = "def Config(**options): pass\n";
    for (path, text) in [
        (modules.path().join("boto3.py"), BOTO),
        (botocore.join("__init__.py"), ""),
        (botocore.join("exceptions.py"), EXCEPTIONS),
        (botocore.join("config.py"), config),
    ] {
        std::fs::write(path, text).expect("written");
    }
    for (code, words) in [
        ("", None),
        ("NoSuchBucket", None),
        (
            "InvalidAccessKeyId",
            Some("refuses bucket images: InvalidAccessKeyId no"),
        ),
        (
            "SignatureDoesNotMatch",
            Some("refuses bucket images: SignatureDoesNotMatch no"),
        ),
    ] {
        let output = Command::new("python3")
            .args(["-c", include_str!("../build/s3.py"), "https://s3", "images"])
            .env("PYTHONPATH", modules.path())
            .env("CODE", code)
            .env("OS_STORE__S3_STORE_ACCESS_KEY", "ak")
            .env("OS_STORE__S3_STORE_SECRET_KEY", "sk")
            .output()
            .expect("runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.success(), words.is_none(), "{code}: {said}");
        assert!(words.is_none_or(|words| said.contains(words)), "{code}: {said}");
    }
}
