//! Keys of Ceph are replaced below a guest that writes to its volume: it goes on with the user that it has until it
//! takes the new one, and the user before goes only then.

use std::time::Instant;

use anyhow::{Context, ensure};
use end_to_end::ceph_users;
use end_to_end::cloud::Cloud;
use end_to_end::patience::until_ok;

use crate::volumes::{self, becomes};
use crate::world::World;
use crate::writes::Writer;
use crate::{PATIENCE, hypervisors_are_up, inside, openstack, there};

/// Read from the disk itself: what was read before is forgotten.
const CHECKSUM: &str = "echo 3 > /proc/sys/vm/drop_caches; dd if=/dev/vdb bs=1M count=4 | sha256sum";
/// Beyond the four that are compared, one block a second, each of which has to be on the disk before the next. Says
/// which it was, and when.
const WRITES: &str = "i=0; while dd if=/dev/urandom of=/dev/vdb bs=64k count=1 seek=$((100 + i % 1000)) conv=fsync; do \
     read now rest < /proc/uptime; echo $i $now; i=$((i + 1)); sleep 1; done; echo failed";
const BOOT: &str = "cat /proc/sys/kernel/random/boot_id";

pub(crate) fn keys_change_while_a_guest_has_a_volume(world: &World<'_>) -> anyhow::Result<()> {
    let cloud = world.cloud;
    openstack(cloud, "volume create --size 1 kept")?;
    available(cloud)?;
    attach(cloud)?;
    inside(cloud, "dd if=/dev/urandom of=/dev/vdb bs=1M count=4 && sync")?;
    let written = inside(cloud, CHECKSUM)?;
    let running = inside(cloud, BOOT)?;
    let writer = Writer::start(cloud, WRITES)?;

    // Nobody takes the key from a guest that works with it.
    let by_hand = ceph_users::key(cloud, "cinder")?;
    let start = Instant::now();
    ceph_users::begin(cloud, str::to_owned)?;
    ceph_users::used(cloud, "cinder-1")?;
    println!("Cinder is client.cinder-1 after {:.1?}", start.elapsed());
    let host = world.named("demo")?.host.context("its host")?;
    ceph_users::told(cloud, &format!("guests on {host}"))?;
    hypervisors_have_the_new_key(cloud)?;
    ceph_users::opens(cloud, "cinder", &by_hand)?;
    writer.goes_on(3)?;

    // Where it is moved, it works with the new one.
    run(cloud, "server migrate --live-migration --wait demo")?;
    ensure!(world.named("demo")?.host != Some(host), "it was not moved");
    ceph_users::told(
        cloud,
        "client.cinder, which was created by hand, is no longer used",
    )?;
    ceph_users::remove(cloud, "cinder")?;
    ceph_users::refused(cloud, "cinder", &by_hand)?;
    writer.goes_on(3)?;
    ensure!(inside(cloud, CHECKSUM)? == written, "it reads something else");
    ensure!(inside(cloud, BOOT)? == running, "it was started anew");
    let (writes, gap) = writer.stop()?;
    println!("{writes} writes, the longest time between two {gap:.1?}");

    // A guest starts with the user that it had, whoever is the current one.
    let first = ceph_users::key(cloud, "cinder-1")?;
    ceph_users::rotate_now(cloud)?;
    ceph_users::used(cloud, "cinder-2")?;
    hypervisors_have_the_new_key(cloud)?;
    run(cloud, "server reboot --hard --wait demo")?;
    until_ok("it has booted", PATIENCE, || inside(cloud, "ls /dev/vdb"))?;
    ensure!(inside(cloud, CHECKSUM)? == written, "it reads something else");
    ceph_users::opens(cloud, "cinder-1", &first)?;

    // Attached anew the volume has the new user, and that before goes by itself.
    run(cloud, "server remove volume demo kept")?;
    available(cloud)?;
    ceph_users::gone(cloud, "cinder-1")?;
    ceph_users::refused(cloud, "cinder-1", &first)?;
    attach(cloud)?;
    ensure!(inside(cloud, CHECKSUM)? == written, "it reads something else");
    println!("client.cinder-2 alone is left after {:.1?}", start.elapsed());
    run(cloud, "server remove volume demo kept")?;
    available(cloud)?;
    run(cloud, "volume delete kept")
}

fn run(cloud: &Cloud, words: &str) -> anyhow::Result<()> {
    let words: Vec<&str> = words.split(' ').collect();
    cloud.c5c3_here("openstack", &words).map(drop)
}

fn available(cloud: &Cloud) -> anyhow::Result<()> {
    becomes(cloud, "volume", "kept", "available")
}

fn attach(cloud: &Cloud) -> anyhow::Result<()> {
    volumes::attach(cloud, "demo", "kept", "vdb")
}

/// Their pods were replaced, and are up.
fn hypervisors_have_the_new_key(cloud: &Cloud) -> anyhow::Result<()> {
    for set in ["nova-libvirt", "nova-compute-cell1"] {
        let set = format!("daemonset/{set}");
        there(cloud, &["rollout", "status", &set, "--timeout=300s"])?;
    }
    hypervisors_are_up(cloud)
}
