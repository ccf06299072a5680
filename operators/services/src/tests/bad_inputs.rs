//! Each wrong input is named with its field, its value and a way out, and nothing is decided.

use c5c3_api::openstack::Glance;
use c5c3_kit::{Controller, Decision, Fault, Observed};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use serde_json::{Value, json};

use crate::facts::Facts;
use crate::reconcile::Services;
use crate::testing::*;

/// What is changed of an object that is healthy and of what was seen, and what is said: reason and message.
type Case = (Value, fn(&mut Facts), &'static str, &'static str);

#[test]
fn wrong_input_is_named_and_nothing_is_decided() {
    let cases: &[Case] = &[
        (
            json!({"spec": {"extraConfig": {"token": {"expirations": "1"}}}}),
            NOTHING,
            "InvalidConfig",
            "extraConfig.token.expirations: keystone 28.1.0 has no option `expirations` in [token]; did you mean `expiration`?; nothing was rolled out",
        ),
        (
            json!({"spec": {"extraConfig": {"tokens": {"expiration": "1"}}}}),
            NOTHING,
            "InvalidConfig",
            "extraConfig.tokens.expiration: keystone 28.1.0 has no group [tokens]; did you mean `token`?; nothing was rolled out",
        ),
        (
            json!({"spec": {"extraConfig": {"token": {"expiration": "soon"}}}}),
            NOTHING,
            "InvalidConfig",
            "extraConfig.token.expiration: `soon`",
        ),
        (
            json!({}),
            |facts| drop(facts.secrets.remove("keystone-db")),
            "SecretMissing",
            "Secret keystone-db is missing: create it, or correct the name in the spec",
        ),
        (
            json!({}),
            |facts| drop(facts.secrets.remove("admin")),
            "SecretMissing",
            "Secret admin is missing: create it, or correct the name in the spec",
        ),
        (
            json!({}),
            |facts| {
                facts
                    .secrets
                    .insert("keystone-db".into(), secret(&[("username", "keystone")]));
            },
            "KeyMissing",
            "Secret keystone-db has no value under password: add it, or name another Secret",
        ),
        (
            json!({}),
            |facts| drop(facts.caches.remove("memcached")),
            "CacheMissing",
            "Memcached memcached is missing: create it, or set cache.servers",
        ),
        (
            json!({"spec": {"policyOverrides": {"configMapRef": {"name": "rules"}}}}),
            NOTHING,
            "PolicyMissing",
            "policyOverrides.configMapRef: ConfigMap rules is missing",
        ),
        (
            json!({"spec": {"policyOverrides": {"configMapRef": {"name": "rules"}}}}),
            |facts| facts.policy_found = true,
            "PolicyMissing",
            "policyOverrides.configMapRef: ConfigMap rules has no key policy.yaml",
        ),
        (
            json!({"spec": {"fernet": {"rotationSchedule": "0 0 31 2 x", "maxActiveKeys": 3}}}),
            NOTHING,
            "BadSchedule",
            "rotation schedule \"0 0 31 2 x\": ",
        ),
        (
            json!({"spec": {"fernet": {"rotationSchedule": "*/10 * * * *"}}}),
            NOTHING,
            "KeysTooFew",
            "rotation schedule \"*/10 * * * *\" with 3 keys drops a key after 600 s, but what it encrypted must stay readable for 3600 s: keep more keys",
        ),
        (
            json!({"spec": {"federation": {"enabled": true}}}),
            NOTHING,
            "NotSupported",
            "federation.enabled: true is not supported yet: set it to false",
        ),
        (
            json!({"metadata": {"name": "a-name-that-is-longer-than-all-jobs-can-bear"}}),
            NOTHING,
            "NameTooLong",
            "metadata.name: a-name-that-is-longer-than-all-jobs-can-bear is too long",
        ),
        (
            json!({"metadata": {"name": "key.stone"}}),
            NOTHING,
            "NameNotUsable",
            "metadata.name: key.stone cannot name a Service",
        ),
        (
            json!({}),
            |facts| {
                let broken = secret(&[("0", "short"), ("1", "short")]);
                facts
                    .key_secrets
                    .insert("fernet-keys", keys(broken, "2026-01-01T00:00:00Z"));
            },
            "BadKeys",
            "Secret keystone-fernet-keys: key 0 is not 32 bytes in URL-safe base64; restore it from a backup",
        ),
    ];
    refused(keystone(), cases);
}

/// Each is told, and what runs is left as it is.
fn refused<S>(well: S, cases: &[Case])
where
    S: crate::shape::Subject + serde::de::DeserializeOwned,
{
    for (change, damage, reason, message) in cases {
        let mut object = serde_json::to_value(&well).expect("writes");
        merge(&mut object, change);
        let object: S = serde_json::from_value(object).expect("as the schema has it");
        let mut facts = facts();
        damage(&mut facts);
        let seen = observed(object, facts);
        let plan = Services::<S>::plan(&seen);
        let error = Services::<S>::refusal(&plan).expect(message);
        assert_eq!(&error.reason(), reason);
        assert!(error.to_string().starts_with(message), "{error}");
        assert_eq!(seen.decide().expect("decides"), Decision::hold());
    }
}

const NOTHING: fn(&mut Facts) = |_| {};

#[test]
fn wrong_input_of_nova_is_named_and_nothing_is_decided() {
    let user = json!({"placementServiceUserRef": {"name": "someone"}});
    let far = json!([{"name": "cell1", "computeRef": {"name": "far"}}]);
    refused(
        nova(json!({})),
        &[
            (
                json!({"spec": {"serviceAuth": user}}),
                NOTHING,
                "NotSupported",
                "serviceAuth: a user for each service is not supported yet: leave it out",
            ),
            (
                json!({"spec": {"cells": far, "compute": {"volumeClaims": [{"name": "files"}]}}}),
                NOTHING,
                "NotSupported",
                "compute.volumeClaims: volumes as files for hypervisors in another cluster",
            ),
            (
                json!({"spec": {"extraConfig": {"libvirt": {"live_migration_schema": "tls"}}}}),
                NOTHING,
                "InvalidConfig",
                "extraConfig.libvirt.live_migration_schema: nova 32.2.1 has no option `live_migration_schema` \
                 in [libvirt]; did you mean `live_migration_scheme`?",
            ),
            (
                json!({}),
                |facts| drop(facts.secrets.remove("service-db")),
                "SecretMissing",
                "Secret service-db is missing: create it, or correct the name in the spec",
            ),
        ],
    );
}

#[test]
fn wrong_input_of_neutron_is_named_and_nothing_is_decided() {
    refused(
        neutron(),
        &[
            (
                json!({"spec": {"ml2": {"mechanismDrivers": ["ovn", "openvswtch"]}}}),
                NOTHING,
                "UnknownDriver",
                "ml2.mechanismDrivers: Neutron has no driver \"openvswtch\"; use some of l2population, macvtap",
            ),
            (
                json!({"spec": {"ml2": {"typeDrivers": ["geneve", "tunnel"]}}}),
                NOTHING,
                "UnknownDriver",
                "ml2.typeDrivers: Neutron has no driver \"tunnel\"; use some of flat, geneve",
            ),
            (
                json!({"spec": {"ml2": {"extensionDrivers": ["port-security"]}}}),
                NOTHING,
                "UnknownDriver",
                "ml2.extensionDrivers: Neutron has no driver \"port-security\"; use some of",
            ),
            (
                json!({"spec": {"ovn": {"enabled": false}}}),
                NOTHING,
                "NotSupported",
                "ovn.enabled: false is not supported yet: set it to true",
            ),
            (
                json!({}),
                |facts| facts.ovn = None,
                "OvnMissing",
                "OVNCluster ovn is missing: create it, or set ovn.nbConnection and ovn.sbConnection",
            ),
            (
                json!({}),
                |facts| {
                    // A database that does not answer has no address either.
                    if let Some(ovn) = &mut facts.ovn {
                        ovn.status = None;
                    }
                },
                "OvnUnknown",
                "OVNCluster ovn reports no addresses yet (status.endpoints)",
            ),
        ],
    );
}

/// Given addresses, with or without certificates.
fn ovn_at(protocol: &str, tls: Value) -> Value {
    let address = |port: u16| format!("{protocol}:192.0.2.1:{port}");
    json!({"spec": {"ovn": {"clusterRef": null, "nbConnection": address(6641), "sbConnection": address(6642),
        "tls": tls}}})
}

#[test]
fn wrong_certificates_for_ovn_are_named_and_nothing_is_decided() {
    let mine = || json!({"certSecretRef": {"name": "mine"}});
    refused(
        neutron(),
        &[
            (
                ovn_at("ssl", Value::Null),
                NOTHING,
                "OvnUncertified",
                "ovn.nbConnection: ssl:192.0.2.1:6641 is an ssl: address, which takes certificates: name a Secret with \
                 tls.crt, tls.key and ca.crt in ovn.tls.certSecretRef",
            ),
            (
                ovn_at("tcp", mine()),
                NOTHING,
                "OvnInPlaintext",
                "ovn.tls: certificates go with ssl: addresses, and ovn.nbConnection and ovn.sbConnection use tcp: turn \
                 TLS on there, or leave ovn.tls out",
            ),
            (
                json!({"spec": {"ovn": {"tls": mine()}}}),
                NOTHING,
                "OvnInPlaintext",
                "ovn.tls: certificates go with ssl: addresses, and OVNCluster ovn uses tcp: turn TLS on there",
            ),
            (
                ovn_at("ssl", mine()),
                NOTHING,
                "OvnSecretMissing",
                "Secret mine for OVN is missing: create it with tls.crt, tls.key and ca.crt",
            ),
            (
                json!({}),
                |facts| {
                    *facts = crate::tests::neutron_tls::secured();
                    facts.ovn_secrets.clear();
                },
                "OvnSecretMissing",
                "Secret ovn-certificates for OVN is missing",
            ),
            (
                json!({}),
                |facts| {
                    *facts = crate::tests::neutron_tls::secured();
                    let status = facts.ovn.as_mut().and_then(|ovn| ovn.status.as_mut());
                    status.expect("a status").client_secrets = None;
                },
                "OvnWithoutSecrets",
                "OVNCluster ovn uses TLS and does not tell yet which Secret clients log in with (status.clientSecrets)",
            ),
            (
                json!({}),
                |facts| {
                    *facts = crate::tests::neutron_tls::secured();
                    let certificates = facts.ovn_secrets.get_mut("ovn-hypervisors");
                    certificates.expect("there").remove("tls.key");
                },
                "OvnKeyMissing",
                "Secret ovn-hypervisors for OVN has no value under tls.key: add it",
            ),
            (
                json!({}),
                |facts| {
                    *facts = crate::tests::neutron_tls::secured();
                    let certificates = facts.ovn_secrets.get_mut("ovn-certificates").expect("there");
                    let key = certificates["tls.key"].clone();
                    certificates.insert("ca.crt".to_owned(), key);
                },
                "OvnNotPem",
                "Secret ovn-certificates for OVN has no certificate under ca.crt: it must be PEM",
            ),
        ],
    );
}

#[test]
fn wrong_input_of_cinder_is_named_and_nothing_is_decided() {
    let named = |name: &str| json!([{"name": name, "rbd": {"pool": "p", "cephSecretRef": {"name": "ceph"}}}]);
    refused(
        cinder(),
        &[
            (
                json!({"spec": {"volume": {"replicas": 2}}}),
                NOTHING,
                "NotSupported",
                "volume.replicas: more than one is not supported yet: set it to 1",
            ),
            (
                json!({"spec": {"backends": named("database")}}),
                NOTHING,
                "NotSupported",
                "backends.name: the name of a group of Cinder's own options is not supported yet",
            ),
            (
                json!({"spec": {"extraConfig": {"fast": {"rbd_pol": "x"}}}}),
                NOTHING,
                "InvalidConfig",
                "extraConfig.fast.rbd_pol: ",
            ),
        ],
    );
}

#[test]
fn a_claim_of_one_node_is_not_shared_by_three_pods() {
    let mut many = glance(json!({"backend": "file"}));
    many.spec.replicas = 3;
    let mut seen = observed(many, facts());
    let claim = object(&seen, "PersistentVolumeClaim").expect("wanted");
    assert_eq!(claim["spec"]["accessModes"], json!(["ReadWriteMany"]));
    // One that was asked for with others in view is shared from the start.
    let mut later = observed(
        glance(json!({"backend": "file", "file": {"shared": true}})),
        facts(),
    );
    let claim = object(&later, "PersistentVolumeClaim").expect("wanted");
    assert_eq!(claim["spec"]["accessModes"], json!(["ReadWriteMany"]));
    let old = json!({"metadata": {"name": "glance-images"}, "spec": {"accessModes": ["ReadWriteOnce"]}});
    let old: PersistentVolumeClaim = serde_json::from_value(old).expect("a claim");
    later.facts.claims.insert("glance-images".into(), old.clone());
    let claim = object(&later, "PersistentVolumeClaim").expect("as it was");
    assert_eq!(claim["spec"]["accessModes"], json!(["ReadWriteOnce"]));
    seen.facts.claims.insert("glance-images".into(), old);
    let error = refusal(&seen);
    assert!(
        error.starts_with("PersistentVolumeClaim glance-images is ReadWriteOnce"),
        "{error}"
    );
}

/// It may be that of a Glance before this one.
#[test]
fn a_claim_that_is_there_keeps_its_class_and_does_not_shrink() {
    let file = json!({"size": "20Gi", "storageClass": "fast"});
    let mut seen = observed(glance(json!({"backend": "file", "file": file})), facts());
    let spec = |seen: &Observed<Services<Glance>>| {
        let claim = object(seen, "PersistentVolumeClaim").expect("wanted");
        let size = claim["spec"]["resources"]["requests"]["storage"].clone();
        (size, claim["spec"]["storageClassName"].clone())
    };
    assert_eq!(spec(&seen), (json!("20Gi"), json!("fast")));
    for (there, size) in [("100Gi", "100Gi"), ("1G", "20Gi")] {
        let old = json!({"metadata": {"name": "glance-images"}, "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "slow",
            "resources": {"requests": {"storage": there}}}});
        let old = serde_json::from_value(old).expect("a claim");
        seen.facts.claims.insert("glance-images".into(), old);
        assert_eq!(spec(&seen), (json!(size), json!("slow")));
    }
}

fn merge(object: &mut Value, change: &Value) {
    match (object, change) {
        (Value::Object(object), Value::Object(change)) => {
            for (key, value) in change {
                merge(object.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (object, change) => *object = change.clone(),
    }
}
