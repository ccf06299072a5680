//! A tenant with all rights in a namespace of its own tries to get out of it, over the wire and with the
//! token of a pod's account, and gets nowhere.
//!
//! Here an API server without a node is enough. What the tenant tries from elsewhere is tested where it would
//! happen: from inside a pod (subPath, links, keys that lead out, seccomp, devices) in
//! `cluster/machine/tests/real/borders.rs`; with many requests, watches and streams in
//! `cluster/apiserver/tests/api/load.rs`, and with connections that say nothing in `listener.rs` beside it; with images
//! whose registry leads elsewhere in `cluster/node/src/images/registry_tests.rs`; with stores whose conditions do not
//! admit its namespace in `cluster/stand-ins/src/external_secrets/conditions.rs`; with layers that lead out in
//! `images/builder/src/oci/unpack.rs`; with every spelling of an address of the machine in `clients/dial/src/beyond.rs`.

mod attempts;
mod pressure;

use anyhow::Context;
use end_to_end::Embedded;
use http::Request;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};

use attempts::{beyond_the_namespace, through_volumes_and_pods};

const APPLY: &str = "application/apply-patch+yaml";
const MERGE: &str = "application/merge-patch+json";
const JSON: &str = "application/json";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

async fn ask(
    client: &kube::Client,
    method: &str,
    path: &str,
    media: &str,
    body: &Value,
) -> anyhow::Result<(u16, Value)> {
    let bytes = if body.is_null() {
        Vec::new()
    } else {
        body.to_string().into_bytes()
    };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", media)
        .body(Body::from(bytes))?;
    let answer = client.send(request).await?;
    let code = answer.status().as_u16();
    let bytes = answer.into_body().collect_bytes().await?;
    Ok((code, serde_json::from_slice(&bytes).unwrap_or(Value::Null)))
}

async fn make(client: &kube::Client, path: &str, object: Value) -> anyhow::Result<Value> {
    let (code, answer) = ask(client, "POST", path, JSON, &object).await?;
    anyhow::ensure!(code == 201, "{path}: {code} {answer}");
    Ok(answer)
}

/// A cluster with a tenant and a victim, and what is not the tenant's.
struct World {
    embedded: Embedded,
    admin: kube::Client,
    tenant: kube::Client,
    /// The tenant's.
    token: String,
}

impl World {
    async fn new() -> anyhow::Result<Self> {
        let embedded = Embedded::start().await?;
        let admin = embedded.server.client("default");
        for (name, labels) in [
            (
                "tenant",
                json!({"pod-security.kubernetes.io/enforce": "baseline"}),
            ),
            ("victim", json!({})),
        ] {
            make(
                &admin,
                "/api/v1/namespaces",
                json!({"metadata": {"name": name, "labels": labels}}),
            )
            .await?;
        }
        let secret = json!({"metadata": {"name": "s"}, "stringData": {"password": "secret"}});
        make(&admin, "/api/v1/namespaces/victim/secrets", secret).await?;
        make(
            &admin,
            "/api/v1/namespaces/victim/configmaps",
            json!({"metadata": {"name": "m"}}),
        )
        .await?;
        for owner in ["tenant", "victim"] {
            let volume = json!({"metadata": {"name": format!("of-{owner}")}, "spec": {"capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"], "hostPath": {"path": format!("/volumes/{owner}")},
                "claimRef": {"namespace": owner, "name": "c"}}});
            make(&admin, "/api/v1/persistentvolumes", volume).await?;
            let claims = format!("/api/v1/namespaces/{owner}/persistentvolumeclaims");
            let claim = json!({"metadata": {"name": "c"}, "spec": {"accessModes": ["ReadWriteOnce"],
                "volumeName": format!("of-{owner}"), "resources": {"requests": {"storage": "1Gi"}}}});
            make(&admin, &claims, claim).await?;
            let bound = json!({"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}});
            let (code, answer) = ask(&admin, "PATCH", &format!("{claims}/c/status"), MERGE, &bound).await?;
            anyhow::ensure!(code == 200, "{answer}");
        }
        // Every right there is, in one namespace: more than `admin`.
        let accounts = "/api/v1/namespaces/tenant/serviceaccounts";
        make(&admin, accounts, json!({"metadata": {"name": "app"}})).await?;
        let role =
            json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"});
        let subject = json!({"kind": "ServiceAccount", "name": "app", "namespace": "tenant"});
        make(
            &admin,
            &format!("{RBAC}/namespaces/tenant/rolebindings"),
            json!({"metadata": {"name": "all"}, "roleRef": role, "subjects": [subject]}),
        )
        .await?;
        make(
            &admin,
            "/api/v1/namespaces/tenant/pods",
            json!({"metadata": {"name": "p"}, "spec": {"serviceAccountName": "app", "containers": [{"name": "c", "image": "i"}]}}),
        )
        .await?;
        let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
        let answer = make(&admin, &format!("{accounts}/app/token"), request).await?;
        let token = answer["status"]["token"].as_str().context("a token")?;
        let file = Kubeconfig::read_from(embedded.server.kubeconfig_path())?;
        let mut config = kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
        config.auth_info = serde_json::from_value(json!({"token": token}))?;
        let tenant = kube::Client::try_from(config)?;
        Ok(Self {
            embedded,
            admin,
            tenant,
            token: token.to_owned(),
        })
    }

    /// All that the tenant must not change, without what the server changes by itself.
    async fn others(&self) -> anyhow::Result<Value> {
        let mut all = json!({});
        for path in [
            "/api/v1/namespaces",
            "/api/v1/persistentvolumes",
            "/api/v1/nodes",
            "/api/v1/namespaces/victim/secrets",
            "/api/v1/namespaces/victim/persistentvolumeclaims",
            "/api/v1/namespaces/kube-system/configmaps",
            "/apis/rbac.authorization.k8s.io/v1/clusterroles",
            "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        ] {
            let (code, mut list) = ask(&self.admin, "GET", path, JSON, &Value::Null).await?;
            anyhow::ensure!(code == 200, "{path}: {code}");
            all[path] = list["items"].take();
        }
        Ok(all)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_stays_in_its_namespace() -> anyhow::Result<()> {
    let world = World::new().await?;
    let (code, _) = ask(
        &world.tenant,
        "GET",
        "/api/v1/namespaces/tenant/secrets",
        JSON,
        &Value::Null,
    )
    .await?;
    assert_eq!(code, 200, "the tenant may do what it likes at home");
    let before = world.others().await?;
    let mut through = Vec::new();
    for (what, method, path, media, body, refused) in beyond_the_namespace()
        .into_iter()
        .chain(through_volumes_and_pods())
    {
        let (code, answer) = ask(&world.tenant, method, &path, media, &body).await?;
        if !refused.contains(&code) {
            through.push(format!(
                "{what}: {method} {path} is answered {code}, not {refused:?}: {answer}"
            ));
        }
    }
    assert!(through.is_empty(), "{}", through.join("\n"));
    assert_eq!(world.others().await?, before, "nothing of others has changed");
    let (_, claim) = ask(
        &world.admin,
        "GET",
        "/api/v1/namespaces/tenant/persistentvolumeclaims/c",
        JSON,
        &Value::Null,
    )
    .await?;
    assert_eq!(claim["spec"]["volumeName"], "of-tenant");
    world.embedded.server.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn leave_to_patch_is_no_leave_to_create() -> anyhow::Result<()> {
    let world = World::new().await?;
    let roles = format!("{RBAC}/namespaces/victim");
    let rules = json!([{"apiGroups": ["", "rbac.authorization.k8s.io"], "resources": ["*"], "verbs": ["patch", "update"]}]);
    make(
        &world.admin,
        &format!("{roles}/roles"),
        json!({"metadata": {"name": "patch"}, "rules": rules}),
    )
    .await?;
    let binding = json!({"metadata": {"name": "patch"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "patch"},
        "subjects": [{"kind": "ServiceAccount", "name": "app", "namespace": "tenant"}]});
    make(&world.admin, &format!("{roles}/rolebindings"), binding).await?;
    let core = "/api/v1/namespaces/victim";
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}});
    for (path, object) in [
        (format!("{core}/pods/x"), pod),
        (format!("{core}/configmaps/x"), map),
    ] {
        let (code, answer) = ask(
            &world.tenant,
            "PATCH",
            &format!("{path}?fieldManager=m"),
            APPLY,
            &object,
        )
        .await?;
        assert_eq!(code, 403, "{answer}");
        let (code, _) = ask(&world.tenant, "PUT", &path, JSON, &object).await?;
        assert_eq!(code, 404);
        let (code, _) = ask(&world.admin, "GET", &path, JSON, &Value::Null).await?;
        assert_eq!(code, 404, "{path}");
    }
    // Nor are there rules to grant that one has not.
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "patch"},
        "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]});
    let (code, _) = ask(
        &world.tenant,
        "PATCH",
        &format!("{roles}/roles/patch?fieldManager=m&force=true"),
        APPLY,
        &role,
    )
    .await?;
    assert_eq!(code, 403);
    world.embedded.server.shutdown().await;
    Ok(())
}
