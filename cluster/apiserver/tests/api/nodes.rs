//! Nodes under their own names.

use serde_json::{Value, json};

use crate::support::*;

async fn made(answer: (u16, Value)) -> Value {
    assert_eq!(answer.0, 201, "{}", answer.1);
    answer.1
}

#[tokio::test]
async fn a_node_serves_its_own_pods_and_no_others() {
    let run = start().await;
    let c = &run.client;
    let one = run
        .server
        .client_as("default", "system:node:one", &["system:nodes"]);
    made(post(&one, "/api/v1/nodes", json!({"metadata": {"name": "one"}})).await).await;
    let (code, refused) = post(&one, "/api/v1/nodes", json!({"metadata": {"name": "two"}})).await;
    assert_eq!(code, 403);
    assert_eq!(
        refused["message"],
        "nodes \"two\" is forbidden: node \"one\" is not allowed to modify node \"two\""
    );
    made(post(c, "/api/v1/nodes", json!({"metadata": {"name": "two"}})).await).await;
    eventually("the service account", || async {
        get(c, "/api/v1/namespaces/default/serviceaccounts/default")
            .await
            .0
            == 200
    })
    .await;
    let core = "/api/v1/namespaces/default";
    for (name, node) in [("p", "one"), ("q", "two")] {
        let secret = json!({"metadata": {"name": format!("of-{name}")}, "stringData": {"k": "v"}});
        made(post(c, &format!("{core}/secrets"), secret).await).await;
        let pod = json!({"metadata": {"name": name}, "spec": {"nodeName": node,
            "volumes": [{"name": "v", "secret": {"secretName": format!("of-{name}")}}],
            "containers": [{"name": "c", "image": "i"}]}});
        made(post(c, &format!("{core}/pods"), pod).await).await;
    }
    assert_eq!(get(&one, &format!("{core}/secrets/of-p")).await.0, 200);
    let (code, refused) = get(&one, &format!("{core}/secrets/of-q")).await;
    assert_eq!(code, 403);
    let reason = "no relationship found between node 'one' and this object";
    assert!(
        refused["message"].as_str().unwrap().ends_with(reason),
        "{refused}"
    );
    assert_eq!(get(&one, &format!("{core}/secrets")).await.0, 403);
    let own = "/api/v1/pods?fieldSelector=spec.nodeName%3Done";
    let (code, list) = get(&one, own).await;
    assert_eq!((code, list["items"].as_array().unwrap().len()), (200, 1));
    assert_eq!(get(&one, "/api/v1/pods").await.0, 403);
    let status = json!({"status": {"phase": "Running"}}).to_string();
    for (pod, expected) in [("p", 200), ("q", 403)] {
        let path = format!("{core}/pods/{pod}/status");
        let merge = "application/merge-patch+json";
        let (code, answer) = call_as(&one, http::Method::PATCH, &path, merge, status.clone()).await;
        assert_eq!(code, expected, "{answer}");
    }
    let token = format!("{core}/serviceaccounts/default/token");
    assert_eq!(post(&one, &token, json!({"spec": {}})).await.0, 403);
    let bound = |pod: Value| {
        json!({"spec": {"boundObjectRef": {"apiVersion": "v1", "kind": "Pod",
        "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}}})
    };
    let (_, p) = get(c, &format!("{core}/pods/p")).await;
    let (_, q) = get(c, &format!("{core}/pods/q")).await;
    assert_eq!(post(&one, &token, bound(p)).await.0, 201);
    assert_eq!(post(&one, &token, bound(q)).await.0, 403);
    assert_eq!(delete(&one, &format!("{core}/pods/q")).await.0, 403);
    assert_eq!(
        delete(&one, &format!("{core}/pods/p?gracePeriodSeconds=0"))
            .await
            .0,
        200
    );
    // With its pod goes what it was for.
    assert_eq!(get(&one, &format!("{core}/secrets/of-p")).await.0, 403);
}
