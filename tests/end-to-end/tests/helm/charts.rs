//! The charts in `deploy/charts`: well formed, as recorded, and through their whole life.

use std::path::{Path, PathBuf};

use end_to_end::Embedded;
use end_to_end::cli::Session;
use serde_json::Value;

const HOME: &str = "c5c3-system";
const MONITORING: [&str; 2] = [
    "monitoring.coreos.com/v1/ServiceMonitor",
    "monitoring.coreos.com/v1/PrometheusRule",
];

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/charts")
}

fn chart(name: &str) -> String {
    directory().join(name).to_string_lossy().into_owned()
}

fn rendered(recorded: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("golden/charts")
        .join(format!("{recorded}.yaml"))
}

/// Compared with what is recorded; `UPDATE=1` records it.
async fn is_as_recorded(helm: &Session, recorded: &str, of: &str, more: &[&str]) -> anyhow::Result<()> {
    is_in_file(helm, &rendered(recorded), of, more).await
}

async fn is_in_file(helm: &Session, file: &Path, of: &str, more: &[&str]) -> anyhow::Result<()> {
    let path = chart(of);
    let arguments = [&["template", "c5c3", &path, "--namespace", HOME], more].concat();
    let text = helm.run(&arguments).await?;
    if std::env::var_os("UPDATE").is_some() {
        std::fs::create_dir_all(rendered("x").parent().unwrap_or(Path::new(".")))?;
        std::fs::write(file, &text)?;
    }
    let there = std::fs::read_to_string(file).unwrap_or_default();
    anyhow::ensure!(
        there == text,
        "{} is stale: UPDATE=1 cargo test -p end-to-end --test helm",
        file.display()
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn charts_are_well_formed_and_as_recorded() -> anyhow::Result<()> {
    let embedded = Embedded::start().await?;
    let helm = Session::new("helm", &embedded)?;
    for name in ["crds", "control-plane", "hypervisor", "storage"] {
        helm.run(&["lint", "--strict", &chart(name)]).await?;
    }
    is_as_recorded(&helm, "control-plane", "control-plane", &[]).await?;
    is_as_recorded(&helm, "hypervisor", "hypervisor", &[]).await?;
    is_as_recorded(&helm, "storage", "storage", &[]).await?;
    let [monitors, rules] = MONITORING;
    let all = [
        "--set=registry=registry.example/cloud,image.digest=sha256:0000000000000000000000000000000000000000000000000000000000000000",
        "--set=imagePullSecrets[0].name=login,watchNamespace=openstack,operators.ovn.enabled=false,replicas=1",
        "--set=clusters.kubeconfigSecret=others,clusters.contexts.hypervisor=far",
        "--api-versions",
        monitors,
        "--api-versions",
        rules,
    ];
    is_as_recorded(&helm, "control-plane-of-one-namespace", "control-plane", &all).await?;
    let cortex = [
        "--set=cortex.namespaces={openstack,staging},operators.control-plane.enabled=false",
        "--set=operators.services.enabled=false,operators.ovn.enabled=false",
    ];
    is_as_recorded(&helm, "control-plane-with-cortex", "control-plane", &cortex).await?;
    let remote = [
        "--set=agent.enabled=false,ovsAgent.enabled=false,labelsInjector.enabled=false,remoteOperators.enabled=true",
    ];
    is_as_recorded(&helm, "hypervisor-from-elsewhere", "hypervisor", &remote).await?;
    // What `c5c3 up` brings to the nodes that run guests; the operator is in its own process.
    let agents = directory().join("../quickstart/agents.yaml");
    let alone =
        ["--set=operators.hypervisor.enabled=false,labelsInjector.enabled=false,ovsAgent.capture=true"];
    is_in_file(&helm, &agents, "hypervisor", &alone).await?;
    embedded.server.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_values_are_refused() -> anyhow::Result<()> {
    let embedded = Embedded::start().await?;
    let helm = Session::new("helm", &embedded)?;
    let path = chart("hypervisor");
    let unbound = "--set=ovsAgent.capture=true,ovsAgent.policy=false";
    let error = helm.fails(&["template", "c5c3", &path, unbound]).await?;
    assert!(
        error.contains("ovsAgent.capture: needs ovsAgent.policy"),
        "{error}"
    );
    let path = chart("control-plane");
    for (set, words) in [
        ("registry=https://ghcr.io/c5c3", "registry"),
        ("image.digest=sha256:12", "digest"),
        ("operators.nova.enabled=true", "nova"),
        ("replica=3", "replica"),
        ("replicas=-1", "replicas"),
        ("cortex.namespaces={Open_Stack}", "namespaces"),
    ] {
        let error = helm.fails(&["template", "c5c3", &path, "--set", set]).await?;
        assert!(error.contains(words), "{set}: {error}");
    }
    embedded.server.shutdown().await;
    Ok(())
}

/// A chart as it was before a field came.
fn before(home: &Path) -> anyhow::Result<String> {
    let old = home.join("crds");
    for part in ["", "templates", "definitions"] {
        std::fs::create_dir_all(old.join(part))?;
        for entry in std::fs::read_dir(directory().join("crds").join(part))? {
            let path = entry?.path();
            if let (true, Some(name)) = (path.is_file(), path.file_name()) {
                std::fs::copy(&path, old.join(part).join(name))?;
            }
        }
    }
    let file = old.join("definitions/c5c3.io_secretaggregates.yaml");
    let text = std::fs::read_to_string(&file)?;
    anyhow::ensure!(text.contains("shortNames:"), "the field is there");
    let lines = text
        .lines()
        .filter(|line| line.trim() != "shortNames:" && line.trim() != "- sagg");
    std::fs::write(&file, lines.collect::<Vec<_>>().join("\n"))?;
    Ok(old.to_string_lossy().into_owned())
}

/// The pods of every Deployment, as somebody would make them in a namespace that lets in little.
async fn pods_are_restricted(kubectl: &Session) -> anyhow::Result<usize> {
    let strict = "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: strict\n  labels:\n    pod-security.kubernetes.io/enforce: restricted\n";
    kubectl.run_with(&["apply", "-f", "-"], strict).await?;
    let all = kubectl.json(&["-n", HOME, "get", "deployments"]).await?;
    let all = all["items"].as_array().cloned().unwrap_or_default();
    for deployment in &all {
        let mut pod = deployment["spec"]["template"].clone();
        pod["apiVersion"] = "v1".into();
        pod["kind"] = "Pod".into();
        pod["metadata"]["name"] = deployment["metadata"]["name"].clone();
        if let Some(spec) = pod["spec"].as_object_mut() {
            spec.remove("serviceAccountName");
            spec.remove("serviceAccount");
        }
        kubectl
            .run_with(&["-n", "strict", "create", "-f", "-"], &pod.to_string())
            .await?;
    }
    let loose: Value = serde_json::json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "loose"},
        "spec": {"containers": [{"name": "c", "image": "x"}]}});
    let refused = kubectl
        .try_run(&["-n", "strict", "create", "-f", "-"], &loose.to_string())
        .await?;
    anyhow::ensure!(refused.code != 0, "the namespace lets everything in");
    Ok(all.len())
}

#[tokio::test(flavor = "multi_thread")]
async fn charts_come_change_and_go_and_no_object_is_lost() -> anyhow::Result<()> {
    let embedded = Embedded::start().await?;
    let helm = Session::new("helm", &embedded)?;
    let kubectl = Session::new("kubectl", &embedded)?;
    let get = async |what: &str, path: &str| {
        let path = format!("jsonpath={{{path}}}");
        kubectl.run(&["-n", HOME, "get", what, "-o", &path]).await
    };
    let old = before(helm.home())?;
    let (crds, control_plane) = (chart("crds"), chart("control-plane"));
    helm.run(&["install", "c5c3-crds", &old, "-n", HOME, "--create-namespace"])
        .await?;
    helm.run(&["install", "c5c3", &control_plane, "-n", HOME]).await?;
    let (hypervisor, storage) = (chart("hypervisor"), chart("storage"));
    let open = "--set=remoteOperators.enabled=true";
    helm.run(&["install", "c5c3-hypervisor", &hypervisor, "-n", HOME, open])
        .await?;
    helm.run(&["install", "c5c3-storage", &storage, "-n", HOME])
        .await?;
    assert_eq!(pods_are_restricted(&kubectl).await?, 6);

    let aggregate = "apiVersion: c5c3.io/v1alpha1\nkind: SecretAggregate\nmetadata: {name: mine, namespace: default}\n\
        spec: {sources: [{secretRef: {name: a}}], target: {name: b}}\n";
    kubectl.run_with(&["apply", "-f", "-"], aggregate).await?;

    // Kinds first, then what uses them.
    let short = ".spec.names.shortNames";
    assert_eq!(get("crd/secretaggregates.c5c3.io", short).await?, "");
    helm.run(&["upgrade", "c5c3-crds", &crds, "-n", HOME]).await?;
    assert_ne!(get("crd/secretaggregates.c5c3.io", short).await?, "");
    let more = "--set=replicas=3,registry=registry.example/cloud";
    helm.run(&["upgrade", "c5c3", &control_plane, "-n", HOME, more])
        .await?;
    assert_eq!(get("deploy/c5c3-services", ".spec.replicas").await?, "3");
    let image = get("deploy/c5c3-services", ".spec.template.spec.containers[0].image").await?;
    assert!(image.starts_with("registry.example/cloud/c5c3:"), "{image}");
    helm.run(&["rollback", "c5c3", "1", "-n", HOME]).await?;
    assert_eq!(get("deploy/c5c3-services", ".spec.replicas").await?, "2");

    for release in ["c5c3", "c5c3-hypervisor", "c5c3-storage", "c5c3-crds"] {
        helm.run(&["uninstall", release, "-n", HOME]).await?;
    }
    let left = kubectl
        .run(&[
            "get",
            "deploy,ds,sa,clusterroles,networkpolicies,pdb",
            "-A",
            "-o",
            "name",
        ])
        .await?;
    assert!(!left.contains("c5c3-"), "{left}");
    kubectl.run(&["get", "secretaggregate", "mine"]).await?;
    // And what stayed is taken up again.
    helm.run(&["install", "c5c3-crds", &crds, "-n", HOME]).await?;
    kubectl.run(&["get", "secretaggregate", "mine"]).await?;
    embedded.server.shutdown().await;
    Ok(())
}
