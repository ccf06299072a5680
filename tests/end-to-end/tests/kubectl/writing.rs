//! What changes objects.

use crate::{GARDEN, WEB, contains, start, with_gardens};

#[tokio::test(flavor = "multi_thread")]
async fn apply_and_diff() -> anyhow::Result<()> {
    let (embedded, kubectl) = with_gardens().await?;
    let apply = ["apply", "-f", "-"];
    contains(
        &kubectl.run_with(&apply, WEB).await?,
        &["deployment.apps/web created", "configmap/conf created"],
    );
    contains(
        &kubectl.run_with(&apply, WEB).await?,
        &["deployment.apps/web unchanged", "service/web unchanged"],
    );
    let same = kubectl.try_run(&["diff", "-f", "-"], WEB).await?;
    assert_eq!((same.code, same.out.as_str()), (0, ""));

    let changed = WEB
        .replace("replicas: 2", "replicas: 4")
        .replace("a: \"1\"", "b: \"2\"");
    let diff = kubectl.try_run(&["diff", "-f", "-"], &changed).await?;
    assert_eq!(diff.code, 1, "{}", diff.err);
    contains(
        &diff.out,
        &["-  replicas: 2", "+  replicas: 4", "-  a: \"1\"", "+  b: \"2\""],
    );
    contains(
        &kubectl.run_with(&apply, &changed).await?,
        &["deployment.apps/web configured", "service/web unchanged"],
    );
    assert_eq!(
        kubectl
            .run(&["get", "cm", "conf", "-o", "jsonpath={.data}"])
            .await?,
        r#"{"b":"2"}"#
    );

    let list = r#"{"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "listed"}, "data": {"x": "y"}}]}"#;
    contains(
        &kubectl.run_with(&apply, list).await?,
        &["configmap/listed created"],
    );

    let server_side = ["apply", "--server-side", "--field-manager=one", "-f", "-"];
    contains(
        &kubectl.run_with(&server_side, GARDEN).await?,
        &["garden.example.com/g serverside-applied"],
    );
    let tulip = GARDEN.replace("rose", "tulip");
    let other = ["apply", "--server-side", "--field-manager=two", "-f", "-"];
    let conflict = kubectl.try_run(&other, &tulip).await?;
    assert_ne!(conflict.code, 0);
    contains(&conflict.err, &["conflict with \"one\"", ".spec.flower"]);
    kubectl
        .run_with(&[&other[..], &["--force-conflicts"]].concat(), &tulip)
        .await?;
    assert_eq!(
        kubectl
            .run(&["get", "gd", "g", "-o", "jsonpath={.spec.flower}"])
            .await?,
        "tulip"
    );

    let dry = kubectl
        .run_with(
            &["apply", "--dry-run=server", "-f", "-"],
            &WEB.replace("name: conf", "name: dry"),
        )
        .await?;
    contains(&dry, &["configmap/dry created (server dry run)"]);
    contains(
        &kubectl.fails(&["get", "cm", "dry"]).await?,
        &["configmaps \"dry\" not found"],
    );
    embedded.server.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn mistakes_are_told() -> anyhow::Result<()> {
    let (embedded, kubectl) = with_gardens().await?;
    let unknown = kubectl
        .try_run(
            &["apply", "-f", "-"],
            &GARDEN.replace("rose}", "rose, color: red}"),
        )
        .await?;
    contains(
        &unknown.err,
        &["strict decoding error: unknown field \"spec.color\""],
    );
    let weed = kubectl
        .try_run(&["apply", "-f", "-"], &GARDEN.replace("rose", "weed"))
        .await?;
    contains(
        &weed.err,
        &["spec.flower: Unsupported value: \"weed\": supported values: \"rose\", \"tulip\""],
    );
    let misspelt = kubectl
        .try_run(&["apply", "-f", "-"], &WEB.replace("replicas:", "replica:"))
        .await?;
    contains(&misspelt.err, &["unknown field \"spec.replica\""]);
    contains(
        &kubectl.fails(&["get", "nothings"]).await?,
        &["the server doesn't have a resource type \"nothings\""],
    );
    embedded.server.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn patch_label_annotate_scale_wait() -> anyhow::Result<()> {
    let (embedded, kubectl) = with_gardens().await?;
    kubectl.run_with(&["apply", "-f", "-"], WEB).await?;
    kubectl.run_with(&["apply", "-f", "-"], GARDEN).await?;
    let image = r#"{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"nginx:2"}]}}}}"#;
    kubectl.run(&["patch", "deploy", "web", "-p", image]).await?;
    let container = "jsonpath={.spec.template.spec.containers[0]['image','ports']}";
    contains(
        &kubectl.run(&["get", "deploy", "web", "-o", container]).await?,
        &["nginx:2", "80"],
    );
    kubectl
        .run(&[
            "patch",
            "cm",
            "conf",
            "--type=merge",
            "-p",
            r#"{"data":{"a":null,"b":"2"}}"#,
        ])
        .await?;
    let add = r#"[{"op":"add","path":"/data/c","value":"3"},{"op":"test","path":"/data/b","value":"2"}]"#;
    kubectl
        .run(&["patch", "cm", "conf", "--type=json", "-p", add])
        .await?;
    assert_eq!(
        kubectl
            .run(&["get", "cm", "conf", "-o", "jsonpath={.data}"])
            .await?,
        r#"{"b":"2","c":"3"}"#
    );
    let strategic = kubectl
        .fails(&["patch", "gd", "g", "--type=strategic", "-p", "{}"])
        .await?;
    contains(&strategic, &["strategic"]);

    kubectl.run(&["label", "cm", "conf", "x=y"]).await?;
    contains(
        &kubectl.fails(&["label", "cm", "conf", "x=z"]).await?,
        &["--overwrite"],
    );
    kubectl.run(&["label", "cm", "conf", "x-"]).await?;
    kubectl.run(&["annotate", "cm", "conf", "note=1"]).await?;
    let annotations = kubectl.json(&["get", "cm", "conf"]).await?["metadata"]["annotations"].clone();
    assert_eq!(annotations["note"], "1");

    kubectl.run(&["scale", "deploy", "web", "--replicas=5"]).await?;
    kubectl.run(&["scale", "gd", "g", "--replicas=3"]).await?;
    for resource in ["deploy/web", "gd/g"] {
        let replicas = kubectl
            .run(&["get", resource, "-o", "jsonpath={.spec.replicas}"])
            .await?;
        assert_eq!(replicas, if resource == "gd/g" { "3" } else { "5" });
    }
    kubectl.run(&["set", "image", "deploy/web", "c=nginx:3"]).await?;

    let wait = ["wait", "--for=condition=Ready", "gd/g", "--timeout=30s"];
    let ready = r#"{"status":{"replicas":1,"conditions":[{"type":"Ready","status":"True"}]}}"#;
    let patch = [
        "patch",
        "gd",
        "g",
        "--subresource=status",
        "--type=merge",
        "-p",
        ready,
    ];
    contains(
        &kubectl
            .fails(&["wait", "--for=condition=Ready", "gd/g", "--timeout=1s"])
            .await?,
        &["timed out"],
    );
    let (waited, patched) = tokio::join!(kubectl.run(&wait), kubectl.run(&patch));
    patched?;
    contains(&waited?, &["garden.example.com/g condition met"]);
    contains(&kubectl.run(&["get", "gd", "g"]).await?, &["True"]);
    embedded.server.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn delete_cascades() -> anyhow::Result<()> {
    let (embedded, kubectl) = start().await?;
    for policy in ["background", "foreground", "orphan"] {
        kubectl.run(&["create", "cm", "owner"]).await?;
        let uid = kubectl
            .run(&["get", "cm", "owner", "-o", "jsonpath={.metadata.uid}"])
            .await?;
        let child = format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: child\n  ownerReferences:\n  - {{apiVersion: v1, kind: ConfigMap, name: owner, uid: {uid}, blockOwnerDeletion: true}}\n"
        );
        kubectl.run_with(&["apply", "-f", "-"], &child).await?;
        kubectl
            .run(&["delete", "cm", "owner", &format!("--cascade={policy}")])
            .await?;
        if policy == "orphan" {
            let child = kubectl.json(&["get", "cm", "child"]).await?;
            assert!(
                child["metadata"]
                    .get("ownerReferences")
                    .is_none_or(|owners| owners == &serde_json::json!([]))
            );
            kubectl.run(&["delete", "cm", "child"]).await?;
        } else {
            kubectl
                .run(&["wait", "--for=delete", "cm/child", "--timeout=20s"])
                .await?;
        }
    }
    kubectl.run(&["create", "ns", "team"]).await?;
    kubectl.run(&["create", "cm", "inside", "-n", "team"]).await?;
    kubectl.run(&["delete", "ns", "team", "--timeout=30s"]).await?;
    contains(
        &kubectl.fails(&["get", "cm", "inside", "-n", "team"]).await?,
        &["not found"],
    );
    embedded.server.shutdown().await;
    Ok(())
}
