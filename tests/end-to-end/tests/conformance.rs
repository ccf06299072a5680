//! The embedded API server answers as a real kube-apiserver does.

use end_to_end::Embedded;
use end_to_end::kubernetes::Kubernetes;
use end_to_end::transcript;

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
    let kubernetes = Kubernetes::start().await?;
    let mut differences = Vec::new();
    for transcript in transcript::load_all()? {
        let answers = transcript.play(&kubernetes.client).await?;
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
