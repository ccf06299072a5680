//! Every namespace has a ServiceAccount `default` and the certificate that clients trust.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{
    follow::{Follow, any_changed},
    requests::Requests,
};

const ACCOUNT: &str = "default";
const CERTIFICATE: &str = "kube-root-ca.crt";

pub(super) struct Accounts {
    requests: Requests,
    authority: String,
    /// Namespaces, ServiceAccounts and ConfigMaps.
    follows: Vec<Follow>,
}

impl Accounts {
    pub(super) fn new(requests: Requests, authority: &str) -> Self {
        let cluster = &requests.cluster;
        let follows = ["namespaces", "serviceaccounts", "configmaps"]
            .iter()
            .map(|resource| Follow::new(&cluster.store, cluster.collection("", resource)))
            .collect();
        Self {
            follows,
            authority: authority.to_owned(),
            requests,
        }
    }

    pub(super) async fn first_pass(mut self) -> Self {
        self.pass().await;
        self
    }

    pub(super) async fn run(mut self) {
        let stopping = self.requests.stopping();
        loop {
            tokio::select! {
                () = stopping.cancelled() => return,
                () = any_changed(&mut self.follows) => self.pass().await,
            }
        }
    }

    async fn pass(&mut self) {
        let mut touched = BTreeSet::new();
        for (i, follow) in self.follows.iter_mut().enumerate() {
            for object in follow.news().objects() {
                match (i, &*object.key.name) {
                    (0, name) => touched.insert(name.to_owned()),
                    (1, ACCOUNT) | (2, CERTIFICATE) => touched.insert(object.key.namespace.to_string()),
                    _ => false,
                };
            }
        }
        let all = touched.iter().map(|namespace| self.ensure(namespace));
        futures::future::join_all(all).await;
    }

    async fn ensure(&self, namespace: &str) {
        let cluster = &self.requests.cluster;
        let Some(stored) = cluster.get("", "namespaces", "", namespace) else {
            return;
        };
        if !stored.value()["metadata"]["deletionTimestamp"].is_null() {
            return;
        }
        if cluster.get("", "serviceaccounts", namespace, ACCOUNT).is_none() {
            let account =
                json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT}});
            self.create(namespace, "serviceaccounts", &account).await;
        }
        let wanted = json!({"ca.crt": self.authority});
        match cluster.get("", "configmaps", namespace, CERTIFICATE) {
            None => {
                let what = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc.";
                let map = json!({
                    "apiVersion": "v1",
                    "kind": "ConfigMap",
                    "metadata": {"name": CERTIFICATE, "annotations": {"kubernetes.io/description": what}},
                    "data": wanted,
                });
                self.create(namespace, "configmaps", &map).await;
            }
            Some(stored) => {
                let mut map = stored.value();
                if map["data"] != wanted {
                    map["data"] = wanted;
                    let path = format!("/api/v1/namespaces/{namespace}/configmaps/{CERTIFICATE}");
                    if let Err(error) = self.requests.replace(&path, &map).await
                        && !error.is_outdated()
                    {
                        tracing::warn!(%error, namespace, "cannot restore {CERTIFICATE}");
                    }
                }
            }
        }
    }

    async fn create(&self, namespace: &str, resource: &str, object: &Value) {
        let path = format!("/api/v1/namespaces/{namespace}/{resource}");
        match self.requests.create(&path, object).await {
            Ok(_) => {}
            // Someone else made it, or the namespace goes away meanwhile.
            Err(error) if error.is_outdated() || error.code == 403 => {}
            Err(error) => tracing::warn!(%error, namespace, resource, "cannot create a default object"),
        }
    }
}
