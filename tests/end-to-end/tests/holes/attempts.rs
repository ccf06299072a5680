//! What the tenant tries.

use serde_json::{Value, json};

use super::{APPLY, JSON, MERGE, RBAC};

/// `(what is tried, method, path, media type, body, the codes that refuse it)`
pub(crate) type Attempt = (
    &'static str,
    &'static str,
    String,
    &'static str,
    Value,
    &'static [u16],
);

fn nested(levels: usize) -> Value {
    (0..levels).fold(json!(1), |inner, _| json!({"a": inner}))
}

pub(crate) fn beyond_the_namespace() -> Vec<Attempt> {
    let own = "/api/v1/namespaces/tenant";
    let role = json!({"rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]});
    let binding = json!({"metadata": {"name": "up"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "app", "namespace": "tenant"}]});
    vec![
        (
            "delete another namespace",
            "DELETE",
            format!("{own}/namespaces/victim"),
            JSON,
            Value::Null,
            &[404],
        ),
        (
            "label another namespace",
            "PATCH",
            format!("{own}/namespaces/victim"),
            MERGE,
            json!({"metadata": {"labels": {"a": "b"}}}),
            &[404],
        ),
        (
            "finish another namespace",
            "PUT",
            format!("{own}/namespaces/victim/finalize"),
            JSON,
            json!({"metadata": {"name": "victim"}, "spec": {"finalizers": []}}),
            &[404],
        ),
        (
            "delete it by its own path",
            "DELETE",
            "/api/v1/namespaces/victim".into(),
            JSON,
            Value::Null,
            &[403],
        ),
        (
            "nest a pod until nobody can read it",
            "PATCH",
            format!("{own}/pods/p"),
            MERGE,
            json!({"metadata": {"annotations": nested(500)}}),
            &[400, 413, 422],
        ),
        (
            "make a namespace",
            "POST",
            format!("{own}/namespaces"),
            JSON,
            json!({"metadata": {"name": "x"}}),
            &[404],
        ),
        (
            "read volumes",
            "GET",
            format!("{own}/persistentvolumes"),
            JSON,
            Value::Null,
            &[404],
        ),
        (
            "widen a cluster role",
            "PATCH",
            format!("{RBAC}/namespaces/tenant/clusterroles/view"),
            MERGE,
            role,
            &[404],
        ),
        (
            "bind cluster-wide",
            "POST",
            format!("{RBAC}/namespaces/tenant/clusterrolebindings"),
            JSON,
            binding.clone(),
            &[404],
        ),
        (
            "bind cluster-wide by its own path",
            "POST",
            format!("{RBAC}/clusterrolebindings"),
            JSON,
            binding,
            &[403],
        ),
        (
            "read secrets of all",
            "GET",
            "/api/v1/secrets".into(),
            JSON,
            Value::Null,
            &[403],
        ),
        (
            "read another's secret",
            "GET",
            "/api/v1/namespaces/victim/secrets/s".into(),
            JSON,
            Value::Null,
            &[403],
        ),
        (
            "read it without a namespace",
            "GET",
            "/api/v1/secrets/s".into(),
            JSON,
            Value::Null,
            &[403],
        ),
        (
            "an empty group",
            "GET",
            "/apis//v1/namespaces/victim/secrets".into(),
            JSON,
            Value::Null,
            &[404],
        ),
        (
            "a way back",
            "GET",
            format!("{own}/../victim/secrets"),
            JSON,
            Value::Null,
            &[403, 404],
        ),
        (
            "a hidden way back",
            "GET",
            format!("{own}/%2e%2e/victim/secrets"),
            JSON,
            Value::Null,
            &[403, 404],
        ),
        (
            "a hidden slash",
            "GET",
            "/api/v1/namespaces/tenant%2f..%2fvictim/secrets".into(),
            JSON,
            Value::Null,
            &[403, 404],
        ),
        (
            "delete in all namespaces",
            "DELETE",
            "/api/v1/configmaps".into(),
            JSON,
            Value::Null,
            &[403],
        ),
        (
            "create under another name",
            "POST",
            format!("{own}/configmaps/x"),
            JSON,
            json!({"metadata": {"name": "y"}}),
            &[405],
        ),
        (
            "create in another namespace",
            "POST",
            format!("{own}/configmaps"),
            JSON,
            json!({"metadata": {"name": "y", "namespace": "victim"}}),
            &[400],
        ),
        (
            "apply in another namespace",
            "PATCH",
            format!("{own}/configmaps/y?fieldManager=m"),
            APPLY,
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "y", "namespace": "victim"}}),
            &[400],
        ),
        (
            "ask for a token of another account",
            "POST",
            "/api/v1/namespaces/kube-system/serviceaccounts/default/token".into(),
            JSON,
            json!({"spec": {}}),
            &[403],
        ),
    ]
}

pub(crate) fn through_volumes_and_pods() -> Vec<Attempt> {
    let own = "/api/v1/namespaces/tenant";
    let pods = || format!("{own}/pods");
    let claim = format!("{own}/persistentvolumeclaims/c");
    let pod = |spec: Value| {
        let mut pod =
            json!({"metadata": {"name": "bad"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        for (field, value) in spec.as_object().into_iter().flatten() {
            pod["spec"][field] = value.clone();
        }
        pod
    };
    let container = |context: Value| json!([{"name": "c", "image": "i", "securityContext": context}]);
    let file = |path: &str| json!([{"name": "v", "configMap": {"name": "m", "items": [{"key": "k", "path": path}]}}]);
    let mount = |field: &str, path: &str| {
        json!({"volumes": [{"name": "v", "emptyDir": {}}],
            "containers": [{"name": "c", "image": "i", "volumeMounts": [{"name": "v", "mountPath": "/v", field: path}]}]})
    };
    let mut attempts: Vec<Attempt> = vec![
        (
            "take another's volume",
            "PATCH",
            claim.clone(),
            MERGE,
            json!({"spec": {"volumeName": "of-victim"}}),
            &[422],
        ),
        (
            "take it by an apply",
            "PATCH",
            format!("{claim}?fieldManager=m&force=true"),
            APPLY,
            json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"}, "spec": {"volumeName": "of-victim"}}),
            &[422],
        ),
        (
            "swap the pod's container",
            "PATCH",
            format!("{}/p/resize", pods()),
            MERGE,
            json!({"spec": {"containers": container(json!({"privileged": true}))}}),
            &[422],
        ),
        (
            "debug with privileges",
            "PATCH",
            format!("{}/p/ephemeralcontainers", pods()),
            MERGE,
            json!({"spec": {"ephemeralContainers": container(json!({"privileged": true}))[0].as_object().map(|c| {
                let mut c = c.clone();
                c.insert("name".into(), "d".into());
                vec![c]
            })}}),
            &[403],
        ),
    ];
    for key in ["../../../tmp/x", "/tmp/x", "..data"] {
        let maps = format!("{own}/configmaps");
        attempts.push((
            "a key that leads out",
            "POST",
            maps,
            JSON,
            json!({"metadata": {"name": "k"}, "data": {key: ""}}),
            &[422],
        ));
        let secrets = format!("{own}/secrets");
        attempts.push((
            "a secret key",
            "POST",
            secrets,
            JSON,
            json!({"metadata": {"name": "k"}, "data": {key: ""}}),
            &[422],
        ));
    }
    let refused: [(&str, Value, &[u16]); 11] = [
        (
            "a file that leads out",
            json!({"volumes": file("../../x")}),
            &[422],
        ),
        ("a file from the root", json!({"volumes": file("/etc/x")}), &[422]),
        (
            "a part of a volume that leads out",
            mount("subPath", "../.."),
            &[422],
        ),
        (
            "an expression that leads out",
            mount("subPathExpr", "../$(X)"),
            &[422],
        ),
        ("the network of the node", json!({"hostNetwork": true}), &[403]),
        ("the processes of the node", json!({"hostPID": true}), &[403]),
        (
            "the disk of the node",
            json!({"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}),
            &[403],
        ),
        (
            "all privileges",
            json!({"containers": container(json!({"privileged": true}))}),
            &[403],
        ),
        (
            "a capability",
            json!({"containers": container(json!({"capabilities": {"add": ["SYS_ADMIN"]}}))}),
            &[403],
        ),
        (
            "no seccomp",
            json!({"containers": container(json!({"seccompProfile": {"type": "Unconfined"}}))}),
            &[403],
        ),
        (
            "the whole of /proc",
            json!({"containers": container(json!({"procMount": "Unmasked"}))}),
            &[403],
        ),
    ];
    for (what, spec, codes) in refused {
        attempts.push((what, "POST", pods(), JSON, pod(spec.clone()), codes));
        let mut whole = pod(spec);
        whole["apiVersion"] = "v1".into();
        whole["kind"] = "Pod".into();
        attempts.push((
            what,
            "PATCH",
            format!("{}/bad?fieldManager=m", pods()),
            APPLY,
            whole,
            codes,
        ));
    }
    attempts
}
