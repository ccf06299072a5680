use http::Method;
use serde_json::json;

use crate::support::*;

#[tokio::test]
async fn a_crd_is_served_at_once_and_goes_with_its_objects() {
    let run = start().await;
    let c = &run.client;
    assert_eq!(get(c, EXAMPLES).await.0, 404);
    let (code, crd) = post(c, CRDS, example_crd()).await;
    assert_eq!(code, 201, "{crd}");
    let conditions = crd["status"]["conditions"].as_array().unwrap();
    assert!(
        conditions
            .iter()
            .any(|c| c["type"] == "Established" && c["status"] == "True")
    );
    assert_eq!(crd["status"]["acceptedNames"]["singular"], "example");
    assert_eq!(crd["status"]["storedVersions"], json!(["v1"]));

    let (code, made) = post(c, EXAMPLES, example("one", json!({"size": 1, "nope": true}))).await;
    assert_eq!(code, 201, "{made}");
    assert_eq!(made["spec"], json!({"size": 1, "color": "blue"}));
    assert_eq!(made["metadata"]["generation"], 1);
    let (code, bad) = post(c, EXAMPLES, example("two", json!({"size": -1, "color": "green"}))).await;
    assert_eq!(code, 422);
    let fields: Vec<_> = bad["details"]["causes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["field"].as_str().unwrap())
        .collect();
    assert!(
        fields.contains(&"spec.color") && fields.contains(&"spec.size"),
        "{bad}"
    );
    let (code, bad) = put(c, &format!("{EXAMPLES}/one"), example("one", json!({"size": 2}))).await;
    assert_eq!(code, 422, "{bad}");
    assert!(
        bad["message"]
            .as_str()
            .unwrap()
            .contains("metadata.resourceVersion: Invalid value: 0: must be specified for an update")
    );

    // Status by its own door, generation by spec alone.
    let (code, s) = call_as(
        c,
        Method::PATCH,
        &format!("{EXAMPLES}/one/status"),
        "application/merge-patch+json",
        json!({"status": {"ready": true, "replicas": 2}, "spec": {"size": 9}}).to_string(),
    )
    .await;
    assert_eq!(
        (
            code,
            &s["spec"]["size"],
            &s["status"]["ready"],
            &s["metadata"]["generation"]
        ),
        (200, &json!(1), &json!(true), &json!(1))
    );
    let (code, s) = call_as(
        c,
        Method::PATCH,
        &format!("{EXAMPLES}/one"),
        "application/merge-patch+json",
        json!({"status": {"ready": false}, "spec": {"size": 3, "replicas": 1}}).to_string(),
    )
    .await;
    assert_eq!(
        (code, &s["status"]["ready"], &s["metadata"]["generation"]),
        (200, &json!(true), &json!(2))
    );
    let (code, scale) = get(c, &format!("{EXAMPLES}/one/scale")).await;
    assert_eq!(
        (code, &scale["spec"]["replicas"], &scale["status"]["replicas"]),
        (200, &json!(1), &json!(2)),
        "{scale}"
    );
    let (code, scale) = put(
        c,
        &format!("{EXAMPLES}/one/scale"),
        json!({"apiVersion": "autoscaling/v1", "kind": "Scale",
        "metadata": {"name": "one", "namespace": "default"}, "spec": {"replicas": 5}}),
    )
    .await;
    assert_eq!((code, &scale["spec"]["replicas"]), (200, &json!(5)), "{scale}");
    let (_, red) = get(c, &format!("{EXAMPLES}?fieldSelector=spec.color%3Dred")).await;
    assert_eq!(red["items"], json!([]));
    // A strategic patch has nothing to go by.
    let (code, _) = call_as(
        c,
        Method::PATCH,
        &format!("{EXAMPLES}/one"),
        "application/strategic-merge-patch+json",
        "{}".into(),
    )
    .await;
    assert_eq!(code, 415);

    let mut held = example("held", json!({"size": 1}));
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    assert_eq!(post(c, EXAMPLES, held).await.0, 201);
    assert_eq!(delete(c, &format!("{CRDS}/examples.example.com")).await.0, 200);
    eventually("objects without finalizers go", || async {
        get(c, &format!("{EXAMPLES}/one")).await.0 == 404
    })
    .await;
    let (code, refused) = post(c, EXAMPLES, example("late", json!({"size": 1}))).await;
    assert_eq!(code, 405, "{refused}");
    let (_, crd) = get(c, &format!("{CRDS}/examples.example.com")).await;
    assert!(
        crd["status"]["conditions"]
            .as_array()
            .unwrap()
            .iter()
            .any(|c| c["type"] == "Terminating"),
        "{crd}"
    );
    let (code, _) = call_as(
        c,
        Method::PATCH,
        &format!("{EXAMPLES}/held"),
        "application/merge-patch+json",
        json!({"metadata": {"finalizers": null}}).to_string(),
    )
    .await;
    assert_eq!(code, 200);
    eventually("the CRD goes", || async {
        get(c, &format!("{CRDS}/examples.example.com")).await.0 == 404
    })
    .await;
    eventually("its kind is served no more", || async {
        get(c, EXAMPLES).await.0 == 404
    })
    .await;
}

#[tokio::test]
async fn names_belong_to_the_first() {
    let run = start().await;
    let c = &run.client;
    post(c, CRDS, example_crd()).await;
    let mut other = example_crd();
    other["metadata"]["name"] = json!("samples.example.com");
    other["spec"]["names"] = json!({"plural": "samples", "kind": "Example", "listKind": "SampleList"});
    let (code, other) = post(c, CRDS, other).await;
    assert_eq!(code, 201);
    let accepted = other["status"]["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .find(|c| c["type"] == "NamesAccepted")
        .unwrap()
        .clone();
    assert_eq!(
        (accepted["status"].as_str(), accepted["reason"].as_str()),
        (Some("False"), Some("KindConflict")),
        "{accepted}"
    );
    assert_eq!(
        get(c, "/apis/example.com/v1/namespaces/default/samples").await.0,
        404
    );
    delete(c, &format!("{CRDS}/examples.example.com")).await;
    eventually("the name is free", || async {
        get(c, "/apis/example.com/v1/namespaces/default/samples").await.0 == 200
    })
    .await;
}

#[tokio::test]
async fn versions_and_schemas_change() {
    let run = start().await;
    let c = &run.client;
    let (_, mut crd) = post(c, CRDS, example_crd()).await;
    post(c, EXAMPLES, example("one", json!({"size": 1}))).await;
    // A second version, a new default; v2 is stored from now on.
    let mut v2 = crd["spec"]["versions"][0].clone();
    v2["name"] = json!("v2");
    for version in [&mut crd["spec"]["versions"][0], &mut v2] {
        version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["mood"] =
            json!({"type": "string", "default": "good"});
    }
    crd["spec"]["versions"][0]["storage"] = json!(false);
    crd["spec"]["versions"].as_array_mut().unwrap().push(v2);
    let (code, crd) = put(c, &format!("{CRDS}/examples.example.com"), crd).await;
    assert_eq!(code, 200, "{crd}");
    assert_eq!(crd["status"]["storedVersions"], json!(["v1", "v2"]));
    for version in ["v1", "v2"] {
        let (code, one) = get(
            c,
            &format!("/apis/example.com/{version}/namespaces/default/examples/one"),
        )
        .await;
        assert_eq!(
            (code, one["apiVersion"].as_str()),
            (200, Some(format!("example.com/{version}").as_str()))
        );
        assert_eq!(one["spec"]["mood"], "good", "stored objects show new defaults");
        let (_, list) = get(c, &format!("/apis/example.com/{version}/examples")).await;
        assert_eq!(list["items"][0]["apiVersion"], format!("example.com/{version}"));
    }
    // Not served any more.
    let mut crd = crd;
    crd["spec"]["versions"][0]["served"] = json!(false);
    assert_eq!(put(c, &format!("{CRDS}/examples.example.com"), crd).await.0, 200);
    assert_eq!(get(c, EXAMPLES).await.0, 404);
    // After a restart the same is served.
    let directory = run.directory;
    run.server.shutdown().await;
    let config = apiserver::Config {
        state_dir: directory.path().into(),
        ..Default::default()
    };
    let server = apiserver::Server::start(config).await.unwrap();
    let (code, one) = get(
        &server.client("default"),
        "/apis/example.com/v2/namespaces/default/examples/one",
    )
    .await;
    assert_eq!((code, one["spec"]["mood"].as_str()), (200, Some("good")));
}

#[tokio::test]
async fn bad_definitions_are_refused() {
    let run = start().await;
    let c = &run.client;
    let change = |f: &dyn Fn(&mut serde_json::Value)| {
        let mut crd = example_crd();
        f(&mut crd);
        crd
    };
    for (bad, field) in [
        (
            change(&|crd| crd["metadata"]["name"] = json!("wrong.example.com")),
            "metadata.name",
        ),
        (
            change(&|crd| crd["spec"]["scope"] = json!("Everywhere")),
            "spec.scope",
        ),
        (
            change(&|crd| crd["spec"]["versions"][0]["storage"] = json!(false)),
            "spec.versions",
        ),
    ] {
        let (code, status) = post(c, CRDS, bad).await;
        assert_eq!(code, 422);
        let causes = status["details"]["causes"].as_array().unwrap();
        assert!(causes.iter().any(|c| c["field"] == field), "{field}: {status}");
    }
}

#[tokio::test]
async fn objects_of_a_crd_go_by_a_role_and_not_by_might() {
    const BINDING: &str =
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/system:controller:custom-resource-cleaner";
    let run = start().await;
    let c = &run.client;
    assert_eq!(post(c, CRDS, example_crd()).await.0, 201);
    assert_eq!(post(c, EXAMPLES, example("one", json!({"size": 1}))).await.0, 201);
    let (code, mut binding) = get(c, BINDING).await;
    assert_eq!(code, 200, "{binding}");
    assert_eq!(delete(c, BINDING).await.0, 200);
    let crd = format!("{CRDS}/{}", example_crd()["metadata"]["name"].as_str().unwrap());
    assert_eq!(delete(c, &crd).await.0, 200);
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    assert_eq!(
        get(c, &format!("{EXAMPLES}/one")).await.0,
        200,
        "nobody may delete it"
    );

    let fields = binding["metadata"].as_object_mut().unwrap();
    fields.retain(|key, _| key == "name");
    let (code, made) = post(c, BINDING.rsplit_once('/').unwrap().0, binding).await;
    assert_eq!(code, 201, "{made}");
    for _ in 0..100 {
        if get(c, &crd).await.0 == 404 {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    panic!("the CRD stays");
}
