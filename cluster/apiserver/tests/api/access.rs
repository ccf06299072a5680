//! Who may do what, as clients see it.

use serde_json::{Value, json};

use crate::support::*;

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const REVIEWS: &str = "/apis/authorization.k8s.io/v1";

fn role(name: &str, rules: Value) -> Value {
    json!({"metadata": {"name": name}, "rules": rules})
}

fn binding(name: &str, role: (&str, &str), user: &str) -> Value {
    json!({"metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role.0, "name": role.1},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}]})
}

async fn made(answer: (u16, Value)) -> Value {
    assert_eq!(answer.0, 201, "{}", answer.1);
    answer.1
}

#[tokio::test]
async fn a_grant_holds_from_the_next_request_on_and_ends_with_its_binding() {
    let run = start().await;
    let rita = run.server.client_as("default", "rita", &[]);
    let (code, refused) = get(&rita, MAPS).await;
    assert_eq!(code, 403);
    assert_eq!(
        refused["message"],
        "configmaps is forbidden: User \"rita\" cannot list resource \"configmaps\" in API group \"\" in the namespace \"default\""
    );
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}]);
    made(
        post(
            &run.client,
            &format!("{RBAC}/namespaces/default/roles"),
            role("reader", rules),
        )
        .await,
    )
    .await;
    let bindings = format!("{RBAC}/namespaces/default/rolebindings");
    made(
        post(
            &run.client,
            &bindings,
            binding("rita", ("Role", "reader"), "rita"),
        )
        .await,
    )
    .await;
    assert_eq!(get(&rita, MAPS).await.0, 200);
    assert_eq!(
        get(&rita, "/api/v1/namespaces/kube-system/configmaps").await.0,
        403
    );
    assert_eq!(get(&rita, "/api/v1/configmaps").await.0, 403);
    assert_eq!(post(&rita, MAPS, config_map("a", json!({}))).await.0, 403);
    assert_eq!(delete(&run.client, &format!("{bindings}/rita")).await.0, 200);
    assert_eq!(get(&rita, MAPS).await.0, 403);
    // Discovery and health are for everyone who is known.
    for path in ["/api", "/apis", "/openapi/v3", "/version", "/healthz"] {
        assert_eq!(get(&rita, path).await.0, 200, "{path}");
    }
    assert_eq!(get(&rita, "/metrics").await.0, 403);
}

#[tokio::test]
async fn nobody_grants_more_than_they_have() {
    let run = start().await;
    let c = &run.client;
    let write = json!([{"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["*"], "verbs": ["create", "update", "patch"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]);
    made(post(c, &format!("{RBAC}/clusterroles"), role("keeper", write)).await).await;
    made(
        post(
            c,
            &format!("{RBAC}/clusterrolebindings"),
            binding("keeper", ("ClusterRole", "keeper"), "karl"),
        )
        .await,
    )
    .await;
    let karl = run.server.client_as("default", "karl", &[]);
    let roles = format!("{RBAC}/namespaces/default/roles");
    let pods = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]);
    made(post(&karl, &roles, role("pods", pods)).await).await;
    let secrets = json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]);
    let (code, refused) = post(&karl, &roles, role("secrets", secrets.clone())).await;
    assert_eq!(code, 403);
    assert!(
        refused["message"]
            .as_str()
            .unwrap()
            .contains("attempting to grant RBAC permissions not currently held"),
        "{refused}"
    );
    let (code, _) = call_as(
        &karl,
        http::Method::PATCH,
        &format!("{roles}/pods"),
        "application/merge-patch+json",
        json!({"rules": secrets}).to_string(),
    )
    .await;
    assert_eq!(code, 403, "a patch grants nothing either");
    let bindings = format!("{RBAC}/namespaces/default/rolebindings");
    let (code, _) = post(
        &karl,
        &bindings,
        binding("top", ("ClusterRole", "cluster-admin"), "karl"),
    )
    .await;
    assert_eq!(code, 403);
    made(post(&karl, &bindings, binding("pods", ("Role", "pods"), "paul")).await).await;
}

#[tokio::test]
async fn reviews_answer_what_requests_would_get() {
    let run = start().await;
    let c = &run.client;
    made(
        post(
            c,
            &format!("{RBAC}/clusterrolebindings"),
            binding("v", ("ClusterRole", "view"), "vera"),
        )
        .await,
    )
    .await;
    let vera = run.server.client_as("default", "vera", &["team"]);
    let ask =
        |verb: &str, resource: &str| json!({"namespace": "default", "verb": verb, "resource": resource});
    let own = |attributes: Value| {
        let vera = vera.clone();
        async move {
            let review = json!({"spec": {"resourceAttributes": attributes}});
            let (code, answer) = post(&vera, &format!("{REVIEWS}/selfsubjectaccessreviews"), review).await;
            assert_eq!(code, 201, "{answer}");
            answer["status"]["allowed"] == true
        }
    };
    assert!(own(ask("list", "configmaps")).await);
    assert!(!own(ask("list", "secrets")).await);
    let review = json!({"spec": {"user": "vera", "resourceAttributes": ask("list", "configmaps")}});
    let (code, answer) = post(c, &format!("{REVIEWS}/subjectaccessreviews"), review.clone()).await;
    assert_eq!((code, &answer["status"]["allowed"]), (201, &json!(true)));
    assert_eq!(
        answer["status"]["reason"],
        "RBAC: allowed by ClusterRoleBinding \"v\" of ClusterRole \"view\" to User \"vera\""
    );
    assert_eq!(
        post(&vera, &format!("{REVIEWS}/subjectaccessreviews"), review.clone())
            .await
            .0,
        403
    );
    let local = format!("{REVIEWS}/namespaces/default/localsubjectaccessreviews");
    assert_eq!(post(c, &local, review).await.1["status"]["allowed"], true);
    let (code, _) = post(
        c,
        &local,
        json!({"spec": {"user": "x", "resourceAttributes": {"namespace": "other"}}}),
    )
    .await;
    assert_eq!(code, 422);
    let (code, _) = post(
        c,
        &format!("{REVIEWS}/subjectaccessreviews"),
        json!({"spec": {"user": "x"}}),
    )
    .await;
    assert_eq!(code, 422, "nothing was asked");
    let rules = json!({"spec": {"namespace": "default"}});
    let (_, answer) = post(&vera, &format!("{REVIEWS}/selfsubjectrulesreviews"), rules).await;
    let listed = answer["status"]["resourceRules"].as_array().unwrap();
    assert!(listed.iter().any(|rule| {
        rule["resources"]
            .as_array()
            .unwrap()
            .contains(&json!("configmaps"))
    }));
    let (_, answer) = post(
        &vera,
        "/apis/authentication.k8s.io/v1/selfsubjectreviews",
        json!({}),
    )
    .await;
    assert_eq!(answer["status"]["userInfo"]["username"], "vera");
    assert_eq!(
        answer["status"]["userInfo"]["groups"],
        json!(["team", "system:authenticated"])
    );
}

#[tokio::test]
async fn tokens_are_requested_and_reviewed() {
    let run = start().await;
    let c = &run.client;
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    made(post(c, accounts, json!({"metadata": {"name": "bot"}})).await).await;
    let request = json!({"spec": {"audiences": ["vault"], "expirationSeconds": 900}});
    let (code, answer) = post(c, &format!("{accounts}/bot/token"), request).await;
    assert_eq!(code, 201, "{answer}");
    let token = answer["status"]["token"].as_str().unwrap().to_owned();
    let review = |spec: Value| async move {
        let (code, answer) = post(
            c,
            "/apis/authentication.k8s.io/v1/tokenreviews",
            json!({"spec": spec}),
        )
        .await;
        assert_eq!(code, 201, "{answer}");
        answer["status"].clone()
    };
    let fine = review(json!({"token": token, "audiences": ["vault", "other"]})).await;
    assert_eq!(fine["authenticated"], true);
    assert_eq!(fine["audiences"], json!(["vault"]));
    assert_eq!(fine["user"]["username"], "system:serviceaccount:default:bot");
    let wrong = review(json!({"token": token})).await;
    assert_ne!(wrong["authenticated"], true);
    assert_ne!(review(json!({"token": "nonsense"})).await["authenticated"], true);
    assert_eq!(delete(c, &format!("{accounts}/bot")).await.0, 200);
    assert_ne!(
        review(json!({"token": token, "audiences": ["vault"]})).await["authenticated"],
        true
    );
    assert_eq!(
        post(c, &format!("{accounts}/none/token"), json!({"spec": {}}))
            .await
            .0,
        404
    );
}

#[tokio::test]
async fn roles_of_one_cluster_are_nothing_in_another() {
    let run = start_with(|config| apiserver::Config {
        clusters: vec!["default".into(), "other".into()],
        ..config
    })
    .await;
    let everything = binding("all", ("ClusterRole", "cluster-admin"), "olga");
    made(post(&run.client, &format!("{RBAC}/clusterrolebindings"), everything).await).await;
    assert_eq!(
        get(&run.server.client_as("default", "olga", &[]), "/api/v1/secrets")
            .await
            .0,
        200
    );
    assert_eq!(
        get(&run.server.client_as("other", "olga", &[]), "/api/v1/secrets")
            .await
            .0,
        403
    );
}

#[tokio::test]
async fn an_apply_that_creates_needs_leave_to_create() {
    let run = start().await;
    let c = &run.client;
    assert_eq!(post(c, MAPS, config_map("there", json!({}))).await.0, 201);
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps", "serviceaccounts"], "verbs": ["get", "patch", "update"]}]);
    made(
        post(
            c,
            &format!("{RBAC}/namespaces/default/roles"),
            role("patcher", rules),
        )
        .await,
    )
    .await;
    let bindings = format!("{RBAC}/namespaces/default/rolebindings");
    made(post(c, &bindings, binding("pat", ("Role", "patcher"), "pat")).await).await;
    let pat = run.server.client_as("default", "pat", &[]);
    let map = |name: &str| {
        let mut map = config_map(name, json!({"a": "b"}));
        map["apiVersion"] = "v1".into();
        map["kind"] = "ConfigMap".into();
        map
    };
    let (code, refused) = apply(&pat, &format!("{MAPS}/new"), "m", map("new")).await;
    assert_eq!(code, 403, "{refused}");
    assert_eq!(
        refused["message"],
        "configmaps \"new\" is forbidden: User \"pat\" cannot create resource \"configmaps\" in API group \"\" in the namespace \"default\""
    );
    assert_eq!(get(c, &format!("{MAPS}/new")).await.0, 404);
    assert_eq!(
        apply(&pat, &format!("{MAPS}/there"), "m", map("there")).await.0,
        200
    );
    // No update creates.
    assert_eq!(put(&pat, &format!("{MAPS}/new"), map("new")).await.0, 404);
}

#[tokio::test]
async fn headers_that_ask_to_be_another_are_heeded_inside_the_process_too() {
    let run = start().await;
    let ask = |client: kube::Client| async move {
        let request = http::Request::get(MAPS)
            .header("impersonate-user", "nobody")
            .body(kube::client::Body::empty());
        client.send(request.unwrap()).await.unwrap().status().as_u16()
    };
    assert_eq!(ask(run.client.clone()).await, 403);
    assert_eq!(ask(run.server.client_as("default", "rita", &[])).await, 403);
}

#[tokio::test]
async fn a_bound_claim_keeps_its_volume() {
    let run = start().await;
    let c = &run.client;
    let claims = "/api/v1/namespaces/default/persistentvolumeclaims";
    let claim = json!({"metadata": {"name": "c"}, "spec": {"accessModes": ["ReadWriteOnce"], "volumeName": "own",
        "resources": {"requests": {"storage": "1Gi"}}}});
    made(post(c, claims, claim).await).await;
    let path = format!("{claims}/c");
    let patch = |path: String, body: Value| async move {
        call_as(
            c,
            http::Method::PATCH,
            &path,
            "application/merge-patch+json",
            body.to_string(),
        )
        .await
    };
    let bound = json!({"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}});
    assert_eq!(patch(format!("{path}/status"), bound).await.0, 200);
    let (code, refused) = patch(path.clone(), json!({"spec": {"volumeName": "another"}})).await;
    assert_eq!(code, 422, "{refused}");
    assert!(
        refused["message"]
            .as_str()
            .unwrap()
            .contains("spec is immutable after creation"),
        "{refused}"
    );
    let applied = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"},
        "spec": {"volumeName": "another"}});
    assert_eq!(apply(c, &format!("{path}?force=true"), "m", applied).await.0, 422);
    let (code, grown) = patch(
        path.clone(),
        json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}}}),
    )
    .await;
    assert_eq!(code, 200, "{grown}");
    assert_eq!(grown["spec"]["volumeName"], "own");
}

#[tokio::test]
async fn names_of_files_stay_in_their_volume() {
    let run = start().await;
    let c = &run.client;
    for key in ["../../../tmp/x", "/tmp/x"] {
        for (field, value) in [("data", "x"), ("binaryData", "eA==")] {
            let (code, refused) =
                post(c, MAPS, json!({"metadata": {"name": "m"}, field: {key: value}})).await;
            assert_eq!(code, 422, "{key}");
            let expected = format!(
                "{field}[{key}]: Invalid value: {key:?}: a valid config key must consist of alphanumeric characters"
            );
            assert!(
                refused["message"].as_str().unwrap().contains(&expected),
                "{refused}"
            );
        }
        for field in ["data", "stringData"] {
            let secret = json!({"metadata": {"name": "s"}, field: {key: "eA=="}});
            assert_eq!(
                post(c, "/api/v1/namespaces/default/secrets", secret).await.0,
                422,
                "{key}"
            );
        }
    }
    assert_eq!(post(c, MAPS, config_map("m", json!({"a": "b"}))).await.0, 201);
    let patch = json!({"data": {"../x": "y"}}).to_string();
    let path = format!("{MAPS}/m");
    assert_eq!(
        call_as(
            c,
            http::Method::PATCH,
            &path,
            "application/merge-patch+json",
            patch
        )
        .await
        .0,
        422
    );
    let volumes =
        json!([{"name": "v", "configMap": {"name": "m", "items": [{"key": "a", "path": "../../a"}]}}]);
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"restartPolicy": "Never", "volumes": volumes,
        "containers": [{"name": "c", "image": "i", "volumeMounts": [{"name": "v", "mountPath": "/v", "subPath": "../.."}]}]}});
    let pod = json!({"metadata": {"name": "p"}, "spec": template["spec"]});
    let cron = json!({"metadata": {"name": "p"}, "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": template}}}});
    for (path, object) in [
        ("/api/v1/namespaces/default/pods", pod),
        (
            "/apis/batch/v1/namespaces/default/jobs",
            json!({"metadata": {"name": "p"}, "spec": {"template": template}}),
        ),
        ("/apis/batch/v1/namespaces/default/cronjobs", cron),
        (
            "/api/v1/namespaces/default/podtemplates",
            json!({"metadata": {"name": "p"}, "template": template}),
        ),
    ] {
        let (code, refused) = post(c, path, object).await;
        assert_eq!(code, 422, "{path}: {refused}");
        let message = refused["message"].as_str().unwrap();
        for field in ["volumes[0].configMap.items[0].path", "volumeMounts[0].subPath"] {
            assert!(message.contains(field), "{message}");
        }
    }
}
