//! Tokens, certificates and the kubeconfig.

use crate::status::Reason;
use std::{net::Ipv4Addr, os::unix::fs::PermissionsExt};

use serde_json::{Value, json};

use super::super::*;
use crate::{
    store::{Action, Expect, History, ObjectKey, Redb, Store, Write, draft},
    strategy::ServiceNetwork,
};

struct Bed {
    directory: tempfile::TempDir,
    cluster: Cluster,
    runtime: tokio::runtime::Runtime,
}

fn bed() -> Bed {
    let directory = tempfile::tempdir().expect("a directory");
    let disk = Redb::open(&directory.path().join("store.redb")).expect("a store");
    let store = Store::open(Box::new(disk), History::default()).expect("opens");
    let cluster = Cluster::new("one", store, ServiceNetwork::new(Ipv4Addr::new(10, 96, 0, 0), 16));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime");
    Bed {
        directory,
        cluster,
        runtime,
    }
}

impl Bed {
    fn put(&self, group: &str, resource: &str, object: &Value) {
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
        let write = Write {
            collection: self.cluster.collection(group, resource),
            key: ObjectKey::new(text("namespace"), text("name")),
            expect: Expect::Absent,
            action: Action::Put(draft(object)),
        };
        self.runtime
            .block_on(self.cluster.store.write(write))
            .expect("is written");
    }

    fn delete(&self, group: &str, resource: &str, namespace: &str, name: &str) {
        let stored = self
            .cluster
            .get(group, resource, namespace, name)
            .expect("is there");
        let write = Write {
            collection: self.cluster.collection(group, resource),
            key: ObjectKey::new(namespace, name),
            expect: Expect::Revision(stored.revision),
            action: Action::Delete(draft(&stored.value())),
        };
        self.runtime
            .block_on(self.cluster.store.write(write))
            .expect("is deleted");
    }
}

fn account() -> Value {
    json!({"metadata": {"name": "bot", "namespace": "a", "uid": "u1"}})
}

#[test]
fn tokens_live_as_long_as_what_they_are_bound_to() {
    let bed = bed();
    let access = AccessControl::open(bed.directory.path(), &[]).expect("keys");
    bed.put("", "serviceaccounts", &account());
    let pod = json!({"metadata": {"name": "p", "namespace": "a", "uid": "u2"}, "spec": {"serviceAccountName": "bot"}});
    bed.put("", "pods", &pod);
    let request = json!({"spec": {"boundObjectRef": {"kind": "Pod", "name": "p"}, "expirationSeconds": 700}});
    let answer = access
        .token(&bed.cluster, &Identity::admin(), &account(), request)
        .expect("a token");
    assert_eq!(answer["spec"]["expirationSeconds"], 700);
    let token = answer["status"]["token"].as_str().expect("a text");
    let verified = access.tokens.verify(&bed.cluster, token, &[]).expect("is valid");
    assert_eq!(verified.identity.user, "system:serviceaccount:a:bot");
    assert_eq!(verified.identity.uid, "u1");
    assert!(
        verified
            .identity
            .groups
            .contains(&"system:serviceaccounts:a".to_owned())
    );
    assert_eq!(
        verified.identity.extra["authentication.kubernetes.io/pod-name"],
        ["p"]
    );

    let other = Cluster::new(
        "two",
        bed.cluster.store.clone(),
        ServiceNetwork::new(Ipv4Addr::LOCALHOST, 16),
    );
    assert!(
        access.tokens.verify(&other, token, &[]).is_err(),
        "clusters are isolated"
    );
    let mut forged = token.to_owned();
    forged.replace_range(token.len() - 2.., "xx");
    assert!(access.tokens.verify(&bed.cluster, &forged, &[]).is_err());

    bed.delete("", "pods", "a", "p");
    let gone = access
        .tokens
        .verify(&bed.cluster, token, &[])
        .expect_err("the pod is gone");
    assert!(gone.contains("pods \"p\" is gone"), "{gone}");
}

#[test]
fn tokens_are_for_their_audience_and_time() {
    let bed = bed();
    let access = AccessControl::open(bed.directory.path(), &[]).expect("keys");
    bed.put("", "serviceaccounts", &account());
    let request = |spec: Value| {
        access.token(
            &bed.cluster,
            &Identity::admin(),
            &account(),
            json!({"spec": spec}),
        )
    };
    let vault = request(json!({"audiences": ["vault"]})).expect("a token");
    let vault = vault["status"]["token"].as_str().expect("a text");
    assert!(access.tokens.verify(&bed.cluster, vault, &[]).is_err());
    let audiences = ["x".to_owned(), "vault".to_owned()];
    let verified = access
        .tokens
        .verify(&bed.cluster, vault, &audiences)
        .expect("is for vault");
    assert_eq!(verified.audiences, ["vault"]);
    assert_eq!(
        request(json!({"expirationSeconds": 60}))
            .expect_err("too short")
            .reason,
        Reason::Invalid
    );
    let missing = request(json!({"boundObjectRef": {"kind": "Pod", "name": "none"}}));
    assert_eq!(missing.expect_err("no pod").reason, Reason::NotFound);
    let spec = TokenSpec {
        seconds: -60,
        ..TokenSpec::default()
    };
    let (expired, _) = access.tokens.issue("one", &account(), &spec).expect("a token");
    let error = access
        .tokens
        .verify(&bed.cluster, &expired, &[])
        .expect_err("is over");
    assert!(error.contains("Expired"), "{error}");
}

#[test]
fn a_rotated_key_still_checks_its_tokens() {
    let bed = bed();
    bed.put("", "serviceaccounts", &account());
    let spec = TokenSpec {
        seconds: 600,
        ..TokenSpec::default()
    };
    let first = TokenKeys::open(bed.directory.path()).expect("keys");
    let (token, _) = first.issue("one", &account(), &spec).expect("a token");
    let second = TokenKeys::rotate(bed.directory.path()).expect("new keys");
    assert!(second.verify(&bed.cluster, &token, &[]).is_ok());
    let (newer, _) = second.issue("one", &account(), &spec).expect("a token");
    assert!(first.verify(&bed.cluster, &newer, &[]).is_err());
    let third = TokenKeys::rotate(bed.directory.path()).expect("new keys");
    assert!(third.verify(&bed.cluster, &token, &[]).is_err());
    assert!(third.verify(&bed.cluster, &newer, &[]).is_ok());
}

#[test]
fn certificates_say_who_someone_is() {
    use rustls::pki_types::{CertificateDer, pem::PemObject};
    let directory = tempfile::tempdir().expect("a directory");
    let pki = directory.path().join("pki");
    let authority = Authority::open(&pki, &["cloud.test".to_owned()]).expect("an authority");
    let who = |certificate: &str| {
        let der = CertificateDer::from_pem_slice(certificate.as_bytes()).expect("PEM");
        authority::identity(&der)
    };
    let admin = who(&authority.admin().certificate).expect("an identity");
    assert!(admin.groups.contains(&"system:masters".to_owned()));
    let rita = authority
        .issue_client("rita", &["readers", "people"])
        .expect("a certificate");
    let rita = who(&rita.certificate).expect("an identity");
    assert_eq!(rita.user, "rita");
    assert_eq!(rita.groups, ["readers", "people", "system:authenticated"]);
    assert!(authority.issue_client("eve", &["system:masters"]).is_err());
    authority.server_config().expect("TLS");
    for file in ["ca.key", "serving.key", "admin.key"] {
        let mode = std::fs::metadata(pki.join(file))
            .expect("is there")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }

    let again = Authority::open(&pki, &["cloud.test".to_owned()]).expect("an authority");
    assert_eq!(again.certificate(), authority.certificate());
    assert_eq!(again.admin().certificate, authority.admin().certificate);
    let serving = |authority: &Authority| {
        let _ = authority;
        std::fs::read_to_string(pki.join("serving.crt")).expect("is there")
    };
    let before = serving(&again);
    let renamed = Authority::open(&pki, &["other.test".to_owned()]).expect("an authority");
    assert_ne!(before, serving(&renamed), "a new name needs a new certificate");
    std::fs::write(pki.join("ca.key"), "nonsense").expect("is written");
    let error = Authority::open(&pki, &[]).err().expect("is damaged").to_string();
    assert!(error.contains("ca.key is damaged"), "{error}");
}

#[test]
fn a_new_authority_certifies_anew() {
    let directory = tempfile::tempdir().expect("a directory");
    let pki = directory.path();
    let read = |file: &str| std::fs::read_to_string(pki.join(file)).expect("is there");
    let old = Authority::open(pki, &[]).expect("an authority");
    let serving = read("serving.crt");
    for file in ["ca.crt", "ca.key"] {
        std::fs::rename(pki.join(file), pki.join(format!("{file}.old"))).expect("is moved");
    }
    let new = Authority::open(pki, &[]).expect("an authority");
    assert_ne!(old.admin().certificate, new.admin().certificate);
    assert_ne!(serving, read("serving.crt"));
    let again = Authority::open(pki, &[]).expect("an authority");
    assert_eq!(new.admin().certificate, again.admin().certificate);
}

#[test]
fn the_kubeconfig_keeps_what_a_person_chose() {
    let directory = tempfile::tempdir().expect("a directory");
    let authority = Authority::open(directory.path(), &[]).expect("an authority");
    let path = directory.path().join("kubeconfig");
    let clusters = ["one".to_owned(), "two".to_owned()];
    let write = |port: u16| {
        write_kubeconfig(&path, &authority, ([127, 0, 0, 1], port).into(), &clusters).expect("is written");
        let text = std::fs::read_to_string(&path).expect("is there");
        serde_saphyr::from_str::<Value>(&text).expect("is YAML")
    };
    let first = write(1);
    assert_eq!(first["current-context"], "one");
    assert_eq!(
        first["clusters"][1]["cluster"]["server"],
        "https://127.0.0.1:1/clusters/two"
    );
    let mode = std::fs::metadata(&path).expect("is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let chosen = std::fs::read_to_string(&path)
        .expect("is there")
        .replace("current-context: one", "current-context: two");
    std::fs::write(&path, chosen).expect("is written");
    assert_eq!(write(2)["current-context"], "two");
}
