//! Programs die while servers are made. Whatever becomes of the servers, they come to an end that is
//! told, they can be deleted, and nothing is left behind.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use end_to_end::patience::{until, until_ok};
use openstack_client::{Compute, Operating};

use super::PATIENCE;
use super::traces::{nothing_leaks, traces};
use super::world::World;

/// Set and program.
type Victim = (&'static str, &'static str);

/// Those after whose death a server is ACTIVE, or ERROR with a reason.
const VICTIMS: [Victim; 5] = [
    ("nova-conductor-cell1", "nova-conductor"),
    ("nova-scheduler", "nova-scheduler"),
    ("nova-libvirt", "libvirtd"),
    ("ovn-controller", "ovn-controller"),
    ("rabbitmq-server", "beam.smp"),
];

/// Those of the API too. What they were at is lost with them: Nova takes a message off the bus before it is
/// done with it.
const ALL_CONDUCTORS: Victim = ("nova-conductor", "nova-conductor");

/// By itself: one that comes back and finds a server half made notes no reason.
const COMPUTE: Victim = ("nova-compute-cell1", "nova-compute");

/// All of them one after the other while a few servers are made, and nova-compute alone.
pub(crate) fn short(world: &World<'_>) -> anyhow::Result<()> {
    drill("all", world, &VICTIMS, 3)?;
    drill("nova-compute", world, &[COMPUTE], 1)
}

/// Each by itself, several times.
pub(crate) fn long(world: &World<'_>, rounds: usize) -> anyhow::Result<()> {
    for round in 1..=rounds {
        for victim in VICTIMS.into_iter().chain([COMPUTE, ALL_CONDUCTORS]) {
            drill(&format!("{} {round}", victim.1), world, &[victim], 4)?;
        }
    }
    Ok(())
}

fn drill(title: &str, world: &World<'_>, victims: &[Victim], servers: usize) -> anyhow::Result<()> {
    let start = Instant::now();
    let before = traces(world)?;
    let mut made = Vec::new();
    for step in 0..servers.max(victims.len()) {
        if step < servers {
            let draft = world.draft(&format!("drill-{step}"));
            // The way to the bus may be gone for a moment.
            let id = until_ok("Nova takes a server", PATIENCE, || {
                world.run(world.session.create_server(&draft))
            })?;
            made.push(id);
        }
        if let Some(victim) = victims.get(step) {
            fell(world, *victim)?;
        }
        std::thread::sleep(Duration::from_secs(1));
    }
    let ends: Vec<(String, String)> = made
        .iter()
        .map(|id| ended(world, id, victims))
        .collect::<anyhow::Result<_>>()?;
    everything_is_up_again(world)?;
    for id in &made {
        world.run(world.session.delete_server(id))?;
    }
    for id in &made {
        world.gone(id, PATIENCE)?;
    }
    nothing_leaks(world, &before, PATIENCE)?;
    println!("drill {title}: {:?}, {ends:?}", start.elapsed());
    Ok(())
}

/// Ends a program on all its pods as a crash would.
fn fell(world: &World<'_>, (set, program): Victim) -> anyhow::Result<()> {
    let pods = world.pods(set)?;
    ensure!(!pods.is_empty(), "no pod of {set}");
    // libvirtd has left the cgroups of its pod, and the command must be gone before the container is.
    let kill = "(sleep 1; kill -9 $(cat /run/libvirtd.pid)) >/dev/null 2>&1 &";
    for pod in &pods {
        match program {
            "libvirtd" => world.exec(pod, &["sh", "-c", kill]).map(drop)?,
            _ => world.cloud.kill_programs(&pod.place(), &[&pod.name], program)?,
        }
    }
    Ok(())
}

/// The status in which a server ends, and why where it is an error.
fn ended(world: &World<'_>, id: &str, victims: &[Victim]) -> anyhow::Result<(String, String)> {
    let start = Instant::now();
    until(&format!("server {id} is ACTIVE or ERROR"), 2 * PATIENCE, || {
        let seen = world
            .run(world.session.placed_server(id))?
            .context("it is gone")?;
        let status = seen.server.status.clone();
        let why = seen.server.fault.map(|fault| fault.message).unwrap_or_default();
        let told = !why.is_empty() || victims.contains(&COMPUTE);
        let lost = seen.host.is_none() && victims.contains(&ALL_CONDUCTORS) && start.elapsed() > PATIENCE;
        Ok(match status.as_str() {
            "ACTIVE" if seen.task.is_none() => Ok((status, why)),
            "ERROR" if told => Ok((status, why)),
            "BUILD" if lost => Ok((status, "lost with its conductor".to_owned())),
            _ => Err(format!("{status} {:?} {why}", seen.task)),
        })
    })
}

fn everything_is_up_again(world: &World<'_>) -> anyhow::Result<()> {
    until("all of Nova is up again", PATIENCE, || {
        let mut down = Vec::new();
        for binary in ["nova-conductor", "nova-scheduler", "nova-compute"] {
            let services = world.run(world.session.compute_services(binary));
            match services {
                Ok(services) => down.extend(services.into_iter().filter(|service| service.state != "up")),
                Err(error) => return Ok(Err(error.to_string())),
            }
        }
        Ok(if down.is_empty() {
            Ok(())
        } else {
            Err(format!("{down:?}"))
        })
    })
}
