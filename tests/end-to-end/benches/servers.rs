//! The cloud of `c5c3 up` from nothing to Ready, to its first server and to many servers at once, with the memory that
//! each part takes. Images are warm, the state directory is new. Needs root.
//!
//! The baseline of many servers at once is the same Nova, asked by a pod beside it: the process behind the cluster only
//! answers names then, as the DNS of any cluster would, and has no part in the calls. That process cannot be stopped for
//! it, because Nova finds the other services by name. The processor time of our own processes stands beside each figure:
//! it is all that they could have taken from Nova.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, ensure};
use end_to_end::cloud::Cloud;
use end_to_end::crowd::{made_from_inside, make_room};
use end_to_end::memory;
use end_to_end::patience::until;
use end_to_end::process::free_offset;
use end_to_end::world::{PATIENCE, PORTS, World};
use openstack_client::{Compute, Operating, PlacedServer};
use serde_json::Value;

/// One after the other: enough to know how long one takes.
const ALONE: usize = 4;
/// At once. Each is a QEMU of its own, which takes up to 370 MiB while it boots.
const TOGETHER: usize = 20;

fn main() -> anyhow::Result<()> {
    end_to_end::install_crypto();
    let cloud = Cloud::new()?;
    let offset = free_offset(&PORTS)?;
    let (start, begun) = (Instant::now(), SystemTime::now());
    let moved = offset.to_string();
    let said = cloud.c5c3_here("up", &["--port-offset", &moved, "--wait", "1200"])?;
    let ready = start.elapsed();
    ensure!(
        !said.contains("built"),
        "images were built meanwhile: run it again"
    );
    cloud.c5c3_here("demo", &["--wait", "600"])?;
    let reached = start.elapsed();
    let world = World::of(&cloud, offset)?;
    let active = launched(&cloud, "demo")?.duration_since(begun)?;
    println!("Ready of the whole cloud: {ready:.1?} (goal 60 s)");
    println!("first server ACTIVE:      {active:.1?} (goal 90 s)");
    println!("first server reached:     {reached:.1?}");

    memory_of(&cloud)?;

    make_room(&world)?;
    let alone = made(&world, "alone", ALONE, 1)?;
    println!(
        "servers one after the other: {:.3} ACTIVE per second",
        rate(ALONE, alone)
    );
    let (baseline, ours) = with_own_time(&cloud, || made_from_inside(&cloud, &world.draft, TOGETHER))?;
    println!(
        "{TOGETHER} at once, Nova alone:     {:.3} ACTIVE per second (baseline), {ours:.1?} of processor time ours",
        rate(TOGETHER, baseline)
    );
    let (together, ours) = with_own_time(&cloud, || made(&world, "together", TOGETHER, TOGETHER))?;
    println!(
        "{TOGETHER} at once, through c5c3:   {:.3} ACTIVE per second, {:.2} times the baseline, {ours:.1?} of processor time ours",
        rate(TOGETHER, together),
        baseline.as_secs_f64() / together.as_secs_f64()
    );
    Ok(())
}

fn rate(count: usize, took: Duration) -> f64 {
    count as f64 / took.as_secs_f64()
}

/// What it returns, and the processor time that our own processes took meanwhile.
fn with_own_time(
    cloud: &Cloud,
    work: impl FnOnce() -> anyhow::Result<Duration>,
) -> anyhow::Result<(Duration, Duration)> {
    let before = memory::own_time(cloud)?;
    let took = work()?;
    Ok((took, memory::own_time(cloud)?.saturating_sub(before)))
}

/// When Nova started the guest of that server.
fn launched(cloud: &Cloud, name: &str) -> anyhow::Result<SystemTime> {
    let shown = cloud.c5c3_here("openstack", &["server", "show", name, "-f", "json"])?;
    let shown: Value = serde_json::from_str(&shown)?;
    let at = shown["OS-SRV-USG:launched_at"].as_str().context("launched_at")?;
    // Nova means UTC and does not say so.
    let at: jiff::Timestamp = format!("{}Z", at.trim_end_matches('Z')).parse()?;
    Ok(at.into())
}

/// Creates servers, so many at a time, until all are ACTIVE, and deletes them: the time until ACTIVE.
fn made(world: &World<'_>, name: &str, count: usize, at_once: usize) -> anyhow::Result<Duration> {
    let start = Instant::now();
    let mut made = Vec::new();
    while made.len() < count {
        let begun = made.len();
        for _ in 0..at_once.min(count - begun) {
            let draft = world.draft(&format!("{name}-{}", made.len()));
            made.push(world.run(world.session.create_server(&draft))?);
        }
        until("they are ACTIVE", 6 * PATIENCE, || {
            let mut waits = BTreeMap::new();
            for id in &made[begun..] {
                let PlacedServer { server, .. } = world.server(id)?;
                ensure!(server.status != "ERROR", "{server:?}");
                if server.status != "ACTIVE" {
                    waits.insert(server.name, server.status);
                }
            }
            Ok(if waits.is_empty() {
                Ok(())
            } else {
                Err(format!("{waits:?}"))
            })
        })?;
    }
    let took = start.elapsed();
    for id in &made {
        world.run(world.session.delete_server(id))?;
    }
    for id in &made {
        world.gone(id, PATIENCE)?;
    }
    Ok(took)
}

/// The whole cloud with one server in it, its largest parts, and our own processes.
fn memory_of(cloud: &Cloud) -> anyhow::Result<()> {
    let parts = memory::by_part(cloud, &["control-plane", "hypervisor", "storage"])?;
    let sum: f64 = parts.values().sum();
    println!("memory of the cloud: {sum:.0} MiB (goal 6144)");
    let mut parts: Vec<(&String, &f64)> = parts.iter().collect();
    parts.sort_by(|a, b| b.1.total_cmp(a.1));
    for (name, taken) in parts {
        let goal = if name == memory::OURS { " (goal 80)" } else { "" };
        println!("  {taken:7.1} MiB  {name}{goal}");
    }
    Ok(())
}
