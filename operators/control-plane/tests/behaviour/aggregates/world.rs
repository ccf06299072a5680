//! A namespace, a running operator, and the sentences that the tests are made of.

use std::collections::BTreeMap;

use c5c3_api::c5c3::{SecretAggregate, SecretAggregateSpec, SecretSource};
use c5c3_api::common::{Condition, LocalRef};
use c5c3_control_plane::Settings;
use c5c3_kit::Metrics;
use c5c3_kit::stop::Stopper;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use test_harness::{TestCluster, eventually};

use crate::operate;

pub(crate) struct World {
    pub cluster: TestCluster,
    pub namespace: String,
    pub secrets: Api<Secret>,
    pub aggregates: Api<SecretAggregate>,
    pub metrics: Metrics,
    _stopper: Stopper,
}

impl World {
    pub(crate) async fn start() -> Self {
        let cluster = TestCluster::start().await;
        cluster.install(definition()).await;
        let namespace = cluster.namespace("aggregate").await;
        let (metrics, stopper) = operate(&cluster, &namespace, Settings::default());
        World {
            secrets: Api::namespaced(cluster.client(), &namespace),
            aggregates: Api::namespaced(cluster.client(), &namespace),
            metrics,
            cluster,
            namespace,
            _stopper: stopper,
        }
    }

    /// Makes a Secret, or gives it exactly this content.
    pub(crate) async fn secret(&self, name: &str, data: &[(&str, &str)]) {
        let wanted = Secret {
            metadata: named(name),
            data: Some(bytes(data)),
            ..Secret::default()
        };
        match self.secrets.get_opt(name).await.expect("readable") {
            None => self
                .secrets
                .create(&PostParams::default(), &wanted)
                .await
                .expect("created"),
            Some(mut live) => {
                live.data = wanted.data;
                self.secrets
                    .replace(name, &PostParams::default(), &live)
                    .await
                    .expect("replaced")
            }
        };
    }

    pub(crate) async fn delete_secret(&self, name: &str) {
        self.secrets
            .delete(name, &DeleteParams::default())
            .await
            .expect("deleted");
    }

    /// `sources`: a name, or a name and the keys to take.
    pub(crate) async fn aggregate(&self, name: &str, sources: &[(&str, &[&str])], target: &str) {
        let wanted = SecretAggregate::new(name, spec(sources, target));
        let params = PatchParams::apply("test").force();
        self.aggregates
            .patch(name, &params, &Patch::Apply(&wanted))
            .await
            .expect("accepted");
    }

    pub(crate) async fn content(&self, name: &str) -> Option<BTreeMap<String, String>> {
        let secret = self.secrets.get_opt(name).await.expect("readable")?;
        let data = secret.data.unwrap_or_default();
        Some(
            data.into_iter()
                .map(|(k, v)| (k, String::from_utf8(v.0).expect("UTF-8")))
                .collect(),
        )
    }

    pub(crate) async fn until_content(&self, name: &str, data: &[(&str, &str)]) {
        let wanted: BTreeMap<String, String> = data
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect();
        eventually(&format!("Secret {name} holds {wanted:?}"), async || {
            (self.content(name).await.as_ref() == Some(&wanted)).then_some(())
        })
        .await;
    }

    /// Waits until the condition has this status and reason, at the newest generation.
    pub(crate) async fn until(&self, name: &str, condition: &str, status: &str, reason: &str) -> Condition {
        eventually(&format!("{name} has {condition}={status} {reason}"), async || {
            let object = self.aggregates.get(name).await.expect("readable");
            let found = object
                .status?
                .conditions
                .into_iter()
                .find(|c| c.type_ == condition)?;
            let newest = found.observed_generation == object.metadata.generation;
            (found.status == status && found.reason == reason && newest).then_some(found)
        })
        .await
    }

    pub(crate) async fn events(&self, about: &str) -> Vec<Event> {
        let api: Api<Event> = Api::namespaced(self.cluster.client(), &self.namespace);
        let list = api.list(&ListParams::default()).await.expect("readable");
        let mut events: Vec<Event> = list
            .items
            .into_iter()
            .filter(|e| e.regarding.as_ref().and_then(|r| r.name.as_deref()) == Some(about))
            .collect();
        events.sort_by_key(|e| e.event_time.clone().map(|t| t.0));
        events
    }
}

/// As users install it.
fn definition() -> &'static CustomResourceDefinition {
    let kinds = c5c3_api::registry();
    let found = kinds.iter().find(|kind| kind.kind == "SecretAggregate");
    found.expect("the API has the kind").crd()
}

pub(crate) fn spec(sources: &[(&str, &[&str])], target: &str) -> SecretAggregateSpec {
    SecretAggregateSpec {
        sources: sources
            .iter()
            .map(|(name, keys)| SecretSource {
                secret_ref: LocalRef::new(*name),
                keys: keys.iter().map(|k| (*k).to_owned()).collect(),
            })
            .collect(),
        target: LocalRef::new(target),
    }
}

pub(crate) fn named(name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        ..ObjectMeta::default()
    }
}

pub(crate) fn bytes(data: &[(&str, &str)]) -> BTreeMap<String, ByteString> {
    data.iter()
        .map(|(k, v)| ((*k).to_owned(), ByteString(v.as_bytes().to_vec())))
        .collect()
}
