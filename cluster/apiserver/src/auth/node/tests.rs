use http::Method;
use serde_json::json;

use super::*;
use crate::{
    registry::Registry,
    serve::{Query, route},
};

/// Pods `p` on `one` and `q` on `two`, in the namespace `a`.
struct World;

fn pod(name: &str, node: &str, letter: &str) -> Value {
    json!({"metadata": {"namespace": "a", "name": name, "uid": name}, "spec": {"nodeName": node,
        "serviceAccountName": format!("account-{letter}"),
        "volumes": [{"secret": {"secretName": format!("secret-{letter}")}}, {"configMap": {"name": format!("map-{letter}")}},
            {"persistentVolumeClaim": {"claimName": format!("claim-{letter}")}}]}})
}

impl Facts for World {
    fn pods_of(&self, node: &str, namespace: Option<&str>) -> Vec<Value> {
        let all = [pod("p", "one", "p"), pod("q", "two", "q")];
        let here =
            |pod: &Value| is_on(pod, node) && namespace.is_none_or(|n| pod["metadata"]["namespace"] == n);
        all.into_iter().filter(here).collect()
    }

    fn pod(&self, namespace: &str, name: &str) -> Option<Value> {
        match (namespace, name) {
            ("a", "p") => Some(pod("p", "one", "p")),
            ("a", "q") => Some(pod("q", "two", "q")),
            _ => None,
        }
    }

    fn claim(&self, _: &str, name: &str) -> Option<Value> {
        let letter = name.strip_prefix("claim-")?;
        Some(json!({"spec": {"volumeName": format!("volume-{letter}")}}))
    }

    fn volume(&self, name: &str) -> Option<Value> {
        // The last is claimed for the pod's claim, which has another.
        let claim = match name {
            "volume-p" | "stray" => "claim-p",
            "volume-q" => "claim-q",
            _ => return None,
        };
        Some(json!({"spec": {"claimRef": {"namespace": "a", "name": claim}}}))
    }
}

fn may(request: &str) -> bool {
    let (method, uri) = request.split_once(' ').unwrap();
    let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
    let method: Method = method.parse().unwrap();
    let route = route(&method, path, &Query::parse(query)).unwrap();
    allows("one", &route.attributes, &World)
}

#[test]
fn a_node_may_do_what_its_pods_need() {
    let own = [
        "POST /api/v1/nodes",
        "GET /api/v1/nodes/one",
        "PATCH /api/v1/nodes/one",
        "PATCH /api/v1/nodes/one/status",
        "GET /api/v1/nodes?fieldSelector=metadata.name%3Done",
        "PATCH /apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/one",
        "POST /apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases",
        "GET /api/v1/pods?fieldSelector=spec.nodeName%3Done",
        "GET /api/v1/pods?watch=1&fieldSelector=spec.nodeName%3Done",
        "GET /api/v1/namespaces/a/pods/p",
        "PATCH /api/v1/namespaces/a/pods/p/status",
        "DELETE /api/v1/namespaces/a/pods/p",
        "PATCH /api/v1/namespaces/a/pods/gone/status",
        "GET /api/v1/namespaces/a/secrets/secret-p",
        "GET /api/v1/namespaces/a/secrets?watch=1&fieldSelector=metadata.name%3Dsecret-p",
        "GET /api/v1/namespaces/a/configmaps/map-p",
        "GET /api/v1/namespaces/a/persistentvolumeclaims/claim-p",
        "GET /api/v1/persistentvolumes/volume-p",
        "POST /api/v1/namespaces/a/serviceaccounts/account-p/token",
        "POST /api/v1/namespaces/a/events",
        "PATCH /apis/events.k8s.io/v1/namespaces/a/events/e",
        "GET /api/v1/services",
    ];
    for request in own {
        assert!(may(request), "{request}");
    }
}

#[test]
fn what_others_have_is_not_a_nodes() {
    let others = [
        "GET /api/v1/nodes",
        "GET /api/v1/nodes/two",
        "PATCH /api/v1/nodes/two",
        "PATCH /api/v1/nodes/two/status",
        "DELETE /api/v1/nodes/one",
        "PATCH /apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/two",
        "POST /apis/coordination.k8s.io/v1/namespaces/kube-system/leases",
        "GET /api/v1/pods",
        "GET /api/v1/pods?fieldSelector=spec.nodeName%3Dtwo",
        "GET /api/v1/pods?fieldSelector=spec.nodeName%21%3Done",
        "GET /api/v1/pods?fieldSelector=metadata.name%3Done",
        "GET /api/v1/namespaces/a/pods/q",
        "PATCH /api/v1/namespaces/a/pods/q/status",
        "DELETE /api/v1/namespaces/a/pods/q",
        "DELETE /api/v1/namespaces/a/pods",
        "PATCH /api/v1/namespaces/a/pods/p",
        "POST /api/v1/namespaces/a/pods",
        "GET /api/v1/namespaces/a/pods/p/exec",
        "GET /api/v1/namespaces/a/secrets",
        "GET /api/v1/secrets",
        "GET /api/v1/namespaces/a/secrets/secret-q",
        "GET /api/v1/namespaces/b/secrets/secret-p",
        "PATCH /api/v1/namespaces/a/secrets/secret-p",
        "GET /api/v1/namespaces/a/configmaps/map-q",
        "GET /api/v1/namespaces/a/persistentvolumeclaims/claim-q",
        "GET /api/v1/persistentvolumes",
        "GET /api/v1/persistentvolumes/volume-q",
        "GET /api/v1/persistentvolumes/stray",
        "POST /api/v1/namespaces/a/serviceaccounts/account-q/token",
        "POST /apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    ];
    for request in others {
        assert!(!may(request), "{request}");
    }
}

#[test]
fn a_node_writes_only_its_own_objects() {
    let registry = Registry::builtin();
    let admits = |group: &str, plural: &str, old: Option<Value>, new: Value| {
        let kind = registry.find(group, "v1", plural).unwrap();
        admit("one", kind, old.as_ref(), &new).is_ok()
    };
    let named = |name: &str| json!({"metadata": {"name": name}});
    assert!(admits("", "nodes", None, named("one")));
    assert!(!admits("", "nodes", None, named("two")));
    assert!(admits("coordination.k8s.io", "leases", None, named("one")));
    assert!(!admits("coordination.k8s.io", "leases", None, named("two")));
    assert!(admits(
        "",
        "pods",
        Some(pod("p", "one", "p")),
        pod("p", "one", "p")
    ));
    assert!(!admits(
        "",
        "pods",
        Some(pod("q", "two", "q")),
        pod("q", "one", "q")
    ));
    for label in [
        "node-restriction.kubernetes.io/zone",
        "sub.node-restriction.kubernetes.io/zone",
    ] {
        let labelled = json!({"metadata": {"name": "one", "labels": {label: "x"}}});
        assert!(
            !admits("", "nodes", Some(named("one")), labelled.clone()),
            "{label}"
        );
        assert!(admits("", "nodes", Some(labelled.clone()), labelled), "{label}");
    }
}

#[test]
fn a_token_is_bound_to_a_pod_of_the_node() {
    let asks = |account: &str, pod: &str, uid: &str| {
        let account = json!({"metadata": {"namespace": "a", "name": account}});
        let request = json!({"spec": {"boundObjectRef": {"kind": "Pod", "name": pod, "uid": uid}}});
        admit_token("one", &World, &account, &request).is_ok()
    };
    assert!(asks("account-p", "p", "p"));
    assert!(!asks("account-p", "p", "other"));
    assert!(!asks("account-p", "q", "q"));
    assert!(!asks("account-q", "p", "p"));
    assert!(!asks("account-p", "gone", "p"));
    let account = json!({"metadata": {"namespace": "a", "name": "account-p"}});
    assert!(admit_token("one", &World, &account, &json!({"spec": {}})).is_err());
}

#[test]
fn a_node_is_known_by_user_and_group() {
    assert_eq!(name(&Identity::new("system:node:one", &[GROUP])), Some("one"));
    for (user, groups) in [
        ("system:node:one", &[][..]),
        ("system:node:", &[GROUP]),
        ("one", &[GROUP]),
    ] {
        assert_eq!(name(&Identity::new(user, groups)), None, "{user}");
    }
}
