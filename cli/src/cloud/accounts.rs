//! Access of an operator to another cluster of the machine. A person makes a token and a Secret for it; for a RemoteCluster
//! that says which account it wants, `up` does.

use anyhow::Context;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::PostParams;
use kube::config::Kubeconfig;
use kube::{Api, Client};
use serde_json::{Value, json};

use super::health::{kind, name, text};
use super::profile::cluster_of;
use crate::failure::Failure;

/// Of a RemoteCluster: the name of the account in the namespace that it works in, and a cluster in front: `CLUSTER/NAME`.
const ACCOUNT: &str = "c5c3.io/account";
/// What a RemoteCluster reads when it names no key.
const KEY: &str = "kubeconfig.yaml";
/// Every `up` makes a new token; a cloud that is left alone has the one that it has.
const YEAR: i64 = 365 * 24 * 3600;

/// A Secret to be made.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Access {
    /// Where the RemoteCluster is, if that is not the first cluster.
    pub home: Option<String>,
    namespace: String,
    secret: String,
    key: String,
    /// Where the account is.
    pub cluster: String,
    account: (String, String),
}

/// Those that objects ask for.
pub(crate) fn wanted(objects: &[Value]) -> Result<Vec<Access>, String> {
    let remotes = objects.iter().filter(|object| kind(object) == "RemoteCluster");
    let asked = remotes.filter_map(|object| {
        let account = object["metadata"]["annotations"][ACCOUNT].as_str()?;
        Some(access(object, account))
    });
    asked.collect()
}

/// The cluster in which a RemoteCluster wants an account.
pub(crate) fn place(object: &Value) -> Option<&str> {
    let account = object["metadata"]["annotations"][ACCOUNT].as_str()?;
    account.split_once('/').map(|(cluster, _)| cluster)
}

fn access(object: &Value, account: &str) -> Result<Access, String> {
    let reference = "/spec/accesskeyRef";
    let (cluster, account) = account
        .split_once('/')
        .filter(|(cluster, account)| !cluster.is_empty() && !account.is_empty())
        .ok_or_else(|| {
            format!(
                "RemoteCluster {}: annotation {ACCOUNT} {account:?} is not CLUSTER/NAME",
                name(object)
            )
        })?;
    let key = text(object, &format!("{reference}/key"));
    Ok(Access {
        home: cluster_of(object).map(str::to_owned),
        namespace: text(object, "/metadata/namespace").to_owned(),
        secret: text(object, &format!("{reference}/name")).to_owned(),
        key: if key.is_empty() { KEY } else { key }.to_owned(),
        cluster: cluster.to_owned(),
        account: (text(object, "/spec/namespace").to_owned(), account.to_owned()),
    })
}

/// A token of the account, from its own cluster.
pub(crate) async fn token(there: &Client, access: &Access) -> Result<String, Failure> {
    let (namespace, name) = &access.account;
    let accounts: Api<ServiceAccount> = Api::namespaced(there.clone(), namespace);
    let request = TokenRequest {
        spec: Some(TokenRequestSpec {
            expiration_seconds: Some(YEAR),
            ..TokenRequestSpec::default()
        }),
        ..TokenRequest::default()
    };
    let answer = accounts
        .create_token_request(name, &PostParams::default(), &request)
        .await
        .with_context(|| format!("no token of account {name} in cluster {}", access.cluster))?;
    let token = answer.status.and_then(|status| status.token);
    Ok(token.with_context(|| format!("the answer has no token of account {name}"))?)
}

/// The Secret with the token and the way to the cluster, which has this context in a kubeconfig of the machine.
pub(crate) fn secret(access: &Access, config: &Kubeconfig, token: &str) -> Option<Value> {
    let context = config.contexts.iter().find(|one| one.name == access.cluster)?;
    let cluster = &context.context.as_ref()?.cluster;
    let cluster = config.clusters.iter().find(|one| one.name == *cluster)?;
    let (place, user) = (&access.cluster, &access.account.1);
    let config = json!({"apiVersion": "v1", "kind": "Config", "current-context": place,
        "clusters": [{"name": place, "cluster": cluster.cluster}],
        "contexts": [{"name": place, "context": {"cluster": place, "user": user}}],
        "users": [{"name": user, "user": {"token": token}}]});
    Some(json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": {"namespace": access.namespace, "name": access.secret},
        "stringData": {&access.key: config.to_string()}}))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cloud::profile::Bundle;

    fn remote(account: Value) -> Value {
        json!({"apiVersion": "ceph.c5c3.io/v1alpha1", "kind": "RemoteCluster",
            "metadata": {"name": "site", "namespace": "rook-ceph",
                "annotations": {"c5c3.io/cluster": "storage", ACCOUNT: account}},
            "spec": {"namespace": "external-arbiter", "accesskeyRef": {"name": "key"}}})
    }

    #[test]
    fn only_who_asks_gets_a_secret() {
        let found = wanted(&[
            remote(json!("arbiter/c5c3-arbiter")),
            remote(json!(null)),
            json!({"kind": "Secret"}),
        ]);
        let found = found.expect("accounts");
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].home.as_deref(), Some("storage"));
        assert_eq!(
            found[0].account,
            ("external-arbiter".to_owned(), "c5c3-arbiter".to_owned())
        );
        for wrong in ["c5c3-arbiter", "/c5c3-arbiter", "arbiter/"] {
            let said = wanted(&[remote(json!(wrong))]).expect_err(wrong);
            assert!(
                said.contains("RemoteCluster site") && said.contains(wrong),
                "{said}"
            );
        }
    }

    #[test]
    fn the_secret_has_the_way_to_that_cluster_and_no_key_but_the_token() {
        let config = r#"{"apiVersion": "v1", "kind": "Config", "current-context": "storage",
            "clusters": [{"name": "s", "cluster": {"server": "https://127.0.0.1:6443/s", "certificate-authority-data": "Q0E="}},
                {"name": "a", "cluster": {"server": "https://127.0.0.1:6443/a", "certificate-authority-data": "Q0E="}}],
            "contexts": [{"name": "storage", "context": {"cluster": "s", "user": "admin"}},
                {"name": "arbiter", "context": {"cluster": "a", "user": "admin"}}],
            "users": [{"name": "admin", "user": {"client-key-data": "QURNSU4="}}]}"#;
        let config = Kubeconfig::from_yaml(config).expect("a kubeconfig");
        let mut access = wanted(&[remote(json!("arbiter/c5c3-arbiter"))])
            .expect("accounts")
            .remove(0);
        let secret = secret(&access, &config, "TOKEN").expect("a Secret");
        assert_eq!(
            (&secret["metadata"]["namespace"], &secret["metadata"]["name"]),
            (&json!("rook-ceph"), &json!("key"))
        );
        let text = secret["stringData"][KEY].as_str().expect("a kubeconfig");
        assert!(!text.contains("QURNSU4="), "{text}");
        let read = Kubeconfig::from_yaml(text).expect("a kubeconfig");
        let cluster = read.clusters[0].cluster.as_ref().expect("a cluster");
        assert_eq!(cluster.server.as_deref(), Some("https://127.0.0.1:6443/a"));
        assert_eq!(cluster.certificate_authority_data.as_deref(), Some("Q0E="));
        assert!(text.contains(r#""user":{"token":"TOKEN"}"#), "{text}");
        access.cluster = "elsewhere".to_owned();
        assert!(super::secret(&access, &config, "TOKEN").is_none());
    }
    #[test]
    fn an_arbiter_is_where_there_is_a_cluster_for_it() {
        let text = [
            include_str!("../../../deploy/quickstart/storage.yaml"),
            include_str!("../../../deploy/quickstart/arbiter.yaml"),
            include_str!("../../../deploy/profiles/ha.yaml"),
        ];
        let all = Bundle::parse(&text.join("---\n")).expect("parses");
        let kinds = |bundle: &Bundle| {
            let named = ["RemoteCluster", "RemoteArbiter"];
            let kinds = bundle.objects.iter().filter_map(|object| object["kind"].as_str());
            kinds
                .filter(|kind| named.contains(kind))
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        let clusters: Vec<String> = all.machine.clusters.iter().map(|one| one.name.clone()).collect();
        assert_eq!(clusters, ["control-plane", "hypervisor", "storage", "arbiter"]);
        assert_eq!(kinds(&all), ["RemoteCluster", "RemoteArbiter"]);
        let access = wanted(&all.objects).expect("an account");
        assert_eq!(access.len(), 1);
        assert!(clusters.contains(&access[0].cluster));
        let at = |kind: &str| {
            all.objects
                .iter()
                .find(|object| object["kind"] == kind)
                .and_then(cluster_of)
        };
        assert_eq!(
            (at("ServiceAccount"), at("RemoteCluster")),
            (Some("arbiter"), Some("storage"))
        );
        assert_eq!(kinds(&all.clone().on(&clusters)).len(), 2);
        let one = all.on(&["control-plane".to_owned()]);
        assert_eq!(kinds(&one), Vec::<String>::new());
        assert!(wanted(&one.objects).expect("none").is_empty());
    }
}
