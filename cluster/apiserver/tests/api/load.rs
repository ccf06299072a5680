//! Clients that are slow, many, or nest too deep.

use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt, stream};
use http::{Method, Request};
use http_body_util::StreamBody;
use serde_json::{Value, json};

use crate::support::*;

const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";

/// A request as it comes from the listener: who sends it stands in its header.
fn create(token: &str, body: apiserver::serve::Body) -> Request<apiserver::serve::Body> {
    Request::post(MAPS)
        .header("authorization", format!("Bearer {token}"))
        .header("content-type", "application/json")
        .body(body)
        .unwrap()
}

/// A body that begins and never ends.
fn endless() -> apiserver::serve::Body {
    let start = stream::iter([Ok::<_, std::io::Error>(http_body::Frame::data(
        Bytes::from_static(b"{"),
    ))]);
    apiserver::serve::wrap(StreamBody::new(start.chain(stream::pending())))
}

fn whole(name: &str) -> apiserver::serve::Body {
    apiserver::serve::full(config_map(name, json!({})).to_string())
}

pub(crate) async fn account(run: &Running, name: &str) -> String {
    let c = &run.client;
    assert_eq!(
        post(c, ACCOUNTS, json!({"metadata": {"name": name}})).await.0,
        201
    );
    let binding = json!({"metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "default"}]});
    let bindings = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";
    assert_eq!(post(c, bindings, binding).await.0, 201);
    let (_, answer) = post(c, &format!("{ACCOUNTS}/{name}/token"), json!({"spec": {}})).await;
    answer["status"]["token"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn slow_bodies_keep_nobody_else_out() {
    let run = start_with(|mut config| {
        config.limits.requests = 16;
        config.limits.body_time = Duration::from_secs(2);
        config
    })
    .await;
    let (slow, other) = (account(&run, "slow").await, account(&run, "other").await);
    let service = run.server.service();
    let code = |request| {
        let service = service.clone();
        async move { service.answer(request).await.unwrap().status().as_u16() }
    };
    let crowd: Vec<_> = (0..64)
        .map(|_| tokio::spawn(code(create(&slow, endless()))))
        .collect();
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(
        code(create(&slow, whole("a"))).await,
        429,
        "their own share is used up"
    );
    assert_eq!(code(create(&other, whole("b"))).await, 201);
    assert_eq!(post(&run.client, MAPS, config_map("c", json!({}))).await.0, 201);
    let mut codes: Vec<u16> = Vec::new();
    for request in crowd {
        codes.push(request.await.unwrap());
    }
    assert_eq!(codes.iter().filter(|code| **code == 408).count(), 4, "{codes:?}");
    assert_eq!(codes.iter().filter(|code| **code == 429).count(), 60, "{codes:?}");
    assert_eq!(code(create(&slow, whole("a"))).await, 201, "the share comes back");
}

#[tokio::test]
async fn a_patch_cannot_nest_an_object_until_it_cannot_be_read() {
    let run = start().await;
    let c = &run.client;
    let mut crd = example_crd();
    let versions = crd["spec"]["versions"].as_array_mut().unwrap();
    versions[0]["schema"] =
        json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    for version in &mut versions[..] {
        version["subresources"] = Value::Null;
    }
    let (code, answer) = post(c, CRDS, crd).await;
    assert_eq!(code, 201, "{answer}");
    let mut object = example("deep", json!({}));
    object["metadata"]["finalizers"] = json!(["example.com/hold"]);
    let (code, answer) = post(c, EXAMPLES, object).await;
    assert_eq!(code, 201, "{answer}");
    let path = format!("{EXAMPLES}/deep");
    let mut accepted = 0;
    for levels in (60..128).step_by(3) {
        let deep = format!(
            "{}{}",
            "{\"a\":".repeat(levels),
            "1".to_owned() + &"}".repeat(levels)
        );
        for (media, body) in [
            (
                "application/json-patch+json",
                format!(r#"[{{"op":"add","path":"/spec/x","value":{deep}}}]"#),
            ),
            (
                "application/merge-patch+json",
                format!(r#"{{"spec":{{"x":null,"y":{deep}}}}}"#),
            ),
        ] {
            let (code, answer) = call_as(c, Method::PATCH, &path, media, body).await;
            assert!(code < 500, "{levels} {media}: {answer}");
            accepted += usize::from(code == 200);
            let (code, live) = get(c, &path).await;
            assert_eq!(
                (code, &live["metadata"]["finalizers"]),
                (200, &json!(["example.com/hold"])),
                "{levels}"
            );
        }
    }
    assert!((20..40).contains(&accepted), "{accepted}");
    assert_eq!(delete(c, &path).await.0, 200);
    let (code, live) = get(c, &path).await;
    assert_eq!(
        (code, live["metadata"]["deletionTimestamp"].is_string()),
        (200, true),
        "it is held"
    );
}

/// A request that lasts as long as its answer is kept.
async fn open(run: &Running, token: &str, path: &str) -> http::Response<apiserver::serve::Body> {
    let request = Request::get(path)
        .header("authorization", format!("Bearer {token}"))
        .body(apiserver::serve::empty())
        .unwrap();
    run.server.service().answer(request).await.unwrap()
}

#[tokio::test]
async fn watches_of_one_keep_nobody_else_out() {
    const SHARE: usize = 16;
    let run = start_with(|mut config| {
        config.limits.watches = 4 * SHARE;
        config
    })
    .await;
    let mut tokens = Vec::new();
    for name in ["a", "b", "c", "d", "e"] {
        tokens.push(account(&run, name).await);
    }
    let path = format!("{MAPS}?watch=true");
    let mut held = Vec::new();
    for (number, token) in tokens[..4].iter().enumerate() {
        let before = held.len();
        for _ in 0..=4 * SHARE {
            let answer = open(&run, token, &path).await;
            if answer.status().as_u16() == 429 {
                break;
            }
            assert_eq!(answer.status().as_u16(), 200);
            held.push(answer);
        }
        // The server's own controllers watch too, so the last may find all places taken.
        let own = held.len() - before;
        assert!(own == SHARE || (number == 3 && own < SHARE), "{own}");
    }
    let late = open(&run, &tokens[4], &path).await;
    assert_eq!(late.status().as_u16(), 429, "all are taken");
    // What is asked in process comes from the cluster's own parts.
    let request = Request::get(&path).body(kube::client::Body::empty()).unwrap();
    let own = run.client.send(request).await.unwrap();
    assert_eq!(own.status().as_u16(), 200, "they have a lane");
    held.clear();
    eventually("places come back", || async {
        open(&run, &tokens[4], &path).await.status().as_u16() == 200
    })
    .await;
}

#[tokio::test]
async fn a_command_has_its_place_until_it_ends() {
    let run = start_with(|mut config| {
        config.limits.streams = 4;
        config
    })
    .await;
    crate::pods::pod(&run).await;
    let token = account(&run, "a").await;
    let rules = json!([{"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["create", "get"]}]);
    let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
    let role = json!({"metadata": {"name": "run"}, "rules": rules});
    assert_eq!(post(&run.client, &format!("{rbac}/roles"), role).await.0, 201);
    let binding = json!({"metadata": {"name": "run"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "run"},
        "subjects": [{"kind": "ServiceAccount", "name": "a", "namespace": "default"}]});
    let bindings = format!("{rbac}/rolebindings");
    assert_eq!(post(&run.client, &bindings, binding).await.0, 201);
    let user = "system:serviceaccount:default:a";
    let groups = ["system:serviceaccounts", "system:authenticated"];
    let client = run.server.client_as("default", user, &groups);
    let pods: kube::Api<k8s_openapi::api::core::v1::Pod> = kube::Api::namespaced(client, "default");
    let params = kube::api::AttachParams::default().stdin(true).stderr(false);
    let session = pods.exec("p", ["cat"], &params).await.expect("runs");
    let logs = "/api/v1/namespaces/default/pods/p/log";
    let refused = open(&run, &token, logs).await;
    assert_eq!(
        refused.status().as_u16(),
        429,
        "the command has the only place of a share"
    );
    session.abort();
    drop(session);
    eventually("the place comes back", || async {
        open(&run, &token, logs).await.status().as_u16() == 200
    })
    .await;
}
