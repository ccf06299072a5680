//! Hypervisors in another cluster: what goes there, what never does, and what is reported about it.

use std::collections::BTreeMap;

use c5c3_api::conditions::service;
use c5c3_api::openstack::Nova;
use c5c3_kit::{Controller, HOME, Kind, Observed, Wanted};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};

use crate::reconcile::Services;
use crate::testing::*;

type Seen = Observed<Services<Nova>>;

/// cell1 has its hypervisors in another cluster, cell2 here.
fn seen() -> Seen {
    let bus = json!({"clusterRef": {"name": "rabbitmq"}, "secretRef": {"name": "cell2-bus"}});
    let cells = json!({"cells": [
        {"name": "cell1", "computeRef": {"name": "far"}}, {"name": "cell2", "messaging": bus}]});
    let mut seen = observed(nova(cells), facts());
    seen.facts.elsewhere.insert("far".to_owned(), Ok(()));
    take_job(&mut seen, "nova-api-db-sync", Some("Complete"));
    take_deployments(&mut seen);
    seen
}

fn far(seen: &Seen) -> Vec<Wanted> {
    let decision = seen.decide().expect("decides");
    let far = decision.wanted().iter().filter(|one| one.cluster() == "far");
    far.cloned().collect()
}

/// The name without the mark of its content.
fn short(wanted: &Wanted) -> String {
    let text = format!("{wanted:?}");
    let is_hash = |word: &str| word.len() == 10 && !word.contains(|c: char| !c.is_ascii_alphanumeric());
    match text.rsplit_once('-') {
        Some((short, last)) if is_hash(last) => short.to_owned(),
        _ => text,
    }
}

#[test]
fn only_what_runs_on_hypervisors_and_what_it_reads_goes_there() {
    let seen = seen();
    let names: Vec<String> = far(&seen).iter().map(short).collect();
    assert_eq!(
        names,
        [
            "ConfigMap nova-libvirt-config",
            "ConfigMap nova-compute-cell1-config",
            "Secret nova-compute-cell1-credentials",
            "DaemonSet nova-libvirt",
            "DaemonSet nova-compute-cell1",
        ]
    );
    // The other cell has all of its own here.
    let sets = objects(&seen)
        .into_iter()
        .filter(|one| one["kind"] == "DaemonSet");
    let sets: Vec<Value> = sets.map(|one| one["metadata"]["name"].clone()).collect();
    assert_eq!(
        sets,
        [
            "nova-libvirt",
            "nova-libvirt-home",
            "nova-compute-cell1",
            "nova-compute-cell2"
        ]
    );
}

/// Of Ceph's keys each pod over there has those that it uses, as copies: the Secrets themselves are here.
#[test]
fn keys_of_ceph_go_with_those_who_open_disks() {
    let compute = json!({"enabled": true, "rbd": {"pool": "vms", "cephSecretRef": {"name": "ceph"}},
        "libvirtImage": {"repository": "ghcr.io/c5c3/libvirt", "tag": "11.3"}});
    let cells = json!({"cells": [{"name": "cell1", "computeRef": {"name": "far"}}], "compute": compute});
    let mut seen = observed(nova(cells), facts());
    seen.facts.elsewhere.insert("far".to_owned(), Ok(()));
    take_job(&mut seen, "nova-api-db-sync", Some("Complete"));
    take_deployments(&mut seen);
    let all = far(&seen);
    let copies: Vec<&Wanted> = all.iter().filter(|one| short(one).ends_with("-files")).collect();
    let names: Vec<String> = copies.iter().map(|one| short(one)).collect();
    assert_eq!(
        names,
        ["Secret nova-libvirt-files", "Secret nova-compute-cell1-files"]
    );
    let keys: Vec<&String> = copies[1].object()["data"]
        .as_object()
        .expect("data")
        .keys()
        .collect();
    assert_eq!(keys, ["ceph.ceph.conf", "ceph.keyring"]);
    let set = all
        .iter()
        .find(|one| short(one) == "DaemonSet nova-compute-cell1");
    let spec = set.expect("made").object()["spec"]["template"]["spec"].clone();
    let volumes = spec["volumes"].as_array().expect("volumes");
    let mounted = volumes
        .iter()
        .find(|volume| volume["name"] == "ceph")
        .expect("there");
    assert_eq!(
        mounted["secret"]["secretName"],
        copies[1].object()["metadata"]["name"]
    );
    assert_eq!(
        mounted["secret"]["items"][1],
        json!({"key": "ceph.keyring", "path": "ceph.client.nova.keyring"})
    );
    assert_eq!(spec["initContainers"][0]["name"], "ceph");
    // Nothing of it is made here a second time.
    let here = seen.decide().expect("decides");
    let here = here.wanted().iter().filter(|one| one.cluster() == HOME);
    assert_eq!(here.filter(|one| short(one).ends_with("-files")).count(), 0);
    // Another key, another copy: the pods restart with it.
    let before = copies[1].object()["metadata"]["name"].clone();
    let secret = seen.facts.secrets.get_mut("ceph").expect("there");
    secret.insert("keyring".to_owned(), b"[client]\nkey = other\n".to_vec());
    let after = far(&seen);
    let after = after
        .iter()
        .find(|one| short(one) == "Secret nova-compute-cell1-files");
    assert_ne!(after.expect("made").object()["metadata"]["name"], before);
}

/// The certificates of nodes are where the nodes are; the authority behind them leaves the control plane never.
#[test]
fn each_cluster_has_the_certificates_of_its_own_nodes() {
    let mut seen = seen();
    let data = |keys: &[&str]| -> c5c3_authority::Data {
        let empty = |key: &&str| ((*key).to_owned(), Default::default());
        keys.iter().map(empty).collect()
    };
    let by_cluster = [
        ("far".into(), data(&["ca.crt", "libvirt-a.crt", "libvirt-a.key"])),
        (HOME, data(&["ca.crt", "libvirt-b.crt", "libvirt-b.key"])),
    ];
    seen.facts.certificates = Some(crate::facts::NodeCertificates {
        volume: "libvirt-tls".to_owned(),
        authority: data(&["ca.crt", "ca.key"]),
        by_cluster: by_cluster.into(),
    });
    let decision = seen.decide().expect("decides");
    let secrets = decision
        .wanted()
        .iter()
        .filter(|one| short(one).contains("libvirt-tls"));
    let secrets: Vec<(String, Vec<String>)> = secrets
        .map(|one| {
            let keys = one.object()["data"].as_object().expect("data").keys();
            (
                format!("{} {}", one.cluster(), short(one)),
                keys.cloned().collect(),
            )
        })
        .collect();
    let of = |name: &str, keys: &[&str]| (name.to_owned(), keys.iter().map(ToString::to_string).collect());
    assert_eq!(
        secrets,
        [
            of("home Secret nova-libvirt-tls-authority", &["ca.crt", "ca.key"]),
            of(
                "far Secret nova-libvirt-tls",
                &["ca.crt", "libvirt-a.crt", "libvirt-a.key"]
            ),
            of(
                "home Secret nova-libvirt-tls",
                &["ca.crt", "libvirt-b.crt", "libvirt-b.key"]
            ),
        ]
    );
    // Pods of libvirtd mount them, each in its own cluster, and nothing else does.
    let mounts = |secret: &str| -> Vec<String> {
        let wanted = decision.wanted().iter();
        let secret = format!("\"secretName\":\"{secret}\"");
        wanted
            .filter(|one| one.object().to_string().contains(&secret))
            .map(|one| format!("{} {}", one.cluster(), short(one)))
            .collect()
    };
    let sets = ["far DaemonSet nova-libvirt", "home DaemonSet nova-libvirt-home"];
    assert_eq!(mounts("nova-libvirt-tls"), sets);
    assert_eq!(mounts("nova-libvirt-tls-authority"), Vec::<String>::new());
    // Where an input is wrong they are looked after all the same.
    seen.facts.secrets.remove("service-db");
    let refused = seen.decide().expect("decides");
    assert_eq!(refused.wanted().len(), 3);
}

/// Every password that is known, in the form in which a Secret of Kubernetes holds it and in plain.
#[test]
fn nothing_over_there_knows_a_database_or_another_cells_bus() {
    use base64::Engine;
    let seen = seen();
    let mut values = BTreeMap::new();
    for wanted in far(&seen) {
        for (key, value) in wanted.object()["data"].as_object().into_iter().flatten() {
            let text = value.as_str().unwrap_or_default();
            let decoded = base64::engine::general_purpose::STANDARD.decode(text).ok();
            let decoded = decoded.and_then(|bytes| String::from_utf8(bytes).ok());
            values.insert(key.clone(), decoded.unwrap_or_else(|| text.to_owned()));
        }
    }
    let whole = format!("{values:?}");
    assert!(
        values.contains_key("OS_DEFAULT__TRANSPORT_URL"),
        "{:?}",
        values.keys()
    );
    assert!(
        !whole.contains("mysql") && !whole.contains("mariadb"),
        "a database"
    );
    assert!(
        values.keys().all(|key| !key.contains("CONNECTION")),
        "{:?}",
        values.keys()
    );
    let secrets = &seen.facts.secrets;
    let password = |name: &str| {
        let bytes = secrets[name].get("password").expect("a password");
        String::from_utf8(bytes.clone()).expect("text")
    };
    assert!(!whole.contains(&password("cell2-bus")), "another cell's bus");
    assert!(
        !whole.contains("memcached"),
        "a cache that is not reached from there"
    );
}

#[test]
fn a_cluster_that_is_away_holds_up_nothing_else_and_stays_as_it_is() {
    let mut seen = seen();
    let ours = Kind::of::<DaemonSet>().in_cluster("far");
    let configured = Kind::of::<ConfigMap>().in_cluster("far");
    let owned = [
        ours.named(Some("openstack"), "nova-compute-cell1"),
        configured.named(Some("openstack"), "nova-compute-cell1-config-1"),
    ];
    let there = |reference| {
        let owned = c5c3_kit::owned::Owned {
            uid: String::new(),
            created: None,
            deleting: false,
        };
        (reference, owned)
    };
    seen.facts.owned = owned.clone().map(there).into();
    let why = "cluster far does not answer within 10 s".to_owned();
    seen.facts.elsewhere.insert("far".to_owned(), Err(why.clone()));
    let decision = seen.decide().expect("decides");
    assert!(decision.wanted().iter().all(|one| one.cluster() == HOME));
    assert!(
        decision
            .wanted()
            .iter()
            .any(|one| format!("{one:?}") == "Deployment nova")
    );
    assert!(owned.iter().all(|one| decision.kept().contains(one)));
    assert_eq!(
        state(&seen, service::CELLS_READY),
        ("Unreachable".to_owned(), why)
    );
}

#[test]
fn before_the_object_goes_what_is_over_there_does() {
    let mut seen = seen();
    assert!(Services::<Nova>::is_held(&seen.object));
    assert!(
        !Services::<Nova>::is_held(&nova(json!({}))),
        "in one cluster it may go at once"
    );
    let set = |kind: Kind| kind.named(Some("openstack"), "nova-libvirt");
    let (near, far) = (
        set(Kind::of::<DaemonSet>()),
        set(Kind::of::<DaemonSet>().in_cluster("far")),
    );
    let there = c5c3_kit::owned::Owned {
        uid: String::new(),
        created: None,
        deleting: false,
    };
    seen.facts.owned = vec![(near.clone(), there.clone()), (far, there)];
    let time = seen.now.to_string();
    seen.object.metadata.deletion_timestamp = Some(serde_json::from_value(json!(time)).expect("a time"));
    let decision = seen.decide().expect("decides");
    assert!(decision.wanted().is_empty());
    assert_eq!(decision.kept(), [near]);
}
