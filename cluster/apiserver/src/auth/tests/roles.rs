//! RBAC by tables, escalation and impersonation.

use crate::status::Reason;
use serde_json::{Value, json};

use super::super::{escalation, impersonation, rbac};
use crate::{
    auth::Snapshot,
    identity::{Attributes, Identity},
    registry::Registry,
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
    rbac::default_objects()
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
            verb: clean(verb).as_str().into(),
            path: clean(path),
            ..Attributes::default()
        },
        [verb, group, resource, namespace, name] => {
            let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
            Attributes {
                verb: clean(verb).as_str().into(),
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
fn the_servers_own_hands_may_do_what_they_declare_and_no_more() {
    let snapshot = Snapshot::read(&rbac_defaults());
    let account = |name: &str| Identity::new(&format!("system:serviceaccount:kube-system:{name}"), &[]);
    for (name, question, allowed) in [
        ("node-supervisor", "get - nodes - n", true),
        ("node-supervisor", "patch - nodes/status - n", true),
        ("node-supervisor", "list - pods - -", true),
        ("node-supervisor", "patch - pods/status a p", true),
        ("node-supervisor", "delete - nodes - n", false),
        ("node-supervisor", "get - secrets a s", false),
        ("node-supervisor", "create - pods a -", false),
        (
            "custom-resource-cleaner",
            "deletecollection x.example.com things a -",
            true,
        ),
        (
            "custom-resource-cleaner",
            "delete x.example.com things a t",
            false,
        ),
        ("custom-resource-cleaner", "list - secrets a -", false),
        (
            "custom-resource-cleaner",
            "create rbac.authorization.k8s.io roles a -",
            false,
        ),
    ] {
        let verdict = snapshot.authorize(&account(name), &attributes(question));
        assert_eq!(verdict.allowed, allowed, "{name}: {question}: {}", verdict.reason);
    }
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
    assert_eq!(refused.reason, Reason::Forbidden);
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
    assert_eq!(missing.reason, Reason::NotFound);
    let moved = check("admin", "rolebindings", "a", Some(&bind("view")), &bind("edit"));
    assert_eq!(moved.expect_err("roleRef stays").reason, Reason::Invalid);
    let aggregated = json!({"metadata": {"name": "x"}, "aggregationRule": {"clusterRoleSelectors": []}});
    assert!(check("rita", "clusterroles", "", None, &aggregated).is_err());
}

#[test]
fn rules_that_cannot_be_read_are_not_granted() {
    let snapshot = Snapshot::read(&roles());
    let kinds = Registry::builtin();
    let kind = kinds.find(rbac::GROUP, "v1", "roles").unwrap();
    let everything = json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]});
    for odd in [
        json!({"verbs": "get"}),
        json!("*"),
        json!(null),
        json!({"verbs": [1]}),
    ] {
        let new = role("Role", "a", "odd", json!([odd, everything]));
        let refused = escalation::check(&snapshot, &Identity::new("rita", &[]), kind, "a", None, &new);
        assert!(refused.is_err(), "{odd}");
    }
    let new = role("Role", "a", "odd", json!({"0": everything}));
    assert!(escalation::check(&snapshot, &Identity::new("rita", &[]), kind, "a", None, &new).is_err());
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
