use http::Method;
use serde_json::json;

use crate::support::*;

#[tokio::test]
async fn objects_come_change_and_go() {
    let run = start().await;
    let c = &run.client;
    let (code, made) = post(c, MAPS, config_map("a", json!({"k": "1"}))).await;
    assert_eq!(code, 201, "{made}");
    let metadata = &made["metadata"];
    assert!(metadata["uid"].is_string() && metadata["creationTimestamp"].is_string());
    assert_eq!(metadata["managedFields"][0]["operation"], "Update");

    let (code, again) = post(c, MAPS, config_map("a", json!({}))).await;
    assert_eq!((code, again["reason"].as_str()), (409, Some("AlreadyExists")));
    assert_eq!(again["message"], "configmaps \"a\" already exists");

    let (code, read) = get(c, &format!("{MAPS}/a")).await;
    assert_eq!((code, &read), (200, &made));

    let mut changed = made.clone();
    changed["data"]["k"] = json!("2");
    let (code, updated) = put(c, &format!("{MAPS}/a"), changed.clone()).await;
    assert_eq!(
        (code, updated["data"]["k"].as_str()),
        (200, Some("2")),
        "{updated}"
    );
    assert_ne!(
        updated["metadata"]["resourceVersion"],
        made["metadata"]["resourceVersion"]
    );

    // The same old revision again: someone was faster.
    changed["data"]["k"] = json!("3");
    let (code, conflict) = put(c, &format!("{MAPS}/a"), changed).await;
    assert_eq!((code, conflict["reason"].as_str()), (409, Some("Conflict")));

    // Nothing changed, nothing written.
    let (_, same) = put(c, &format!("{MAPS}/a"), updated.clone()).await;
    assert_eq!(
        same["metadata"]["resourceVersion"],
        updated["metadata"]["resourceVersion"]
    );

    let (code, gone) = delete(c, &format!("{MAPS}/a")).await;
    assert_eq!((code, gone["status"].as_str()), (200, Some("Success")), "{gone}");
    let (code, missing) = get(c, &format!("{MAPS}/a")).await;
    assert_eq!(
        (code, missing["message"].as_str()),
        (404, Some("configmaps \"a\" not found"))
    );
}

#[tokio::test]
async fn names_are_generated_and_dry_runs_leave_no_trace() {
    let run = start().await;
    let c = &run.client;
    let mut names = std::collections::BTreeSet::new();
    for _ in 0..5 {
        let object = json!({"metadata": {"generateName": "job-"}});
        let (code, made) = post(c, MAPS, object).await;
        assert_eq!(code, 201, "{made}");
        names.insert(made["metadata"]["name"].as_str().unwrap().to_owned());
    }
    assert_eq!(names.len(), 5);
    assert!(
        names
            .iter()
            .all(|name| name.starts_with("job-") && name.len() == 9)
    );
    let (code, dry) = post(c, &format!("{MAPS}?dryRun=All"), config_map("dry", json!({}))).await;
    assert_eq!((code, dry["metadata"]["name"].as_str()), (201, Some("dry")));
    assert_eq!(get(c, &format!("{MAPS}/dry")).await.0, 404);
    let (code, bad) = post(c, &format!("{MAPS}?dryRun=Some"), config_map("dry", json!({}))).await;
    assert_eq!(code, 422, "{bad}");
}

#[tokio::test]
async fn patches_of_every_type() {
    let run = start().await;
    let c = &run.client;
    let path = "/apis/apps/v1/namespaces/default/deployments";
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "labels": {"a": "b"}},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "one", "image": "x:1"}]}}}});
    let (code, made) = post(c, path, deployment).await;
    assert_eq!(code, 201, "{made}");
    assert_eq!(
        (
            made["spec"]["replicas"].as_i64(),
            made["metadata"]["generation"].as_i64()
        ),
        (Some(1), Some(1))
    );
    let one = format!("{path}/d");
    let patch = |media: &'static str, body: serde_json::Value| {
        let one = one.clone();
        async move { call_as(c, Method::PATCH, &one, media, body.to_string()).await }
    };
    let (code, d) = patch(
        "application/json-patch+json",
        json!([{"op": "replace", "path": "/spec/replicas", "value": 3}]),
    )
    .await;
    assert_eq!(
        (
            code,
            d["spec"]["replicas"].as_i64(),
            d["metadata"]["generation"].as_i64()
        ),
        (200, Some(3), Some(2))
    );
    let (code, d) = patch(
        "application/merge-patch+json",
        json!({"metadata": {"labels": {"a": null, "c": "d"}}}),
    )
    .await;
    assert_eq!(
        (
            code,
            &d["metadata"]["labels"],
            d["metadata"]["generation"].as_i64()
        ),
        (200, &json!({"c": "d"}), Some(2))
    );
    let strategic =
        json!({"spec": {"template": {"spec": {"containers": [{"name": "two", "image": "y:1"}]}}}});
    let (code, d) = patch("application/strategic-merge-patch+json", strategic).await;
    assert_eq!(
        (
            code,
            d["spec"]["template"]["spec"]["containers"]
                .as_array()
                .unwrap()
                .len()
        ),
        (200, 2),
        "{d}"
    );
    let (code, _) = patch(
        "application/json-patch+json",
        json!([{"op": "remove", "path": "/spec/nope"}]),
    )
    .await;
    assert_eq!(code, 422);
    let (code, _) = patch("text/plain", json!({})).await;
    assert_eq!(code, 415);
    let (code, scaled) = call_as(
        c,
        Method::PATCH,
        &format!("{one}/scale"),
        "application/merge-patch+json",
        json!({"spec": {"replicas": 7}}).to_string(),
    )
    .await;
    assert_eq!(
        (
            code,
            scaled["spec"]["replicas"].as_i64(),
            scaled["status"]["selector"].as_str()
        ),
        (200, Some(7), Some("a=b")),
        "{scaled}"
    );
    let (_, d) = get(c, &one).await;
    assert_eq!(d["spec"]["replicas"], 7);
    // Status has its own door.
    let (code, d) = call_as(
        c,
        Method::PATCH,
        &format!("{one}/status"),
        "application/merge-patch+json",
        json!({"spec": {"replicas": 1}, "status": {"replicas": 2}}).to_string(),
    )
    .await;
    assert_eq!(
        (
            code,
            d["spec"]["replicas"].as_i64(),
            d["status"]["replicas"].as_i64()
        ),
        (200, Some(7), Some(2))
    );
    let (_, d) = patch("application/merge-patch+json", json!({"status": {"replicas": 9}})).await;
    assert_eq!(d["status"]["replicas"], 2);
}

#[tokio::test]
async fn lists_page_select_and_look_back() {
    let run = start().await;
    let c = &run.client;
    for i in 0..10 {
        let mut map = config_map(&format!("m{i}"), json!({}));
        map["metadata"]["labels"] = json!({"even": (i % 2 == 0).to_string()});
        assert_eq!(post(c, MAPS, map).await.0, 201);
    }
    let (_, all) = get(c, MAPS).await;
    let before = all["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    let own: Vec<_> = all["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|m| m["metadata"]["name"].as_str().unwrap().starts_with('m'))
        .collect();
    assert_eq!((all["kind"].as_str(), own.len()), (Some("ConfigMapList"), 10));
    let (_, even) = get(c, &format!("{MAPS}?labelSelector=even%3Dtrue")).await;
    assert_eq!(even["items"].as_array().unwrap().len(), 5);
    let (_, named) = get(c, &format!("{MAPS}?fieldSelector=metadata.name%3Dm3")).await;
    assert_eq!(named["items"].as_array().unwrap().len(), 1);
    assert_eq!(get(c, &format!("{MAPS}?fieldSelector=data.k%3D1")).await.0, 400);

    let selected = format!("{MAPS}?labelSelector=even");
    let (_, page) = get(c, &format!("{selected}&limit=4")).await;
    let mut names: Vec<String> = Vec::new();
    let mut page = page;
    // Deleted and added objects do not disturb the pages of one list.
    assert_eq!(delete(c, &format!("{MAPS}/m9")).await.0, 200);
    let mut late = config_map("m55", json!({}));
    late["metadata"]["labels"] = json!({"even": "x"});
    assert_eq!(post(c, MAPS, late).await.0, 201);
    loop {
        names.extend(
            page["items"]
                .as_array()
                .unwrap()
                .iter()
                .map(|m| m["metadata"]["name"].as_str().unwrap().to_owned()),
        );
        let Some(next) = page["metadata"]["continue"]
            .as_str()
            .filter(|t| !t.is_empty())
            .map(str::to_owned)
        else {
            break;
        };
        page = get(c, &format!("{selected}&limit=4&continue={next}")).await.1;
    }
    assert_eq!(names, (0..10).map(|i| format!("m{i}")).collect::<Vec<_>>());

    let (_, past) = get(
        c,
        &format!("{selected}&resourceVersion={before}&resourceVersionMatch=Exact"),
    )
    .await;
    assert_eq!(past["items"].as_array().unwrap().len(), 10);
    assert_eq!(past["metadata"]["resourceVersion"], before.as_str());
    let (code, future) = get(
        c,
        &format!("{MAPS}?resourceVersion=999999&resourceVersionMatch=NotOlderThan"),
    )
    .await;
    assert_eq!(
        (code, future["details"]["causes"][0]["reason"].as_str()),
        (504, Some("ResourceVersionTooLarge"))
    );
    assert_eq!(get(c, &format!("{MAPS}?continue=nonsense")).await.0, 400);
    let (code, _) = get(c, &format!("{MAPS}?resourceVersionMatch=Exact")).await;
    assert_eq!(code, 422);

    let (code, _) = delete(c, &format!("{MAPS}?labelSelector=even%3Dtrue")).await;
    assert_eq!(code, 200);
    let (_, left) = get(c, &selected).await;
    assert_eq!(left["items"].as_array().unwrap().len(), 5);
}

#[tokio::test]
async fn finalizers_hold_and_preconditions_protect() {
    let run = start().await;
    let c = &run.client;
    let mut map = config_map("held", json!({}));
    map["metadata"]["finalizers"] = json!(["example.com/hold"]);
    let (_, made) = post(c, MAPS, map).await;
    let one = format!("{MAPS}/held");
    let wrong = json!({"preconditions": {"uid": "other"}});
    assert_eq!(call(c, Method::DELETE, &one, wrong).await.0, 409);
    let (code, held) = delete(c, &one).await;
    assert_eq!((code, held["kind"].as_str()), (200, Some("ConfigMap")));
    assert!(held["metadata"]["deletionTimestamp"].is_string());
    // Nobody can bring it back or add a finalizer.
    let (code, refused) = call_as(
        c,
        Method::PATCH,
        &one,
        "application/merge-patch+json",
        json!({"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}}).to_string(),
    )
    .await;
    assert_eq!(code, 422, "{refused}");
    let (code, _) = call_as(
        c,
        Method::PATCH,
        &one,
        "application/merge-patch+json",
        json!({"metadata": {"finalizers": null}}).to_string(),
    )
    .await;
    assert_eq!(code, 200);
    assert_eq!(get(c, &one).await.0, 404);
    assert_ne!(made["metadata"]["uid"], "");
}

#[tokio::test]
async fn built_in_kinds_have_their_ways() {
    let run = start().await;
    let c = &run.client;
    // Secret: text becomes data.
    let secret = json!({"metadata": {"name": "s"}, "stringData": {"password": "top"}});
    let (code, secret) = post(c, "/api/v1/namespaces/default/secrets", secret).await;
    assert_eq!(
        (code, secret["data"]["password"].as_str(), secret["type"].as_str()),
        (201, Some("dG9w"), Some("Opaque"))
    );
    assert!(secret["stringData"].is_null());
    // Service: an address of its own.
    let services = "/api/v1/namespaces/default/services";
    let service = |name: &str| json!({"metadata": {"name": name}, "spec": {"ports": [{"port": 80}], "selector": {"a": "b"}}});
    let (code, one) = post(c, services, service("one")).await;
    assert_eq!(code, 201, "{one}");
    let (_, two) = post(c, services, service("two")).await;
    assert!(one["spec"]["clusterIP"].as_str().unwrap().starts_with("10.96."));
    assert_ne!(one["spec"]["clusterIP"], two["spec"]["clusterIP"]);
    assert_eq!(one["spec"]["ports"][0]["targetPort"], 80);
    let mut taken = service("three");
    taken["spec"]["clusterIP"] = one["spec"]["clusterIP"].clone();
    assert_eq!(post(c, services, taken).await.0, 422);
    let mut headless = service("four");
    headless["spec"]["clusterIP"] = json!("None");
    assert_eq!(post(c, services, headless).await.1["spec"]["clusterIP"], "None");
    let mut node_port = service("five");
    node_port["spec"]["type"] = json!("NodePort");
    let (_, node_port) = post(c, services, node_port).await;
    assert!((30000..=32767).contains(&node_port["spec"]["ports"][0]["nodePort"].as_i64().unwrap()));
    // Namespace: made with finalizers, refuses content that has no home.
    let (code, _) = post(c, "/api/v1/namespaces", json!({"metadata": {"name": "n"}})).await;
    assert_eq!(code, 201);
    let (code, missing) = post(
        c,
        "/api/v1/namespaces/none/configmaps",
        config_map("a", json!({})),
    )
    .await;
    assert_eq!(
        (code, missing["message"].as_str()),
        (404, Some("namespaces \"none\" not found"))
    );
    let (code, kept) = delete(c, "/api/v1/namespaces/default").await;
    assert_eq!((code, kept["reason"].as_str()), (403, Some("Forbidden")));
    // Events: one object, two forms.
    let event = json!({"metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"},
        "reason": "R", "message": "m", "type": "Normal", "source": {"component": "c"}});
    let (code, event) = post(c, "/api/v1/namespaces/default/events", event).await;
    assert_eq!(code, 201, "{event}");
    let (_, new) = get(c, "/apis/events.k8s.io/v1/namespaces/default/events/e").await;
    assert_eq!(
        (new["note"].as_str(), new["regarding"]["name"].as_str()),
        (Some("m"), Some("p")),
        "{new}"
    );
    let (_, found) = get(c, "/api/v1/events?fieldSelector=involvedObject.name%3Dp").await;
    assert_eq!(found["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn pods_are_bound_once_and_go_gracefully() {
    let run = start().await;
    let c = &run.client;
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let (_, _) = post(c, accounts, json!({"metadata": {"name": "default"}})).await;
    let pods = "/api/v1/namespaces/default/pods";
    let pod = json!({"metadata": {"name": "p", "labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "x:1"}]}});
    let (code, pod) = post(c, pods, pod).await;
    assert_eq!(code, 201, "{pod}");
    assert_eq!(
        pod["status"],
        json!({"phase": "Pending", "qosClass": "BestEffort"})
    );
    assert_eq!(pod["spec"]["serviceAccountName"], "default");
    assert_eq!(
        pod["spec"]["containers"][0]["volumeMounts"][0]["mountPath"],
        "/var/run/secrets/kubernetes.io/serviceaccount"
    );
    let binding = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n1"}});
    let (code, bound) = post(c, &format!("{pods}/p/binding"), binding.clone()).await;
    assert_eq!(code, 201, "{bound}");
    assert_eq!(post(c, &format!("{pods}/p/binding"), binding).await.0, 409);
    let (_, on_node) = get(c, "/api/v1/pods?fieldSelector=spec.nodeName%3Dn1").await;
    assert_eq!(on_node["items"].as_array().unwrap().len(), 1);
    let (code, refused) = call_as(
        c,
        Method::PATCH,
        &format!("{pods}/p"),
        "application/merge-patch+json",
        json!({"spec": {"nodeName": "n2"}}).to_string(),
    )
    .await;
    assert_eq!(code, 422, "{refused}");
    // Logs without a node that serves them.
    let (code, none) = get(c, &format!("{pods}/p/log")).await;
    assert_eq!((code, none["reason"].as_str()), (503, Some("ServiceUnavailable")));
    let (_, dying) = delete(c, &format!("{pods}/p")).await;
    assert_eq!(dying["metadata"]["deletionGracePeriodSeconds"], 30);
    let (code, gone) = call(
        c,
        Method::DELETE,
        &format!("{pods}/p"),
        json!({"gracePeriodSeconds": 0}),
    )
    .await;
    assert_eq!((code, gone["status"].as_str()), (200, Some("Success")), "{gone}");
    assert_eq!(get(c, &format!("{pods}/p")).await.0, 404);
}

#[tokio::test]
async fn evictions_respect_budgets() {
    let run = start().await;
    let c = &run.client;
    let (_, _) = post(
        c,
        "/api/v1/namespaces/default/serviceaccounts",
        json!({"metadata": {"name": "default"}}),
    )
    .await;
    let pods = "/api/v1/namespaces/default/pods";
    for name in ["a", "b"] {
        let pod = json!({"metadata": {"name": name, "labels": {"app": "x"}}, "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "x:1"}]}});
        assert_eq!(post(c, pods, pod).await.0, 201);
        let (code, _) = call_as(
            c,
            Method::PATCH,
            &format!("{pods}/{name}/status"),
            "application/merge-patch+json",
            json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}})
                .to_string(),
        )
        .await;
        assert_eq!(code, 200);
    }
    let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    let budget = json!({"metadata": {"name": "pdb"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}}});
    assert_eq!(post(c, budgets, budget).await.0, 201);
    let status = json!({"status": {"disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2, "observedGeneration": 1}});
    let (code, _) = call_as(
        c,
        Method::PATCH,
        &format!("{budgets}/pdb/status"),
        "application/merge-patch+json",
        status.to_string(),
    )
    .await;
    assert_eq!(code, 200);
    let evict = |name: &'static str| async move {
        let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}});
        post(c, &format!("{pods}/{name}/eviction"), eviction).await
    };
    let (code, first) = evict("a").await;
    assert_eq!(code, 201, "{first}");
    let (code, second) = evict("b").await;
    assert_eq!(
        (code, second["details"]["causes"][0]["reason"].as_str()),
        (429, Some("DisruptionBudget")),
        "{second}"
    );
}
