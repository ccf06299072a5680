//! What is in a volume: an image of random bytes goes in, and is compared by checksum wherever it comes out.

use std::io::Read;

use anyhow::{Context, ensure};
use end_to_end::ceph_users::field;
use end_to_end::cloud::Cloud;
use serde_json::{Value, json};

use crate::NAMESPACE;
use crate::api::Api;

/// Of an image: enough for several objects of Ceph.
const BYTES: u64 = 24 * 1024 * 1024;

/// An image of random bytes; its id, and its checksum as Glance told it (SHA-512).
pub(crate) fn image(glance: &Api, name: &str) -> anyhow::Result<(String, String)> {
    let mut file = tempfile::NamedTempFile::new()?;
    let mut random = std::fs::File::open("/dev/urandom")?.take(BYTES);
    std::io::copy(&mut random, &mut file)?;
    let path = file.path().to_string_lossy().into_owned();
    let spec = json!({"name": name, "disk_format": "raw", "container_format": "bare"});
    let made = glance.call("POST", "/v2/images", Some(&spec))?;
    let id = made["id"].as_str().with_context(|| made.to_string())?.to_owned();
    glance.upload(&format!("/v2/images/{id}/file"), &path)?;
    let seen: Value = glance.call("GET", &format!("/v2/images/{id}"), None)?;
    ensure!(seen["status"] == "active", "{seen}");
    let told = seen["os_hash_value"].as_str().context("a checksum")?.to_owned();
    let own = file_sum(&path)?;
    ensure!(told == own, "{own} was sent, Glance has {told}");
    let came = tempfile::NamedTempFile::new()?;
    let came = came.path().to_string_lossy().into_owned();
    glance.download(&format!("/v2/images/{id}/file"), &came)?;
    ensure!(file_sum(&came)? == own, "another image came back");
    Ok((id, own))
}

fn file_sum(path: &str) -> anyhow::Result<String> {
    let output = std::process::Command::new("sha512sum").arg(path).output()?;
    let text = end_to_end::cloud::said(output, path)?;
    Ok(text.split_whitespace().next().context("a checksum")?.to_owned())
}

/// A volume with the bytes of an image.
pub(crate) fn volume(cinder: &Api, image: &str, kind: &str) -> anyhow::Result<String> {
    cinder.make(
        "volumes",
        "volume",
        &json!({"size": 1, "name": "data", "imageRef": image, "volume_type": kind}),
    )
}

/// As whom a backend's process works.
pub(crate) fn user(cloud: &Cloud) -> anyhow::Result<String> {
    let told = field(
        cloud,
        "cinder/cinder",
        "{.status.conditions[?(@.type==\"CephConnected\")].message}",
    )?;
    let user = told.rsplit_once("client.").with_context(|| told.clone())?.1;
    // One of the processes is named; all of Cinder's backends here have one user.
    let labels = field(cloud, "deployment/cinder-volume-ceph", "{.metadata.labels}")?;
    let of_backend = labels
        .split("ceph.c5c3.io/user.")
        .nth(1)
        .and_then(|rest| rest.split('"').next());
    Ok(of_backend.unwrap_or(user).to_owned())
}

/// What a script prints beside a process of Cinder.
pub(crate) fn beside(cloud: &Cloud, deployment: &str, script: &str) -> anyhow::Result<String> {
    let place = format!("deployment/{deployment}");
    let exec = [
        "-n", NAMESPACE, "exec", &place, "--", "timeout", "120", "bash", "-ec", script,
    ];
    Ok(cloud.kubectl(&exec, "")?.trim().to_owned())
}

/// The first bytes of a device, which are those of the image.
pub(crate) fn sum(cloud: &Cloud, pool: &str, volume: &str) -> anyhow::Result<String> {
    let user = user(cloud)?;
    let script = format!(
        "rbd --id {user} export --no-progress {pool}/volume-{volume} - | head -c {BYTES} | sha512sum"
    );
    let told = beside(cloud, "cinder-volume-ceph", &script)?;
    Ok(told.split_whitespace().next().context("a checksum")?.to_owned())
}
