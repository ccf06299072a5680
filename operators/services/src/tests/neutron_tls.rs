//! Neutron and OVN with TLS: who has which certificates, and what is said of those that are not accepted.

use c5c3_api::conditions::service::OVN_CONNECTED;
use c5c3_api::openstack::Neutron;
use c5c3_kit::{Controller, HOME, Observed};
use serde_json::{Value, json};

use crate::build::OVN_CHECK;
use crate::facts::Facts;
use crate::reconcile::Services;
use crate::testing::*;

type Seen = Observed<Services<Neutron>>;

fn certificates(whose: &str) -> crate::facts::SecretData {
    let pem = |title: &str, text: &str| format!("-----BEGIN {title}-----\n{text}\n-----END {title}-----\n");
    secret(&[
        ("tls.crt", &pem("CERTIFICATE", &format!("certificate-{whose}"))),
        ("tls.key", &pem("PRIVATE KEY", &format!("key-of-{whose}"))),
        ("ca.crt", &pem("CERTIFICATE", "authority")),
        ("issuer.crt", "nobody's business"),
    ])
}

/// The OVNCluster uses TLS and tells what its clients log in with.
pub(crate) fn secured() -> Facts {
    let mut facts = facts();
    let status = facts.ovn.as_mut().and_then(|ovn| ovn.status.as_mut());
    let status = status.expect("a status");
    status.endpoints = serde_json::from_value(
        json!({"northbound": "ssl:10.0.0.1:6641,ssl:10.0.0.3:6641", "southbound": "ssl:10.0.0.2:6642"}),
    )
    .expect("endpoints");
    status.client_secrets = serde_json::from_value(
        json!({"controlPlane": {"name": "ovn-certificates"}, "hypervisors": {"name": "ovn-hypervisors"}}),
    )
    .expect("Secrets");
    for (name, whose) in [
        ("ovn-certificates", "control"),
        ("ovn-hypervisors", "hypervisors"),
    ] {
        facts.ovn_secrets.insert(name.to_owned(), certificates(whose));
    }
    facts
}

/// Databases that the spec names.
pub(crate) fn given(tls: Value) -> Neutron {
    let mut neutron = serde_json::to_value(neutron()).expect("writes");
    neutron["spec"]["ovn"] = json!({"enabled": true, "nbConnection": "ssl:192.0.2.1:6641",
        "sbConnection": "ssl:192.0.2.1:6642", "tls": tls});
    serde_json::from_value(neutron).expect("a Neutron")
}

/// The agents run in another cluster; the schema is there.
fn seen(facts: Facts) -> Seen {
    let mut neutron = neutron();
    let metadata = neutron.spec.metadata.as_mut().expect("metadata");
    metadata.compute_ref = Some(c5c3_api::common::LocalRef::new("far"));
    let mut seen = observed(neutron, facts);
    seen.facts.elsewhere.insert("far".to_owned(), Ok(()));
    take_job(&mut seen, "neutron-db-sync", Some("Complete"));
    seen
}

/// The object of that kind whose name begins so.
fn find(seen: &Seen, kind: &str, prefix: &str) -> Value {
    let all = objects(seen).into_iter();
    let mut named = all.filter(|one| {
        let name = one["metadata"]["name"].as_str().unwrap_or_default();
        one["kind"] == kind && name.starts_with(prefix)
    });
    named.next().unwrap_or_else(|| panic!("{kind} {prefix}"))
}

fn settings(seen: &Seen, prefix: &str) -> String {
    let text = find(seen, "ConfigMap", prefix)["data"]["neutron.conf"].clone();
    text.as_str().expect("text").to_owned()
}

fn template(seen: &Seen, kind: &str, name: &str) -> Value {
    find(seen, kind, name)["spec"]["template"].clone()
}

#[test]
fn each_is_told_of_the_databases_that_it_uses() {
    let seen = seen(secured());
    let control = settings(&seen, "neutron-config-");
    for line in [
        "ovn_nb_connection = ssl:10.0.0.1:6641,ssl:10.0.0.3:6641",
        "ovn_nb_private_key = /etc/ovn-tls/tls.key",
        "ovn_nb_certificate = /etc/ovn-tls/tls.crt",
        "ovn_nb_ca_cert = /etc/ovn-tls/ca.crt",
        "ovn_sb_connection = ssl:10.0.0.2:6642",
        "ovn_sb_private_key = /etc/ovn-tls/tls.key",
        "ovn_sb_certificate = /etc/ovn-tls/tls.crt",
        "ovn_sb_ca_cert = /etc/ovn-tls/ca.crt",
    ] {
        assert!(control.contains(line), "{line}: {control}");
    }
    let agent = settings(&seen, "neutron-agent-config-");
    assert!(
        agent.contains("ovn_sb_private_key = /etc/ovn-tls/tls.key"),
        "{agent}"
    );
    assert!(!agent.contains("ovn_nb_private_key"), "{agent}");
}

#[test]
fn without_tls_all_is_as_it_was() {
    let seen = seen(facts());
    let text = json!(objects(&seen)).to_string();
    assert!(
        !text.contains("ovn-tls") && !text.contains("private_key"),
        "{text}"
    );
    let pod = template(&seen, "Deployment", "neutron");
    assert!(pod["spec"]["initContainers"].is_null(), "{pod}");
}

#[test]
fn a_hypervisor_never_sees_the_key_of_the_control_plane() {
    let seen = seen(secured());
    let decision = seen.decide().expect("decides");
    for wanted in decision.wanted() {
        let object = wanted.object();
        let secret = object["kind"] == "Secret";
        // Data of Secrets is in base64.
        let mut text = object.to_string();
        for value in object["data"]
            .as_object()
            .into_iter()
            .flatten()
            .filter(|_| secret)
        {
            use base64::Engine;
            let value = value.1.as_str().expect("text");
            let value = base64::engine::general_purpose::STANDARD.decode(value);
            text += &String::from_utf8(value.expect("base64")).expect("text");
        }
        let home = wanted.cluster() == HOME;
        assert!(home || !text.contains("key-of-control"), "{wanted:?}");
        assert!(!home || !text.contains("key-of-hypervisors"), "{wanted:?}");
        assert!(secret || !text.contains("key-of-"), "{wanted:?}");
    }
    // Each of the control plane's processes, and the agent, mounts its own copy; the schema's Job does not.
    for (kind, name, prefix) in [
        ("Deployment", "neutron", "neutron-ovn-tls-"),
        ("Deployment", "neutron-periodic-workers", "neutron-ovn-tls-"),
        ("Deployment", "neutron-ovn-maintenance", "neutron-ovn-tls-"),
        ("DaemonSet", "neutron-ovn-agent", "neutron-agent-ovn-tls-"),
    ] {
        let pod = template(&seen, kind, name)["spec"].clone();
        let volumes = pod["volumes"].as_array().expect("volumes").iter();
        let mut named = volumes.filter_map(|volume| volume["secret"]["secretName"].as_str());
        assert!(
            named.any(|secret| secret.starts_with(prefix)),
            "{kind} {name}: {pod}"
        );
        let tries = &pod["initContainers"][0];
        assert_eq!(tries["name"], OVN_CHECK);
        let databases = &tries["command"].as_array().expect("words")[4..];
        let agent = kind == "DaemonSet";
        assert_eq!(databases.len(), if agent { 1 } else { 2 }, "{databases:?}");
    }
    let secret = find(&seen, "Secret", "neutron-ovn-tls-");
    let keys: Vec<&String> = secret["data"].as_object().expect("data").keys().collect();
    assert_eq!(keys, ["ca.crt", "tls.crt", "tls.key"]);
    assert_eq!(secret["immutable"], true);
    let job = observed(neutron(), secured());
    let job = object(&job, "Job").expect("a Job").to_string();
    assert!(!job.contains("ovn-tls"), "{job}");
}

#[test]
fn other_certificates_recreate_the_pods_that_have_them() {
    let mut seen = seen(secured());
    let mark = |seen: &Seen, kind: &str, name: &str| {
        template(seen, kind, name)["metadata"]["annotations"]["c5c3.io/config"].clone()
    };
    let both = |seen: &Seen| {
        [
            mark(seen, "Deployment", "neutron"),
            mark(seen, "DaemonSet", "neutron-ovn-agent"),
        ]
    };
    let before = both(&seen);
    seen.facts
        .ovn_secrets
        .insert("ovn-hypervisors".to_owned(), certificates("others"));
    let after = both(&seen);
    assert_eq!(before[0], after[0], "nothing of its own changed");
    assert_ne!(before[1], after[1]);
    seen.facts
        .ovn_secrets
        .insert("ovn-certificates".to_owned(), certificates("others"));
    assert_ne!(both(&seen)[0], before[0]);
}

#[test]
fn certificates_that_are_not_accepted_are_told_with_what_to_mend() {
    let mut seen = seen(secured());
    take_deployments(&mut seen);
    let told = |seen: &Seen| state(seen, OVN_CONNECTED);
    assert_eq!(told(&seen).1, "OVNCluster ovn is Ready");
    let words = "TLS with OVN at ssl:10.0.0.2:6642 fails: ca.crt does not vouch for its certificate: unknown";
    for (process, secret) in [("api", "ovn-certificates"), ("ovn-agent", "ovn-hypervisors")] {
        take_check_of(&mut seen, OVN_CHECK, process, Some(words));
        let expected = (
            "CertificatesNotAccepted".to_owned(),
            format!("{process}: {words}; mend Secret {secret}"),
        );
        assert_eq!(told(&seen), expected);
        take_check_of(&mut seen, OVN_CHECK, process, None);
        assert_eq!(told(&seen).0, "Ready");
    }
}

#[test]
fn databases_of_others_take_certificates_that_the_spec_names() {
    let one = given(json!({"certSecretRef": {"name": "mine"}}));
    let references: Vec<String> = Services::<Neutron>::references(&one)
        .iter()
        .map(ToString::to_string)
        .collect();
    assert!(
        references.contains(&"Secret openstack/mine".to_owned()),
        "{references:?}"
    );
    let mut seen = observed(one, facts());
    seen.facts
        .ovn_secrets
        .insert("mine".to_owned(), certificates("mine"));
    take_job(&mut seen, "neutron-db-sync", Some("Complete"));
    let agent = find(&seen, "Secret", "neutron-agent-ovn-tls-");
    let control = find(&seen, "Secret", "neutron-ovn-tls-");
    assert_eq!(agent["data"], control["data"]);

    let two = given(json!({"certSecretRef": {"name": "mine"}, "hypervisorSecretRef": {"name": "theirs"}}));
    let mut seen = observed(two, seen.facts);
    assert_eq!(
        refusal(&seen),
        "Secret theirs for OVN is missing: create it with tls.crt, tls.key and ca.crt"
    );
    seen.facts
        .ovn_secrets
        .insert("theirs".to_owned(), certificates("theirs"));
    let agent = find(&seen, "Secret", "neutron-agent-ovn-tls-");
    assert_ne!(agent["data"], control["data"]);
}

#[test]
fn secrets_that_an_ovncluster_tells_are_watched_where_it_is() {
    let mut facts = secured();
    facts.ovn.as_mut().expect("there").metadata.namespace = Some("ovn-system".to_owned());
    let found: Vec<String> = Services::<Neutron>::found(&facts)
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        found,
        [
            "Secret ovn-system/ovn-certificates",
            "Secret ovn-system/ovn-hypervisors"
        ]
    );
}

/// Without TLS.
fn plain() -> Neutron {
    let mut neutron = serde_json::to_value(neutron()).expect("writes");
    neutron["spec"]["ovn"] = json!({"enabled": true, "nbConnection": "tcp:192.0.2.1:6641",
        "sbConnection": "tcp:192.0.2.1:6642"});
    serde_json::from_value(neutron).expect("a Neutron")
}

#[test]
fn databases_that_the_spec_names_have_to_answer() {
    let mut seen = observed(plain(), facts());
    seen.facts.ovn = None;
    take_job(&mut seen, "neutron-db-sync", Some("Complete"));
    take_deployments(&mut seen);
    let tries = template(&seen, "Deployment", "neutron")["spec"]["initContainers"][0].clone();
    assert_eq!(tries["env"], json!([{"name": "MUST_ANSWER", "value": "yes"}]));
    let words = tries["command"].as_array().expect("words");
    assert_eq!(words[4..], ["tcp:192.0.2.1:6641", "tcp:192.0.2.1:6642"]);

    let told = |seen: &Seen| state(seen, OVN_CONNECTED);
    assert_eq!(
        told(&seen),
        (
            "Progressing".to_owned(),
            "api has not reached ovn.nbConnection and ovn.sbConnection yet".to_owned()
        )
    );
    for process in ["api", "periodic-workers", "ovn-maintenance"] {
        take_check_of(&mut seen, OVN_CHECK, process, None);
    }
    assert_eq!(
        told(&seen),
        (
            "Ready".to_owned(),
            "ovn.nbConnection and ovn.sbConnection answer".to_owned()
        )
    );
    let words = "OVN at tcp:192.0.2.1:6642 does not answer: No route to host";
    take_check_of(&mut seen, OVN_CHECK, "api", Some(words));
    let expected = format!("api: {words}; correct ovn.nbConnection and ovn.sbConnection");
    assert_eq!(told(&seen), ("Unreachable".to_owned(), expected));
}

/// With the interpreter of this machine, as the pod runs it.
#[test]
fn a_silent_database_is_told_only_where_a_person_wrote_its_address() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("its address").port();
    let run = |must: &str, port: u16| {
        let program = include_str!("../build/ovn.py").replace("ANSWERS_WITHIN = 60", "ANSWERS_WITHIN = 0");
        let mut python = std::process::Command::new("python3");
        let address = format!("tcp:127.0.0.1:{port}");
        python
            .args(["-c", &program, "/nowhere", &address])
            .env("MUST_ANSWER", must);
        let output = python.output().expect("python3");
        (
            output.status.success(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    };
    assert_eq!(run("yes", port), (true, String::new()));
    drop(listener);
    assert_eq!(run("", port), (true, String::new()), "the program waits for it");
    let (well, said) = run("yes", port);
    assert!(
        !well && said.contains("does not answer: Connection refused"),
        "{said}"
    );
}
