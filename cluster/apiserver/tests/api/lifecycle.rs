//! What the server does by itself: garbage, namespaces, accounts.

use serde_json::{Value, json};

use crate::support::*;

async fn map(run: &Running, name: &str, metadata: Value) -> Value {
    let mut object = config_map(name, json!({}));
    for (key, value) in metadata.as_object().into_iter().flatten() {
        object["metadata"][key] = value.clone();
    }
    let (code, made) = post(&run.client, MAPS, object).await;
    assert_eq!(code, 201, "{made}");
    made
}

fn owned_by(owner: &Value) -> Value {
    json!({"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"], "blockOwnerDeletion": true}]})
}

async fn delete_with(run: &Running, name: &str, policy: &str) -> u16 {
    let options = json!({"propagationPolicy": policy});
    call(
        &run.client,
        http::Method::DELETE,
        &format!("{MAPS}/{name}"),
        options,
    )
    .await
    .0
}

async fn is_there(run: &Running, name: &str) -> bool {
    get(&run.client, &format!("{MAPS}/{name}")).await.0 == 200
}

async fn gone(run: &Running, name: &str) {
    eventually(&format!("{name} is gone"), || async {
        !is_there(run, name).await
    })
    .await;
}

#[tokio::test]
async fn background_takes_all_below() {
    let run = start().await;
    let top = map(&run, "top", json!({})).await;
    let middle = map(&run, "middle", owned_by(&top)).await;
    map(&run, "bottom", owned_by(&middle)).await;
    map(&run, "other", json!({})).await;
    assert_eq!(delete_with(&run, "top", "Background").await, 200);
    assert!(!is_there(&run, "top").await);
    gone(&run, "middle").await;
    gone(&run, "bottom").await;
    assert!(is_there(&run, "other").await);
}

#[tokio::test]
async fn foreground_waits_for_what_is_held_below() {
    let run = start().await;
    let top = map(&run, "top", json!({})).await;
    let mut metadata = owned_by(&top);
    metadata["finalizers"] = json!(["example.com/hold"]);
    map(&run, "held", metadata).await;
    assert_eq!(delete_with(&run, "top", "Foreground").await, 200);
    let deleting = || async {
        let (code, held) = get(&run.client, &format!("{MAPS}/held")).await;
        code == 200 && held["metadata"]["deletionTimestamp"].is_string()
    };
    eventually("the dependent is being deleted", deleting).await;
    assert!(is_there(&run, "top").await, "it waits for its dependent");
    let (code, _) = call_as(
        &run.client,
        http::Method::PATCH,
        &format!("{MAPS}/held"),
        "application/merge-patch+json",
        json!({"metadata": {"finalizers": null}}).to_string(),
    )
    .await;
    assert_eq!(code, 200);
    gone(&run, "held").await;
    gone(&run, "top").await;
}

#[tokio::test]
async fn orphans_live_on() {
    let run = start().await;
    let top = map(&run, "top", json!({})).await;
    map(&run, "child", owned_by(&top)).await;
    assert_eq!(delete_with(&run, "top", "Orphan").await, 200);
    gone(&run, "top").await;
    let (code, child) = get(&run.client, &format!("{MAPS}/child")).await;
    assert_eq!(code, 200);
    let owners = child["metadata"]["ownerReferences"].as_array();
    assert!(owners.is_none_or(Vec::is_empty), "{child}");
}

#[tokio::test]
async fn an_owner_that_never_was_makes_garbage_and_two_owners_must_both_go() {
    let run = start().await;
    let stranger = json!({"metadata": {"name": "none", "uid": "no-such-uid"}});
    map(&run, "stray", owned_by(&stranger)).await;
    gone(&run, "stray").await;

    let (a, b) = (map(&run, "a", json!({})).await, map(&run, "b", json!({})).await);
    let mut both = owned_by(&a);
    both["ownerReferences"]
        .as_array_mut()
        .unwrap()
        .push(owned_by(&b)["ownerReferences"][0].clone());
    map(&run, "child", both).await;
    assert_eq!(delete_with(&run, "a", "Background").await, 200);
    let one_left = || async {
        let (_, child) = get(&run.client, &format!("{MAPS}/child")).await;
        child["metadata"]["ownerReferences"]
            .as_array()
            .is_some_and(|owners| owners.len() == 1)
    };
    eventually("the absent owner is forgotten", one_left).await;
    assert_eq!(delete_with(&run, "b", "Background").await, 200);
    gone(&run, "child").await;
}

#[tokio::test]
async fn cluster_scoped_owners_and_kinds_that_are_not_served() {
    let run = start().await;
    let (_, role) = post(
        &run.client,
        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        json!({"metadata": {"name": "owner"}, "rules": []}),
    )
    .await;
    let reference = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "name": "owner",
        "uid": role["metadata"]["uid"]});
    map(&run, "owned", json!({"ownerReferences": [reference]})).await;
    let foreign = json!({"apiVersion": "none.example.com/v1", "kind": "None", "name": "x", "uid": "y"});
    map(&run, "kept", json!({"ownerReferences": [foreign]})).await;
    let (code, _) = delete(
        &run.client,
        "/apis/rbac.authorization.k8s.io/v1/clusterroles/owner",
    )
    .await;
    assert_eq!(code, 200);
    gone(&run, "owned").await;
    assert!(is_there(&run, "kept").await, "its owner cannot be judged");
}

#[tokio::test]
async fn a_namespace_takes_its_content_along() {
    let run = start().await;
    let c = &run.client;
    let (code, _) = post(c, "/api/v1/namespaces", json!({"metadata": {"name": "team"}})).await;
    assert_eq!(code, 201);
    let account = || async { get(c, "/api/v1/namespaces/team/serviceaccounts/default").await.0 == 200 };
    eventually("the default account is there", account).await;
    let root = || async {
        get(c, "/api/v1/namespaces/team/configmaps/kube-root-ca.crt")
            .await
            .0
            == 200
    };
    eventually("the root certificate is there", root).await;

    let mut held = config_map("held", json!({}));
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    assert_eq!(post(c, "/api/v1/namespaces/team/configmaps", held).await.0, 201);
    let (code, answer) = delete(c, "/api/v1/namespaces/team").await;
    assert_eq!(
        (code, answer["status"]["phase"].as_str()),
        (200, Some("Terminating"))
    );
    let (code, refused) = post(
        c,
        "/api/v1/namespaces/team/configmaps",
        config_map("late", json!({})),
    )
    .await;
    assert_eq!(code, 403, "{refused}");
    let told = || async {
        let (_, namespace) = get(c, "/api/v1/namespaces/team").await;
        let conditions = namespace["status"]["conditions"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        conditions.iter().any(|condition| {
            condition["type"] == "NamespaceFinalizersRemaining"
                && condition["status"] == "True"
                && condition["message"]
                    .as_str()
                    .unwrap_or_default()
                    .contains("example.com/hold")
        })
    };
    eventually("the namespace says what it waits for", told).await;
    let (code, _) = call_as(
        c,
        http::Method::PATCH,
        "/api/v1/namespaces/team/configmaps/held",
        "application/merge-patch+json",
        json!({"metadata": {"finalizers": null}}).to_string(),
    )
    .await;
    assert_eq!(code, 200);
    let over = || async { get(c, "/api/v1/namespaces/team").await.0 == 404 };
    eventually("the namespace is gone", over).await;
}

#[tokio::test]
async fn what_every_namespace_has_comes_back() {
    let run = start().await;
    let c = &run.client;
    let path = "/api/v1/namespaces/default/configmaps/kube-root-ca.crt";
    let (code, first) = get(c, path).await;
    assert_eq!(code, 200);
    assert!(
        first["data"]["ca.crt"]
            .as_str()
            .unwrap()
            .starts_with("-----BEGIN CERTIFICATE-----")
    );
    assert_eq!(delete(c, path).await.0, 200);
    let back = || async { get(c, path).await.0 == 200 };
    eventually("the certificate is back", back).await;
    assert_eq!(
        delete(c, "/api/v1/namespaces/default/serviceaccounts/default")
            .await
            .0,
        200
    );
    let back = || async {
        get(c, "/api/v1/namespaces/default/serviceaccounts/default")
            .await
            .0
            == 200
    };
    eventually("the account is back", back).await;
}

#[tokio::test]
async fn aggregated_roles_show_their_rules_and_idle_is_silent() {
    let run = start().await;
    let c = &run.client;
    let rules = || async {
        let (_, role) = get(c, "/apis/rbac.authorization.k8s.io/v1/clusterroles/view").await;
        role["rules"].as_array().is_some_and(|rules| rules.len() > 5)
    };
    eventually("view has rules", rules).await;
    let revision = || async {
        let (_, list) = get(c, MAPS).await;
        list["metadata"]["resourceVersion"].as_str().unwrap().to_owned()
    };
    // Whatever the start has set off comes to rest, and then nothing is written.
    let mut before = revision().await;
    let mut quiet = false;
    for _ in 0..20 {
        tokio::time::sleep(std::time::Duration::from_millis(250)).await;
        let now = revision().await;
        quiet = now == before;
        if quiet {
            break;
        }
        before = now;
    }
    assert!(quiet, "the server keeps writing");
}

#[tokio::test]
async fn labels_and_finalizers_of_a_pod_change_whatever_its_containers_are() {
    let running = start().await;
    let c = &running.client;
    let pods = "/api/v1/namespaces/default/pods";
    let pod = json!({"metadata": {"name": "p", "finalizers": ["example.com/hold"]}, "spec": {"containers": [{"name": "c", "image": "x:1"}]}});
    assert_eq!(post(c, pods, pod).await.0, 201);
    let path = format!("{pods}/p");
    for body in [
        json!({"metadata": {"labels": {"app": "x"}}}),
        json!({"metadata": {"finalizers": []}}),
        json!({"spec": {"containers": [{"name": "c", "image": "x:2"}]}}),
    ] {
        let media = "application/strategic-merge-patch+json";
        let (code, answer) = call_as(c, http::Method::PATCH, &path, media, body.to_string()).await;
        assert_eq!(code, 200, "{answer}");
    }
}
