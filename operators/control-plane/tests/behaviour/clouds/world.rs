//! A namespace with a running operator, and the other operators played by the test.

use std::sync::{Arc, Mutex};

use c5c3_api::c5c3::{ControlPlane, ControlPlaneStatus};
use c5c3_api::common::Condition;
use c5c3_control_plane::Settings;
use c5c3_control_plane::plan::Fix;
use c5c3_control_plane::verification::{Completion, Login, Verify};
use c5c3_kit::Metrics;
use c5c3_kit::stop::Stopper;
use futures::FutureExt;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::core::ApiResource;
use serde_json::{Value, json};
use test_harness::{TestCluster, eventually};

use crate::operate;

pub(crate) struct World {
    pub cluster: TestCluster,
    pub namespace: String,
    pub clouds: Api<ControlPlane>,
    pub secrets: Api<Secret>,
    pub metrics: Metrics,
    /// What comes of asking the services.
    pub answers: Arc<Answers>,
    _stopper: Stopper,
}

/// No OpenStack runs here: the test says how it answers.
#[derive(Debug)]
pub(crate) struct Answers(pub Mutex<Result<(), String>>);

impl Verify for Answers {
    fn verify<'a>(
        &'a self,
        login: &'a Login,
        services: &'a [&'static str],
    ) -> BoxFuture<'a, Result<(), String>> {
        assert!(login.text.contains("auth_url") && services.contains(&"identity"));
        let answer = self.0.lock().expect("nobody panics").clone();
        std::future::ready(answer).boxed()
    }

    fn complete<'a>(&'a self, _: &'a Login) -> BoxFuture<'a, Result<Box<dyn Completion>, String>> {
        std::future::ready(Ok(Box::new(Told) as Box<dyn Completion>)).boxed()
    }
}

/// A Keystone that takes everything.
struct Told;

impl Completion for Told {
    fn set<'a>(&'a self, _: &'a Fix) -> BoxFuture<'a, Result<(), String>> {
        std::future::ready(Ok(())).boxed()
    }
}

/// Kinds that the operator watches, makes or is asked for.
const KINDS: &[&str] = &[
    "ControlPlane",
    "CredentialRotation",
    "SecretAggregate",
    "Keystone",
    "Glance",
    "Placement",
    "MariaDB",
    "Memcached",
    "RabbitmqCluster",
    "Valkey",
    "ApplicationCredential",
    "CephClient",
];

/// Those of K-ORC that a catalogue is made of.
const CATALOGUE: &[&str] = &[
    "Domain",
    "Project",
    "Role",
    "Service",
    "Endpoint",
    "User",
    "RoleAssignment",
];

impl World {
    pub(crate) async fn start() -> Self {
        Self::start_without("").await
    }

    /// On a cluster that does not have this kind.
    pub(crate) async fn start_without(missing: &str) -> Self {
        let cluster = TestCluster::start().await;
        for kind in c5c3_api::registry()
            .iter()
            .filter(|kind| KINDS.iter().chain(CATALOGUE).any(|name| *name == kind.kind))
            .filter(|kind| kind.kind != missing)
        {
            cluster.install(kind.crd()).await;
        }
        let namespace = cluster.namespace("cloud").await;
        let answers = Arc::new(Answers(Mutex::new(Ok(()))));
        let settings = Settings {
            verify: answers.clone(),
            ..Settings::default()
        };
        let (metrics, stopper) = operate(&cluster, &namespace, settings);
        World {
            clouds: Api::namespaced(cluster.client(), &namespace),
            secrets: Api::namespaced(cluster.client(), &namespace),
            metrics,
            answers,
            cluster,
            namespace,
            _stopper: stopper,
        }
    }

    /// A small cloud with these changes.
    pub(crate) async fn apply(&self, name: &str, changes: &Value) {
        let mut object = json!({
            "apiVersion": "c5c3.io/v1alpha1", "kind": "ControlPlane", "metadata": {"name": name},
            "spec": {
                "openStackRelease": "2025.2",
                "infrastructure": {"database": {"replicas": 1}, "cache": {"replicas": 1}},
                "services": {
                    "keystone": {"replicas": 1}, "glance": {"replicas": 1}, "placement": {"replicas": 1},
                    "nova": {"enabled": false}, "neutron": {"enabled": false}, "cinder": {"enabled": false},
                },
            },
        });
        merge(&mut object, changes);
        let params = PatchParams::apply("test").force();
        self.clouds
            .patch(name, &params, &Patch::Apply(&object))
            .await
            .expect("accepted");
    }

    /// What the controllers of this world wrote so far, by kind.
    pub(crate) fn writes(&self) -> Vec<String> {
        let text = self.metrics.render();
        let lines = text
            .lines()
            .filter(|line| line.starts_with("c5c3_api_writes_total"));
        lines.map(str::to_owned).collect()
    }

    pub(crate) fn api(&self, kind: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.cluster.client(), &self.namespace, &resource(kind))
    }

    pub(crate) async fn get(&self, kind: &str, name: &str) -> Option<Value> {
        let found = self.api(kind).get_opt(name).await.expect("readable")?;
        Some(serde_json::to_value(found).expect("JSON"))
    }

    pub(crate) async fn until_there(&self, kind: &str, name: &str) -> Value {
        eventually(&format!("{kind} {name} is there"), async || {
            self.get(kind, name).await
        })
        .await
    }

    pub(crate) async fn until_gone(&self, kind: &str, name: &str) {
        eventually(&format!("{kind} {name} is gone"), async || {
            self.get(kind, name).await.is_none().then_some(())
        })
        .await;
    }

    /// The status that the operator of the kind would write when all is healthy.
    pub(crate) async fn ready(&self, kind: &str, name: &str) {
        let live = self.until_there(kind, name).await;
        self.say(kind, name, well(kind, &live)).await;
    }

    pub(crate) async fn fail(&self, kind: &str, name: &str, reason: &str, message: &str) {
        let live = self.until_there(kind, name).await;
        let generation = live["metadata"]["generation"].clone();
        let ready = condition("Ready", "False", reason, message, &generation);
        self.say(
            kind,
            name,
            json!({"conditions": [ready], "observedGeneration": generation}),
        )
        .await;
    }

    pub(crate) async fn say(&self, kind: &str, name: &str, status: Value) {
        let patch = json!({"status": status});
        let params = PatchParams::default();
        self.api(kind)
            .patch_status(name, &params, &Patch::Merge(&patch))
            .await
            .expect("accepted");
    }

    /// K-ORC made the credential, with the secret that it was given.
    pub(crate) async fn credential_made(&self, name: &str) {
        let live = self.until_there("ApplicationCredential", name).await;
        let secret = live["spec"]["resource"]["secretRef"].as_str().expect("named");
        let secret = self
            .secrets
            .get(secret)
            .await
            .expect("there before the credential");
        assert!(secret.data.unwrap_or_default()["value"].0.len() >= 32);
        let mut status = well("ApplicationCredential", &live);
        status["id"] = json!(format!("id of {name}"));
        self.say("ApplicationCredential", name, status).await;
    }

    pub(crate) async fn korc_ready(&self) {
        for kind in CATALOGUE {
            let all = eventually(&format!("a {kind}"), async || {
                let list = self
                    .api(kind)
                    .list(&ListParams::default())
                    .await
                    .expect("readable");
                (!list.items.is_empty()).then_some(list.items)
            })
            .await;
            for object in all {
                self.ready(kind, object.metadata.name.as_deref().expect("named"))
                    .await;
            }
        }
    }

    /// Everything becomes ready, in the order in which it would.
    pub(crate) async fn bring_up(&self) {
        self.ready("MariaDB", "mariadb").await;
        self.ready("Memcached", "memcached").await;
        self.bring_up_services().await;
    }

    /// The same with infrastructure that is up already.
    pub(crate) async fn bring_up_services(&self) {
        self.ready("Keystone", "keystone").await;
        self.until_there("User", "placement").await;
        self.until_there("CredentialRotation", "placement").await;
        self.korc_ready().await;
        for service in ["glance", "placement"] {
            self.credential_made(&format!("{service}-1")).await;
            self.until_there("Secret", &format!("{service}-app-credential"))
                .await;
        }
        self.ready("Glance", "glance").await;
        self.ready("Placement", "placement").await;
        self.until("Ready", "True", "Ready").await;
    }

    pub(crate) async fn status(&self) -> ControlPlaneStatus {
        let cloud = self.clouds.get("cloud").await.expect("there");
        cloud.status.unwrap_or_default()
    }

    /// Waits until the condition of the cloud has this status and reason, at the newest generation.
    pub(crate) async fn until(&self, condition: &str, status: &str, reason: &str) -> Condition {
        self.until_of("cloud", condition, status, reason).await
    }

    pub(crate) async fn until_of(
        &self,
        name: &str,
        condition: &str,
        status: &str,
        reason: &str,
    ) -> Condition {
        eventually(&format!("{name} has {condition}={status} {reason}"), async || {
            let object = self.clouds.get(name).await.expect("readable");
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

    pub(crate) async fn delete(&self, name: &str) {
        self.clouds
            .delete(name, &DeleteParams::default())
            .await
            .expect("deleted");
    }

    pub(crate) async fn finalizers(&self, kind: &str, name: &str, finalizers: &[&str]) {
        let patch = json!({"metadata": {"finalizers": finalizers}});
        let params = PatchParams::default();
        self.api(kind)
            .patch(name, &params, &Patch::Merge(&patch))
            .await
            .expect("accepted");
    }
}

pub(crate) fn resource(kind: &str) -> ApiResource {
    let core = |kind: &str, plural: &str| ApiResource {
        group: String::new(),
        version: "v1".into(),
        api_version: "v1".into(),
        kind: kind.into(),
        plural: plural.into(),
    };
    match kind {
        "Secret" => return core("Secret", "secrets"),
        "PersistentVolumeClaim" => return core("PersistentVolumeClaim", "persistentvolumeclaims"),
        _ => {}
    }
    let kinds = c5c3_api::registry();
    // Some names are used by several groups; those of K-ORC are meant.
    let mut found: Vec<_> = kinds
        .iter()
        .filter(|known| known.kind == kind)
        .map(c5c3_api::Kind::crd)
        .collect();
    found.sort_by_key(|crd| crd.spec.group != "openstack.k-orc.cloud");
    let crd = found.first().unwrap_or_else(|| panic!("the API has no {kind}"));
    let version = &crd.spec.versions[0].name;
    ApiResource {
        group: crd.spec.group.clone(),
        version: version.clone(),
        api_version: format!("{}/{version}", crd.spec.group),
        kind: kind.into(),
        plural: crd.spec.names.plural.clone(),
    }
}

fn condition(type_: &str, status: &str, reason: &str, message: &str, generation: &Value) -> Value {
    json!({"type": type_, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": generation})
}

fn well(kind: &str, live: &Value) -> Value {
    let generation = &live["metadata"]["generation"];
    let one = |type_: &str| condition(type_, "True", "Ready", "", generation);
    let conditions = match kind {
        "Memcached" => vec![one("Available"), one("Ready")],
        "RabbitmqCluster" => vec![one("AllReplicasReady")],
        "Domain"
        | "Project"
        | "Role"
        | "Service"
        | "Endpoint"
        | "User"
        | "RoleAssignment"
        | "ApplicationCredential" => {
            vec![
                one("Available"),
                condition("Progressing", "False", "Success", "", generation),
            ]
        }
        _ => vec![one("Ready")],
    };
    let mut status = json!({"conditions": conditions, "observedGeneration": generation});
    if matches!(kind, "Project" | "User" | "Role" | "Endpoint") {
        status["id"] = json!(format!(
            "id of {}",
            live["metadata"]["name"].as_str().unwrap_or_default()
        ));
    }
    if let Some(tag) = live.pointer("/spec/image/tag") {
        status["installedRelease"] = tag.clone();
    }
    status
}

/// Null takes away.
fn merge(into: &mut Value, changes: &Value) {
    match (into, changes) {
        (Value::Object(into), Value::Object(changes)) => {
            for (key, value) in changes {
                if value.is_null() {
                    into.remove(key);
                } else {
                    merge(into.entry(key.clone()).or_insert(Value::Null), value);
                }
            }
        }
        (into, changes) => *into = changes.clone(),
    }
}
