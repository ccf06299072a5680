//! Tempest against the whole cloud: what runs passes, and nothing of it stays.

use std::time::Duration;

use anyhow::{Context, ensure};
use end_to_end::cloud::Cloud;
use end_to_end::patience::until;
use serde_json::Value;

use crate::NAMESPACE;

/// Five minutes on an idle machine with two cores, and its image.
const SMOKE: Duration = Duration::from_secs(1200);
/// What a cloud like this cannot be asked, by the reason that Tempest gives.
const LACKING: [&str; 4] = [
    "swift is not available",
    "extension: trunk is not enabled",
    "extension: qos is not enabled",
    "vpnaas extension not enabled",
];

/// Switched on in the ControlPlane, it runs once by itself.
pub(crate) fn smoke_tests_pass(cloud: &Cloud) -> anyhow::Result<()> {
    cloud.c5c3(&["image", "build", "tempest"])?;
    let on = r#"{"spec": {"tempest": {"enabled": true}}}"#;
    cloud.kubectl(
        &[
            "-n",
            NAMESPACE,
            "patch",
            "controlplane/cloud",
            "--type=merge",
            "-p",
            on,
        ],
        "",
    )?;
    let results = until("the smoke tests have run", SMOKE, || {
        let found = ["-n", NAMESPACE, "get", "tempest", "tempest", "-o", "json"];
        // It is made by the operator, which may not have seen the change yet.
        let Ok(found) = cloud.kubectl(&found, "") else {
            return Ok(Err("there is no Tempest yet".to_owned()));
        };
        let found: Value = serde_json::from_str(&found)?;
        let results = &found["status"]["results"];
        Ok(if results.is_object() {
            Ok(results.clone())
        } else {
            Err(found["status"].to_string())
        })
    })?;
    println!("tempest: {results}");
    ensure!(results["failed"] == 0, "{results}");
    ensure!(results["leftOver"] == 0, "{results}");
    let passed = results["passed"].as_u64().context("a number")?;
    ensure!(
        passed >= 100,
        "so few tests ran that they prove little: {results}"
    );
    skipped_for_a_known_reason(cloud)
}

fn skipped_for_a_known_reason(cloud: &Cloud) -> anyhow::Result<()> {
    let pods = ["-l", "app.kubernetes.io/name=tempest", "--tail=-1"];
    let log = cloud.kubectl(&[&["-n", NAMESPACE, "logs"], &pods[..]].concat(), "")?;
    let skipped: Vec<&str> = log.lines().filter(|line| line.contains("] skipped ")).collect();
    ensure!(
        !skipped.is_empty(),
        "the log does not tell what was skipped: {log}"
    );
    let odd: Vec<&&str> = skipped
        .iter()
        .filter(|line| !LACKING.iter().any(|reason| line.contains(reason)))
        .collect();
    ensure!(odd.is_empty(), "skipped for a reason that is not known: {odd:#?}");
    Ok(())
}
