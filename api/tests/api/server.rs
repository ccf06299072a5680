//! The same samples and cases on an API server: the embedded one, or the one that
//! `C5C3_TEST_KUBECONFIG` names (`scripts/with-kube-apiserver cargo test -p c5c3-api server`).

use crate::root;
use c5c3_api::registry;
use c5c3_api::samples::{Samples, merge};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, PostParams};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use test_harness::TestCluster;

struct Server {
    client: Client,
    namespace: String,
    served: BTreeMap<(String, String), CustomResourceDefinition>,
}

impl Server {
    async fn start(cluster: &TestCluster) -> Self {
        let mut served = BTreeMap::new();
        for kind in registry() {
            let crd = kind.claim().unwrap_or_else(|| kind.crd().clone());
            cluster.install(&crd).await;
            served.insert((kind.api_version(), crd.spec.names.kind.clone()), crd);
        }
        Self {
            client: cluster.client(),
            namespace: cluster.namespace("api").await,
            served,
        }
    }

    /// Puts the object into the test's namespace and says where it is served.
    fn place(&self, object: &mut Value) -> Api<DynamicObject> {
        let text = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        let crd = &self.served[&(api_version.clone(), kind.clone())];
        let resource = ApiResource {
            group: crd.spec.group.clone(),
            version: crd.spec.versions[0].name.clone(),
            plural: crd.spec.names.plural.clone(),
            api_version,
            kind,
        };
        if crd.spec.scope == "Namespaced" {
            merge(object, &json!({ "metadata": { "namespace": self.namespace } }));
            Api::namespaced_with(self.client.clone(), &self.namespace, &resource)
        } else {
            Api::all_with(self.client.clone(), &resource)
        }
    }
}

fn typed(object: Value) -> DynamicObject {
    serde_json::from_value(object).expect("an object")
}

async fn create(api: &Api<DynamicObject>, object: Value) -> Result<Value, String> {
    let object = typed(object);
    if let Some(name) = &object.metadata.name {
        // What an earlier run left in a cluster-wide kind.
        let _ = api.delete(name, &DeleteParams::default()).await;
    }
    let created = api.create(&PostParams::default(), &object).await;
    created
        .map(|live| serde_json::to_value(live).expect("an object"))
        .map_err(|error| error.to_string())
}

#[tokio::test]
async fn samples_and_cases_behave_on_a_server() {
    let cluster = TestCluster::start().await;
    let server = Server::start(&cluster).await;
    let samples = Samples::load(root()).unwrap();
    let mut wrong = Vec::new();
    for (path, object) in &samples.objects {
        let mut object = object.clone();
        let api = server.place(&mut object);
        if let Err(refused) = create(&api, object).await {
            wrong.push(format!("{path}: {refused}"));
        }
    }
    for case in &samples.cases {
        let mut object = samples.object(case).unwrap();
        let api = server.place(&mut object);
        let name = case.object_name();
        let outcome = match create(&api, object).await {
            Err(refused) if case.has_second_step() => {
                wrong.push(format!("{}: creation: {refused}", case.name));
                continue;
            }
            Err(refused) => Err(refused),
            Ok(mut live) => {
                let params = PostParams::default();
                let written = if let Some(patch) = &case.update {
                    merge(&mut live, patch);
                    api.replace(&name, &params, &typed(live)).await
                } else if let Some(patch) = &case.status {
                    merge(&mut live, patch);
                    api.replace_status(&name, &params, &typed(live)).await
                } else {
                    Ok(typed(live))
                };
                written.map(drop).map_err(|error| error.to_string())
            }
        };
        match (&case.message, outcome) {
            (None, Ok(())) => {}
            (Some(message), Err(refused)) if refused.contains(message.as_str()) => {}
            (expected, found) => {
                wrong.push(format!("{}: expected {expected:?}, found {found:?}", case.name));
            }
        }
    }
    let of = samples.objects.len() + samples.cases.len();
    assert!(wrong.is_empty(), "{} of {of}:\n{}", wrong.len(), wrong.join("\n"));
}
