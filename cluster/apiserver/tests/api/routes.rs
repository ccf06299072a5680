//! Every path of every kind: who has all rights in one namespace has none beyond it.

use http::Method;
use kube::Client;
use serde_json::{Value, json};

use crate::support::*;

struct Resource {
    /// `/api/v1`, `/apis/apps/v1`.
    root: String,
    plural: String,
    namespaced: bool,
    subresources: Vec<String>,
}

/// All that discovery lists.
async fn resources(client: &Client) -> Vec<Resource> {
    let mut roots = vec!["/api/v1".to_owned()];
    let (_, groups) = get(client, "/apis").await;
    for group in groups["groups"].as_array().unwrap() {
        for version in group["versions"].as_array().unwrap() {
            roots.push(format!("/apis/{}", version["groupVersion"].as_str().unwrap()));
        }
    }
    let mut found: Vec<Resource> = Vec::new();
    for root in roots {
        let (code, list) = get(client, &root).await;
        assert_eq!(code, 200, "{root}");
        let entries = list["resources"].as_array().unwrap();
        let name = |entry: &Value| entry["name"].as_str().unwrap().to_owned();
        for entry in entries.iter().filter(|entry| !name(entry).contains('/')) {
            let plural = name(entry);
            let subresources = entries
                .iter()
                .filter_map(|entry| name(entry).strip_prefix(&format!("{plural}/")).map(str::to_owned))
                .collect();
            found.push(Resource {
                root: root.clone(),
                namespaced: entry["namespaced"] == true,
                plural,
                subresources,
            });
        }
    }
    assert!(found.len() > 50, "discovery lists {} kinds", found.len());
    found
}

impl Resource {
    /// Its collection, an object and the object's subresources below `prefix`.
    fn paths(&self, prefix: &str, name: &str) -> Vec<String> {
        let collection = format!("{}{prefix}/{}", self.root, self.plural);
        let object = format!("{collection}/{name}");
        let parts = self.subresources.iter().map(|sub| format!("{object}/{sub}"));
        parts.chain([collection, object.clone()]).collect()
    }
}

const METHODS: [Method; 5] = [
    Method::GET,
    Method::POST,
    Method::PUT,
    Method::PATCH,
    Method::DELETE,
];

async fn attempt(client: &Client, method: &Method, path: &str) -> u16 {
    let media = if *method == Method::PATCH {
        "application/merge-patch+json"
    } else {
        "application/json"
    };
    let body = if *method == Method::GET { "" } else { "{}" };
    call_as(client, method.clone(), path, media, body.to_owned())
        .await
        .0
}

async fn namespace(client: &Client, name: &str) {
    let (code, answer) = post(client, "/api/v1/namespaces", json!({"metadata": {"name": name}})).await;
    assert_eq!(code, 201, "{answer}");
}

#[tokio::test]
async fn all_rights_in_a_namespace_are_none_beyond_it() {
    let run = start().await;
    let c = &run.client;
    namespace(c, "a").await;
    namespace(c, "b").await;
    let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/a";
    let all = json!({"metadata": {"name": "all"}, "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]});
    assert_eq!(post(c, &format!("{rbac}/roles"), all).await.0, 201);
    let binding = json!({"metadata": {"name": "all"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "all"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "tom"}]});
    assert_eq!(post(c, &format!("{rbac}/rolebindings"), binding).await.0, 201);
    let tom = run.server.client_as("default", "tom", &[]);
    // Everyone may ask what they may.
    let open = [
        "selfsubjectaccessreviews",
        "selfsubjectrulesreviews",
        "selfsubjectreviews",
    ];
    let mut wrong = Vec::new();
    for resource in resources(c).await {
        // Other namespaces, all of them, and the cluster's own objects are refused.
        let others = ["", "/namespaces/b"]
            .map(|prefix| resource.paths(prefix, "b"))
            .concat();
        let refused = !open.contains(&resource.plural.as_str());
        for path in others.iter().filter(|_| refused) {
            for method in &METHODS {
                let code = attempt(&tom, method, path).await;
                if code != 403 {
                    wrong.push(format!("{method} {path}: {code}, not 403"));
                }
            }
        }
        // What has no namespace is not found in one, whoever asks.
        if resource.namespaced {
            continue;
        }
        for path in resource.paths("/namespaces/a", "b") {
            for method in &METHODS {
                for (who, client) in [("tenant", &tom), ("admin", c)] {
                    let code = attempt(client, method, &path).await;
                    if code != 404 {
                        wrong.push(format!("{method} {path} as {who}: {code}, not 404"));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(
        get(c, "/api/v1/namespaces/b").await.1["status"]["phase"],
        "Active"
    );
}

#[tokio::test]
async fn a_path_takes_the_verbs_that_it_has() {
    let run = start().await;
    let c = &run.client;
    assert_eq!(post(c, MAPS, config_map("m", json!({}))).await.0, 201);
    let cases = [
        // Created under the name that was authorised, or not at all.
        (Method::POST, "/api/v1/namespaces/default/configmaps/x", 405),
        (Method::POST, "/api/v1/configmaps", 405),
        (Method::DELETE, "/api/v1/configmaps", 405),
        (Method::GET, "/api/v1/configmaps/m", 404),
        (Method::DELETE, "/api/v1/configmaps/m", 404),
        (Method::GET, "/api/v1/namespaces/default/configmaps/m/status", 404),
        (Method::PUT, "/api/v1/namespaces/default/configmaps", 405),
        (Method::PATCH, "/api/v1/namespaces/default/configmaps", 405),
        (Method::POST, "/api/v1/namespaces/default", 405),
        (Method::GET, "/api/v1/namespaces/default/finalize", 405),
        (Method::DELETE, "/api/v1/namespaces", 405),
        (Method::GET, "/api/v1/namespaces/default/bindings/x", 404),
        (Method::GET, "/apis//v1/configmaps", 404),
        (
            Method::GET,
            "/api/v1/namespaces/default/configmaps/m?watch=1",
            200,
        ),
    ];
    for (method, path, expected) in cases {
        assert_eq!(attempt(c, &method, path).await, expected, "{method} {path}");
    }
    let (_, list) = get(c, MAPS).await;
    let names: Vec<_> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| &item["metadata"]["name"])
        .collect();
    assert!(!names.contains(&&json!("x")), "{names:?}");
}

#[tokio::test]
async fn a_field_selector_widens_lists_alone() {
    let run = start().await;
    let c = &run.client;
    assert_eq!(post(c, MAPS, config_map("m", json!({}))).await.0, 201);
    let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["m", "configmaps"],
        "verbs": ["list", "deletecollection"]}]);
    let role = json!({"metadata": {"name": "one"}, "rules": rules});
    assert_eq!(post(c, &format!("{rbac}/roles"), role).await.0, 201);
    let binding = json!({"metadata": {"name": "one"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "one"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "tom"}]});
    assert_eq!(post(c, &format!("{rbac}/rolebindings"), binding).await.0, 201);
    let tom = run.server.client_as("default", "tom", &[]);
    let selected = format!("{MAPS}?fieldSelector=metadata.name%3Dm");
    let (code, list) = get(&tom, &selected).await;
    assert_eq!((code, list["items"].as_array().unwrap().len()), (200, 1));
    assert_eq!(get(&tom, MAPS).await.0, 403);
    assert_eq!(delete(&tom, &selected).await.0, 403);
    // A name that reads like the end of the path is still no path.
    let (code, list) = get(&tom, &format!("{MAPS}?fieldSelector=metadata.name%3Dconfigmaps")).await;
    assert_eq!((code, list["kind"].clone()), (200, json!("ConfigMapList")));
}
