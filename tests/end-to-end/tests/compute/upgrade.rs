//! From one release of OpenStack to the next while guests run and people work.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use end_to_end::cloud::Cloud;
use end_to_end::patience::until;
use end_to_end::stream::Stream;
use openstack_client::{Compute, Operating};
use serde_json::{Value, json};

use crate::pings::Ping;
use crate::world::World;
use crate::{NAMESPACE, PATIENCE, inside, made, servers};

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
    let (offset, _) = made(&cloud, &[])?;
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
        "{took:?}; {} turns, {} failed; {} servers, {} lost; {answers} pings, the longest time without one {gap:?}; {:?}",
        outcome.good,
        outcome.failed.len(),
        seen.made,
        seen.lost,
        seen.phases
    );
    ensure!(outcome.failed.is_empty(), "{:?}", outcome.failed);
    ensure!(seen.failed.is_empty(), "{:?}", seen.failed);
    ensure!(seen.made > 0, "nothing was made meanwhile");
    ensure!(
        seen.lost <= 2,
        "{} servers were lost with two nova-computes",
        seen.lost
    );
    ensure!(gap <= Duration::from_secs(1), "{gap:?} without an answer");
    ensure!(inside(&cloud, boot)? == running, "the guest was started anew");
    for service in SERVICES {
        let phases = seen.phases.get(service).cloned().unwrap_or_default();
        ensure!(phases.contains("Expanding"), "{service}: {phases:?}");
    }
    messages_were_of_the_oldest_version(&world)?;
    world.run(world.session.delete_server(&second.id))?;
    world.gone(&second.id, PATIENCE)?;
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
    /// Half made when their nova-compute was replaced.
    lost: usize,
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

/// A server with its port, and away with them. Every request has to be answered. What becomes of a server is Nova's:
/// nova-compute takes it off the bus before it is done with it, so one that is half made when its nova-compute is
/// replaced ends in ERROR.
fn work(world: &World<'_>, seen: &mut Seen) {
    let made = || {
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
    };
    match made() {
        Ok(true) => seen.made += 1,
        Ok(false) => seen.lost += 1,
        Err(why) => seen.failed.push(format!("{why:#}")),
    }
}

/// The nova-compute of each host.
fn computes(world: &World<'_>) -> anyhow::Result<BTreeMap<String, String>> {
    let pods = world.pods("nova-compute-cell1")?.into_iter();
    Ok(pods.map(|pod| (pod.node, pod.name)).collect())
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
