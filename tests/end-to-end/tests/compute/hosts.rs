//! Hosts are looked after in their own cluster: emptied, lost, back again.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use end_to_end::patience::{until, until_ok};
use serde_json::Value;

use crate::world::World;
use crate::{PATIENCE, inside};

/// Here the routers are: the other one can be lost without losing the way to the guests.
const ROUTER: &str = "hypervisor-1";
const OTHER: &str = "hypervisor-2";
/// Namespace of the agents, and of what they report about migrations.
const AGENTS: &str = "c5c3-system";

fn seen(world: &World<'_>) -> anyhow::Result<Vec<Value>> {
    let said = world.cloud.c5c3_here("hypervisor list", &["-o", "json"])?;
    serde_json::from_str(&said).with_context(|| said.clone())
}

fn all_in_service(world: &World<'_>) -> anyhow::Result<()> {
    // After a refusal by Nova the operator looks again ever more seldom.
    until("both hosts are in service", 2 * PATIENCE, || {
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
pub(crate) fn an_emptied_host_gives_its_server_away(world: &World<'_>) -> anyhow::Result<()> {
    all_in_service(world)?;
    if world.named("demo")?.host.as_deref() != Some(ROUTER) {
        drained(world, OTHER)?;
    }
    drained(world, ROUTER)?;
    its_way_was_told(world)
}

/// By the agents of both hosts, in one object.
fn its_way_was_told(world: &World<'_>) -> anyhow::Result<()> {
    let id = world.named("demo")?.server.id;
    let get = [
        "--context",
        "hypervisor",
        "-n",
        AGENTS,
        "get",
        "migration",
        &id,
        "-o",
        "json",
    ];
    until("the migration is told", PATIENCE, || {
        let said: Value = serde_json::from_str(&world.cloud.kubectl(&get, "")?)?;
        let told = |field: &str| said["status"][field].as_str().unwrap_or_default();
        let way = (told("origin"), told("destination"), told("operation"));
        let counted = !told("memTotal").is_empty() && !told("timeElapsed").is_empty();
        Ok(if way == (ROUTER, OTHER, "completed") && counted {
            Ok(())
        } else {
            Err(said["status"].to_string())
        })
    })
}

/// What the agents of the hypervisors say of them.
pub(crate) fn agents_tell_of_their_hosts(world: &World<'_>) -> anyhow::Result<()> {
    until("the agents tell of libvirt and of the switches", PATIENCE, || {
        let status: Value = serde_json::from_str(&world.cloud.c5c3_here("status", &["-o", "json"])?)?;
        let nodes = status["nodes"].as_array().context("nodes")?;
        let well = |node: &&Value| node["agent"] == true && node["switch"] == true;
        Ok(match nodes.iter().filter(well).count() {
            2 => Ok(()),
            _ => Err(format!("{nodes:?}")),
        })
    })?;
    let get = ["--context", "hypervisor", "get", "hypervisors", "-o", "json"];
    let all: Value = serde_json::from_str(&world.cloud.kubectl(&get, "")?)?;
    let all = all["items"].as_array().context("a list")?;
    let instances = |host: &Value| host["status"]["numInstances"].as_i64().unwrap_or(-1);
    ensure!(
        all.len() == 2 && all.iter().map(instances).sum::<i64>() >= 1,
        "the demo's server runs on one of them: {all:?}"
    );
    for host in all {
        let version = host["status"]["libVirtVersion"].as_str().unwrap_or_default();
        ensure!(version.starts_with("11."), "{host}");
    }
    Ok(())
}

/// What the operator did for a server on its host.
fn reaction(world: &World<'_>, host: &str, server: &str) -> anyhow::Result<Value> {
    let get = ["--context", "hypervisor", "get", "hypervisor", host, "-o", "json"];
    let mut status: Value = serde_json::from_str(&world.cloud.kubectl(&get, "")?)?;
    let all = status["status"]["reactions"].as_array_mut();
    let found = all.into_iter().flatten().find(|one| one["server"] == server);
    Ok(found.map(Value::take).unwrap_or_default())
}

pub(crate) fn a_server_whose_process_dies_runs_again(world: &World<'_>) -> anyhow::Result<()> {
    all_in_service(world)?;
    let boot = "cat /proc/sys/kernel/random/boot_id";
    let before = inside(world.cloud, boot)?;
    let demo = world.named("demo")?;
    let (id, host) = (demo.server.id, demo.host.context("a host")?);
    let pods = world.pods("nova-libvirt")?;
    let pod = pods
        .iter()
        .find(|pod| pod.node == host)
        .context("libvirt of the host")?;
    let name = world.exec(pod, &["virsh", "-q", "domname", &id])?;
    let kill = format!("kill -9 $(cat /run/libvirt/qemu/{}.pid)", name.trim());
    // A cloud that is kept may have seen it crash before.
    let earlier = reaction(world, &host, &id)?;
    let attempts = earlier["attempts"].as_i64().unwrap_or_default() + 1;
    let killed = Instant::now();
    world.exec(pod, &["sh", "-c", &kill])?;
    let told = until("the operator restarts it", PATIENCE, || {
        let told = reaction(world, &host, &id)?;
        Ok(if told["attempts"] == attempts {
            Ok(told)
        } else {
            Err(format!("told is {told}"))
        })
    })?;
    println!("{:?} after its process was killed: {told}", killed.elapsed());
    ensure!(told["trouble"] == "Crashed", "{told}");
    let told = until("it has recovered", PATIENCE, || {
        let told = reaction(world, &host, &id)?;
        Ok(if told["state"] == "Recovered" {
            Ok(told)
        } else {
            Err(told.to_string())
        })
    })?;
    println!("{:?} after its process was killed: {told}", killed.elapsed());
    let after = until_ok("the guest answers", PATIENCE, || inside(world.cloud, boot))?;
    println!(
        "{:?} after its process was killed it answers again",
        killed.elapsed()
    );
    ensure!(before != after, "it was never off");
    let seen = world.settled(&id, "ACTIVE")?;
    ensure!(
        seen.host.as_deref() == Some(host.as_str()),
        "on its host: {seen:?}"
    );
    // Nova hears of the crash after fifteen seconds, and must not stop what runs again.
    std::thread::sleep(Duration::from_secs(20).saturating_sub(killed.elapsed()));
    world.settled(&id, "ACTIVE")?;
    ensure!(inside(world.cloud, boot)? == after);
    ensure!(reaction(world, &host, &id)?["attempts"] == attempts);
    Ok(())
}

pub(crate) fn a_server_of_a_host_without_power_starts_elsewhere(world: &World<'_>) -> anyhow::Result<()> {
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
