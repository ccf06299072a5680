//! What shows objects.

use crate::{GARDEN, WEB, contains, start, with_gardens};

#[tokio::test(flavor = "multi_thread")]
async fn get_in_all_forms_and_watch() -> anyhow::Result<()> {
    let (embedded, kubectl) = with_gardens().await?;
    kubectl.run_with(&["apply", "-f", "-"], WEB).await?;
    kubectl.run_with(&["apply", "-f", "-"], GARDEN).await?;
    contains(&kubectl.run(&["get", "gd"]).await?, &["NAME   FLOWER   READY"]);
    contains(
        &kubectl.run(&["get", "gd", "-o", "wide"]).await?,
        &["NAME   FLOWER   READY   BEDS", "rose", "1"],
    );
    let wide = kubectl.run(&["get", "deploy", "-o", "wide"]).await?;
    contains(
        &wide,
        &[
            "NAME   READY   UP-TO-DATE   AVAILABLE   AGE   CONTAINERS   IMAGES    SELECTOR",
            "0/2",
            "nginx:1",
        ],
    );
    contains(
        &kubectl.run(&["get", "all"]).await?,
        &["service/web", "deployment.apps/web", "garden.example.com/g"],
    );
    let json = kubectl.json(&["get", "deploy", "web"]).await?;
    assert_eq!(
        json["spec"]["template"]["spec"]["containers"][0]["terminationMessagePath"],
        "/dev/termination-log"
    );
    let sorted = ["get", "cm,svc", "--sort-by=.metadata.name", "-o", "name"];
    contains(&kubectl.run(&sorted).await?, &["configmap/conf", "service/web"]);
    let labelled = kubectl
        .run(&["get", "deploy", "-l", "app in (web),tier!=x", "-o", "name"])
        .await?;
    assert_eq!(labelled.trim(), "deployment.apps/web");
    let by_field = kubectl
        .run(&[
            "get",
            "cm",
            "--field-selector",
            "metadata.name=conf",
            "-o",
            "name",
        ])
        .await?;
    assert_eq!(by_field.trim(), "configmap/conf");

    let mut watch = kubectl.stream(&[
        "get",
        "cm",
        "-w",
        "-o",
        "jsonpath={.metadata.name}={.data.x}{\"\\n\"}",
    ])?;
    watch.until("conf=").await?;
    kubectl
        .run(&["create", "cm", "fresh", "--from-literal=x=1"])
        .await?;
    watch.until("fresh=1").await?;
    kubectl
        .run(&["patch", "cm", "fresh", "-p", r#"{"data":{"x":"2"}}"#])
        .await?;
    watch.until("fresh=2").await?;
    watch.end().await?;
    let mut table = kubectl.stream(&["get", "gd", "-w"])?;
    table.until("rose").await?;
    kubectl
        .run_with(&["apply", "-f", "-"], &GARDEN.replace("rose", "tulip"))
        .await?;
    table.until("tulip").await?;
    table.end().await?;
    embedded.server.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_and_resources() -> anyhow::Result<()> {
    let (embedded, kubectl) = with_gardens().await?;
    let explained = kubectl.run(&["explain", "gardens", "--recursive"]).await?;
    contains(
        &explained,
        &[
            "GROUP:      example.com",
            "KIND:       Garden",
            "Garden is a place where flowers grow.",
            "beds\t<[]Object>",
        ],
    );
    contains(
        &explained,
        &[
            "flower\t<string> -required-",
            "ownerReferences\t<[]OwnerReference>",
        ],
    );
    contains(
        &kubectl.run(&["explain", "garden.spec.flower"]).await?,
        &["The kind of flower.", "rose"],
    );
    contains(
        &kubectl.run(&["explain", "pod.spec.containers"]).await?,
        &["FIELD: containers <[]Container>"],
    );
    let resources = kubectl.run(&["api-resources"]).await?;
    contains(
        &resources,
        &["gardens", "gd", "example.com/v1", "deployments", "apps/v1"],
    );
    let all = kubectl
        .run(&["api-resources", "--categories=all", "-o", "name"])
        .await?;
    contains(&all, &["gardens.example.com", "pods", "deployments.apps"]);
    contains(
        &kubectl.run(&["api-versions"]).await?,
        &["apps/v1", "example.com/v1", "v1"],
    );
    contains(&kubectl.run(&["version"]).await?, &["Server Version: v1.36"]);
    kubectl.run(&["delete", "crd", "gardens.example.com"]).await?;
    embedded.server.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn events_and_pods() -> anyhow::Result<()> {
    let (embedded, kubectl) = start().await?;
    kubectl
        .run(&["run", "p", "--image=busybox", "--", "sleep", "1"])
        .await?;
    let uid = kubectl
        .run(&["get", "pod", "p", "-o", "jsonpath={.metadata.uid}"])
        .await?;
    let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let event = format!(
        "apiVersion: v1\nkind: Event\nmetadata: {{name: e}}\ninvolvedObject: {{kind: Pod, name: p, namespace: default, uid: {uid}}}\nreason: Started\nmessage: It runs.\ntype: Normal\ncount: 2\nfirstTimestamp: {now}\nlastTimestamp: {now}\nsource: {{component: test}}\n"
    );
    kubectl.run_with(&["create", "-f", "-"], &event).await?;
    contains(
        &kubectl.run(&["events"]).await?,
        &["LAST SEEN", "Normal", "Started", "Pod/p", "It runs."],
    );
    contains(
        &kubectl.run(&["get", "events", "-o", "wide"]).await?,
        &["SUBOBJECT", "SOURCE", "test", "pod/p"],
    );
    contains(&kubectl.run(&["get", "pod", "p"]).await?, &["0/1", "Pending"]);
    contains(
        &kubectl.run(&["describe", "pod", "p"]).await?,
        &["Service Account:  default", "It runs."],
    );
    kubectl.run(&["delete", "pod", "p", "--now"]).await?;
    embedded.server.shutdown().await;
    Ok(())
}
