//! Two replicas of a real operator, each a process of its own.

use std::path::Path;

use anyhow::ensure;
use end_to_end::Embedded;
use end_to_end::cli::{Session, Stream};

fn replica(c5c3: &Session) -> anyhow::Result<Stream> {
    c5c3.log(&[
        "operator",
        "control-plane",
        "--leader-elect",
        "--lease-namespace",
        "default",
        "--metrics-address",
        "127.0.0.1:0",
    ])
}

fn aggregate(name: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: Secret, metadata: {{name: {name}-source}}, stringData: {{key: value}}}}\n---\n\
         {{apiVersion: c5c3.io/v1alpha1, kind: SecretAggregate, metadata: {{name: {name}}}, \
         spec: {{sources: [{{secretRef: {{name: {name}-source}}}}], target: {{name: {name}-target}}}}}}\n"
    )
}

/// Makes an aggregate and waits until somebody has looked after it.
async fn served(kubectl: &Session, name: &str) -> anyhow::Result<()> {
    kubectl.run_with(&["apply", "-f", "-"], &aggregate(name)).await?;
    let object = format!("secretaggregate/{name}");
    kubectl
        .run(&["wait", "--for=condition=Ready", &object, "--timeout=60s"])
        .await?;
    Ok(())
}

async fn leader(kubectl: &Session) -> anyhow::Result<String> {
    let path = "jsonpath={.spec.holderIdentity}";
    kubectl
        .run(&["get", "lease", "c5c3-control-plane", "-o", path])
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_of_an_operator_take_turns() -> anyhow::Result<()> {
    let embedded = Embedded::start().await?;
    let kubectl = Session::new("kubectl", &embedded)?;
    let c5c3 = Session::new("c5c3", &embedded)?;
    let crds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/crds");
    let crds = crds.display().to_string();
    kubectl.run(&["apply", "--server-side", "-f", &crds]).await?;

    let mut first = replica(&c5c3)?;
    first.until("leading").await?;
    served(&kubectl, "one").await?;
    let led = leader(&kubectl).await?;
    let mut second = replica(&c5c3)?;
    second.until("another process leads").await?;
    ensure!(leader(&kubectl).await? == led);

    let ended = first.terminate().await?;
    ensure!(ended.success(), "{ended}");
    second.until("leading").await?;
    served(&kubectl, "two").await?;
    let leads = leader(&kubectl).await?;
    ensure!(leads != led && !leads.is_empty(), "{leads}");

    // One that waits ends too.
    let mut third = replica(&c5c3)?;
    third.until("another process leads").await?;
    let ended = third.terminate().await?;
    ensure!(ended.success(), "{ended}");
    let ended = second.terminate().await?;
    ensure!(ended.success(), "{ended}");
    ensure!(leader(&kubectl).await?.is_empty(), "given up at the end");
    Ok(())
}
