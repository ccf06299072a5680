//! From one release of OpenStack to the next while guests run and people work.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use end_to_end::cloud::Cloud;
use end_to_end::process::free_offset;
use end_to_end::stream::Stream;
use openstack_client::{Compute, Operating};
use serde_json::{Value, json};

use crate::pings::Ping;
use crate::world::World;
use crate::{NAMESPACE, inside, servers};

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

#[test]
#[ignore = "another cloud, and images of two releases: make soak"]
fn an_update_to_the_next_release_disturbs_no_guest() -> anyhow::Result<()> {
    let cloud = Cloud::new()?;
    cloud.c5c3(&[&["image", "build", "--release", NEXT], SERVICES.as_slice()].concat())?;
    let offset = free_offset(&[5000, 6080, 8774, 8776, 8778, 9292, 9696])?;
    let ports = offset.to_string();
    println!(
        "{}",
        cloud.c5c3_here("up", &["--port-offset", &ports, "--wait", "1200"])?
    );
    cloud.c5c3_here("demo", &["--wait", "600"])?;
    let world = World::of(&cloud, offset)?;
    let second = servers::two_servers_on_two_hosts_reach_each_other(&world)?;
    let boot = "cat /proc/sys/kernel/random/boot_id";
    let running = inside(&cloud, boot)?;

    let ping = Ping::for_at_most(&cloud, "demo", &second.address, MOST)?;
    let stream = Stream::start(&cloud, NAMESPACE, "update", MOST, &ASKED)?;
    let start = Instant::now();
    release(&cloud, NEXT)?;
    let mut seen = Seen::default();
    while !seen.look(&cloud)? {
        ensure!(start.elapsed() < MOST, "not done: {seen:?}");
        work(&world, &mut seen);
    }
    let took = start.elapsed();
    stream.more(5)?;
    let outcome = stream.stop()?;
    let (answers, gap) = ping.stop()?;
    println!(
        "{took:?}; {} turns, {} failed; {} servers; {answers} pings, the longest time without one {gap:?}; {:?}",
        outcome.good,
        outcome.failed.len(),
        seen.made,
        seen.phases
    );
    ensure!(outcome.failed.is_empty(), "{:?}", outcome.failed);
    ensure!(seen.failed.is_empty(), "{:?}", seen.failed);
    ensure!(seen.made > 0, "nothing was made meanwhile");
    ensure!(gap <= Duration::from_secs(1), "{gap:?} without an answer");
    ensure!(inside(&cloud, boot)? == running, "the guest was started anew");
    for service in SERVICES {
        let phases = seen.phases.get(service).cloned().unwrap_or_default();
        ensure!(phases.contains("Expanding"), "{service}: {phases:?}");
    }
    messages_were_of_the_oldest_version(&world)?;
    crate::everything_that_serves_it_is_up(&cloud)
}

fn release(cloud: &Cloud, release: &str) -> anyhow::Result<()> {
    let patch = json!({"spec": {"openStackRelease": release}}).to_string();
    let words = ["patch", "controlplane/cloud", "--type=merge", "-p", &patch];
    cloud
        .kubectl(&[&["-n", NAMESPACE], &words[..]].concat(), "")
        .map(drop)
}

/// What was seen on the way.
#[derive(Debug, Default)]
struct Seen {
    phases: BTreeMap<String, BTreeSet<String>>,
    made: usize,
    failed: Vec<String>,
}

impl Seen {
    /// Whether all of it is done.
    fn look(&mut self, cloud: &Cloud) -> anyhow::Result<bool> {
        for service in SERVICES {
            let path = "jsonpath={.status.upgradePhase}";
            let phase = cloud.kubectl(&["-n", NAMESPACE, "get", service, service, "-o", path], "")?;
            ensure!(phase != "Failed", "{service} failed");
            self.phases.entry(service.to_owned()).or_default().insert(phase);
        }
        let words = ["get", "controlplane/cloud", "-o", "json"];
        let object = cloud.kubectl(&[&["-n", NAMESPACE], &words[..]].concat(), "")?;
        let object: Value = serde_json::from_str(&object)?;
        let status = &object["status"];
        let conditions = status["conditions"].as_array().context("conditions")?;
        let ready = conditions.iter().find(|one| one["type"] == "Ready");
        Ok(status["observedGeneration"] == object["metadata"]["generation"]
            && status["installedRelease"] == NEXT
            && ready.is_some_and(|ready| ready["status"] == "True"))
    }
}

/// A server with its port, and away with them.
fn work(world: &World<'_>, seen: &mut Seen) {
    let made = || {
        let id = world.run(world.session.create_server(&world.draft("meanwhile")))?;
        let settled = world.settled(&id, "ACTIVE");
        world.run(world.session.delete_server(&id))?;
        settled?;
        world.gone(&id, crate::PATIENCE)
    };
    match made() {
        Ok(()) => seen.made += 1,
        Err(why) => seen.failed.push(format!("{why:#}")),
    }
}

/// While hypervisors of both versions run, nobody says what only the newer ones understand.
fn messages_were_of_the_oldest_version(world: &World<'_>) -> anyhow::Result<()> {
    for pod in world.pods("nova-conductor")? {
        let log = world
            .cloud
            .kubectl(&[&pod.place()[..], &["logs", &pod.name]].concat(), "")?;
        let pinned = log
            .lines()
            .find(|line| line.contains("Automatically selected compute RPC version"));
        println!("{}: {}", pod.name, pinned.unwrap_or("has sent nothing"));
    }
    Ok(())
}
