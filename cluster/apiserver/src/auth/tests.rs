//! RBAC by tables, escalation, tokens, certificates.

use std::{net::Ipv4Addr, os::unix::fs::PermissionsExt};

use serde_json::{Value, json};

use super::{rbac::Snapshot, *};
use crate::{
    registry::Registry,
    store::{Action, Expect, History, ObjectKey, Redb, Store, Write, draft},
    strategy::ServiceNetwork,
};

fn role(kind: &str, namespace: &str, name: &str, rules: Value) -> Value {
    json!({"kind": kind, "metadata": {"name": name, "namespace": namespace}, "rules": rules})
}

fn binding(namespace: &str, name: &str, role: (&str, &str), subjects: Value) -> Value {
    let kind = if namespace.is_empty() {
        "ClusterRoleBinding"
    } else {
        "RoleBinding"
    };
    json!({"kind": kind, "metadata": {"name": name, "namespace": namespace},
           "roleRef": {"kind": role.0, "name": role.1}, "subjects": subjects})
}

fn user(name: &str) -> Value {
    json!([{"kind": "User", "name": name}])
}

fn roles() -> Vec<Value> {
    let mut objects = rbac_defaults();
    objects.extend([
        role(
            "ClusterRole",
            "",
            "readers",
            json!([
                {"apiGroups": [""], "resources": ["pods", "pods/log"], "verbs": ["get", "list"]},
                {"apiGroups": ["apps"], "resources": ["*/scale"], "verbs": ["*"]},
                {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["one"], "verbs": ["get"]},
                {"nonResourceURLs": ["/metrics", "/debug/*"], "verbs": ["get"]},
            ]),
        ),
        role(
            "Role",
            "a",
            "writers",
            json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["create"]}]),
        ),
        binding("", "everywhere", ("ClusterRole", "readers"), user("rita")),
        binding("a", "here", ("ClusterRole", "readers"), user("hal")),
        binding(
            "a",
            "writers",
            ("Role", "writers"),
            json!([{"kind": "Group", "name": "authors"}]),
        ),
        binding(
            "a",
            "sa",
            ("Role", "writers"),
            json!([{"kind": "ServiceAccount", "name": "bot"}]),
        ),
        binding("a", "dangling", ("Role", "gone"), user("dora")),
        binding("", "view", ("ClusterRole", "view"), user("vera")),
        binding("", "admin", ("ClusterRole", "admin"), user("adam")),
    ]);
    objects
}

fn rbac_defaults() -> Vec<Value> {
    super::rbac::default_objects()
}

fn attributes(text: &str) -> Attributes {
    // verb group resource[/subresource] namespace name, "-" for none; or: verb /path
    let parts: Vec<&str> = text.split(' ').collect();
    let clean = |part: &str| {
        if part == "-" {
            String::new()
        } else {
            part.to_owned()
        }
    };
    match parts.as_slice() {
        [verb, path] => Attributes {
            verb: clean(verb),
            path: clean(path),
            ..Attributes::default()
        },
        [verb, group, resource, namespace, name] => {
            let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
            Attributes {
                verb: clean(verb),
                group: clean(group),
                resource: clean(resource),
                subresource: clean(subresource),
                namespace: clean(namespace),
                name: clean(name),
                ..Attributes::default()
            }
        }
        _ => panic!("{text}"),
    }
}

#[test]
fn rbac_table() {
    let objects = roles();
    let snapshot = Snapshot::read(&objects);
    let who = |name: &str| match name {
        "author" => Identity::new("someone", &["authors"]),
        "bot" => Identity::new("system:serviceaccount:a:bot", &[]),
        "other-bot" => Identity::new("system:serviceaccount:b:bot", &[]),
        "admin" => Identity::admin(),
        "nobody" => Identity::anonymous(),
        name => Identity::new(name, &[]),
    };
    for (name, question, allowed) in [
        ("rita", "get - pods x p", true),
        ("rita", "get - pods - -", true),
        ("rita", "delete - pods x p", false),
        ("rita", "get - pods/log x p", true),
        ("rita", "get - pods/exec x p", false),
        ("rita", "get apps pods x p", false),
        ("rita", "update apps deployments/scale x d", true),
        ("rita", "update apps deployments x d", false),
        ("rita", "get - secrets x one", true),
        ("rita", "get - secrets x two", false),
        ("rita", "list - secrets x -", false),
        ("rita", "list - secrets x one", false),
        ("rita", "get /metrics", true),
        ("rita", "get /metrics/x", false),
        ("rita", "get /debug/pprof/heap", true),
        ("rita", "post /metrics", false),
        ("hal", "get - pods a p", true),
        ("hal", "get - pods b p", false),
        ("hal", "list - pods - -", false),
        ("author", "create x.example.com things a -", true),
        ("author", "create x.example.com things b -", false),
        ("author", "get x.example.com things a -", false),
        ("bot", "create - pods a -", true),
        ("other-bot", "create - pods a -", false),
        ("dora", "get - pods a p", false),
        ("vera", "list - configmaps z -", true),
        ("vera", "list - secrets z -", false),
        ("vera", "update apps deployments z d", false),
        ("adam", "update apps deployments z d", true),
        ("adam", "create rbac.authorization.k8s.io roles z -", true),
        ("adam", "create - nodes - -", false),
        (
            "adam",
            "create authorization.k8s.io selfsubjectaccessreviews - -",
            true,
        ),
        ("admin", "nuke anything things/x z y", true),
        ("nobody", "get /healthz", true),
        ("nobody", "get /version", true),
        ("nobody", "get /api", false),
        ("nobody", "get - pods x p", false),
        ("hal", "get /api", true),
        ("hal", "get /openapi/v3", true),
    ] {
        let verdict = snapshot.authorize(&who(name), &attributes(question));
        assert_eq!(verdict.allowed, allowed, "{name}: {question}: {}", verdict.reason);
    }
    let reason = |name: &str, question: &str| snapshot.authorize(&who(name), &attributes(question)).reason;
    assert_eq!(
        reason("hal", "get - pods a p"),
        "RBAC: allowed by RoleBinding \"here/a\" of ClusterRole \"readers\" to User \"hal\""
    );
    assert_eq!(
        reason("dora", "get - pods a p"),
        "RBAC: role.rbac.authorization.k8s.io \"gone\" not found"
    );
}

#[test]
fn aggregation_in_a_circle_ends() {
    let role = |name: &str, label: &str, selects: &str| {
        json!({"kind": "ClusterRole", "metadata": {"name": name, "labels": {label: "true"}},
               "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {selects: "true"}}]}})
    };
    let plain = json!({"kind": "ClusterRole", "metadata": {"name": "plain", "labels": {"a": "true"}},
                       "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]});
    let objects = [role("x", "b", "a"), role("y", "a", "b"), plain];
    let snapshot = Snapshot::read(&objects);
    assert_eq!(snapshot.aggregated("x").map(|rules| rules.len()), Some(1));
    assert_eq!(snapshot.aggregated("plain"), None);
}

#[test]
fn nobody_grants_what_they_lack() {
    let objects = roles();
    let snapshot = Snapshot::read(&objects);
    let registry = Registry::builtin();
    let kind = |plural: &str| {
        registry
            .find("rbac.authorization.k8s.io", "v1", plural)
            .expect("built in")
    };
    let check = |who: &str, plural: &str, namespace: &str, old: Option<&Value>, new: &Value| {
        let identity = if who == "admin" {
            Identity::admin()
        } else {
            Identity::new(who, &[])
        };
        escalation::check(&snapshot, &identity, kind(plural), namespace, old, new)
    };
    let pods = role(
        "Role",
        "a",
        "r",
        json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]),
    );
    let nodes = role(
        "Role",
        "a",
        "r",
        json!([{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}]),
    );
    let one = role(
        "Role",
        "a",
        "r",
        json!([{"apiGroups": [""], "resources": ["secrets"],
                                             "resourceNames": ["one"], "verbs": ["get"]}]),
    );
    let all = role(
        "Role",
        "a",
        "r",
        json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]),
    );
    assert!(check("rita", "roles", "a", None, &pods).is_ok());
    assert!(check("rita", "roles", "a", None, &one).is_ok());
    assert!(check("rita", "roles", "a", None, &all).is_err());
    assert!(check("admin", "roles", "a", None, &nodes).is_ok());
    let refused = check("rita", "roles", "a", None, &nodes).expect_err("more than she has");
    assert_eq!(refused.reason, "Forbidden");
    assert!(
        refused
            .message
            .contains("{APIGroups:[\"\"], Resources:[\"nodes\"], Verbs:[\"get\"]}"),
        "{}",
        refused.message
    );
    // What is there already may stay.
    assert!(check("rita", "roles", "a", Some(&nodes), &nodes).is_ok());

    let bind = |role: &str| binding("a", "b", ("ClusterRole", role), user("x"));
    assert!(check("rita", "rolebindings", "a", None, &bind("readers")).is_ok());
    assert!(check("rita", "rolebindings", "a", None, &bind("cluster-admin")).is_err());
    assert!(check("admin", "rolebindings", "a", None, &bind("cluster-admin")).is_ok());
    let missing = check("rita", "rolebindings", "a", None, &bind("none")).expect_err("no such role");
    assert_eq!(missing.reason, "NotFound");
    let moved = check("admin", "rolebindings", "a", Some(&bind("view")), &bind("edit"));
    assert_eq!(moved.expect_err("roleRef stays").reason, "Invalid");
    let aggregated = json!({"metadata": {"name": "x"}, "aggregationRule": {"clusterRoleSelectors": []}});
    assert!(check("rita", "clusterroles", "", None, &aggregated).is_err());
}

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
    let answer = access.token(&bed.cluster, &account(), request).expect("a token");
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
    let request = |spec: Value| access.token(&bed.cluster, &account(), json!({"spec": spec}));
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
        "Invalid"
    );
    let missing = request(json!({"boundObjectRef": {"kind": "Pod", "name": "none"}}));
    assert_eq!(missing.expect_err("no pod").reason, "NotFound");
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

#[test]
fn impersonation_needs_leave() {
    let snapshot_objects = [
        role(
            "ClusterRole",
            "",
            "imp",
            json!([{"apiGroups": [""], "resources": ["users"], "verbs": ["impersonate"]}]),
        ),
        binding("", "imp", ("ClusterRole", "imp"), user("ivan")),
    ];
    let snapshot = Snapshot::read(&snapshot_objects);
    let ivan = Identity::new("ivan", &[]);
    let ask = |headers: &[(&'static str, &'static str)]| {
        let mut map = http::HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, http::HeaderValue::from_static(value));
        }
        let wanted = impersonation::wanted(&map)?;
        wanted
            .map(|wanted| impersonation::become_other(&ivan, wanted, |a| snapshot.authorize(&ivan, a)))
            .transpose()
    };
    assert_eq!(ask(&[]), Ok(None));
    let other = ask(&[("impersonate-user", "olga")])
        .expect("may")
        .expect("someone");
    assert_eq!(other.user, "olga");
    assert!(
        ask(&[
            ("impersonate-user", "olga"),
            ("impersonate-group", "system:masters")
        ])
        .is_err()
    );
    assert!(ask(&[("impersonate-group", "g")]).is_err());
    assert!(ask(&[("impersonate-user", "system:serviceaccount:a:b")]).is_err());
}
