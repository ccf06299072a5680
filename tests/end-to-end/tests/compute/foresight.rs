//! What c5c3 says before a change is made, and where it leads when something is broken.

use anyhow::ensure;
use end_to_end::cloud::Cloud;
use end_to_end::patience::until;
use serde_json::Value;

use crate::world::World;
use crate::{NAMESPACE, PATIENCE, hypervisors_are_up};

/// The exit code of `explain` when something blocks.
const BLOCKED: i32 = 4;

/// Another number of replicas, as text and as JSON; nothing is written.
pub(crate) fn a_change_is_foretold(cloud: &Cloud) -> anyhow::Result<()> {
    let get = ["-n", NAMESPACE, "get", "controlplane/cloud", "-o", "json"];
    let before: Value = serde_json::from_str(&cloud.kubectl(&get, "")?)?;
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("change.yaml");
    let mut change = before.clone();
    change["spec"]["services"]["keystone"]["replicas"] = 2.into();
    std::fs::write(&file, change.to_string())?;
    let file = file.to_string_lossy().into_owned();

    let said = cloud.c5c3_here("plan", &["-f", &file])?;
    let object = "Keystone.keystone.openstack.c5c3.io openstack/keystone";
    for words in ["Stage 1", &format!("~ {object}"), "1 → 2"] {
        ensure!(said.contains(words), "{words} is not in:\n{said}");
    }
    ensure!(!said.contains("Nova."), "nothing else changes:\n{said}");
    let said: Value = serde_json::from_str(&cloud.c5c3_here("plan", &["-f", &file, "-o", "json"])?)?;
    let told = said.to_string();
    ensure!(told.contains(object) && told.contains("1 → 2"), "{told}");

    std::fs::write(directory.path().join("change.yaml"), before.to_string())?;
    let said = cloud.c5c3_here("plan", &["-f", &file])?;
    ensure!(said.contains("Nothing changes."), "{said}");
    let after: Value = serde_json::from_str(&cloud.kubectl(&get, "")?)?;
    ensure!(
        after["metadata"]["generation"] == before["metadata"]["generation"],
        "it was written"
    );
    Ok(())
}

/// nova-compute ends on each host as soon as it runs. What explains the cloud goes from the ControlPlane into the cluster
/// of the hypervisors; left alone, all mends by itself.
pub(crate) fn the_way_down_leads_to_a_pod_beside_the_guests(world: &World<'_>) -> anyhow::Result<()> {
    let cloud = world.cloud;
    until("the way leads to the pod of nova-compute", PATIENCE, || {
        for pod in world.pods("nova-compute-cell1")? {
            // In the pause before the next start there is nothing to end.
            let _ = cloud.kill_programs(&pod.place(), &[&pod.name], "nova-compute");
        }
        let (code, said, _) = cloud.tried("explain", &[])?;
        let links = [
            "ControlPlane",
            "Nova",
            "Pod nova-compute-cell1-",
            "in cluster hypervisor",
        ];
        let whole = code == BLOCKED && links.iter().all(|link| said.contains(link));
        Ok(if whole { Ok(()) } else { Err(said) })
    })?;
    hypervisors_are_up(cloud)?;
    until("nothing blocks any more", PATIENCE, || {
        let (code, said, _) = cloud.tried("explain", &[])?;
        Ok(if code == 0 { Ok(()) } else { Err(said) })
    })
}
