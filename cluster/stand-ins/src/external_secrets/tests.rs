//! Credentials travel through a store, as they do between clusters.

use std::collections::BTreeMap;
use std::time::Duration;

use c5c3_api::foreign::external_secrets::{ClusterSecretStore, ExternalSecret, PushSecret};
use c5c3_kit::{Clusters, Metrics, Stop};
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use test_harness::{TestCluster, eventually, settles};

use crate::group::Group;

async fn until(what: &str, mut look: impl AsyncFnMut() -> bool) {
    eventually(what, async || look().await.then_some(())).await;
}

struct World {
    cluster: TestCluster,
    namespace: String,
    _stopper: c5c3_kit::stop::Stopper,
}

impl World {
    async fn start() -> Self {
        let cluster = TestCluster::start().await;
        for kind in c5c3_api::registry() {
            let definition = kind.crd();
            if definition.spec.group == "external-secrets.io" {
                cluster.install(definition).await;
            }
        }
        let namespace = cluster.namespace("eso").await;
        let (stopper, stop) = Stop::channel();
        let rules = crate::access().rules();
        let clusters = Clusters::of(cluster.client_with("stand-ins", rules).await);
        let group = Group::new(&clusters, &Metrics::default(), &stop);
        tokio::spawn(async move { super::run(&group).await });
        World {
            cluster,
            namespace,
            _stopper: stopper,
        }
    }

    fn client(&self) -> Client {
        self.cluster.client()
    }

    fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        Api::namespaced(self.client(), &self.namespace)
    }

    async fn store(&self, provider: Value) -> String {
        self.store_for(provider, json!([])).await
    }

    async fn store_for(&self, provider: Value, conditions: Value) -> String {
        let name = format!("store-{}", self.namespace);
        let store = json!({"apiVersion": "external-secrets.io/v1", "kind": "ClusterSecretStore",
            "metadata": {"name": name}, "spec": {"provider": provider, "conditions": conditions}});
        let api: Api<ClusterSecretStore> = Api::all(self.client());
        let patch = PatchParams::apply("test").force();
        api.patch(&name, &patch, &Patch::Apply(store))
            .await
            .expect("a store");
        name
    }

    async fn secret(&self, name: &str, data: Value) {
        let secret =
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data});
        let patch = PatchParams::apply("test").force();
        self.api::<Secret>()
            .patch(name, &patch, &Patch::Apply(secret))
            .await
            .expect("a Secret");
    }

    async fn make<K>(&self, object: Value)
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + serde::Serialize
            + DeserializeOwned,
    {
        let object: K = serde_json::from_value(object).expect("of its kind");
        self.api()
            .create(&PostParams::default(), &object)
            .await
            .expect("made");
    }

    async fn push(&self, store: &str, more: Value) {
        let mut object = json!({
            "apiVersion": "external-secrets.io/v1alpha1", "kind": "PushSecret", "metadata": {"name": "push"},
            "spec": {
                "secretStoreRefs": [{"name": store, "kind": "ClusterSecretStore"}],
                "selector": {"secret": {"name": "source"}},
                "data": [
                    {"match": {"secretKey": "id", "remoteRef": {"remoteKey": "openstack/glance/app", "property": "id"}}},
                    {"match": {"secretKey": "secret", "remoteRef": {"remoteKey": "openstack/glance/app", "property": "secret"}}},
                ],
            },
        });
        if let (Some(spec), Some(more)) = (object["spec"].as_object_mut(), more.as_object()) {
            spec.extend(more.clone());
        }
        self.make::<PushSecret>(object).await;
    }

    async fn pull(&self, store: &str) {
        self.make::<ExternalSecret>(json!({
            "apiVersion": "external-secrets.io/v1", "kind": "ExternalSecret", "metadata": {"name": "pull"},
            "spec": {
                "refreshInterval": "1s",
                "secretStoreRef": {"name": store, "kind": "ClusterSecretStore"},
                "target": {"name": "target"},
                "dataFrom": [{"extract": {"key": "openstack/glance/app"}}],
            },
        }))
        .await;
    }

    async fn target(&self) -> Option<BTreeMap<String, String>> {
        let secret = self.api::<Secret>().get_opt("target").await.expect("an answer")?;
        let data = secret.data.unwrap_or_default().into_iter();
        Some(
            data.map(|(k, v)| (k, String::from_utf8_lossy(&v.0).into_owned()))
                .collect(),
        )
    }

    async fn target_is(&self, wanted: &[(&str, &str)]) {
        let wanted: BTreeMap<String, String> = wanted
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect();
        until("the target", async || self.target().await == Some(wanted.clone())).await;
    }

    /// What `Ready` says.
    async fn message(&self) -> String {
        let pull = self.api::<ExternalSecret>().get("pull").await.expect("there");
        let conditions = pull
            .status
            .map(|status| status.common.conditions)
            .unwrap_or_default();
        let ready = conditions.into_iter().find(|c| c.type_ == "Ready");
        ready.and_then(|ready| ready.message).unwrap_or_default()
    }
}

#[tokio::test]
async fn a_credential_goes_through_a_vault_store_and_follows_its_source() {
    let world = World::start().await;
    let store = world
        .store(json!({"vault": {"server": "https://bao.invalid", "path": "kv-v2"}}))
        .await;
    world.pull(&store).await;
    until("what is missing is named", async || {
        world
            .message()
            .await
            .contains("the store has no openstack/glance/app")
    })
    .await;
    world
        .secret("source", json!({"id": "7", "secret": "one", "other": "x"}))
        .await;
    world.push(&store, json!({})).await;
    world.target_is(&[("id", "7"), ("secret", "one")]).await;
    world.secret("source", json!({"id": "8", "secret": "two"})).await;
    world.target_is(&[("id", "8"), ("secret", "two")]).await;

    // The store outlives the PushSecret, the target does not outlive its ExternalSecret.
    world
        .api::<PushSecret>()
        .delete("push", &DeleteParams::default())
        .await
        .expect("deleted");
    let gone = async || {
        world
            .api::<PushSecret>()
            .get_opt("push")
            .await
            .expect("an answer")
            .is_none()
    };
    until("the PushSecret goes", gone).await;
    world.target_is(&[("id", "8"), ("secret", "two")]).await;

    // Four looks at an unchanged store.
    let writes = async || world.cluster.writes().await;
    settles("the number of writes", Duration::from_secs(4), writes).await;
}

#[tokio::test]
async fn what_was_pushed_goes_when_that_is_asked_for() {
    let world = World::start().await;
    let store = world.store(json!({"vault": {"path": "kv-v2"}})).await;
    world.secret("source", json!({"id": "7", "secret": "one"})).await;
    world.push(&store, json!({"deletionPolicy": "Delete"})).await;
    world.pull(&store).await;
    world.target_is(&[("id", "7"), ("secret", "one")]).await;
    let less = json!({"spec": {"data": [
        {"match": {"secretKey": "id", "remoteRef": {"remoteKey": "openstack/glance/app", "property": "id"}}},
    ]}});
    let merge = Patch::Merge(less);
    world
        .api::<PushSecret>()
        .patch("push", &PatchParams::default(), &merge)
        .await
        .expect("patched");
    world.target_is(&[("id", "7")]).await;
    world
        .api::<PushSecret>()
        .delete("push", &DeleteParams::default())
        .await
        .expect("deleted");
    until("the store is empty, the target stays and says so", async || {
        world
            .message()
            .await
            .contains("the store has no openstack/glance/app")
            && world.target().await.is_some()
    })
    .await;
}

#[tokio::test]
async fn mistakes_are_named() {
    let world = World::start().await;
    world.pull("nowhere").await;
    until("a store that is missing", async || {
        world
            .message()
            .await
            .contains("ClusterSecretStore nowhere is missing")
    })
    .await;
    let store = world
        .store(json!({"kubernetes": {"remoteNamespace": "elsewhere"}}))
        .await;
    let other = json!({"spec": {"secretStoreRef": {"name": store}}});
    let merge = Patch::Merge(other);
    world
        .api::<ExternalSecret>()
        .patch("pull", &PatchParams::default(), &merge)
        .await
        .expect("patched");
    until("a key that is no name", async || {
        world
            .message()
            .await
            .contains("\"openstack/glance/app\" is not the name of a Secret")
    })
    .await;
}

#[tokio::test]
async fn a_store_serves_the_namespaces_that_its_conditions_name() {
    let world = World::start().await;
    let home = world.cluster.namespace("keys").await;
    let secret: Secret =
        serde_json::from_value(json!({"metadata": {"name": "app"}, "stringData": {"id": "7"}})).expect("one");
    let keys: Api<Secret> = Api::namespaced(world.client(), &home);
    keys.create(&PostParams::default(), &secret).await.expect("kept");
    let conditions =
        json!([{"namespaces": ["elsewhere"]}, {"namespaceSelector": {"matchLabels": {"keys": "yes"}}}]);
    let store = world
        .store_for(json!({"kubernetes": {"remoteNamespace": home}}), conditions)
        .await;
    world.pull(&store).await;
    let merge = Patch::Merge(json!({"spec": {"dataFrom": [{"extract": {"key": "app"}}]}}));
    let pulls = world.api::<ExternalSecret>();
    pulls
        .patch("pull", &PatchParams::default(), &merge)
        .await
        .expect("patched");
    until("the refusal", async || {
        let denied = "is not allowed from namespace";
        world.message().await.contains(denied)
    })
    .await;
    // Nor is anything pushed into it.
    world.secret("app", json!({"id": "mine"})).await;
    let data = json!([{"match": {"secretKey": "id", "remoteRef": {"remoteKey": "app", "property": "id"}}}]);
    world
        .push(
            &store,
            json!({"selector": {"secret": {"name": "app"}}, "data": data}),
        )
        .await;
    until("the refusal of the push", async || {
        let push = world.api::<PushSecret>().get("push").await.expect("there");
        serde_json::to_string(&push.status).is_ok_and(|text| text.contains("is not allowed from namespace"))
    })
    .await;
    let kept = keys.get("app").await.expect("there").data.unwrap_or_default();
    assert_eq!(kept["id"].0, b"7");
    assert!(world.target().await.is_none());
    world
        .api::<PushSecret>()
        .delete("push", &DeleteParams::default())
        .await
        .expect("deleted");

    // Once the namespace has the label, it is let in.
    let label = Patch::Merge(json!({"metadata": {"labels": {"keys": "yes"}}}));
    let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(world.client());
    namespaces
        .patch(&world.namespace, &PatchParams::default(), &label)
        .await
        .expect("labelled");
    until("the target", async || world.target().await.is_some()).await;
}
