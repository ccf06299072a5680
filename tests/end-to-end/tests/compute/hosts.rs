//! Hosts are looked after in their own cluster: emptied, lost, back again.

use anyhow::{Context, ensure};
use end_to_end::patience::{until, until_ok};
use serde_json::Value;

use crate::world::World;
use crate::{PATIENCE, inside};

/// Here the routers are: the other one can be lost without losing the way to the guests.
const ROUTER: &str = "hypervisor-1";
const OTHER: &str = "hypervisor-2";

fn seen(world: &World<'_>) -> anyhow::Result<Vec<Value>> {
    let said = world.cloud.c5c3_here("hypervisor list", &["-o", "json"])?;
    serde_json::from_str(&said).with_context(|| said.clone())
}

fn all_in_service(world: &World<'_>) -> anyhow::Result<()> {
    until("both hosts are in service", PATIENCE, || {
        let hosts = seen(world)?;
        let well = hosts.len() == 2 && hosts.iter().all(|host| host["ready"] == true);
        Ok(if well { Ok(()) } else { Err(format!("{hosts:?}")) })
    })
}

fn drained(world: &World<'_>, host: &str) -> anyhow::Result<()> {
    let drain = [host, "--reason", "a fan is replaced", "--timeout", "300"];
    let said = world.cloud.c5c3_here("hypervisor drain", &drain)?;
    ensure!(world.named("demo")?.host.as_deref() != Some(host), "{said}");
    world
        .cloud
        .c5c3_here("hypervisor enable", &[host, "--timeout", "120"])?;
    Ok(())
}

/// Afterwards the server is not where the routers are.
pub fn an_emptied_host_gives_its_server_away(world: &World<'_>) -> anyhow::Result<()> {
    all_in_service(world)?;
    if world.named("demo")?.host.as_deref() != Some(ROUTER) {
        drained(world, OTHER)?;
    }
    drained(world, ROUTER)
}

pub fn a_server_of_a_host_without_power_starts_elsewhere(world: &World<'_>) -> anyhow::Result<()> {
    let boot = "cat /proc/sys/kernel/random/boot_id";
    let before = inside(world.cloud, boot)?;
    let id = world.named("demo")?.server.id;
    world.cloud.c5c3_here("node kill", &[OTHER])?;
    until("it runs on the other host", PATIENCE, || {
        let seen = world.server(&id)?;
        let there =
            seen.host.as_deref() == Some(ROUTER) && seen.server.status == "ACTIVE" && seen.task.is_none();
        Ok(if there { Ok(()) } else { Err(format!("{seen:?}")) })
    })?;
    let after = until_ok("the guest answers", PATIENCE, || inside(world.cloud, boot))?;
    ensure!(before != after, "it was never off");
    let lost = seen(world)?.into_iter().find(|host| host["name"] == OTHER);
    let said = lost.map(|host| host["state"].to_string()).unwrap_or_default();
    ensure!(said.contains("Recover"), "{said}");
    world.cloud.c5c3_here("node start", &[OTHER])?;
    all_in_service(world)
}
