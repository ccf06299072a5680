use serde_json::Value;

use super::accept::{Form, negotiate};
use super::*;

const V2: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const BETA: &str = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";

#[test]
fn accept_is_read_exactly() {
    for (accept, form) in [
        ("", Form::Plain),
        ("*/*", Form::Plain),
        ("application/json", Form::Plain),
        (V2, Form::V2),
        (&format!("{V2},{BETA},application/json"), Form::V2),
        (&format!("{BETA},application/json"), Form::V2Beta1),
        (&format!("application/json,{V2}"), Form::Plain),
        (&format!("application/json;q=0.5, {V2};q=0.9"), Form::V2),
        (&format!("{V2};q=0"), Form::Plain),
        ("application/json;v=v2;as=APIGroupDiscoveryList", Form::Plain),
        (
            "application/json;g=apidiscovery.k8s.io;v=v3;as=APIGroupDiscoveryList",
            Form::Plain,
        ),
        (
            "application/vnd.kubernetes.protobuf,application/json",
            Form::Plain,
        ),
    ] {
        assert_eq!(negotiate(accept), form, "{accept}");
    }
}

fn read(path: &str, accept: &str) -> Option<(String, Value)> {
    let document = document(&Registry::builtin(), path, accept)?;
    let value = serde_json::from_slice(&document.body).expect("documents are JSON");
    Some((document.content_type.to_owned(), value))
}

#[test]
fn legacy_documents() {
    let (_, versions) = read("/api", "").expect("is served");
    assert_eq!(versions["versions"], serde_json::json!(["v1"]));
    let (_, groups) = read("/apis", "application/json").expect("is served");
    let apps = groups["groups"]
        .as_array()
        .expect("a list")
        .iter()
        .find(|g| g["name"] == "apps");
    assert_eq!(
        apps.expect("is there")["preferredVersion"]["groupVersion"],
        "apps/v1"
    );
    let (_, group) = read("/apis/apps", "").expect("is served");
    assert_eq!(group["kind"], "APIGroup");
    let (_, core) = read("/api/v1", "").expect("is served");
    let names: Vec<_> = core["resources"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|r| &r["name"])
        .collect();
    assert!(names.contains(&&serde_json::json!("pods")));
    assert!(names.contains(&&serde_json::json!("pods/status")));
    let pods = core["resources"]
        .as_array()
        .expect("a list")
        .iter()
        .find(|r| r["name"] == "pods");
    assert_eq!(pods.expect("is there")["storageVersionHash"], "xPOwRZ+Yhw8=");
    for missing in [
        "/api/v2",
        "/apis/none",
        "/apis/apps/v9",
        "/apis/",
        "/apis/apps/v1/x/y",
    ] {
        let plain = missing == "/apis/";
        assert_eq!(read(missing, "").is_some(), plain, "{missing}");
    }
}

#[test]
fn aggregated_documents() {
    let (content_type, core) = read("/api", V2).expect("is served");
    assert_eq!(content_type, V2);
    assert_eq!(core["apiVersion"], "apidiscovery.k8s.io/v2");
    assert_eq!(core["items"].as_array().map(Vec::len), Some(1));
    let (_, apis) = read("/apis", BETA).expect("is served");
    assert_eq!(apis["apiVersion"], "apidiscovery.k8s.io/v2beta1");
    let apps = apis["items"]
        .as_array()
        .expect("a list")
        .iter()
        .find(|g| g["metadata"]["name"] == "apps");
    let resources = &apps.expect("is there")["versions"][0]["resources"];
    let deployments = resources
        .as_array()
        .expect("a list")
        .iter()
        .find(|r| r["resource"] == "deployments");
    let deployments = deployments.expect("is there");
    assert_eq!(deployments["responseKind"]["kind"], "Deployment");
    assert_eq!(deployments["scope"], "Namespaced");
    let scale = deployments["subresources"].as_array().expect("a list");
    let scale = scale
        .iter()
        .find(|s| s["subresource"] == "scale")
        .expect("is there");
    assert_eq!(scale["responseKind"]["group"], "autoscaling");
}
