//! Cortex in a cloud that runs: Nova asks it, what it decides is kept, and nobody misses it when it is gone.

use std::time::Duration;

use anyhow::{Context, ensure};
use end_to_end::patience::until;
use openstack_client::{Compute, Operating};
use serde_json::Value;

use crate::NAMESPACE;
use crate::world::World;

/// Its pod, and a scheduler that restarts.
const COMES: Duration = Duration::from_secs(240);

pub(crate) fn it_places_servers_and_is_not_missed(world: &World<'_>) -> anyhow::Result<()> {
    let cloud = world.cloud;
    let rights = cloud.c5c3(&["rbac", "--operator", "cortex", "--namespace", NAMESPACE])?;
    cloud.kubectl(&["apply", "--server-side", "-f", "-"], &rights)?;
    let on = r#"{"spec": {"cortex": {"enabled": true, "replicas": 1}}}"#;
    let patch = [
        "-n",
        NAMESPACE,
        "patch",
        "controlplane",
        "cloud",
        "--type=merge",
        "-p",
        on,
    ];
    cloud.kubectl(&patch, "")?;
    until("Nova asks Cortex", COMES, || {
        let list = ["-n", NAMESPACE, "get", "cortex,nova,controlplane", "-o", "json"];
        let list: Value = serde_json::from_str(&cloud.kubectl(&list, "")?)?;
        let items = list["items"].as_array().cloned().unwrap_or_default();
        let waits = items.iter().find(|object| !is_ready(object));
        Ok(match waits {
            None if items.len() == 3 => Ok(()),
            None => Err("Cortex is not there yet".to_owned()),
            Some(object) => Err(format!("{}: {}", object["kind"], object["status"]["conditions"])),
        })
    })?;
    let placed = world.run(world.session.create_server(&world.draft("placed")))?;
    let host = world.settled(&placed, "ACTIVE")?.host.context("its host")?;
    let decision = ["get", "decision", &format!("nova-{placed}"), "-o", "json"];
    let decision = until("its decision is kept", Duration::from_secs(30), || {
        Ok(cloud.kubectl(&decision, "").map_err(|error| error.to_string()))
    })?;
    let decision: Value = serde_json::from_str(&decision)?;
    ensure!(decision["status"]["targetHost"] == *host, "{host}: {decision}");
    let all = [
        "-n",
        NAMESPACE,
        "delete",
        "pod",
        "-l",
        "app.kubernetes.io/name=cortex",
        "--force",
        "--wait=false",
    ];
    cloud.kubectl(&all, "")?;
    let alone = world.run(world.session.create_server(&world.draft("alone")))?;
    world.settled(&alone, "ACTIVE")?;
    for server in [placed, alone] {
        world.run(world.session.delete_server(&server))?;
        world.gone(&server, Duration::from_secs(60))?;
    }
    Ok(())
}

/// Of its newest generation.
fn is_ready(object: &Value) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|one| {
        one["type"] == "Ready"
            && one["status"] == "True"
            && one["observedGeneration"] == object["metadata"]["generation"]
    })
}
