//! A plain cluster; and from objects to a real token: a database, a cache and Keystone in real containers.
//!
//! Needs root. The images are built first; that takes minutes once, then nothing.

use std::path::Path;

use end_to_end::cloud::{Cloud, ask, token};
use end_to_end::process;

#[test]
fn objects_become_a_keystone_that_gives_tokens_and_survives_a_crash() -> anyhow::Result<()> {
    let cloud = Cloud::up(&["keystone", "mariadb", "memcached"])?;
    let port = process::free_port()?;
    let quickstart = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/quickstart/identity.yaml");
    let objects = std::fs::read_to_string(quickstart)?
        .replace("c5c3.io/expose: \"5000\"", &format!("c5c3.io/expose: \"{port}\""))
        .replace("http://127.0.0.1:5000/v3", &format!("http://127.0.0.1:{port}/v3"));
    cloud.kubectl(&["apply", "-f", "-"], &objects)?;
    let ready = [
        "-n",
        "openstack",
        "wait",
        "--for=condition=Ready",
        "keystone/keystone",
        "--timeout=300s",
    ];
    cloud.kubectl(&ready, "").or_else(|error| {
        let status = cloud.kubectl(
            &["-n", "openstack", "get", "keystone,mariadb,pods", "-o", "wide"],
            "",
        )?;
        Err(error.context(status))
    })?;

    let url = format!("http://127.0.0.1:{port}/v3");
    let first = token(&url, "try-me-admin")?.expect("a token");
    let wrong = token(&url, "guess")?.expect_err("no token");
    assert!(wrong.contains("401"), "{wrong}");

    // Nothing secret in what anybody may read.
    let open = cloud.kubectl(
        &[
            "-n",
            "openstack",
            "get",
            "configmaps,pods,keystones,events",
            "-o",
            "yaml",
        ],
        "",
    )?;
    for secret in ["try-me-admin", "try-me-database"] {
        let applied = open.lines().filter(|line| line.contains(secret)).count();
        assert_eq!(applied, 0, "{secret} is open");
    }

    // The process behind the cluster crashes: pods run on, and the next `up` finds them.
    let before = cloud.kubectl(&["-n", "openstack", "get", "pods", "-o", "name"], "")?;
    cloud.crash()?;
    cloud.start()?;
    cloud.kubectl(&ready, "")?;
    assert_eq!(
        cloud.kubectl(&["-n", "openstack", "get", "pods", "-o", "name"], "")?,
        before,
        "no pod was made anew"
    );
    let subject = format!("X-Subject-Token: {first}");
    let own = format!("X-Auth-Token: {first}");
    let valid = ask(&format!("{url}/auth/tokens"), &[&own, &subject], None)?;
    assert!(
        valid.starts_with("HTTP/1.1 200"),
        "{}",
        valid.lines().next().unwrap_or_default()
    );
    Ok(())
}

#[test]
fn a_plain_cluster_comes_loses_a_node_and_goes() -> anyhow::Result<()> {
    let cloud = Cloud::new()?;
    let said = cloud.c5c3_here("up", &["--cluster-only", "--nodes", "2"])?;
    let kubeconfig = cloud.state().join("api/kubeconfig");
    let hint = format!("export KUBECONFIG={}", kubeconfig.display());
    assert!(said.contains(&hint), "{said}");
    assert_eq!(
        cloud.kubectl(&["get", "crd", "-o", "name"], "")?,
        "",
        "a plain one"
    );

    let state = cloud.state().display().to_string();
    let node = |command: &str| cloud.c5c3(&["node", command, "--state-dir", &state, "node-2"]);
    let until = |status: &str| {
        let condition = format!("--for=condition=Ready={status}");
        cloud.kubectl(&["wait", &condition, "node/node-2", "--timeout=90s"], "")
    };
    until("True")?;
    node("kill")?;
    until("False")?;
    let listed = cloud.c5c3(&["node", "list", "--state-dir", &state])?;
    let off = |line: &str| line.contains("node-2") && line.to_lowercase().contains("off");
    assert!(listed.lines().any(off), "{listed}");
    node("start")?;
    until("True")?;

    cloud.c5c3_here("down", &["--purge"])?;
    assert!(!cloud.state().exists(), "no file is left");
    Ok(())
}
