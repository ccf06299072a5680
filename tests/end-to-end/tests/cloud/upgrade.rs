//! From one release of OpenStack to the next while it is used.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, ensure};
use end_to_end::cloud::Cloud;
use end_to_end::patience::until;
use end_to_end::stream::Stream;
use serde_json::{Value, json};

use crate::ha::{CHECKERS, NAMESPACE};

const SERVICES: [&str; 3] = ["keystone", "glance", "placement"];
const NEXT: &str = "2026.1";

#[test]
fn an_update_to_the_next_release_turns_nobody_away() -> anyhow::Result<()> {
    let cloud = crate::up(crate::CORE, 1)?;
    cloud.c5c3(&[&["image", "build", "--release", NEXT], SERVICES.as_slice()].concat())?;
    let two = |service: &str| (service.to_owned(), json!({"replicas": 2}));
    let services: Value = SERVICES.map(two).into_iter().collect();
    change(&cloud, &json!({"services": services}))?;
    until_ready(&cloud)?;
    let before = images(&cloud)?;

    let stream = Stream::start(&cloud, NAMESPACE, "update", Duration::from_secs(900), &CHECKERS)?;
    change(&cloud, &json!({"openStackRelease": NEXT}))?;
    let phases = until_ready(&cloud)?;
    stream.more(10)?;
    let outcome = stream.stop()?;
    println!(
        "{} turns, {} failed; {phases:?}",
        outcome.good,
        outcome.failed.len()
    );
    ensure!(outcome.failed.is_empty(), "{:?}", outcome.failed);

    let status = &read(&cloud)?["status"];
    ensure!(
        (&status["updatePhase"], &status["installedRelease"]) == (&json!("Complete"), &json!(NEXT)),
        "{status}"
    );
    let after = images(&cloud)?;
    ensure!(
        after.len() == SERVICES.len() && after.is_disjoint(&before),
        "{before:?} became {after:?}"
    );
    Ok(())
}

fn change(cloud: &Cloud, spec: &Value) -> anyhow::Result<()> {
    let patch = json!({"spec": spec}).to_string();
    let cloud_object = "controlplane/cloud";
    let words = [
        "-n",
        NAMESPACE,
        "patch",
        cloud_object,
        "--type=merge",
        "-p",
        &patch,
    ];
    cloud.kubectl(&words, "").map(drop)
}

fn read(cloud: &Cloud) -> anyhow::Result<Value> {
    let text = cloud.kubectl(&["-n", NAMESPACE, "get", "controlplane/cloud", "-o", "json"], "")?;
    Ok(serde_json::from_str(&text)?)
}

/// Waits until all that was changed is in place. The phases on the way, in none of which it may call
/// itself Ready.
fn until_ready(cloud: &Cloud) -> anyhow::Result<BTreeSet<String>> {
    let mut phases = BTreeSet::new();
    until("the cloud is Ready", Duration::from_secs(300), || {
        let object = read(cloud)?;
        let status = &object["status"];
        if status["observedGeneration"] != object["metadata"]["generation"] {
            return Ok(Err("not checked yet".to_owned()));
        }
        let conditions = status["conditions"].as_array().context("conditions")?;
        let ready = conditions.iter().find(|condition| condition["type"] == "Ready");
        let ready = ready.context("a condition Ready")?;
        let phase = status["updatePhase"].as_str().unwrap_or_default();
        let is_ready = ready["status"] == "True";
        let resting = ["Idle", "Complete"].contains(&phase);
        ensure!(!is_ready || resting, "Ready while {phase}: {ready}");
        phases.insert(phase.to_owned());
        Ok(if is_ready { Ok(()) } else { Err(ready.to_string()) })
    })?;
    Ok(phases)
}

/// The images of all pods of the services.
fn images(cloud: &Cloud) -> anyhow::Result<BTreeSet<String>> {
    let labels = format!("app.kubernetes.io/name in ({})", SERVICES.join(","));
    let path = "jsonpath={range .items[*]}{.spec.containers[0].image}{'\\n'}{end}";
    let running = "--field-selector=status.phase=Running";
    let said = cloud.kubectl(
        &["-n", NAMESPACE, "get", "pods", "-l", &labels, running, "-o", path],
        "",
    )?;
    Ok(said.lines().map(str::to_owned).collect())
}
