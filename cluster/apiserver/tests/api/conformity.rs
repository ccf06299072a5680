//! Answers in which Kubernetes' own conformance suite found a difference.

use http::Method;
use serde_json::{Value, json};

use crate::support::*;

const PODS: &str = "/api/v1/namespaces/default/pods";

fn pod(name: &str, spec: &Value) -> Value {
    let mut whole = json!({"containers": [{"name": "c", "image": "i"}]});
    for (key, value) in spec.as_object().into_iter().flatten() {
        whole[key] = value.clone();
    }
    json!({"metadata": {"name": name}, "spec": whole})
}

async fn made(answer: (u16, Value)) -> Value {
    assert!((200..300).contains(&answer.0), "{}", answer.1);
    answer.1
}

async fn merge(client: &kube::Client, path: &str, patch: Value) -> (u16, Value) {
    let media = "application/merge-patch+json";
    call_as(client, Method::PATCH, path, media, patch.to_string()).await
}

#[tokio::test]
async fn a_namespace_deletes_its_pods_before_what_they_use() {
    let run = start().await;
    let c = &run.client;
    made(post(c, "/api/v1/namespaces", json!({"metadata": {"name": "team"}})).await).await;
    eventually("the default account is there", || async {
        get(c, "/api/v1/namespaces/team/serviceaccounts/default").await.0 == 200
    })
    .await;
    let mut held = pod("held", &json!({}));
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    made(post(c, "/api/v1/namespaces/team/pods", held).await).await;
    made(
        post(
            c,
            "/api/v1/namespaces/team/configmaps",
            config_map("used", json!({})),
        )
        .await,
    )
    .await;
    made(delete(c, "/api/v1/namespaces/team").await).await;
    eventually("the pod is told to go", || async {
        let (_, pod) = get(c, "/api/v1/namespaces/team/pods/held").await;
        pod["metadata"]["deletionTimestamp"].is_string()
    })
    .await;
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    assert_eq!(get(c, "/api/v1/namespaces/team/configmaps/used").await.0, 200);
    let free = json!({"metadata": {"finalizers": null}});
    made(merge(c, "/api/v1/namespaces/team/pods/held", free).await).await;
    eventually("the namespace is gone", || async {
        get(c, "/api/v1/namespaces/team").await.0 == 404
    })
    .await;
}

#[tokio::test]
async fn binding_a_pod_does_not_count_as_a_change_of_its_spec() {
    let run = start().await;
    let c = &run.client;
    let made_pod = made(post(c, PODS, pod("p", &json!({}))).await).await;
    assert_eq!(made_pod["metadata"]["generation"], 1);
    let binding = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}});
    made(post(c, &format!("{PODS}/p/binding"), binding).await).await;
    let (_, bound) = get(c, &format!("{PODS}/p")).await;
    assert_eq!(
        (&bound["spec"]["nodeName"], &bound["metadata"]["generation"]),
        (&json!("n"), &json!(1))
    );
    let change = json!({"spec": {"activeDeadlineSeconds": 60}});
    let changed = made(merge(c, &format!("{PODS}/p"), change).await).await;
    assert_eq!(changed["metadata"]["generation"], 2);
}

#[tokio::test]
async fn a_token_of_a_pod_names_its_node() {
    let run = start().await;
    let c = &run.client;
    let node = made(post(c, "/api/v1/nodes", json!({"metadata": {"name": "n"}})).await).await;
    made(post(c, PODS, pod("p", &json!({"nodeName": "n"}))).await).await;
    let request = json!({"spec": {"boundObjectRef": {"kind": "Pod", "name": "p"}}});
    let path = "/api/v1/namespaces/default/serviceaccounts/default/token";
    let token = made(post(c, path, request).await).await["status"]["token"].clone();
    let review = json!({"spec": {"token": token}});
    let review = made(post(c, "/apis/authentication.k8s.io/v1/tokenreviews", review).await).await;
    let extra = &review["status"]["user"]["extra"];
    assert_eq!(
        extra["authentication.kubernetes.io/node-name"],
        json!(["n"]),
        "{review}"
    );
    assert_eq!(
        extra["authentication.kubernetes.io/node-uid"],
        json!([node["metadata"]["uid"]])
    );
}

#[tokio::test]
async fn pods_with_an_unknown_runtime_class_or_a_bad_sysctl_are_refused() {
    let run = start().await;
    let c = &run.client;
    let (code, refused) = post(c, PODS, pod("a", &json!({"runtimeClassName": "fast"}))).await;
    assert_eq!(code, 403, "{refused}");
    let message = refused["message"].as_str().unwrap();
    assert!(
        message.contains("pod rejected: RuntimeClass \"fast\" not found"),
        "{message}"
    );
    let class = json!({"metadata": {"name": "fast"}, "handler": "runc",
        "overhead": {"podFixed": {"cpu": "10m"}}, "scheduling": {"nodeSelector": {"fast": "yes"}}});
    let classes = "/apis/node.k8s.io/v1/runtimeclasses";
    made(post(c, classes, class).await).await;
    let accepted = made(post(c, PODS, pod("a", &json!({"runtimeClassName": "fast"}))).await).await;
    assert_eq!(accepted["spec"]["overhead"], json!({"cpu": "10m"}));
    assert_eq!(accepted["spec"]["nodeSelector"], json!({"fast": "yes"}));
    let spec = json!({"runtimeClassName": "fast", "overhead": {"cpu": "1"}});
    assert_eq!(post(c, PODS, pod("b", &spec)).await.0, 403);
    made(delete(c, &format!("{classes}/fast")).await).await;
    assert_eq!(
        post(c, PODS, pod("c", &json!({"runtimeClassName": "fast"})))
            .await
            .0,
        403
    );

    let with = |name: &str| json!({"securityContext": {"sysctls": [{"name": name, "value": "1"}]}});
    for (name, code) in [
        ("kernel.shm_rmid_forced", 201),
        ("net/ipv4/ip_unprivileged_port_start", 201),
        ("foo-", 422),
        ("kernel.shmmax!", 422),
        ("", 422),
    ] {
        let name_of = format!("s-{}", name.len());
        let (found, answer) = post(c, PODS, pod(&name_of, &with(name))).await;
        assert_eq!(found, code, "{name}: {answer}");
        if code == 422 {
            assert_eq!(
                answer["details"]["causes"][0]["field"],
                "spec.securityContext.sysctls[0].name"
            );
        }
    }
    let twice = json!({"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"},
        {"name": "kernel.msgmax", "value": "2"}]}});
    let (code, answer) = post(c, PODS, pod("twice", &twice)).await;
    assert_eq!(
        (code, answer["details"]["causes"][0]["reason"].as_str()),
        (422, Some("FieldValueDuplicate"))
    );
}

#[tokio::test]
async fn strict_errors_come_in_the_order_of_the_document() {
    let run = start().await;
    let body = r#"{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {
        "unknown1": "a", "unknownDupe": "b", "unknownDupe": "c", "paused": true, "paused": false,
        "selector": {"matchLabels": {"app": "d"}},
        "template": {"metadata": {"labels": {"app": "d"}}, "spec": {"containers": [
            {"name": "c", "image": "i", "unknownNested": 1, "imagePullPolicy": "Always", "imagePullPolicy": "Never"}]}}}}"#;
    let path = "/apis/apps/v1/namespaces/default/deployments?fieldValidation=Strict";
    let (code, answer) = call_as(&run.client, Method::POST, path, "application/json", body.into()).await;
    assert_eq!(code, 400);
    let wanted = "strict decoding error: unknown field \"spec.unknown1\", unknown field \"spec.unknownDupe\", \
        duplicate field \"spec.paused\", unknown field \"spec.template.spec.containers[0].unknownNested\", \
        duplicate field \"spec.template.spec.containers[0].imagePullPolicy\"";
    let message = answer["message"].as_str().unwrap();
    assert!(message.ends_with(wanted), "{message}");
}

#[tokio::test]
async fn certificate_requests_are_patched_and_nodes_of_storage_have_no_drivers() {
    let run = start().await;
    let c = &run.client;
    let requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::default();
    let pem = params.serialize_request(&key).unwrap().pem().unwrap();
    let request = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, pem);
    let csr = json!({"metadata": {"name": "r"}, "spec": {"request": request,
        "signerName": "example.com/e2e", "usages": ["digital signature", "server auth"]}});
    made(post(c, requests, csr).await).await;
    let patch = json!({"metadata": {"annotations": {"patched": "true"}}});
    let patched = made(merge(c, &format!("{requests}/r"), patch).await).await;
    assert_eq!(patched["metadata"]["annotations"]["patched"], "true");
    for part in ["approval", "status"] {
        let patch = json!({"metadata": {"annotations": {part: "true"}},
            "status": {"conditions": [{"type": "Approved", "status": "True", "reason": "E2E", "message": "yes"}]}});
        let patched = made(merge(c, &format!("{requests}/r/{part}"), patch).await).await;
        assert_eq!(patched["metadata"]["annotations"][part], "true", "{patched}");
        assert_eq!(
            patched["status"]["conditions"][0]["reason"], "E2E",
            "{part}: {patched}"
        );
    }

    let nodes = "/apis/storage.k8s.io/v1/csinodes";
    for (name, spec) in [("a", json!({"drivers": null})), ("b", json!({"drivers": []}))] {
        let made_node = made(post(c, nodes, json!({"metadata": {"name": name}, "spec": spec})).await).await;
        assert!(
            made_node["spec"].as_object().unwrap().contains_key("drivers"),
            "{made_node}"
        );
    }
}

#[tokio::test]
async fn events_are_selected_by_the_source_that_either_api_names() {
    let run = start().await;
    let c = &run.client;
    let old = json!({"metadata": {"name": "old"}, "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
        "source": {"component": "kubelet"}, "reason": "Made", "type": "Normal"});
    made(post(c, "/api/v1/namespaces/default/events", old).await).await;
    let new = json!({"metadata": {"name": "new"}, "regarding": {"kind": "Pod", "name": "p", "namespace": "default"},
        "reportingController": "kubelet", "reportingInstance": "k-1", "action": "Do", "reason": "Made",
        "type": "Normal", "eventTime": "2026-01-01T00:00:00.000000Z"});
    made(post(c, "/apis/events.k8s.io/v1/namespaces/default/events", new).await).await;
    for (selector, names) in [
        ("source=kubelet", vec!["new", "old"]),
        ("reportingComponent=kubelet", vec!["new"]),
        ("involvedObject.name=p,reason=Made", vec!["new", "old"]),
        ("source!=kubelet", vec![]),
    ] {
        let (code, list) = get(
            c,
            &format!("/api/v1/namespaces/default/events?fieldSelector={selector}"),
        )
        .await;
        assert_eq!(code, 200, "{list}");
        let found: Vec<&str> = list["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|event| event["metadata"]["name"].as_str().unwrap())
            .collect();
        assert_eq!(found, names, "{selector}");
    }
}
