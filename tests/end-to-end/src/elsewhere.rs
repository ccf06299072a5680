//! Clouds on a cluster that is there already: nothing of this machine leads into it but the API, so a pod with the
//! client stands for the people, and public endpoints are those inside.

use std::path::Path;

use anyhow::Context;
use serde_json::{Value, json};

use crate::cloud::Cloud;

const NAMESPACE: &str = "openstack";
const CLIENT: &str = "client";
const IMAGE: &str = "ghcr.io/c5c3/openstackclient:8.2.0";

/// `c5c3 up -f` with these objects, whose public endpoints become Services; then the client's pod.
pub fn up(cloud: &Cloud, text: &str) -> anyhow::Result<()> {
    let file = cloud.state().with_extension("yaml");
    std::fs::write(&file, inside(text))?;
    let file = file.to_string_lossy().into_owned();
    println!("{}", cloud.c5c3_here("up", &["-f", &file, "--wait", "1500"])?);
    cloud.kubectl(&["apply", "-f", "-"], &pod().to_string())?;
    let ready = [
        "-n",
        NAMESPACE,
        "wait",
        "--for=condition=Ready",
        "pod/client",
        "--timeout=180s",
    ];
    cloud.kubectl(&ready, "").map(drop)
}

/// Addresses of loopback become those of the Services.
fn inside(profile: &str) -> String {
    let services = [("keystone", 5000), ("glance", 9292), ("placement", 8778)];
    services.iter().fold(profile.to_owned(), |text, (name, port)| {
        let address = format!("http://{name}.{NAMESPACE}.svc:{port}");
        text.replace(&format!("http://127.0.0.1:{port}"), &address)
    })
}

fn pod() -> Value {
    let plain = [
        ("OS_AUTH_URL", "http://keystone.openstack.svc:5000/v3"),
        ("OS_USERNAME", "admin"),
        ("OS_PROJECT_NAME", "admin"),
        ("OS_USER_DOMAIN_NAME", "Default"),
        ("OS_PROJECT_DOMAIN_NAME", "Default"),
        ("OS_IDENTITY_API_VERSION", "3"),
        ("OS_REGION_NAME", "RegionOne"),
    ];
    let mut env: Vec<Value> = plain
        .iter()
        .map(|(name, value)| json!({"name": name, "value": value}))
        .collect();
    let password = json!({"secretKeyRef": {"name": "keystone-admin-credentials", "key": "password"}});
    env.push(json!({"name": "OS_PASSWORD", "valueFrom": password}));
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": NAMESPACE, "name": CLIENT},
        "spec": {"terminationGracePeriodSeconds": 0, "containers": [
            {"name": CLIENT, "image": IMAGE, "command": ["sleep", "100000"], "env": env}]},
    })
}

/// The client in its pod; files that are named are those of the pod.
pub fn openstack(cloud: &Cloud, words: &[&str]) -> anyhow::Result<String> {
    let exec = ["-n", NAMESPACE, "exec", CLIENT, "--", "openstack"];
    cloud.kubectl(&[&exec, words].concat(), "")
}

/// Copies a file of this machine to the same path in the client's pod.
pub fn hand_over(cloud: &Cloud, file: &Path) -> anyhow::Result<()> {
    let name = file.to_str().context("a plain name")?;
    let directory = file.parent().and_then(Path::to_str).context("a directory")?;
    cloud.kubectl(
        &["-n", NAMESPACE, "exec", CLIENT, "--", "mkdir", "-p", directory],
        "",
    )?;
    cloud.kubectl(&["-n", NAMESPACE, "cp", name, &format!("{CLIENT}:{name}")], "")?;
    Ok(())
}

/// And back.
pub fn bring_back(cloud: &Cloud, file: &Path) -> anyhow::Result<()> {
    let name = file.to_str().context("a plain name")?;
    cloud.kubectl(&["-n", NAMESPACE, "cp", &format!("{CLIENT}:{name}"), name], "")?;
    Ok(())
}

/// The cloud with its volumes, and its namespace.
pub fn remove(cloud: &Cloud) -> anyhow::Result<()> {
    let with_volumes = ["annotate", "controlplane", "--all", "c5c3.io/delete-volumes=true"];
    cloud.kubectl(&[&["-n", NAMESPACE], with_volumes.as_slice()].concat(), "")?;
    let gone = [
        "-n",
        NAMESPACE,
        "delete",
        "controlplane",
        "--all",
        "--timeout=300s",
    ];
    cloud.kubectl(&gone, "")?;
    cloud.kubectl(&["delete", "namespace", NAMESPACE, "--timeout=120s"], "")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_endpoint_of_loopback_is_left() {
        let core = include_str!("../../../deploy/profiles/core.yaml");
        let text = inside(core);
        assert!(!text.contains("127.0.0.1"), "{text}");
        assert!(
            text.contains("\"http://keystone.openstack.svc:5000/v3\""),
            "{text}"
        );
    }
}
