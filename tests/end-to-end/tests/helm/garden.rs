//! A chart with CRDs and hooks is installed, upgraded, rolled back and removed.

use std::path::Path;

use end_to_end::Embedded;
use end_to_end::cli::Session;

const FILES: [(&str, &str); 5] = [
    ("Chart.yaml", "apiVersion: v2\nname: garden\nversion: 0.1.0\n"),
    ("values.yaml", "flower: rose\nreplicas: 1\n"),
    (
        "crds/plots.yaml",
        r"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: plots.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: plots, singular: plot, kind: Plot}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties: {spec: {type: object, properties: {flower: {type: string}}}}
",
    ),
    (
        "templates/objects.yaml",
        r"
apiVersion: example.com/v1
kind: Plot
metadata: {name: {{ .Release.Name }}}
spec: {flower: {{ .Values.flower }}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}}
data: {flower: {{ .Values.flower }}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: {{ .Release.Name }}}
spec:
  replicas: {{ .Values.replicas }}
  selector: {matchLabels: {app: x}}
  template:
    metadata: {labels: {app: x}}
    spec: {containers: [{name: c, image: nginx}]}
",
    ),
    (
        "templates/hooks.yaml",
        r#"
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-before
  annotations: {"helm.sh/hook": "pre-install,pre-upgrade", "helm.sh/hook-delete-policy": before-hook-creation}
data: {flower: {{ .Values.flower }}}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-after
  annotations: {"helm.sh/hook": post-delete}
data: {}
"#,
    ),
];

fn write_chart(directory: &Path) -> anyhow::Result<()> {
    for (name, content) in FILES {
        let path = directory.join("chart").join(name);
        std::fs::create_dir_all(path.parent().unwrap_or(directory))?;
        std::fs::write(path, content)?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_life_of_a_release() -> anyhow::Result<()> {
    let embedded = Embedded::start().await?;
    let helm = Session::new("helm", &embedded)?;
    let kubectl = Session::new("kubectl", &embedded)?;
    write_chart(helm.home())?;
    let get = async |what: &str, path: &str| {
        let path = format!("jsonpath={{{path}}}");
        kubectl.run(&["get", what, "-o", &path]).await
    };

    helm.run(&["install", "one", "./chart"]).await?;
    assert_eq!(get("plot/one", ".spec.flower").await?, "rose");
    assert_eq!(get("cm/one-before", ".data.flower").await?, "rose");
    assert!(helm.run(&["list"]).await?.contains("deployed"));

    helm.run(&["upgrade", "one", "./chart", "--set", "flower=tulip,replicas=3"])
        .await?;
    assert_eq!(get("plot/one", ".spec.flower").await?, "tulip");
    assert_eq!(get("cm/one", ".data.flower").await?, "tulip");
    assert_eq!(get("cm/one-before", ".data.flower").await?, "tulip");
    assert_eq!(get("deploy/one", ".spec.replicas").await?, "3");

    helm.run(&["rollback", "one", "1"]).await?;
    assert_eq!(get("plot/one", ".spec.flower").await?, "rose");
    assert_eq!(get("deploy/one", ".spec.replicas").await?, "1");
    let history = helm.run(&["history", "one"]).await?;
    assert!(history.contains("Rollback to 1"), "{history}");

    // What somebody else changed meanwhile is put right by the next upgrade.
    kubectl.run(&["scale", "deploy/one", "--replicas=7"]).await?;
    let drifted = helm
        .try_run(&["upgrade", "one", "./chart", "--force-conflicts"], "")
        .await?;
    assert_eq!(drifted.code, 0, "{}", drifted.err);
    assert_eq!(get("deploy/one", ".spec.replicas").await?, "1");

    helm.run(&["uninstall", "one"]).await?;
    let left = kubectl
        .run(&["get", "plots,cm,deploy,secrets", "-o", "name"])
        .await?;
    assert!(
        !left.contains("plot.example.com/one") && !left.contains("deployment"),
        "{left}"
    );
    assert!(
        left.contains("configmap/one-after"),
        "the hook after it ran: {left}"
    );
    kubectl.run(&["get", "crd", "plots.example.com"]).await?;
    embedded.server.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chart_that_is_refused_says_why() -> anyhow::Result<()> {
    let embedded = Embedded::start().await?;
    let helm = Session::new("helm", &embedded)?;
    write_chart(helm.home())?;
    let error = helm
        .fails(&["install", "one", "./chart", "--set", "replicas=-1"])
        .await?;
    assert!(error.contains("must be greater than or equal to 0"), "{error}");
    let waiting = ["install", "two", "./chart", "--wait", "--timeout", "3s"];
    assert!(helm.fails(&waiting).await?.contains("not ready"));
    embedded.server.shutdown().await;
    Ok(())
}
