//! Programs die while servers are made. Whatever becomes of the servers, they come to an end that is
//! told, they can be deleted, and nothing is left behind.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use end_to_end::patience::{until, until_ok};
use openstack_client::{Compute, Operating};

use super::pings::Ping;
use super::traces::{nothing_leaks, traces};
use super::world::World;
use super::{NAMESPACE, PATIENCE};

/// A program, and the pods in which it runs.
#[derive(Clone, Copy, PartialEq)]
struct Victim {
    pods: Pods,
    program: &'static str,
}

#[derive(Clone, Copy, PartialEq)]
enum Pods {
    /// Their names begin with it.
    Set(&'static str),
    /// Of a service, one component.
    Part(&'static str, &'static str),
}

const fn set(name: &'static str, program: &'static str) -> Victim {
    Victim {
        pods: Pods::Set(name),
        program,
    }
}

const fn part(service: &'static str, component: &'static str, program: &'static str) -> Victim {
    Victim {
        pods: Pods::Part(service, component),
        program,
    }
}

/// Those after whose death a server is ACTIVE, or ERROR with a reason.
const VICTIMS: [Victim; 5] = [
    set("nova-conductor-cell1", "nova-conductor"),
    set("nova-scheduler", "nova-scheduler"),
    set("nova-libvirt", "libvirtd"),
    set("ovn-controller", "ovn-controller"),
    set("rabbitmq-server", "beam.smp"),
];

/// Those of the API too. What they were at is lost with them: Nova takes a message off the bus before it is
/// done with it.
const ALL_CONDUCTORS: Victim = set("nova-conductor", "nova-conductor");

/// Without it a conductor cannot say what became of the server that it was at.
const DATABASE: Victim = set("mariadb", "mariadbd");

/// By itself: one that comes back and finds a server half made notes no reason.
const COMPUTE: Victim = set("nova-compute-cell1", "nova-compute");

/// The rest of what serves a server.
const OTHERS: [Victim; 19] = [
    part("keystone", "api", "uwsgi"),
    part("glance", "api", "uwsgi"),
    part("placement", "api", "uwsgi"),
    part("nova", "api", "uwsgi"),
    part("nova", "metadata", "uwsgi"),
    set("nova-novncproxy-cell1", "nova-novncproxy"),
    part("neutron", "api", "uwsgi"),
    part("neutron", "periodic-workers", "neutron-periodic-workers"),
    part("neutron", "ovn-agent", "neutron-ovn-agent"),
    part("cinder", "api", "uwsgi"),
    part("cinder", "scheduler", "cinder-scheduler"),
    part("cinder", "volume-ceph", "cinder-volume"),
    part("neutron", "ovn-maintenance", "neutron-ovn-maintenance-worker"),
    DATABASE,
    set("memcached", "memcached"),
    part("ovn", "nb", "ovsdb-server"),
    part("ovn", "sb", "ovsdb-server"),
    part("ovn", "northd", "ovn-northd"),
    // The database of the switch; packets do not need it.
    part("ovn", "ovs", "ovsdb-server"),
];

/// With it guests lose the network until it runs again.
const SWITCH: Victim = part("ovn", "ovs", "ovs-vswitchd");

/// The longest time for which guests may not hear each other: hardly any, or until a switch has started and has its
/// flows back.
const UNNOTICED: Duration = Duration::from_secs(1);
const SWITCH_RESTARTS: Duration = Duration::from_secs(20);

/// All of them one after the other while a few servers are made, and nova-compute alone.
pub(crate) fn short(world: &World<'_>) -> anyhow::Result<()> {
    drill("all", world, &VICTIMS, 3)?;
    drill("nova-compute", world, &[COMPUTE], 1)
}

/// Each by itself, several times.
pub(crate) fn long(world: &World<'_>, rounds: usize) -> anyhow::Result<()> {
    for round in 1..=rounds {
        for victim in VICTIMS.into_iter().chain([COMPUTE, ALL_CONDUCTORS]) {
            drill(&format!("{} {round}", victim.program), world, &[victim], 4)?;
        }
    }
    Ok(())
}

/// So long the southbound database is away.
const AWAY: Duration = Duration::from_secs(120);

/// Every program dies once, while servers are made and two guests ping each other.
pub(crate) fn guests_hear_each_other_whatever_dies(world: &World<'_>, other: &str) -> anyhow::Result<()> {
    let quiet = OTHERS.iter().chain(&VICTIMS).chain([&COMPUTE]);
    let bounds = quiet.map(|victim| (victim, UNNOTICED));
    for (victim, most) in bounds.chain([(&SWITCH, SWITCH_RESTARTS)]) {
        let ping = Ping::for_at_most(world.cloud, "demo", other, Duration::from_secs(1800))?;
        let title = match victim.pods {
            Pods::Part(service, component) => format!("{service} {component}"),
            Pods::Set(name) => name.to_owned(),
        };
        drill(&title, world, std::slice::from_ref(victim), 2)?;
        let heard = ping.stop()?;
        println!("drill {title}: {heard:?}");
        ensure!(heard.answers > 20 && heard.gap <= most, "{title}: {heard:?}");
    }
    Ok(())
}

/// The process behind the cluster dies: guests go on, and after the next `up` servers are made as before.
pub(crate) fn guests_hear_each_other_without_the_daemon(
    world: &World<'_>,
    other: &str,
) -> anyhow::Result<()> {
    let before = traces(world)?;
    let ping = Ping::for_at_most(world.cloud, "demo", other, Duration::from_secs(1800))?;
    world.cloud.crash()?;
    // Long enough that what is missed would be noticed.
    std::thread::sleep(Duration::from_secs(20));
    world.cloud.c5c3_here("up", &["--wait", "900"])?;
    let id = until_ok("Nova takes a server", PATIENCE, || {
        world.run(world.session.create_server(&world.draft("after-a-crash")))
    })?;
    world.settled(&id, "ACTIVE")?;
    world.booted(&id)?;
    let heard = ping.stop()?;
    println!("drill c5c3: {heard:?}");
    ensure!(heard.answers > 20 && heard.gap <= UNNOTICED, "{heard:?}");
    world.run(world.session.delete_server(&id))?;
    world.gone(&id, PATIENCE)?;
    everything_is_up_again(world)?;
    nothing_leaks(world, &before, PATIENCE)
}

/// ovn-controller keeps its flows while it hears nothing from the southbound database.
pub(crate) fn flows_stay_without_the_southbound_database(
    world: &World<'_>,
    other: &str,
) -> anyhow::Result<()> {
    let ping = Ping::for_at_most(world.cloud, "demo", other, Duration::from_secs(1800))?;
    let outcome = silenced(world);
    // One that was started again meanwhile may not be stopped any more.
    for pod in world.pods_of("ovn", "sb")? {
        let program = "ovsdb-server";
        world
            .cloud
            .signal_programs(&pod.place(), &[&pod.name], program, "CONT")?;
    }
    outcome?;
    let heard = ping.stop()?;
    println!("drill southbound database: {heard:?}");
    ensure!(heard.answers > 20 && heard.gap <= UNNOTICED, "{heard:?}");
    let ready = [
        "-n",
        NAMESPACE,
        "wait",
        "--for=condition=Ready",
        "ovncluster/ovn",
        "--timeout=180s",
    ];
    world.cloud.kubectl(&ready, "")?;
    let id = world.run(world.session.create_server(&world.draft("with-flows")))?;
    world.settled(&id, "ACTIVE")?;
    world.booted(&id)?;
    world.run(world.session.delete_server(&id))?;
    world.gone(&id, PATIENCE)
}

/// It hangs for a while, however often it is started again.
fn silenced(world: &World<'_>) -> anyhow::Result<()> {
    let start = Instant::now();
    let mut hits = 0;
    while start.elapsed() < AWAY {
        for pod in world.pods_of("ovn", "sb")? {
            let stop = ("ovsdb-server", "STOP");
            let stopped = world
                .cloud
                .signal_programs(&pod.place(), &[&pod.name], stop.0, stop.1);
            // While its container is being started again there is nothing to stop.
            hits += usize::from(stopped.is_ok());
        }
        std::thread::sleep(Duration::from_secs(1));
    }
    ensure!(hits > 0, "it was never stopped");
    Ok(())
}

fn drill(title: &str, world: &World<'_>, victims: &[Victim], servers: usize) -> anyhow::Result<()> {
    let start = Instant::now();
    let before = traces(world)?;
    let mut names = Vec::new();
    for step in 0..servers.max(victims.len()) {
        if step < servers {
            let name = format!("drill-{step}");
            let draft = world.draft(&name);
            // What it needs may be gone for a moment.
            until_ok("Nova takes a server", PATIENCE, || {
                world.run(world.session.create_server(&draft))
            })?;
            names.push(name);
        }
        if let Some(victim) = victims.get(step) {
            fell(world, *victim)?;
        }
        std::thread::sleep(Duration::from_secs(1));
    }
    // One whose answer was lost is there twice.
    let made = until_ok("Nova knows the servers", PATIENCE, || {
        let mut made = Vec::new();
        for name in &names {
            made.extend(world.run(world.session.servers(name))?);
        }
        Ok(made)
    })?;
    let made: Vec<String> = made.into_iter().map(|server| server.id).collect();
    let ends: Vec<(String, String)> = made
        .iter()
        .map(|id| ended(world, id, victims))
        .collect::<anyhow::Result<_>>()?;
    everything_is_up_again(world)?;
    for id in &made {
        until_ok("Nova deletes it", PATIENCE, || {
            world.run(world.session.delete_server(id))
        })?;
    }
    for id in &made {
        world.gone(id, PATIENCE)?;
    }
    nothing_leaks(world, &before, PATIENCE)?;
    println!("drill {title}: {:?}, {ends:?}", start.elapsed());
    Ok(())
}

/// Ends a program on all its pods as a crash would.
fn fell(world: &World<'_>, Victim { pods, program }: Victim) -> anyhow::Result<()> {
    let pods = match pods {
        Pods::Set(name) => world.pods(name)?,
        Pods::Part(service, component) => world.pods_of(service, component)?,
    };
    ensure!(!pods.is_empty(), "no pod with {program}");
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
        let seen = match world.run(world.session.placed_server(id)) {
            Ok(seen) => seen.context("it is gone")?,
            // What died may be Nova's API itself, or what it asks.
            Err(error) => return Ok(Err(format!("{error:#}"))),
        };
        let status = seen.server.status.clone();
        let why = seen.server.fault.map(|fault| fault.message).unwrap_or_default();
        let told = !why.is_empty() || victims.contains(&COMPUTE);
        let forgets = [ALL_CONDUCTORS, DATABASE].iter().any(|one| victims.contains(one));
        let lost = forgets && seen.host.is_none() && start.elapsed() > PATIENCE;
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
