//! Certificates: who has which, and what is said of wrong ones.

use super::*;
use crate::authority::{Kept, SOUTHBOUND_TRUSTED, tend};

fn secured(members: i32, secrets: Value) -> OvnCluster {
    let mut cluster = cluster(members);
    let mut tls = json!({"enabled": true});
    if let (Some(tls), Value::Object(secrets)) = (tls.as_object_mut(), secrets) {
        tls.extend(secrets);
    }
    cluster.spec.tls = object(tls);
    cluster
}

/// Certificates of our own.
fn certified(cluster: &OvnCluster) -> Facts {
    let mut facts = running(cluster, 1);
    let kept = tend("ovn-system/ovn", Kept::default(), now()).expect("made");
    facts.authorities = Some([kept.authority, kept.hypervisor_authority]);
    facts.certificates = Some(kept.certificates);
    facts.hypervisors = Some(kept.hypervisors);
    facts
}

fn text(objects: &[&Value]) -> String {
    serde_json::to_string(objects).expect("JSON")
}

fn named<'d>(decision: &'d Decision<Action>, kind: &str, name: &str) -> &'d Value {
    let mut wanted = decision.wanted().iter().map(Wanted::object);
    let found = wanted.find(|one| one["kind"] == kind && one["metadata"]["name"] == name);
    found.unwrap_or_else(|| panic!("{kind} {name}"))
}

fn given(keys: &[&str]) -> BTreeMap<String, ByteString> {
    let pem = |key: &&str| ((*key).to_owned(), ByteString(key.as_bytes().to_vec()));
    keys.iter().map(pem).collect()
}

const KEYS: [&str; 3] = ["tls.crt", "tls.key", "ca.crt"];

#[test]
fn without_a_secret_certificates_are_our_own() {
    let cluster = secured(1, json!({}));
    let facts = certified(&cluster);
    let decision = decide(&cluster, &facts).expect("decides");
    assert_eq!(
        names(&decision)[..4],
        [
            "Secret ovn-authority",
            "Secret ovn-hypervisors-authority",
            "Secret ovn-certificates",
            "Secret ovn-hypervisors"
        ]
    );
    let pods = decision.wanted().iter().map(Wanted::object);
    let pods: Vec<&Value> = pods.filter(|one| one["kind"] != "Secret").collect();
    let all = text(&pods);
    assert!(!all.contains("authority"), "nobody mounts an authority");
    assert!(!all.contains("PRIVATE KEY"));
    let mounts = |kind: &str, name: &str| {
        let volumes = named(&decision, kind, name)["spec"]["template"]["spec"]["volumes"].clone();
        let volumes = volumes.as_array().expect("volumes").clone();
        let mut tls = volumes.into_iter().filter(|volume| volume["name"] == "tls");
        tls.next().expect("certificates")["secret"].clone()
    };
    for (kind, name, secret) in [
        ("StatefulSet", "ovn-nb", "ovn-certificates"),
        ("StatefulSet", "ovn-sb", "ovn-certificates"),
        ("Deployment", "ovn-northd", "ovn-certificates"),
        ("DaemonSet", "ovn-controller", "ovn-hypervisors"),
    ] {
        assert_eq!(mounts(kind, name)["secretName"], secret, "{name}");
    }
    // Only the southbound database trusts hypervisors.
    assert!(mounts("StatefulSet", "ovn-nb")["items"].is_null());
    assert_eq!(
        mounts("StatefulSet", "ovn-sb")["items"][2],
        json!({"key": SOUTHBOUND_TRUSTED, "path": "ca.crt"})
    );
}

#[test]
fn clients_are_told_which_secrets_are_theirs() {
    let told = |cluster: &OvnCluster, facts: &Facts| {
        let status: OvnClusterStatus = object(report::report(cluster, facts, now()).status_fields().clone());
        json!(status.client_secrets)
    };
    let own = secured(1, json!({}));
    let both = |control: &str, hypervisors: &str| json!({"controlPlane": {"name": control}, "hypervisors": {"name": hypervisors}});
    assert_eq!(
        told(&own, &certified(&own)),
        both("ovn-certificates", "ovn-hypervisors")
    );
    let one = secured(1, json!({"certSecretRef": {"name": "certs"}}));
    assert_eq!(told(&one, &certified(&one)), both("certs", "certs"));
    let two = secured(
        1,
        json!({"certSecretRef": {"name": "certs"}, "hypervisorSecretRef": {"name": "theirs"}}),
    );
    assert_eq!(told(&two, &certified(&two)), both("certs", "theirs"));
    assert_eq!(told(&two, &running(&two, 1)), Value::Null, "they are not there");
    let plain = cluster(1);
    assert_eq!(told(&plain, &running(&plain, 1)), Value::Null);
}

#[test]
fn agents_in_another_cluster_take_their_certificates_along() {
    let mut cluster = secured(1, json!({}));
    let mut facts = certified(&cluster);
    for service in facts.services.values_mut() {
        let balanced: Service = object(
            json!({"metadata": {"name": service.name_any()}, "spec": {"type": "LoadBalancer"},
            "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.7"}]}}}),
        );
        *service = balanced;
    }
    cluster.spec.compute_ref = Some(c5c3_api::common::LocalRef::new("hypervisor"));
    let decision = decide(&cluster, &facts).expect("decides");
    let all: Vec<&Value> = decision.wanted().iter().map(Wanted::object).collect();
    assert!(text(&all).contains("remote=ssl:192.0.2.7:6642"));
    let balancers = decision
        .wanted()
        .iter()
        .filter(|one| one.object()["spec"]["type"] == "LoadBalancer");
    let balancers: Vec<&Value> = balancers.map(|one| &one.object()["metadata"]["name"]).collect();
    assert_eq!(
        balancers,
        ["ovn-sb"],
        "agents have no use for the northbound database"
    );
    let there = decision
        .wanted()
        .iter()
        .filter(|one| one.cluster() == "hypervisor");
    let there: Vec<String> = there.map(|one| format!("{one:?}")).collect();
    assert_eq!(
        there,
        [
            "ConfigMap ovn-chassis",
            "Secret ovn-tls",
            "DaemonSet ovn-ovs",
            "DaemonSet ovn-controller"
        ]
    );
    // What goes there opens the southbound database alone.
    let copy: k8s_openapi::api::core::v1::Secret = object(named(&decision, "Secret", "ovn-tls").clone());
    let copy = copy.data.expect("data");
    assert_eq!(copy.keys().collect::<Vec<_>>(), ["ca.crt", "tls.crt", "tls.key"]);
    let (control, hypervisors) = (
        facts.certificates.expect("there"),
        facts.hypervisors.expect("there"),
    );
    assert!(copy["tls.key"] == hypervisors["tls.key"] && copy["tls.key"] != control["tls.key"]);
}

#[test]
fn wrong_certificates_are_refused_with_the_way_out() {
    let two = json!({"certSecretRef": {"name": "certs"}, "hypervisorSecretRef": {"name": "theirs"}});
    let cases: [(Value, &[&str], &[&str], &str); 4] = [
        (
            json!({"hypervisorSecretRef": {"name": "theirs"}}),
            &KEYS,
            &KEYS,
            "tls.hypervisorSecretRef: theirs goes with certificates of yours: set tls.certSecretRef as well, or leave both out",
        ),
        (
            two.clone(),
            &KEYS[..2],
            &KEYS,
            "tls.certSecretRef: Secret certs has no value under ca.crt: add it",
        ),
        (
            two.clone(),
            &KEYS,
            &KEYS[1..],
            "tls.hypervisorSecretRef: Secret theirs has no value under tls.crt: add it",
        ),
        (
            two,
            &KEYS,
            &[],
            "tls.hypervisorSecretRef: Secret theirs is missing: create it with tls.crt, tls.key and ca.crt",
        ),
    ];
    for (secrets, own, theirs, expected) in cases {
        let cluster = secured(1, secrets);
        let mut facts = running(&cluster, 1);
        facts.certificates = Some(given(own));
        facts.hypervisors = Some(given(theirs)).filter(|all| !all.is_empty());
        let refused = decide(&cluster, &facts).expect_err(expected);
        assert_eq!(refused.to_string(), expected);
    }
}

/// How members talk is in their files: several could not change it together.
#[test]
fn tls_is_switched_while_there_is_one_member() {
    let switched = |members: i32, wanted: i32| {
        let before = cluster(members);
        let mut facts = certified(&before);
        for side in Side::BOTH {
            let tls = crate::build::Tls {
                protocol: "tcp",
                ..crate::build::Tls::default()
            };
            let set = crate::build::database::members(&before, side, &tls);
            facts.sets.insert(set.name_any(), set);
        }
        decide(&secured(wanted, json!({})), &facts)
            .map(drop)
            .map_err(|error| error.to_string())
    };
    assert_eq!(switched(1, 1), Ok(()));
    let expected = "tls.enabled: cannot change while the northbound database has several members, which then no longer \
         reach each other: set it back to false, or make a new OVNCluster";
    assert_eq!(switched(3, 3), Err(expected.to_owned()));
    assert_eq!(switched(1, 3), Err(expected.to_owned()), "one after the other");
}

#[test]
fn certificates_that_do_not_open_the_databases_are_told() {
    let cluster = secured(1, json!({"certSecretRef": {"name": "certs"}}));
    let mut facts = certified(&cluster);
    let told = |facts: &Facts, part: &str| said(&report::report(&cluster, facts, now()), part);
    assert!(told(&facts, NORTHBOUND_READY).starts_with("True Ready"));
    let why = "TLS: ssl:10.0.0.1:6641: invalid peer certificate: UnknownIssuer";
    facts.view.untrusted.insert(Side::Northbound, why.to_owned());
    assert_eq!(
        told(&facts, NORTHBOUND_READY),
        format!(
            "False CertificatesNotAccepted: TLS with the northbound database fails: {why}; tls.crt of Secret certs has to \
             be valid and of an authority in its ca.crt"
        )
    );
    assert!(told(&facts, SOUTHBOUND_READY).starts_with("True Ready"));
}
