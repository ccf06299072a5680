//! Keystone, Glance and Placement, one replica of each: use them, crash them, leave them alone, delete them.

use std::time::Duration;

use anyhow::{Context, ensure};
use end_to_end::cloud::Cloud;
use end_to_end::elsewhere;
use end_to_end::patience::{until, until_ok, until_true};
use serde_json::Value;

use crate::drills;
use crate::leaks::nothing_secret_is_open;
use crate::objects::versions;

/// A stretch in which nothing is asked for: longer than every poll of ours. `make soak` makes it ten minutes.
fn idle() -> Duration {
    let given = std::env::var("C5C3_IDLE").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(given.unwrap_or(90))
}

fn openstack(cloud: &Cloud, words: &str) -> anyhow::Result<Value> {
    let words: Vec<&str> = words.split(' ').collect();
    let said = client(cloud, &[words.as_slice(), &["-f", "json"]].concat())?;
    serde_json::from_str(&said).with_context(|| said.clone())
}

fn client(cloud: &Cloud, words: &[&str]) -> anyhow::Result<String> {
    if cloud.is_elsewhere() {
        elsewhere::openstack(cloud, words)
    } else {
        cloud.c5c3_here("openstack", words)
    }
}

#[test]
fn one_object_becomes_a_cloud_that_people_use() -> anyhow::Result<()> {
    let cloud = crate::up(crate::CORE, 1)?;
    people_use_it(&cloud)?;
    it_says_how_it_is(&cloud)?;
    nothing_secret_is_open(&cloud)?;
    a_mistake_touches_nothing(&cloud)?;
    if cloud.is_elsewhere() {
        drills::a_credential_rotates(&cloud)?;
        drills::a_password_changes(&cloud)?;
        drills::programs_die(&cloud)?;
    } else {
        it_survives_a_crash(&cloud)?;
        it_comes_back_after_down(&cloud)?;
        idle_is_silent(&cloud)?;
    }
    deleted_it_leaves_only_volumes_and_their_keys(&cloud)
}

fn people_use_it(cloud: &Cloud) -> anyhow::Result<()> {
    let token = openstack(cloud, "token issue")?;
    ensure!(token["id"].as_str().is_some_and(|id| id.len() > 50), "{token}");

    // A project and a user of their own.
    let project = openstack(cloud, "project create demo")?;
    let user = openstack(cloud, "user create --project demo --password try-me demo")?;
    let role = ["role", "add", "--user", "demo", "--project", "demo", "member"];
    client(cloud, &role)?;

    // An image goes in and comes out the same.
    let directory = tempfile::tempdir()?;
    let (there, back) = (
        directory.path().join("disk.img"),
        directory.path().join("back.img"),
    );
    let content: Vec<u8> = (0..3_000_000u32)
        .map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    std::fs::write(&there, &content)?;
    if cloud.is_elsewhere() {
        elsewhere::hand_over(cloud, &there)?;
    }
    let create = format!(
        "image create --disk-format raw --container-format bare --file {} disk",
        there.display()
    );
    ensure!(openstack(cloud, &create)?["status"] == "active");
    let back_text = back.to_string_lossy().into_owned();
    client(cloud, &["image", "save", "--file", &back_text, "disk"])?;
    if cloud.is_elsewhere() {
        elsewhere::bring_back(cloud, &back)?;
    }
    ensure!(std::fs::read(&back)? == content, "another image came back");

    // A host with room, and somebody who takes some of it.
    let provider = openstack(cloud, "resource provider create host-1")?;
    let host = provider["uuid"].as_str().context("a uuid")?;
    openstack(
        cloud,
        &format!("resource provider inventory set {host} --resource VCPU=8 --resource MEMORY_MB=4096"),
    )?;
    let consumer = "6f5b1a0e-8f0c-4f0e-9f63-0b6f1f6f9a11";
    let id = |value: &Value| value["id"].as_str().unwrap_or_default().to_owned();
    let take = format!(
        "resource provider allocation set {consumer} --allocation rp={host},VCPU=2,MEMORY_MB=512 --project-id {} --user-id {}",
        id(&project),
        id(&user)
    );
    openstack(cloud, &take)?;
    let usage = openstack(cloud, &format!("resource provider usage show {host}"))?;
    let used = |class: &str| {
        let rows = usage.as_array().into_iter().flatten();
        rows.filter(|row| row["resource_class"] == class)
            .find_map(|row| row["usage"].as_i64())
    };
    ensure!(
        (used("VCPU"), used("MEMORY_MB")) == (Some(2), Some(512)),
        "{usage}"
    );
    Ok(())
}

fn it_says_how_it_is(cloud: &Cloud) -> anyhow::Result<()> {
    let status: Value = serde_json::from_str(&cloud.c5c3_here("status", &["-o", "json"])?)?;
    ensure!(status["clouds"][0]["ready"] == true, "{status}");
    let parts = status["parts"].as_array().context("parts")?;
    ensure!(
        parts.len() >= 5 && parts.iter().all(|part| part["ready"] == true),
        "{status}"
    );
    ensure!(cloud.c5c3_here("explain", &[])?.contains("everything is healthy"));
    ensure!(
        cloud
            .c5c3_here("env", &[])?
            .contains("export OS_AUTH_URL='http://")
    );
    ensure!(!cloud.c5c3_here("logs", &["keystone"])?.is_empty());
    Ok(())
}

fn pods(cloud: &Cloud) -> anyhow::Result<String> {
    let running = "--field-selector=status.phase=Running";
    cloud.kubectl(&["-n", "openstack", "get", "pods", running, "-o", "name"], "")
}

fn a_mistake_touches_nothing(cloud: &Cloud) -> anyhow::Result<()> {
    let before = pods(cloud)?;
    let release = |release: &str| {
        let patch = format!("{{\"spec\": {{\"openStackRelease\": \"{release}\"}}}}");
        let words = [
            "-n",
            "openstack",
            "patch",
            "controlplane/cloud",
            "--type=merge",
            "-p",
            &patch,
        ];
        cloud.kubectl(&words, "")
    };
    let wait = |condition: &str| {
        let condition = format!("--for={condition}");
        let words = [
            "-n",
            "openstack",
            "wait",
            &condition,
            "controlplane/cloud",
            "--timeout=60s",
        ];
        cloud.kubectl(&words, "")
    };
    release("2019.1")?;
    wait("condition=Ready=false")?;
    let said = cloud.c5c3_here("explain", &[]).err().map(|e| e.to_string());
    let said = said.unwrap_or_default();
    ensure!(
        said.contains("openStackRelease: 2019.1 is not known; use one of"),
        "{said}"
    );
    release("2025.2")?;
    wait("condition=Ready")?;
    ensure!(pods(cloud)? == before, "a pod was touched");
    Ok(())
}

fn it_survives_a_crash(cloud: &Cloud) -> anyhow::Result<()> {
    let before = pods(cloud)?;
    cloud.crash()?;
    // Nobody asked for another cloud: `up` finds the one that is there.
    cloud.c5c3_here("up", &["--wait", "300"])?;
    ensure!(pods(cloud)? == before, "a pod was made anew");
    let images = openstack(cloud, "image list")?;
    ensure!(images.as_array().is_some_and(|all| all.len() == 1), "{images}");

    // A pod goes: another comes, and the cloud is healthy again.
    let keystone = before
        .lines()
        .find(|name| name.contains("keystone"))
        .context("a pod of Keystone")?;
    cloud.kubectl(
        &[
            "-n",
            "openstack",
            "delete",
            keystone,
            "--grace-period=0",
            "--force",
        ],
        "",
    )?;
    until_true("another pod of Keystone", Duration::from_secs(60), || {
        let now = pods(cloud)?;
        let mut pods = now.lines();
        Ok(pods.any(|name| name.contains("keystone") && name != keystone))
    })?;
    cloud.kubectl(
        &[
            "-n",
            "openstack",
            "wait",
            "--for=condition=Ready",
            "controlplane/cloud",
            "--timeout=180s",
        ],
        "",
    )?;
    openstack(cloud, "token issue").map(drop)
}

/// What is stored says Ready all the time; `up` returns when it is true again.
fn it_comes_back_after_down(cloud: &Cloud) -> anyhow::Result<()> {
    cloud.c5c3_here("down", &[])?;
    cloud.c5c3_here("up", &["--wait", "300"])?;
    let images = openstack(cloud, "image list")?;
    ensure!(images.as_array().is_some_and(|all| all.len() == 1), "{images}");
    Ok(())
}

fn idle_is_silent(cloud: &Cloud) -> anyhow::Result<()> {
    // What the crash and the pod's end have set off settles first.
    until_ok("writing ends", Duration::from_secs(180), || {
        let written = cloud.writes(&[])?;
        std::thread::sleep(Duration::from_secs(20));
        cloud.nothing_written_since(&written, &[])
    })?;
    a_silent_stretch(cloud)?;
    let figures = cloud.kubectl(&["get", "--raw", "/metrics"], "")?;
    ensure!(
        figures.contains("c5c3_reconcile_total{"),
        "the operators' figures are not shown"
    );
    Ok(())
}

fn a_silent_stretch(cloud: &Cloud) -> anyhow::Result<()> {
    let (before, written) = (versions(cloud, "openstack")?, cloud.writes(&[])?);
    std::thread::sleep(idle());
    cloud.nothing_written_since(&written, &[])?;
    let after = versions(cloud, "openstack")?;
    let changed: Vec<&String> = after
        .iter()
        .filter(|(name, version)| before.get(*name) != Some(version))
        .map(|(name, _)| name)
        .collect();
    ensure!(
        changed.is_empty(),
        "written while nothing was asked for: {changed:?}"
    );
    Ok(())
}

fn deleted_it_leaves_only_volumes_and_their_keys(cloud: &Cloud) -> anyhow::Result<()> {
    cloud.kubectl(
        &[
            "-n",
            "openstack",
            "delete",
            "controlplane",
            "cloud",
            "--timeout=240s",
        ],
        "",
    )?;
    if cloud.is_elsewhere() {
        cloud.kubectl(&["-n", "openstack", "delete", "pod", "client"], "")?;
    }
    // What belongs to the machine or to every namespace, the volumes, and the keys to what is in them.
    let stays = |name: &str| {
        let keys = ["-naming-key", "-fernet-keys", "-credential-keys", "/mariadb-root"];
        name.contains("/PersistentVolumeClaim/")
            || name.contains("/Secret/") && keys.iter().any(|key| name.ends_with(key))
            || name.ends_with("/ConfigMap/kube-root-ca.crt")
            || name.ends_with("/ServiceAccount/default")
    };
    until("nothing is left behind", Duration::from_secs(120), || {
        let left = versions(cloud, "openstack")?
            .into_keys()
            .filter(|name| !stays(name));
        let left: Vec<String> = left.collect();
        Ok(if left.is_empty() {
            Ok(())
        } else {
            Err(left.join("\n"))
        })
    })?;
    let claims = cloud.kubectl(&["-n", "openstack", "get", "pvc", "-o", "name"], "")?;
    ensure!(claims.lines().count() >= 2, "the volumes stay: {claims}");
    Ok(())
}
