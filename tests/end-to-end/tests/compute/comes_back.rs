//! The machine's cloud is stopped and started again: what was in it is in it still.

use std::time::Instant;

use anyhow::{Context, ensure};
use end_to_end::patience::{until, until_ok};

use crate::world::World;
use crate::{PATIENCE, inside, openstack};

/// What is in the volume; all that is written fits in.
const CHECKSUM: &str = "dd if=/dev/vdb bs=1M count=4 | sha256sum";

pub(crate) fn a_server_and_its_volume_come_back_after_down(world: &World<'_>) -> anyhow::Result<()> {
    let cloud = world.cloud;
    openstack(cloud, "volume create --size 1 kept")?;
    let is = |wanted: &str| {
        until(&format!("volume kept is {wanted}"), PATIENCE, || {
            let status = openstack(cloud, "volume show kept")?["status"].clone();
            Ok(if status == wanted {
                Ok(())
            } else {
                Err(status.to_string())
            })
        })
    };
    is("available")?;
    openstack(cloud, "server add volume demo kept")?;
    until_ok("the disk is in the guest", PATIENCE, || {
        inside(cloud, "ls /dev/vdb")
    })?;
    inside(cloud, "dd if=/dev/urandom of=/dev/vdb bs=1M count=4 && sync")?;
    let written = inside(cloud, CHECKSUM)?;
    is("in-use")?;
    let before = world.named("demo")?;

    let start = Instant::now();
    cloud.c5c3_here("down", &[])?;
    let down = start.elapsed();
    cloud.c5c3_here("up", &["--wait", "900"])?;
    let up = start.elapsed() - down;
    // Nova starts the guests that ran; nobody has to.
    until_ok("the guest answers on its floating address", 2 * PATIENCE, || {
        inside(cloud, "hostname")
    })?;
    println!(
        "down took {down:?}, up {up:?}, the guest answers {:?} after the start",
        start.elapsed()
    );
    let after = world.settled(&before.server.id, "ACTIVE")?;
    ensure!(after.host == before.host, "{before:?} became {after:?}");
    let read = until_ok("the disk is in the guest again", PATIENCE, || {
        inside(cloud, CHECKSUM)
    })?;
    ensure!(read == written, "{written:?} was written, {read:?} read");
    until("all of Nova is up", PATIENCE, || {
        let services = openstack(cloud, "compute service list")?;
        let all = services.as_array().context("a list")?;
        let down: Vec<_> = all.iter().filter(|service| service["State"] != "up").collect();
        Ok(if down.is_empty() {
            Ok(())
        } else {
            Err(format!("{down:?}"))
        })
    })?;
    cloud.c5c3_here("openstack", &["server", "remove", "volume", "demo", "kept"])?;
    is("available")?;
    cloud.c5c3_here("openstack", &["volume", "delete", "kept"])?;
    Ok(())
}
