//! Our own definitions and samples, through a real kubectl.

use std::path::{Path, PathBuf};

use end_to_end::Embedded;
use end_to_end::cli::Session;

fn deploy(directory: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../deploy")
        .join(directory)
}

/// The samples of our own kinds, one directory for each group; those of Crossplane are defined there.
fn samples() -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for group in std::fs::read_dir(deploy("samples"))? {
        let group = group?.path();
        let elsewhere = group.ends_with("foreign") || group.ends_with("crossplane.c5c3.io");
        if group.is_dir() && !elsewhere {
            for file in std::fs::read_dir(group)? {
                files.push(file?.path());
            }
        }
    }
    files.sort();
    Ok(files)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_definition_is_established_and_explained() -> anyhow::Result<()> {
    let embedded = Embedded::start().await?;
    let kubectl = Session::new("kubectl", &embedded)?;
    let crds = deploy("crds").display().to_string();
    kubectl.run(&["apply", "--server-side", "-f", &crds]).await?;
    kubectl
        .run(&[
            "wait",
            "--for=condition=Established",
            "crd",
            "--all",
            "--timeout=60s",
        ])
        .await?;
    // Applying the same again changes nothing.
    let versions = "jsonpath={.items[*].metadata.resourceVersion}";
    let before = kubectl.run(&["get", "crd", "-o", versions]).await?;
    kubectl.run(&["apply", "--server-side", "-f", &crds]).await?;
    assert_eq!(kubectl.run(&["get", "crd", "-o", versions]).await?, before);

    let names = kubectl
        .run(&["get", "crd", "-o", "jsonpath={.items[*].metadata.name}"])
        .await?;
    assert!(names.split(' ').count() > 10, "{names}");
    for name in names.split(' ') {
        let explained = kubectl.run(&["explain", name, "--recursive"]).await?;
        assert!(
            explained.contains("FIELDS:") && explained.contains("  spec\t<"),
            "{name}:\n{explained}"
        );
        let description = explained.split("DESCRIPTION:").nth(1).unwrap_or_default();
        assert!(
            !description.trim_start().starts_with("<empty>"),
            "{name} says nothing of itself"
        );
    }
    embedded.server.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_sample_is_accepted() -> anyhow::Result<()> {
    let embedded = Embedded::start().await?;
    let kubectl = Session::new("kubectl", &embedded)?;
    kubectl
        .run(&[
            "apply",
            "--server-side",
            "-f",
            &deploy("crds").display().to_string(),
        ])
        .await?;
    kubectl
        .run(&[
            "wait",
            "--for=condition=Established",
            "crd",
            "--all",
            "--timeout=60s",
        ])
        .await?;
    let files = samples()?;
    assert!(files.len() > 10, "{files:?}");
    let mut refused = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file)?;
        for namespace in text
            .lines()
            .filter_map(|line| line.trim().strip_prefix("namespace: "))
        {
            kubectl.try_run(&["create", "namespace", namespace], "").await?;
        }
        let said = kubectl
            .try_run(
                &["create", "--dry-run=server", "-f", &file.display().to_string()],
                "",
            )
            .await?;
        if said.code != 0 {
            refused.push(format!("{}: {}", file.display(), said.err));
        }
    }
    assert!(
        refused.is_empty(),
        "{} samples are refused:\n{}",
        refused.len(),
        refused.join("\n")
    );
    embedded.server.shutdown().await;
    Ok(())
}
