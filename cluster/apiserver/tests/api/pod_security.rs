//! Pod Security by the labels of a namespace.

use http::{HeaderMap, Method, Request};
use kube::Client;
use serde_json::{Value, json};

use crate::support::*;

/// The code, the answer and the warnings.
async fn ask(client: &Client, method: Method, path: &str, body: Value) -> (u16, Value, Vec<String>) {
    let media = if method == Method::PATCH {
        "application/merge-patch+json"
    } else {
        "application/json"
    };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", media)
        .body(kube::client::Body::from(body.to_string().into_bytes()))
        .unwrap();
    let response = client.send(request).await.unwrap();
    let warnings = warnings(response.headers());
    let code = response.status().as_u16();
    let bytes = response.into_body().collect_bytes().await.unwrap();
    (
        code,
        serde_json::from_slice(&bytes).unwrap_or(Value::Null),
        warnings,
    )
}

fn warnings(headers: &HeaderMap) -> Vec<String> {
    let all = headers.get_all("warning").iter();
    all.map(|value| value.to_str().unwrap().to_owned()).collect()
}

async fn namespace(client: &Client, name: &str, labels: Value) {
    let labels: serde_json::Map<String, Value> = labels
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, value)| (format!("pod-security.kubernetes.io/{name}"), value.clone()))
        .collect();
    let object = json!({"metadata": {"name": name, "labels": labels}});
    let (code, answer) = post(client, "/api/v1/namespaces", object).await;
    assert_eq!(code, 201, "{answer}");
    eventually("the service account", || async {
        get(
            client,
            &format!("/api/v1/namespaces/{name}/serviceaccounts/default"),
        )
        .await
        .0 == 200
    })
    .await;
}

fn pod(name: &str, privileged: bool) -> Value {
    json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i",
        "securityContext": {"privileged": privileged}}]}})
}

#[tokio::test]
async fn a_namespace_lets_in_what_its_level_allows() {
    let run = start().await;
    let c = &run.client;
    namespace(c, "strict", json!({"enforce": "baseline"})).await;
    namespace(c, "open", json!({})).await;
    let pods = "/api/v1/namespaces/strict/pods";
    let refusal = "pods \"bad\" is forbidden: violates PodSecurity \"baseline:latest\": privileged (container \"c\" \
                   must not set securityContext.privileged=true)";
    for path in [pods.to_owned(), format!("{pods}?dryRun=All")] {
        let (code, answer, _) = ask(c, Method::POST, &path, pod("bad", true)).await;
        assert_eq!((code, &answer["message"]), (403, &json!(refusal)), "{path}");
    }
    let (code, answer) = apply(c, &format!("{pods}/bad"), "m", {
        let mut pod = pod("bad", true);
        pod["apiVersion"] = "v1".into();
        pod["kind"] = "Pod".into();
        pod
    })
    .await;
    assert_eq!((code, &answer["message"]), (403, &json!(refusal)));
    assert_eq!(get(c, &format!("{pods}/bad")).await.0, 404);
    assert_eq!(ask(c, Method::POST, pods, pod("good", false)).await.0, 201);
    let (code, _, warnings) = ask(c, Method::POST, "/api/v1/namespaces/open/pods", pod("bad", true)).await;
    assert_eq!((code, warnings.len()), (201, 0));
}

#[tokio::test]
async fn no_subresource_makes_a_pod_privileged() {
    let run = start().await;
    let c = &run.client;
    namespace(c, "strict", json!({"enforce": "baseline"})).await;
    let path = "/api/v1/namespaces/strict/pods";
    assert_eq!(ask(c, Method::POST, path, pod("p", false)).await.0, 201);
    let path = format!("{path}/p");
    let bad = json!({"name": "c", "image": "i", "securityContext": {"privileged": true}});
    let debug = json!({"spec": {"ephemeralContainers": [{"name": "d", "image": "i", "securityContext": {"privileged": true}}]}});
    let (code, answer, _) = ask(c, Method::PATCH, &format!("{path}/ephemeralcontainers"), debug).await;
    assert_eq!(code, 403, "{answer}");
    let swapped = json!({"spec": {"containers": [bad]}});
    for place in ["/resize", "/status", ""] {
        ask(c, Method::PATCH, &format!("{path}{place}"), swapped.clone()).await;
        let (_, found) = get(c, &path).await;
        assert_eq!(
            found["spec"]["containers"][0]["securityContext"]["privileged"], false,
            "{place}"
        );
    }
    let debug = json!({"spec": {"ephemeralContainers": [{"name": "d", "image": "i"}]}});
    let (code, answer, _) = ask(c, Method::PATCH, &format!("{path}/ephemeralcontainers"), debug).await;
    assert_eq!(code, 200, "{answer}");
}

#[tokio::test]
async fn templates_are_warned_of_and_not_refused() {
    let run = start().await;
    let c = &run.client;
    namespace(c, "strict", json!({"enforce": "baseline"})).await;
    namespace(c, "warned", json!({"warn": "restricted", "warn-version": "v1.5"})).await;
    let template = |policy: &str| {
        let mut template = pod("", true);
        template["metadata"] = json!({"labels": {"a": "b"}});
        template["spec"]["restartPolicy"] = policy.into();
        template
    };
    let set = |policy: &str| json!({"metadata": {"name": "x"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template(policy)}});
    let mut stateful = set("Always");
    stateful["spec"]["serviceName"] = "x".into();
    let job = json!({"metadata": {"name": "x"}, "spec": {"template": template("Never")}});
    let cron = json!({"metadata": {"name": "x"}, "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": template("Never")}}}});
    let controller =
        json!({"metadata": {"name": "x"}, "spec": {"selector": {"a": "b"}, "template": template("Always")}});
    let kinds = [
        ("/apis/apps/v1", "deployments", set("Always")),
        ("/apis/apps/v1", "replicasets", set("Always")),
        ("/apis/apps/v1", "daemonsets", set("Always")),
        ("/apis/apps/v1", "statefulsets", stateful),
        ("/apis/batch/v1", "jobs", job),
        ("/apis/batch/v1", "cronjobs", cron),
        ("/api/v1", "replicationcontrollers", controller),
        (
            "/api/v1",
            "podtemplates",
            json!({"metadata": {"name": "x"}, "template": template("Always")}),
        ),
    ];
    for (root, plural, object) in kinds {
        let path = format!("{root}/namespaces/strict/{plural}");
        let (code, answer, warnings) = ask(c, Method::POST, &path, object).await;
        assert_eq!(code, 201, "{plural}: {answer}");
        let expected = "299 - \"would violate PodSecurity \\\"baseline:latest\\\": privileged (container \\\"c\\\" must not set \
                        securityContext.privileged=true)\"";
        assert_eq!(warnings, [expected], "{plural}");
    }
    let (code, _, warnings) = ask(c, Method::POST, "/api/v1/namespaces/warned/pods", pod("p", false)).await;
    assert_eq!(code, 201);
    assert_eq!(
        warnings,
        [
            "299 - \"would violate PodSecurity \\\"restricted:v1.5\\\": runAsNonRoot != true (pod or container \\\"c\\\" must set \
          securityContext.runAsNonRoot=true)\""
        ]
    );
    // A change that has nothing to do with it is not told again.
    let patch = json!({"metadata": {"labels": {"l": "m"}}});
    let (code, _, warnings) = ask(c, Method::PATCH, "/api/v1/namespaces/warned/pods/p", patch).await;
    assert_eq!((code, warnings.len()), (200, 0));
}

#[tokio::test]
async fn labels_of_namespaces_mean_something() {
    let run = start().await;
    let c = &run.client;
    let labels = |value: &str| json!({"metadata": {"name": "n", "labels": {"pod-security.kubernetes.io/enforce": value}}});
    let (code, answer) = post(c, "/api/v1/namespaces", labels("none")).await;
    assert_eq!(code, 422);
    assert_eq!(
        answer["message"],
        "Namespace \"n\" is invalid: metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: \"none\": must be \
         one of privileged, baseline, restricted"
    );
    namespace(c, "n", json!({})).await;
    assert_eq!(
        ask(c, Method::POST, "/api/v1/namespaces/n/pods", pod("p", true))
            .await
            .0,
        201
    );
    assert_eq!(
        ask(c, Method::PATCH, "/api/v1/namespaces/n", labels("none"))
            .await
            .0,
        422
    );
    let (code, _, warnings) = ask(c, Method::PATCH, "/api/v1/namespaces/n", labels("baseline")).await;
    assert_eq!(code, 200);
    assert_eq!(
        warnings,
        [
            "299 - \"existing pods in namespace \\\"n\\\" violate the new PodSecurity enforce level \\\"baseline:latest\\\"\"",
            "299 - \"p: privileged\"",
        ]
    );
    // What runs already is not refused its updates.
    let patch = json!({"metadata": {"labels": {"l": "m"}}});
    assert_eq!(
        ask(c, Method::PATCH, "/api/v1/namespaces/n/pods/p", patch)
            .await
            .0,
        200
    );
    let (_, mut other) = get(c, "/api/v1/namespaces/n/pods/p").await;
    other["spec"]["containers"][0]["image"] = "other".into();
    assert_eq!(put(c, "/api/v1/namespaces/n/pods/p", other).await.0, 403);
}
