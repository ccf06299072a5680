//! The account that Ceph's arbiter has in another cluster of the machine.

use anyhow::Context;
use serde_json::{Value, json};

use crate::cloud::Cloud;

/// Name of the Secret with its kubeconfig.
pub const SECRET: &str = "arbiter-kubeconfig";
/// kubectl's words for the place of the arbiter.
pub const THERE: [&str; 4] = ["--context", "arbiter", "-n", "external-arbiter"];
/// What a person applies to the cluster of the arbiter.
pub const ACCOUNT: &str = include_str!("../../../deploy/quickstart/arbiter.yaml");

/// Makes a kubeconfig for the account over there, with a token and nothing more. `here`: the cluster with Ceph.
pub fn access_key(cloud: &Cloud, here: &[&str], namespace: &str) -> anyhow::Result<()> {
    let token = cloud.kubectl(&[&THERE[..], &["create", "token", "c5c3-arbiter"]].concat(), "")?;
    let view = [
        "--context",
        "arbiter",
        "config",
        "view",
        "--raw",
        "--minify",
        "-o",
        "json",
    ];
    let mut config: Value = serde_json::from_str(&cloud.kubectl(&view, "")?)?;
    let user = config["users"].get_mut(0).context("a user")?;
    user["user"] = json!({"token": token.trim()});
    let secret = json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": SECRET, "namespace": namespace},
        "stringData": {"kubeconfig.yaml": config.to_string()}});
    let apply = [here, &["apply", "-f", "-"]].concat();
    cloud.kubectl(&apply, &secret.to_string()).map(drop)
}
