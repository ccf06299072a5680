use serde_json::json;

use crate::support::*;

#[tokio::test]
async fn apply_creates_merges_conflicts_and_forces() {
    let run = start().await;
    let c = &run.client;
    let one = format!("{MAPS}/one");
    let map = |data: serde_json::Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}, "data": data});
    let (code, made) = apply(c, &one, "alice", map(json!({"a": "1", "b": "1"}))).await;
    assert_eq!(code, 201, "{made}");
    let (code, same) = apply(c, &one, "alice", map(json!({"a": "1", "b": "1"}))).await;
    assert_eq!(
        (code, &same["metadata"]["resourceVersion"]),
        (200, &made["metadata"]["resourceVersion"]),
        "nothing changed, nothing written"
    );
    let (code, conflict) = apply(c, &one, "bob", map(json!({"a": "2"}))).await;
    assert_eq!((code, conflict["reason"].as_str()), (409, Some("Conflict")));
    assert_eq!(
        conflict["details"]["causes"][0],
        json!({"reason": "FieldManagerConflict", "message": "conflict with \"alice\"", "field": ".data.a"})
    );
    let (code, forced) = apply(c, &format!("{one}?force=true"), "bob", map(json!({"a": "2"}))).await;
    assert_eq!((code, &forced["data"]), (200, &json!({"a": "2", "b": "1"})));
    // What its only owner drops goes; what another owns stays.
    let (code, dropped) = apply(c, &one, "alice", map(json!({}))).await;
    assert_eq!((code, &dropped["data"]), (200, &json!({"a": "2"})), "{dropped}");
    let (code, refused) = call_as(
        c,
        http::Method::PATCH,
        &one,
        "application/apply-patch+yaml",
        map(json!({})).to_string(),
    )
    .await;
    assert_eq!(
        (code, refused["details"]["causes"][0]["field"].as_str()),
        (422, Some("fieldManager"))
    );
    let yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: two\ndata:\n  x: z\n";
    let (code, two) = call_as(
        c,
        http::Method::PATCH,
        &format!("{MAPS}/two?fieldManager=m"),
        "application/apply-patch+yaml",
        yaml.into(),
    )
    .await;
    assert_eq!((code, &two["data"]), (201, &json!({"x": "z"})));
    let (code, dry) = apply(
        c,
        &format!("{MAPS}/three?dryRun=All"),
        "m",
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "three"}}),
    )
    .await;
    assert_eq!(
        (code, get(c, &format!("{MAPS}/three")).await.0),
        (201, 404),
        "{dry}"
    );
}

#[tokio::test]
async fn defaults_belong_to_nobody_after_an_apply() {
    let run = start().await;
    let c = &run.client;
    post(c, CRDS, example_crd()).await;
    let one = format!("{EXAMPLES}/one");
    let (code, made) = apply(c, &one, "alice", example("one", json!({"size": 1}))).await;
    assert_eq!((code, &made["spec"]["color"]), (201, &json!("blue")), "{made}");
    let (code, red) = apply(c, &one, "bob", example("one", json!({"color": "red", "size": 1}))).await;
    assert_eq!((code, &red["spec"]["color"]), (200, &json!("red")), "{red}");
    let (_, back) = apply(c, &one, "bob", example("one", json!({"size": 1}))).await;
    assert_eq!(back["spec"]["color"], "blue");
    // The status has owners of its own.
    let mut status = example("one", json!({"size": 5}));
    status["status"] = json!({"ready": true});
    let (code, ready) = apply(c, &format!("{one}/status"), "ctrl", status).await;
    assert_eq!(
        (code, &ready["spec"]["size"], &ready["status"]["ready"]),
        (200, &json!(1), &json!(true)),
        "{ready}"
    );
    assert!(
        ready["metadata"]["managedFields"]
            .as_array()
            .unwrap()
            .iter()
            .any(|e| e["manager"] == "ctrl" && e["subresource"] == "status")
    );
    let (code, same) = apply(c, &one, "alice", example("one", json!({"size": 1}))).await;
    assert_eq!((code, &same["status"]["ready"]), (200, &json!(true)));
}

#[tokio::test]
async fn apply_of_a_deployment_twice_is_once() {
    let run = start().await;
    let c = &run.client;
    let one = "/apis/apps/v1/namespaces/default/deployments/d";
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "x:1", "ports": [{"containerPort": 80}], "resources": {"limits": {"cpu": "100m"}}}]}}}});
    let (code, first) = apply(c, one, "m", deployment.clone()).await;
    assert_eq!(code, 201, "{first}");
    let (code, second) = apply(c, one, "m", deployment.clone()).await;
    assert_eq!(code, 200, "{second}");
    assert_eq!(
        first["metadata"]["resourceVersion"],
        second["metadata"]["resourceVersion"]
    );
    assert_eq!(first["metadata"]["generation"], 1);
}

#[tokio::test]
async fn replicas_have_owners_through_scale_too() {
    let run = start().await;
    let c = &run.client;
    post(c, CRDS, example_crd()).await;
    let one = format!("{EXAMPLES}/one");
    apply(
        c,
        &one,
        "alice",
        example("one", json!({"size": 1, "replicas": 1})),
    )
    .await;
    let scale = |n: i64| json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "one"}, "spec": {"replicas": n}});
    let (code, conflict) = apply(c, &format!("{one}/scale"), "hpa", scale(3)).await;
    assert_eq!(
        (code, conflict["reason"].as_str()),
        (409, Some("Conflict")),
        "{conflict}"
    );
    let (code, scaled) = apply(c, &format!("{one}/scale?force=true"), "hpa", scale(3)).await;
    assert_eq!((code, &scaled["spec"]["replicas"]), (200, &json!(3)), "{scaled}");
    // Alice no longer owns what she was overruled in; the rest is still hers.
    let (code, conflict) = apply(
        c,
        &one,
        "alice",
        example("one", json!({"size": 1, "replicas": 1})),
    )
    .await;
    assert_eq!(
        (code, conflict["details"]["causes"][0]["field"].as_str()),
        (409, Some(".spec.replicas")),
        "{conflict}"
    );
    let (code, same) = apply(c, &one, "alice", example("one", json!({"size": 2}))).await;
    assert_eq!((code, &same["spec"]["replicas"]), (200, &json!(3)), "{same}");
}
