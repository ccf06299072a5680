//! From one release of OpenStack to the next while guests run and people work.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use end_to_end::cloud::Cloud;
use end_to_end::patience::until;
use end_to_end::stream::Stream;
use openstack_client::{Compute, Content, ImageDraft, Images, Operating};
use serde_json::{Value, json};

use crate::pings::Ping;
use crate::versions::{Versions, all_have_moved, pins};
use crate::world::World;
use crate::{NAMESPACE, PATIENCE, inside, made, openstack, servers};

const NEXT: &str = "2026.1";
const SERVICES: [&str; 6] = ["keystone", "glance", "placement", "nova", "neutron", "cinder"];
/// Longer than it takes on a machine with other work.
const MOST: Duration = Duration::from_secs(1800);
/// Services that are asked with each token.
const ASKED: [&str; 5] = [
    "http://glance.openstack.svc:9292/v2/images",
    "http://placement.openstack.svc:8778/resource_providers",
    "http://nova.openstack.svc:8774/v2.1/servers",
    "http://neutron.openstack.svc:9696/v2.0/ports",
    "http://cinder.openstack.svc:8776/v3/types",
];
/// How many of each API, scheduler and conductor there are: three. `1` is enough for a machine with little memory.
const REPLICAS: &str = "C5C3_REPLICAS";

#[test]
#[ignore = "another cloud, and images of two releases: make soak"]
fn an_update_to_the_next_release_disturbs_no_guest() -> anyhow::Result<()> {
    let cloud = Cloud::new()?;
    cloud.c5c3(&[&["image", "build", "--release", NEXT], SERVICES.as_slice()].concat())?;
    let (offset, _) = made(&cloud, &[])?;
    let replicas = replicas()?;
    spread(&cloud, replicas)?;
    let world = World::of(&cloud, offset)?;
    let second = servers::two_servers_on_two_hosts_reach_each_other(&world)?;
    let boot = "cat /proc/sys/kernel/random/boot_id";
    let running = inside(&cloud, boot)?;
    let before = pins(&cloud)?;
    ensure!(
        !before.is_empty(),
        "no conductor has said anything to a nova-compute"
    );

    let ping = Ping::for_at_most(&cloud, "demo", &second.address, MOST)?;
    let stream = Stream::start(&cloud, NAMESPACE, "update", MOST, &ASKED)?;
    let start = Instant::now();
    let mut versions = Versions::of(&cloud)?;
    let old = versions.old().clone();
    let mut seen = Seen::default();
    let done = AtomicBool::new(false);
    let phases_seen = thread::scope(|scope| {
        let watcher = scope.spawn(|| versions.watch(&cloud, &done));
        let phases = scope.spawn(|| phases(&cloud, &done));
        let outcome = release(&cloud, NEXT)
            .and_then(|()| until_updated(&world, &mut seen, start))
            // Nothing of the control plane waits for all hypervisors.
            .and_then(|()| all_have_moved(&cloud, &old));
        done.store(true, Ordering::Relaxed);
        let panicked = |_| anyhow::anyhow!("a watcher panicked");
        let watched = watcher.join().map_err(panicked)?;
        let phases = phases.join().map_err(panicked)?;
        outcome.and(watched).and(phases)
    })?;
    let took = start.elapsed();
    stream.more(5)?;
    let outcome = stream.stop()?;
    let heard = ping.stop()?;
    println!(
        "{took:?} with {replicas} replicas; {} turns, {} failed; {} rounds of work, {} servers lost; {heard:?}; {phases_seen:?}",
        outcome.good,
        outcome.failed.len(),
        seen.made,
        seen.lost,
    );
    ensure!(outcome.failed.is_empty(), "{:?}", outcome.failed);
    ensure!(seen.failed.is_empty(), "{:?}", seen.failed);
    ensure!(seen.made > 0, "nothing was made meanwhile");
    ensure!(
        seen.lost <= 2,
        "{} servers were lost with two nova-computes",
        seen.lost
    );
    ensure!(heard.lost == 0, "{heard:?}");
    ensure!(inside(&cloud, boot)? == running, "the guest was started anew");
    for service in SERVICES {
        let phases = phases_seen.get(service).cloned().unwrap_or_default();
        ensure!(phases.contains("Expanding"), "{service}: {phases:?}");
    }
    versions.conductors_went_first_and_computes_last()?;
    versions.messages_were_of_the_oldest_version(&before)?;
    nobody_keeps_to_the_version_before(&world, &versions)?;
    world.run(world.session.delete_server(&second.id))?;
    world.gone(&second.id, PATIENCE)?;
    crate::all_of_nova_is_up(&cloud, replicas)?;
    crate::everything_else_is_up(&cloud)
}

fn replicas() -> anyhow::Result<usize> {
    match std::env::var(REPLICAS) {
        Ok(given) => given.parse().with_context(|| format!("{REPLICAS}={given}")),
        Err(_) => Ok(3),
    }
}

/// So many of each API, scheduler and conductor, and all of them up.
fn spread(cloud: &Cloud, replicas: usize) -> anyhow::Result<()> {
    let patch = json!({"spec": {"services": {
        "keystone": {"replicas": replicas},
        "glance": {"replicas": replicas},
        "placement": {"replicas": replicas},
        "neutron": {"replicas": replicas},
        "nova": {"replicas": {"api": replicas, "scheduler": replicas, "conductor": replicas}},
        "cinder": {"replicas": {"api": replicas}},
    }}});
    changed(cloud, &patch)?;
    until("all replicas are up", 3 * PATIENCE, || {
        let plane = plane(cloud)?;
        Ok(if is_ready(&plane)? {
            Ok(())
        } else {
            Err(plane["status"].to_string())
        })
    })
}

fn changed(cloud: &Cloud, patch: &Value) -> anyhow::Result<()> {
    let patch = patch.to_string();
    let words = ["patch", "controlplane/cloud", "--type=merge", "-p", &patch];
    cloud
        .kubectl(&[&["-n", NAMESPACE], &words[..]].concat(), "")
        .map(drop)
}

fn release(cloud: &Cloud, release: &str) -> anyhow::Result<()> {
    changed(cloud, &json!({"spec": {"openStackRelease": release}}))
}

fn plane(cloud: &Cloud) -> anyhow::Result<Value> {
    let words = ["get", "controlplane/cloud", "-o", "json"];
    let object = cloud.kubectl(&[&["-n", NAMESPACE], &words[..]].concat(), "")?;
    Ok(serde_json::from_str(&object)?)
}

/// As its spec is now.
fn is_ready(plane: &Value) -> anyhow::Result<bool> {
    let status = &plane["status"];
    let conditions = status["conditions"].as_array().context("conditions")?;
    let ready = conditions.iter().find(|one| one["type"] == "Ready");
    Ok(status["observedGeneration"] == plane["metadata"]["generation"]
        && ready.is_some_and(|ready| ready["status"] == "True"))
}

fn is_updated(cloud: &Cloud) -> anyhow::Result<bool> {
    let plane = plane(cloud)?;
    Ok(is_ready(&plane)? && plane["status"]["installedRelease"] == NEXT)
}

fn until_updated(world: &World<'_>, seen: &mut Seen, start: Instant) -> anyhow::Result<()> {
    while !is_updated(world.cloud)? {
        ensure!(start.elapsed() < MOST, "not done: {seen:?}");
        work(world, seen);
    }
    Ok(())
}

type Phases = BTreeMap<String, BTreeSet<String>>;

/// The phases of each service, until it is done. Some last for seconds only.
fn phases(cloud: &Cloud, done: &AtomicBool) -> anyhow::Result<Phases> {
    let path = r#"jsonpath={range .items[*]}{.kind} {.status.upgradePhase}{"\n"}{end}"#;
    let words = ["-n", NAMESPACE, "get", &SERVICES.join(","), "-o", path];
    let mut seen = Phases::new();
    while !done.load(Ordering::Relaxed) {
        for line in cloud.kubectl(&words, "")?.lines() {
            let (kind, phase) = line.split_once(' ').unwrap_or((line, ""));
            ensure!(phase != "Failed", "{kind} failed");
            seen.entry(kind.to_lowercase())
                .or_default()
                .insert(phase.to_owned());
        }
        thread::sleep(Duration::from_millis(500));
    }
    Ok(seen)
}

/// What was seen on the way.
#[derive(Debug, Default)]
struct Seen {
    made: usize,
    /// Half made when their nova-compute was replaced.
    lost: usize,
    failed: Vec<String>,
}

/// An image, a port, and a server with its port, and away with them. Every request has to be answered.
fn work(world: &World<'_>, seen: &mut Seen) {
    for made in [an_image(world), a_port(world)] {
        seen.failed.extend(made.err().map(|why| format!("{why:#}")));
    }
    match a_server(world) {
        Ok(true) => seen.made += 1,
        Ok(false) => seen.lost += 1,
        Err(why) => seen.failed.push(format!("{why:#}")),
    }
}

fn an_image(world: &World<'_>) -> anyhow::Result<()> {
    let session = &world.session;
    let image = world.run(session.create_image(&ImageDraft::raw("meanwhile")))?;
    world.run(session.upload_image(&image.id, Content::bytes(vec![7_u8; 1 << 20])))?;
    let there = world
        .run(session.image(&image.id))?
        .context("the image is gone")?;
    ensure!(there.status == "active", "{there:?}");
    world.run(session.delete_image(&image.id))
}

fn a_port(world: &World<'_>) -> anyhow::Result<()> {
    let port = openstack(world.cloud, "port create --network demo meanwhile")?;
    let id = port["id"].as_str().context("a port")?;
    world
        .cloud
        .c5c3_here("openstack", &["port", "delete", id])
        .map(drop)
}

/// Whether it was ACTIVE. What becomes of a server is Nova's: nova-compute takes it off the bus before it is done with
/// it, so one that is half made when its nova-compute is replaced ends in ERROR.
fn a_server(world: &World<'_>) -> anyhow::Result<bool> {
    let before = computes(world)?;
    let id = world.run(world.session.create_server(&world.draft("meanwhile")))?;
    let end = until("it is ACTIVE or ERROR", 2 * PATIENCE, || {
        let found = world.server(&id)?;
        Ok(match found.server.status.as_str() {
            "ACTIVE" | "ERROR" if found.task.is_none() => Ok(found),
            other => Err(other.to_owned()),
        })
    })?;
    world.run(world.session.delete_server(&id))?;
    world.gone(&id, PATIENCE)?;
    let of_its_host =
        |pods: &BTreeMap<String, String>| end.host.as_ref().and_then(|host| pods.get(host).cloned());
    let replaced = of_its_host(&before) != of_its_host(&computes(world)?);
    match end.server.status.as_str() {
        "ACTIVE" => Ok(true),
        _ if replaced => Ok(false),
        _ => Err(anyhow::anyhow!("{end:?}")),
    }
}

/// The nova-compute of each host.
fn computes(world: &World<'_>) -> anyhow::Result<BTreeMap<String, String>> {
    let pods = world.pods("nova-compute-cell1")?.into_iter();
    Ok(pods.map(|pod| (pod.node, pod.name)).collect())
}

/// Once all hypervisors are of the new version, messages are too: whoever kept to the old one has started anew.
fn nobody_keeps_to_the_version_before(world: &World<'_>, versions: &Versions) -> anyhow::Result<()> {
    versions.all_start_anew(world.cloud)?;
    ensure!(a_server(world)?, "a server made after the update was lost");
    let now = pins(world.cloud)?;
    println!("after the update {now:?}");
    ensure!(!now.is_empty(), "no conductor has said anything since");
    Ok(())
}
