use serde_json::{Value, json};

use super::*;
use crate::registry::custom_kinds;

fn registry() -> Registry {
    let crd = json!({
        "metadata": {"name": "things.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "versions": [{
            "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": {"type": "object", "description": "A thing.", "properties": {
                "spec": {"type": "object", "description": "What is wanted.",
                         "properties": {"size": {"type": "integer", "description": "How big."}}}}}},
        }]},
        "status": {"acceptedNames": {"kind": "Thing", "listKind": "ThingList", "plural": "things",
                                     "singular": "thing"}},
    });
    let mut kinds = Registry::builtin().kinds().to_vec();
    kinds.extend(custom_kinds(&crd, 0).into_iter().map(Arc::new));
    Registry::new(kinds, 1)
}

fn read(registry: &Registry, path: &str) -> Option<Value> {
    let document = document(registry, path, "application/json")?;
    Some(serde_json::from_slice(&document.body).expect("documents are JSON"))
}

#[test]
fn every_version_is_in_the_index_and_its_hash_is_its_content() {
    let registry = registry();
    let index = read(&registry, "/openapi/v3").expect("is served");
    let paths = index["paths"].as_object().expect("a map");
    for path in ["api/v1", "apis/apps/v1", "apis/example.com/v1"] {
        let url = paths[path]["serverRelativeURL"].as_str().expect("a text");
        let (bare, hash) = url.split_once("?hash=").expect("has a hash");
        let document = document(&registry, bare, "").expect("is served");
        assert_eq!(document.etag, Some(format!("\"{hash}\"")));
    }
    assert!(read(&registry, "/openapi/v3/apis/none/v1").is_none());
    assert_eq!(
        read(&registry, "/openapi/v2").expect("is served")["swagger"],
        "2.0"
    );
    let accept = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
    let encoded = super::document(&registry, "/openapi/v2", accept).expect("is served");
    assert_eq!(&encoded.body[..5], b"\x0a\x032.0");
    assert_eq!(
        encoded.body[6] as usize,
        encoded.body.len() - 9,
        "the length of the information"
    );
}

#[test]
fn references_lead_somewhere() {
    fn references(value: &Value, into: &mut Vec<String>) {
        match value {
            Value::Object(fields) => {
                into.extend(fields.get("$ref").and_then(Value::as_str).map(str::to_owned));
                fields.values().for_each(|field| references(field, into));
            }
            Value::Array(items) => items.iter().for_each(|item| references(item, into)),
            _ => {}
        }
    }
    let registry = registry();
    let index = read(&registry, "/openapi/v3").expect("is served");
    for path in index["paths"].as_object().expect("a map").keys() {
        let document = read(&registry, &format!("/openapi/v3/{path}")).expect("is served");
        let mut all = Vec::new();
        references(&document, &mut all);
        assert!(!all.is_empty(), "{path}");
        for reference in all {
            let pointer = reference.strip_prefix('#').expect("points into the document");
            assert!(document.pointer(pointer).is_some(), "{path}: {reference}");
        }
    }
}

#[test]
fn custom_resources_are_described() {
    let document = read(&registry(), "/openapi/v3/apis/example.com/v1").expect("is served");
    let schema = &document["components"]["schemas"]["com.example.v1.Thing"];
    assert_eq!(schema["description"], "A thing.");
    assert_eq!(
        schema["properties"]["spec"]["properties"]["size"]["description"],
        "How big."
    );
    let gvk = json!({"group": "example.com", "version": "v1", "kind": "Thing"});
    assert_eq!(schema["x-kubernetes-group-version-kind"], json!([gvk]));
    let paths = &document["paths"];
    let item = &paths["/apis/example.com/v1/namespaces/{namespace}/things/{name}"];
    assert_eq!(item["patch"]["x-kubernetes-group-version-kind"], gvk);
    let parameters = item["patch"]["parameters"].as_array().expect("a list");
    for name in ["fieldValidation", "dryRun", "fieldManager", "force"] {
        assert!(parameters.iter().any(|p| p["name"] == name), "{name}");
    }
    assert!(item.get("post").is_none());
    let status = &paths["/apis/example.com/v1/namespaces/{namespace}/things/{name}/status"];
    assert!(status.get("put").is_some());
}
