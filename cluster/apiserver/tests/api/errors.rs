use apiserver::Verb;
use http::Method;
use serde_json::{Value, json};

use crate::support::*;

#[tokio::test]
async fn failures_are_told_as_kubernetes_tells_them() {
    let run = start().await;
    let c = &run.client;
    assert_eq!(get(c, "/apis/nope/v1/things").await.0, 404);
    let (code, status) = post(c, MAPS, json!({"kind": "Secret", "metadata": {"name": "a"}})).await;
    assert_eq!((code, status["reason"].as_str()), (400, Some("BadRequest")));
    let (code, status) = post(c, MAPS, config_map("Not_A_Name", json!({}))).await;
    assert_eq!(
        (code, status["details"]["causes"][0]["field"].as_str()),
        (422, Some("metadata.name")),
        "{status}"
    );
    assert!(
        status["message"]
            .as_str()
            .unwrap()
            .starts_with("ConfigMap \"Not_A_Name\" is invalid: metadata.name: Invalid value")
    );
    let mut elsewhere = config_map("a", json!({}));
    elsewhere["metadata"]["namespace"] = json!("other");
    assert_eq!(post(c, MAPS, elsewhere).await.0, 400);
    let (code, status) = put(c, &format!("{MAPS}/a"), config_map("b", json!({}))).await;
    assert_eq!((code, status["reason"].as_str()), (400, Some("BadRequest")));
    let (code, _) = call_as(c, Method::POST, MAPS, "application/cbor", "k8s".into()).await;
    assert_eq!(code, 415);
    let (code, status) = post(
        c,
        "/apis/apps/v1/namespaces/default/deployments",
        json!({"metadata": {"name": "d"}, "spec": {"replicas": "x"}}),
    )
    .await;
    assert_eq!(code, 400);
    assert!(
        status["message"]
            .as_str()
            .unwrap()
            .contains("cannot unmarshal string"),
        "{status}"
    );
    let deployment = json!({"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "c"}}, "spec": {"containers": []}}}});
    let (code, status) = post(c, "/apis/apps/v1/namespaces/default/deployments", deployment).await;
    let fields: Vec<&str> = status["details"]["causes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["field"].as_str().unwrap())
        .collect();
    assert_eq!(
        (code, fields),
        (
            422,
            vec!["spec.template.spec.containers", "spec.template.metadata.labels"]
        ),
        "{status}"
    );
}

#[tokio::test]
async fn unknown_fields_warn_or_fail() {
    let run = start().await;
    let c = &run.client;
    let body = r#"{"metadata":{"name":"a"},"data":{"a":"1","a":"2"},"dta":{}}"#;
    let (code, strict) = call_as(
        c,
        Method::POST,
        &format!("{MAPS}?fieldValidation=Strict"),
        "application/json",
        body.into(),
    )
    .await;
    assert_eq!(code, 400);
    let message = strict["message"].as_str().unwrap();
    assert!(
        message.contains("duplicate field \"data.a\"") && message.contains("unknown field \"dta\""),
        "{message}"
    );
    let request = http::Request::post(MAPS)
        .header("content-type", "application/json")
        .body(kube::client::Body::from(body.as_bytes().to_vec()))
        .unwrap();
    let response = c.send(request).await.unwrap();
    assert_eq!(response.status(), 201);
    let warnings: Vec<_> = response
        .headers()
        .get_all("warning")
        .iter()
        .map(|w| w.to_str().unwrap().to_owned())
        .collect();
    assert_eq!(
        warnings,
        [
            "299 - \"duplicate field \\\"data.a\\\"\"",
            "299 - \"unknown field \\\"dta\\\"\""
        ]
    );
}

#[tokio::test]
async fn nothing_a_client_sends_breaks_it() {
    let run = start().await;
    let c = &run.client;
    assert_eq!(post(c, CRDS, example_crd()).await.0, 201);
    let big = "x".repeat(4 << 20);
    let (code, status) = post(c, MAPS, config_map("big", json!({"a": big}))).await;
    assert_eq!(
        (code, status["reason"].as_str()),
        (413, Some("RequestEntityTooLarge"))
    );
    let bodies: Vec<Value> = vec![
        json!(null),
        json!([]),
        json!("x"),
        json!(1),
        json!({"metadata": []}),
        json!({"metadata": {"name": 1}}),
        json!({"metadata": {"name": "a", "labels": "x"}}),
        json!({"metadata": {"name": "a"}, "spec": []}),
        json!({"metadata": {"name": "a", "finalizers": [1]}}),
        json!({"metadata": {"name": "a", "managedFields": [{"x": 1}]}}),
        json!({"metadata": {"name": "a", "ownerReferences": [{}]}}),
        json!({"spec": {"versions": 1}}),
        json!({"metadata": {"name": "a"}, "spec": {"ports": [{"port": "http"}]}}),
        json!({"metadata": {"generateName": "-"}}),
    ];
    let registry = apiserver::registry::Registry::builtin();
    let mut paths: Vec<String> = registry
        .kinds()
        .iter()
        .filter(|k| k.allows(&Verb::Create) && k.allows(&Verb::Get))
        .map(|k| {
            let root = if k.group.is_empty() {
                "/api/v1".to_owned()
            } else {
                format!("/apis/{}/{}", k.group, k.version)
            };
            if k.namespaced {
                format!("{root}/namespaces/default/{}", k.plural)
            } else {
                format!("{root}/{}", k.plural)
            }
        })
        .collect();
    paths.push(EXAMPLES.into());
    for path in &paths {
        for body in &bodies {
            let (code, answer) = post(c, path, body.clone()).await;
            assert!(code < 500, "{path} {body}: {answer}");
            for media in [
                "application/json-patch+json",
                "application/merge-patch+json",
                "application/strategic-merge-patch+json",
            ] {
                let (code, answer) =
                    call_as(c, Method::PATCH, &format!("{path}/a"), media, body.to_string()).await;
                assert!(code < 500, "{path} {media} {body}: {answer}");
            }
            // What does not fit the type is a 500 in Kubernetes too, and says so.
            let (code, answer) = apply(c, &format!("{path}/a"), "m", body.clone()).await;
            let message = answer["message"].as_str().unwrap_or_default();
            assert!(
                code < 500 || message.contains("failed to create typed patch object"),
                "{path} {body}: {answer}"
            );
            let (code, answer) = put(c, &format!("{path}/a"), body.clone()).await;
            assert!(code < 500, "{path} {body}: {answer}");
        }
    }
    for odd in [
        "?limit=x",
        "?limit=99999999999999999999",
        "?resourceVersion=-1",
        "?labelSelector=((",
        "?watch=1&resourceVersion=x",
        "?watch=1&timeoutSeconds=-5",
        "?continue=e30",
        "?sendInitialEvents=true&watch=1",
    ] {
        let (code, answer) = get(c, &format!("{MAPS}{odd}")).await;
        assert!((400..500).contains(&code), "{odd}: {code} {answer}");
    }
    assert_eq!(get(c, "/healthz").await.0, 200);
    let metrics = http::Request::get("/metrics").body(Vec::new()).unwrap();
    let text = c.request_text(metrics).await.unwrap();
    let refused = text
        .lines()
        .filter(|l| l.starts_with("apiserver_request_total") && l.contains("code=\"422\""));
    assert!(refused.count() > 10, "{text}");
}
