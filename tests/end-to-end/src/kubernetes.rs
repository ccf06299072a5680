//! A real kube-apiserver on a real etcd, on loopback, for the conformance run.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::Context;
use kube::config::{KubeConfigOptions, Kubeconfig};

use crate::process::{Running, free_port};
use crate::{install_crypto, tools};

const TOKEN: &str = "conformance-admin";

pub struct Kubernetes {
    pub client: kube::Client,
    pub directory: tempfile::TempDir,
    // Dropped in this order: the server before its store.
    apiserver: Running,
    etcd: Running,
}

impl Kubernetes {
    pub async fn start() -> anyhow::Result<Self> {
        install_crypto();
        let directory = tempfile::tempdir()?;
        let path = directory.path();
        let (etcd, etcd_url) = start_etcd(path)?;
        let (apiserver, url) = start_apiserver(path, &etcd_url)?;
        write_kubeconfig(&path.join("kubeconfig"), &url)?;
        let config = kube::Config::from_custom_kubeconfig(
            Kubeconfig::read_from(path.join("kubeconfig"))?,
            &KubeConfigOptions::default(),
        )
        .await?;
        let client = kube::Client::try_from(config)?;
        let mut started = Self {
            client,
            directory,
            apiserver,
            etcd,
        };
        started.wait().await?;
        Ok(started)
    }

    async fn wait(&mut self) -> anyhow::Result<()> {
        for _ in 0..600 {
            self.etcd.check().context("etcd")?;
            self.apiserver.check().context("kube-apiserver")?;
            let request = http::Request::get("/readyz").body(Vec::new())?;
            if self
                .client
                .request_text(request)
                .await
                .is_ok_and(|answer| answer == "ok")
            {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        anyhow::bail!(
            "kube-apiserver was not ready within a minute:\n{}",
            self.apiserver.tail()
        )
    }
}

fn start_etcd(directory: &Path) -> anyhow::Result<(Running, String)> {
    let (client, peer) = (free_port()?, free_port()?);
    let (client, peer) = (
        format!("http://127.0.0.1:{client}"),
        format!("http://127.0.0.1:{peer}"),
    );
    let mut command = Command::new(tools::kubernetes("etcd")?);
    command
        .arg("--data-dir")
        .arg(directory.join("etcd"))
        .args([
            "--listen-client-urls",
            &client,
            "--advertise-client-urls",
            &client,
        ])
        .args([
            "--listen-peer-urls",
            &peer,
            "--initial-advertise-peer-urls",
            &peer,
        ])
        .args(["--initial-cluster", &format!("default={peer}")]);
    Ok((Running::start(command, &directory.join("etcd.log"))?, client))
}

fn start_apiserver(directory: &Path, etcd: &str) -> anyhow::Result<(Running, String)> {
    let port = free_port()?;
    let key = directory.join("service-account.key");
    let public = directory.join("service-account.pub");
    let pair = rcgen::KeyPair::generate()?;
    std::fs::write(&key, pair.serialize_pem())?;
    std::fs::write(&public, pair.public_key_pem())?;
    std::fs::write(
        directory.join("tokens.csv"),
        format!("{TOKEN},admin,admin,\"system:masters\"\n"),
    )?;
    let mut command = Command::new(tools::kubernetes("kube-apiserver")?);
    command
        .args([format!("--etcd-servers={etcd}"), format!("--secure-port={port}")])
        .args([
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            "--endpoint-reconciler-type=none",
        ])
        .arg(format!("--cert-dir={}", directory.join("certificates").display()))
        .arg("--service-account-issuer=https://kubernetes.default.svc")
        .arg(format!("--service-account-key-file={}", public.display()))
        .arg(format!("--service-account-signing-key-file={}", key.display()))
        .arg(format!(
            "--token-auth-file={}",
            directory.join("tokens.csv").display()
        ))
        .args([
            "--service-cluster-ip-range=10.96.0.0/16",
            "--authorization-mode=Node,RBAC",
            "--allow-privileged=true",
        ])
        // Nothing makes the accounts here: that is the controller manager's.
        .arg("--disable-admission-plugins=ServiceAccount");
    Ok((
        Running::start(command, &directory.join("kube-apiserver.log"))?,
        format!("https://127.0.0.1:{port}"),
    ))
}

fn write_kubeconfig(path: &Path, url: &str) -> anyhow::Result<()> {
    let config = serde_json::json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "conformance",
        // Its certificate is its own, made a moment ago on this machine.
        "clusters": [{"name": "conformance", "cluster": {"server": url, "insecure-skip-tls-verify": true}}],
        "users": [{"name": "admin", "user": {"token": TOKEN}}],
        "contexts": [{"name": "conformance", "context": {"cluster": "conformance", "user": "admin"}}],
    });
    std::fs::write(path, config.to_string())?;
    Ok(())
}
