//! A real kubectl cannot tell the embedded server from Kubernetes.

use end_to_end::Embedded;
use end_to_end::cli::Session;

const GARDENS: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gardens.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: gardens, singular: garden, kind: Garden, shortNames: [gd], categories: [all]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}
    additionalPrinterColumns:
    - {name: Flower, type: string, jsonPath: .spec.flower}
    - {name: Ready, type: string, jsonPath: '.status.conditions[?(@.type=="Ready")].status'}
    - {name: Beds, type: integer, jsonPath: .spec.replicas, priority: 1}
    schema:
      openAPIV3Schema:
        description: Garden is a place where flowers grow.
        type: object
        properties:
          spec:
            description: What should grow.
            type: object
            required: [flower]
            properties:
              flower: {type: string, description: The kind of flower., enum: [rose, tulip]}
              replicas: {type: integer, default: 1, minimum: 0}
              beds: {type: array, items: {type: object, properties: {size: {type: integer}}}}
          status:
            type: object
            properties:
              replicas: {type: integer}
              conditions:
                type: array
                items: {type: object, properties: {type: {type: string}, status: {type: string}}}
"#;

const GARDEN: &str = r"
apiVersion: example.com/v1
kind: Garden
metadata: {name: g}
spec: {flower: rose}
";

const WEB: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: c, image: "nginx:1", ports: [{containerPort: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: conf}
data: {a: "1"}
"#;

async fn start() -> anyhow::Result<(Embedded, Session)> {
    let embedded = Embedded::with_clusters(&["alpha", "beta"]).await?;
    let kubectl = Session::new("kubectl", &embedded)?;
    Ok((embedded, kubectl))
}

async fn with_gardens() -> anyhow::Result<(Embedded, Session)> {
    let (embedded, kubectl) = start().await?;
    kubectl.run_with(&["apply", "-f", "-"], GARDENS).await?;
    kubectl
        .run(&[
            "wait",
            "--for=condition=Established",
            "crd/gardens.example.com",
            "--timeout=20s",
        ])
        .await?;
    Ok((embedded, kubectl))
}

#[track_caller]
fn contains(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in:\n{text}");
    }
}

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

#[tokio::test(flavor = "multi_thread")]
async fn who_may_do_what() -> anyhow::Result<()> {
    let (embedded, kubectl) = start().await?;
    contains(
        &kubectl.run(&["auth", "whoami"]).await?,
        &["kubernetes-admin", "system:masters"],
    );
    assert_eq!(
        kubectl.run(&["auth", "can-i", "create", "pods"]).await?.trim(),
        "yes"
    );
    kubectl.run(&["create", "sa", "bot"]).await?;
    let bot = "--as=system:serviceaccount:default:bot";
    let refused = kubectl.try_run(&["auth", "can-i", "list", "cm", bot], "").await?;
    assert_eq!((refused.code, refused.out.trim()), (1, "no"));
    kubectl
        .run(&[
            "create",
            "rolebinding",
            "bot",
            "--clusterrole=view",
            "--serviceaccount=default:bot",
        ])
        .await?;
    assert_eq!(
        kubectl.run(&["auth", "can-i", "list", "cm", bot]).await?.trim(),
        "yes"
    );
    contains(
        &kubectl.run(&["auth", "can-i", "--list", bot]).await?,
        &["configmaps", "[get list watch]"],
    );
    let secrets = kubectl.fails(&["get", "secrets", bot]).await?;
    contains(
        &secrets,
        &["User \"system:serviceaccount:default:bot\" cannot list resource \"secrets\""],
    );

    let token = kubectl.run(&["create", "token", "bot", "--duration=20m"]).await?;
    let server = kubectl
        .run(&[
            "config",
            "view",
            "-o",
            "jsonpath={.clusters[?(@.name==\"alpha\")].cluster.server}",
        ])
        .await?;
    let as_bot = |arguments: &[&str]| {
        let mut all = vec![
            "--kubeconfig=/dev/null",
            "--insecure-skip-tls-verify",
            "--token",
            token.trim(),
            "--server",
            &server,
        ];
        all.extend(arguments);
        all.iter()
            .map(|&argument| argument.to_owned())
            .collect::<Vec<_>>()
    };
    let get = as_bot(&["get", "cm", "-o", "name"]);
    let get: Vec<&str> = get.iter().map(String::as_str).collect();
    contains(&kubectl.run(&get).await?, &["configmap/kube-root-ca.crt"]);
    let delete = as_bot(&["delete", "cm", "kube-root-ca.crt"]);
    let delete: Vec<&str> = delete.iter().map(String::as_str).collect();
    contains(&kubectl.fails(&delete).await?, &["Forbidden"]);
    // The same token is nothing in the other cluster.
    let elsewhere: Vec<String> = get
        .iter()
        .map(|a| a.replace("/clusters/alpha", "/clusters/beta"))
        .collect();
    let elsewhere: Vec<&str> = elsewhere.iter().map(String::as_str).collect();
    contains(
        &kubectl.fails(&elsewhere).await?,
        &["You must be logged in to the server"],
    );
    embedded.server.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_say_who_someone_is() -> anyhow::Result<()> {
    let (embedded, kubectl) = start().await?;
    let issued = embedded
        .server
        .access()
        .authority()
        .issue_client("rita", &["readers"])?;
    std::fs::write(kubectl.home().join("rita.crt"), issued.certificate)?;
    std::fs::write(kubectl.home().join("rita.key"), issued.key)?;
    kubectl
        .run(&[
            "config",
            "set-credentials",
            "rita",
            "--client-certificate=rita.crt",
            "--client-key=rita.key",
        ])
        .await?;
    let who = kubectl.run(&["auth", "whoami", "--user=rita"]).await?;
    contains(&who, &["rita", "readers", "system:authenticated"]);
    contains(
        &kubectl.fails(&["get", "cm", "--user=rita"]).await?,
        &["User \"rita\" cannot list resource \"configmaps\""],
    );
    kubectl
        .run(&[
            "create",
            "clusterrolebinding",
            "readers",
            "--clusterrole=view",
            "--group=readers",
        ])
        .await?;
    contains(
        &kubectl.run(&["get", "cm", "--user=rita"]).await?,
        &["kube-root-ca.crt"],
    );
    // A certificate of another authority does not even get through the handshake.
    let other = Embedded::start().await?;
    let foreign = other
        .server
        .access()
        .authority()
        .issue_client("rita", &["readers"])?;
    std::fs::write(kubectl.home().join("rita.crt"), foreign.certificate)?;
    std::fs::write(kubectl.home().join("rita.key"), foreign.key)?;
    kubectl.fails(&["get", "cm", "--user=rita"]).await?;
    other.server.shutdown().await;
    embedded.server.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn contexts_are_clusters_of_their_own() -> anyhow::Result<()> {
    let (embedded, kubectl) = start().await?;
    contains(
        &kubectl.run(&["config", "get-contexts", "-o", "name"]).await?,
        &["alpha", "beta"],
    );
    assert_eq!(kubectl.run(&["config", "current-context"]).await?.trim(), "alpha");
    kubectl.run(&["create", "cm", "here"]).await?;
    kubectl.run(&["config", "use-context", "beta"]).await?;
    contains(&kubectl.fails(&["get", "cm", "here"]).await?, &["not found"]);
    kubectl.run_with(&["apply", "-f", "-"], GARDENS).await?;
    kubectl
        .run(&[
            "wait",
            "--for=condition=Established",
            "crd/gardens.example.com",
            "--timeout=20s",
        ])
        .await?;
    kubectl.run(&["get", "gardens"]).await?;
    contains(
        &kubectl.fails(&["get", "gardens", "--context=alpha"]).await?,
        &["doesn't have a resource type"],
    );
    contains(&kubectl.run(&["cluster-info"]).await?, &["/clusters/beta"]);
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
