//! The embedded API server answers as a real kube-apiserver does.

mod shapes;

use anyhow::Context;
use end_to_end::{Embedded, install_crypto, transcript};
use kube::config::{KubeConfigOptions, Kubeconfig};

#[tokio::test(flavor = "multi_thread")]
async fn the_embedded_server_answers_what_kubernetes_answered() -> anyhow::Result<()> {
    let mut differences = Vec::new();
    for transcript in transcript::load_all()? {
        let embedded = Embedded::start().await?;
        let answers = transcript.play(&embedded.server.client("default")).await?;
        differences.extend(transcript.differences(&answers, &transcript.recorded()?));
        embedded.server.shutdown().await;
    }
    assert!(
        differences.is_empty(),
        "{} steps differ:\n{}",
        differences.len(),
        differences.join("\n")
    );
    Ok(())
}

/// Needs kube-apiserver and etcd: `make conformance`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a built kube-apiserver: make conformance"]
async fn kubernetes_answers_what_was_recorded() -> anyhow::Result<()> {
    let kubernetes = kubernetes().await?;
    let mut differences = Vec::new();
    for transcript in transcript::load_all()? {
        let answers = transcript.play(&kubernetes).await?;
        if std::env::var_os("RECORD").is_some() {
            transcript.write(&answers)?;
        }
        differences.extend(transcript.differences(&answers, &transcript.recorded()?));
    }
    assert!(
        differences.is_empty(),
        "{} steps differ:\n{}",
        differences.len(),
        differences.join("\n")
    );
    Ok(())
}

/// Needs the definitions of others too.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a built kube-apiserver: make conformance"]
async fn operators_of_others_are_sent_what_they_know() -> anyhow::Result<()> {
    shapes::are_allowed(&kubernetes().await?).await
}

/// The real one.
async fn kubernetes() -> anyhow::Result<kube::Client> {
    install_crypto();
    let path = std::env::var_os("C5C3_TEST_KUBECONFIG").context("scripts/with-kube-apiserver starts one")?;
    let config =
        kube::Config::from_custom_kubeconfig(Kubeconfig::read_from(path)?, &KubeConfigOptions::default())
            .await?;
    Ok(kube::Client::try_from(config)?)
}
