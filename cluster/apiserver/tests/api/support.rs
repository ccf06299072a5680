//! A server for one test.

use apiserver::{Config, Server};
use http::{Method, Request};
use kube::Client;
use serde_json::{Value, json};

pub(crate) struct Running {
    pub server: Server,
    pub client: Client,
    pub directory: tempfile::TempDir,
}

pub(crate) async fn start() -> Running {
    start_with(|config| config).await
}

pub(crate) async fn start_with(change: impl FnOnce(Config) -> Config) -> Running {
    let directory = tempfile::tempdir().unwrap();
    let config = Config {
        state_dir: directory.path().into(),
        ..Config::default()
    };
    let server = Server::start(change(config)).await.unwrap();
    let client = server.client("default");
    Running {
        server,
        client,
        directory,
    }
}

/// One request with a JSON body; the status code and the answer.
pub(crate) async fn call(client: &Client, method: Method, path: &str, body: Value) -> (u16, Value) {
    call_as(client, method, path, "application/json", body.to_string()).await
}

pub(crate) async fn call_as(
    client: &Client,
    method: Method,
    path: &str,
    media: &str,
    body: String,
) -> (u16, Value) {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", media)
        .body(kube::client::Body::from(body.into_bytes()))
        .unwrap();
    let response = client.send(request).await.unwrap();
    let code = response.status().as_u16();
    let bytes = response.into_body().collect_bytes().await.unwrap();
    (code, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
}

pub(crate) async fn get(client: &Client, path: &str) -> (u16, Value) {
    call_as(client, Method::GET, path, "", String::new()).await
}

pub(crate) async fn post(client: &Client, path: &str, body: Value) -> (u16, Value) {
    call(client, Method::POST, path, body).await
}

pub(crate) async fn put(client: &Client, path: &str, body: Value) -> (u16, Value) {
    call(client, Method::PUT, path, body).await
}

pub(crate) async fn delete(client: &Client, path: &str) -> (u16, Value) {
    call_as(client, Method::DELETE, path, "", String::new()).await
}

pub(crate) async fn apply(client: &Client, path: &str, manager: &str, body: Value) -> (u16, Value) {
    let path = format!(
        "{path}{}fieldManager={manager}",
        if path.contains('?') { '&' } else { '?' }
    );
    call_as(
        client,
        Method::PATCH,
        &path,
        "application/apply-patch+yaml",
        body.to_string(),
    )
    .await
}

pub(crate) fn config_map(name: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
}

/// `examples.example.com`, kind Example, with a status, a scale and defaults.
pub(crate) fn example_crd() -> Value {
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "required": ["size"], "properties": {
            "size": {"type": "integer", "minimum": 0},
            "color": {"type": "string", "default": "blue", "enum": ["blue", "red"]},
            "replicas": {"type": "integer"},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}}}},
        "status": {"type": "object", "properties": {"replicas": {"type": "integer"}, "ready": {"type": "boolean"},
            "selector": {"type": "string"}}}}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "examples.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "examples", "kind": "Example", "shortNames": ["ex"]},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
                "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas",
                    "statusReplicasPath": ".status.replicas", "labelSelectorPath": ".status.selector"}},
                "selectableFields": [{"jsonPath": ".spec.color"}]}],
        },
    })
}

pub(crate) const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
pub(crate) const EXAMPLES: &str = "/apis/example.com/v1/namespaces/default/examples";
pub(crate) const MAPS: &str = "/api/v1/namespaces/default/configmaps";

pub(crate) fn example(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Example", "metadata": {"name": name}, "spec": spec})
}

/// Waits for a condition that other tasks bring about; fails after a minute.
pub(crate) async fn eventually<F: Future<Output = bool>>(what: &str, mut check: impl FnMut() -> F) {
    for _ in 0..3000 {
        if check().await {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    panic!("did not happen in time: {what}");
}
