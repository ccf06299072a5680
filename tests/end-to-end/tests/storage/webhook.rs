//! The webhook that puts Prysm beside RadosGW.

use std::net::TcpStream;
use std::process::Command;

use anyhow::ensure;
use serde_json::json;

use crate::prysm::Prysm;
use crate::world::{Storage, until};

const IMAGE: &str = concat!("ghcr.io/c5c3/c5c3:", env!("CARGO_PKG_VERSION"));

/// The webhook on the machine's loopback, where the API server of the test is too.
pub(crate) struct Webhook {
    _prysm: Prysm,
    _files: tempfile::TempDir,
}

impl Webhook {
    pub(crate) fn start(storage: &Storage) -> anyhow::Result<Self> {
        let files = tempfile::tempdir()?;
        let (certificate, key) = (files.path().join("tls.crt"), files.path().join("tls.key"));
        let made = Command::new("openssl")
            .args([
                "req",
                "-x509",
                "-newkey",
                "rsa:2048",
                "-nodes",
                "-days",
                "1",
                "-subj",
                "/CN=prysm",
            ])
            .args([
                "-addext",
                "subjectAltName=IP:127.0.0.1",
                "-addext",
                "basicConstraints=critical,CA:FALSE",
            ])
            .arg("-keyout")
            .arg(&key)
            .arg("-out")
            .arg(&certificate)
            .output()?;
        ensure!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let prysm = Prysm::start(&[
            "sidecar-webhook",
            "--image",
            IMAGE,
            "--certificate",
            &certificate.to_string_lossy(),
            "--key",
            &key.to_string_lossy(),
        ])?;
        let bundle = Command::new("base64")
            .arg("-w0")
            .arg(&certificate)
            .output()?
            .stdout;
        let configuration = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": "prysm-sidecar"},
            "webhooks": [{
                "name": "prysm-sidecar.c5c3.io", "sideEffects": "None", "admissionReviewVersions": ["v1"],
                "clientConfig": {
                    "url": format!("https://127.0.0.1:{}/mutate", prysm.port),
                    "caBundle": String::from_utf8(bundle)?},
                "failurePolicy": "Fail",
                "objectSelector": {"matchLabels": {"app": "rook-ceph-rgw"}},
                "rules": [{"operations": ["CREATE", "UPDATE"], "apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments"]}],
            }],
        });
        until(20, "the webhook listens", || {
            Ok(TcpStream::connect(("127.0.0.1", prysm.port))?)
        })?;
        storage.apply(&configuration.to_string())?;
        Ok(Webhook {
            _prysm: prysm,
            _files: files,
        })
    }

    /// Without its configuration nobody asks for it any more.
    pub(crate) fn end(self, storage: &Storage) -> anyhow::Result<()> {
        let configuration = "mutatingwebhookconfiguration/prysm-sidecar";
        storage.0.kubectl(&["delete", configuration], "").map(drop)
    }
}
