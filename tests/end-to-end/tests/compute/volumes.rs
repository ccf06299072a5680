//! A volume goes from one server to another and keeps what was written; so do snapshots, clones and roots of servers.

use anyhow::{Context, ensure};
use end_to_end::cloud::Cloud;
use end_to_end::patience::{until, until_ok};
use serde_json::Value;

use super::{NAMESPACE, PATIENCE, inside, inside_of, openstack};

/// What is written: so much that it is in no cache of a disk's first blocks alone.
const CHECKSUM: &str = "dd if=/dev/vdb bs=1M count=4 | sha256sum";

/// Where volumes are.
pub(crate) struct Backend {
    /// Its name, and that of the volume type.
    name: &'static str,
    /// It can grow while it is attached.
    online: bool,
    /// What its process lists when there are no volumes: nothing.
    listed_by: &'static [&'static str],
}

pub(crate) const FILES: Backend = Backend {
    name: "files",
    online: false,
    listed_by: &["find", "/var/lib/volumes", "-type", "f"],
};

pub(crate) const CEPH: Backend = Backend {
    name: "ceph",
    online: true,
    listed_by: &["rbd", "--id", "cinder", "ls", "volumes"],
};

/// Of 2 GiB.
const SECTORS: &str = "4194304";

pub(crate) fn a_volume_keeps_its_data_from_one_server_to_the_next(
    cloud: &Cloud,
    backend: &Backend,
) -> anyhow::Result<()> {
    backends_are_up(cloud, backend)?;
    openstack(cloud, "volume create --size 1 data")?;
    // Beside the rest: a disk to start from.
    openstack(cloud, "volume create --size 1 --image guest --bootable root")?;
    becomes(cloud, "volume", "data", "available")?;
    let written = written_by_a_running_server(cloud, backend)?;
    snapshot_and_growth(cloud, backend)?;
    let address = openstack(cloud, "floating ip create public")?["floating_ip_address"].clone();
    let address = address.as_str().context("an address")?;
    let read = read_by_a_server_on_a_volume(cloud, address)?;
    ensure!(written == read, "{written:?} was written, {read:?} read");
    if backend.online {
        copies_keep_what_they_were_taken_of(cloud, &written)?;
        a_root_keeps_its_data(cloud)?;
    }
    nothing_is_left(cloud, backend, address)
}

fn backends_are_up(cloud: &Cloud, backend: &Backend) -> anyhow::Result<()> {
    let services = openstack(cloud, "volume service list")?;
    let services = services.as_array().context("a list")?;
    ensure!(
        services.len() == 2 && services.iter().all(|service| service["State"] == "up"),
        "a scheduler and a backend: {services:?}"
    );
    let types = openstack(cloud, "volume type list")?;
    let mut types = types.as_array().context("a list")?.iter();
    ensure!(types.any(|one| one["Name"] == backend.name), "{types:?}");
    until("the backend tells its space", PATIENCE, || {
        let words = [
            "-n",
            NAMESPACE,
            "get",
            "cinder",
            "cinder",
            "-o",
            "jsonpath={.status.backends}",
        ];
        let told = cloud.kubectl(&words, "")?;
        let backends: Value = serde_json::from_str(&told)?;
        let backend = &backends[0];
        Ok(
            match (backend["status"].as_str(), backend["totalCapacityGb"].as_i64()) {
                (Some("Ready"), Some(1..)) => Ok(()),
                _ => Err(told),
            },
        )
    })
}

pub(crate) fn becomes(cloud: &Cloud, what: &str, name: &str, wanted: &str) -> anyhow::Result<()> {
    let said = format!("{what} {name} is {wanted}");
    until(&said, PATIENCE, || {
        let status = openstack(cloud, &format!("{what} show {name}"))?["status"].clone();
        // What has failed stays so.
        ensure!(
            !status.as_str().unwrap_or_default().starts_with("error"),
            "{what} {name} is {status}"
        );
        Ok(if status == wanted {
            Ok(())
        } else {
            Err(status.to_string())
        })
    })
}

/// Attaches a volume to a server, whose guest then has it as this disk.
pub(crate) fn attach(cloud: &Cloud, server: &str, volume: &str, disk: &str) -> anyhow::Result<()> {
    openstack(cloud, &format!("server add volume {server} {volume}"))?;
    until_ok("the disk is in the guest", PATIENCE, || {
        inside_of(cloud, server, &format!("ls /dev/{disk}"))
    })?;
    becomes(cloud, "volume", volume, "in-use")
}

fn detach(cloud: &Cloud, server: &str, volume: &str) -> anyhow::Result<()> {
    cloud.c5c3_here("openstack", &["server", "remove", "volume", server, volume])?;
    becomes(cloud, "volume", volume, "available")
}

/// Waits until nothing of that name is listed.
pub(crate) fn gone(cloud: &Cloud, what: &str, name: &str) -> anyhow::Result<()> {
    until(&format!("{what} {name} is gone"), PATIENCE, || {
        let left = openstack(cloud, &format!("{what} list"))?;
        let mut left = left.as_array().context("a list")?.iter();
        Ok(match left.find(|one| one["Name"] == name) {
            Some(one) => Err(one.to_string()),
            None => Ok(()),
        })
    })
}

/// What a disk of a guest holds, read from the disk itself. `first`: where it begins, in MiB.
fn checksum(cloud: &Cloud, server: &str, disk: &str, first: u32) -> anyhow::Result<String> {
    let read = format!("dd if=/dev/{disk} bs=1M skip={first} count=4 2>/dev/null | sha256sum");
    inside_of(
        cloud,
        server,
        &format!("echo 3 > /proc/sys/vm/drop_caches; {read}"),
    )
}

/// Something that was never there before: its checksum.
fn overwritten(cloud: &Cloud, server: &str, disk: &str, first: u32) -> anyhow::Result<String> {
    let before = checksum(cloud, server, disk, first)?;
    let write = format!("dd if=/dev/urandom of=/dev/{disk} bs=1M seek={first} count=4 conv=notrunc,fsync");
    inside_of(cloud, server, &write)?;
    let after = checksum(cloud, server, disk, first)?;
    ensure!(after != before, "nothing was written");
    Ok(after)
}

/// A volume of the snapshot has what was there when that was taken, a clone what its source has now. What is written
/// to a clone is in the clone alone.
fn copies_keep_what_they_were_taken_of(cloud: &Cloud, written: &str) -> anyhow::Result<()> {
    let now = overwritten(cloud, "other", "vdb", 0)?;
    for (volume, source, expected) in [
        ("old", "--snapshot before", written),
        ("copy", "--source data", now.as_str()),
    ] {
        openstack(cloud, &format!("volume create {source} {volume}"))?;
        becomes(cloud, "volume", volume, "available")?;
        attach(cloud, "other", volume, "vdc")?;
        let read = checksum(cloud, "other", "vdc", 0)?;
        ensure!(read == expected, "{volume}: {read:?}, not {expected:?}");
        overwritten(cloud, "other", "vdc", 0)?;
        let source = checksum(cloud, "other", "vdb", 0)?;
        ensure!(source == now, "its source became {source:?}, not {now:?}");
        detach(cloud, "other", volume)?;
        // A snapshot stays as long as something is made of it.
        cloud.c5c3_here("openstack", &["volume", "delete", volume])?;
        gone(cloud, "volume", volume)?;
    }
    Ok(())
}

/// Of the volume that a server started from, behind what the image takes.
fn a_root_keeps_its_data(cloud: &Cloud) -> anyhow::Result<()> {
    const BEHIND: u32 = 512;
    let written = overwritten(cloud, "other", "vda", BEHIND)?;
    let boot = "cat /proc/sys/kernel/random/boot_id";
    let before = inside_of(cloud, "other", boot)?;
    cloud.c5c3_here("openstack", &["server", "reboot", "--hard", "--wait", "other"])?;
    let after = until_ok("it has booted", PATIENCE, || inside_of(cloud, "other", boot))?;
    ensure!(before != after, "it was never off");
    let read = checksum(cloud, "other", "vda", BEHIND)?;
    ensure!(read == written, "{written:?} was written, {read:?} read");
    Ok(())
}

/// What a guest wrote to a volume before its host died.
pub(crate) struct Entrusted(String);

/// Gives the demo's server a volume, and writes to it.
pub(crate) fn entrusted(cloud: &Cloud) -> anyhow::Result<Entrusted> {
    openstack(cloud, "volume create --size 1 entrusted")?;
    becomes(cloud, "volume", "entrusted", "available")?;
    attach(cloud, "demo", "entrusted", "vdb")?;
    Ok(Entrusted(overwritten(cloud, "demo", "vdb", 0)?))
}

/// The server runs elsewhere: it has its volume there, with all that it wrote, and can write and give it back.
pub(crate) fn returned(cloud: &Cloud, entrusted: &Entrusted) -> anyhow::Result<()> {
    let read = until_ok("the disk is in the guest again", PATIENCE, || {
        checksum(cloud, "demo", "vdb", 0)
    })?;
    ensure!(
        read == entrusted.0,
        "{:?} was written, {read:?} read",
        entrusted.0
    );
    overwritten(cloud, "demo", "vdb", 0)?;
    detach(cloud, "demo", "entrusted")?;
    cloud.c5c3_here("openstack", &["volume", "delete", "entrusted"])?;
    gone(cloud, "volume", "entrusted")
}

fn written_by_a_running_server(cloud: &Cloud, backend: &Backend) -> anyhow::Result<String> {
    attach(cloud, "demo", "data", "vdb")?;
    inside(cloud, "dd if=/dev/urandom of=/dev/vdb bs=1M count=4 && sync")?;
    let written = inside(cloud, CHECKSUM)?;
    if backend.online {
        moved_and_grown(cloud, &written)?;
    }
    detach(cloud, "demo", "data")?;
    Ok(written)
}

/// With the volume: its guest goes to the other hypervisor, and there it sees the volume grow.
fn moved_and_grown(cloud: &Cloud, written: &str) -> anyhow::Result<()> {
    let host = || {
        let seen = openstack(cloud, "server show demo")?;
        let host = seen["OS-EXT-SRV-ATTR:host"]
            .as_str()
            .context("its host")?
            .to_owned();
        anyhow::Ok(host)
    };
    let (before, boot) = (host()?, "cat /proc/sys/kernel/random/boot_id");
    let running = inside(cloud, boot)?;
    let run = |words: &str| cloud.c5c3_here("openstack", &words.split(' ').collect::<Vec<_>>());
    run("server migrate --live-migration --wait demo")?;
    ensure!(host()? != before, "it is still on {before}");
    ensure!(inside(cloud, boot)? == running, "it was started anew");
    ensure!(inside(cloud, CHECKSUM)? == written, "it reads something else");
    run("--os-volume-api-version 3.42 volume set --size 2 data")?;
    until("the guest sees the new size", PATIENCE, || {
        let size = inside(cloud, "cat /sys/block/vdb/size")?;
        Ok(if size == SECTORS { Ok(()) } else { Err(size) })
    })
}

fn snapshot_and_growth(cloud: &Cloud, backend: &Backend) -> anyhow::Result<()> {
    openstack(cloud, "volume snapshot create --volume data before")?;
    becomes(cloud, "volume snapshot", "before", "available")?;
    if backend.online {
        return Ok(());
    }
    cloud.c5c3_here("openstack", &["volume", "set", "--size", "2", "data"])?;
    becomes(cloud, "volume", "data", "available")
}

fn read_by_a_server_on_a_volume(cloud: &Cloud, address: &str) -> anyhow::Result<String> {
    becomes(cloud, "volume", "root", "available")?;
    openstack(
        cloud,
        "server create --volume root --flavor tiny --network demo --key-name c5c3-demo --security-group demo --wait other",
    )?;
    cloud.c5c3_here(
        "openstack",
        &["server", "add", "floating", "ip", "other", address],
    )?;
    openstack(cloud, "server add volume other data")?;
    let size = until_ok("the disk is in the other guest", PATIENCE, || {
        inside_of(cloud, "other", "cat /sys/block/vdb/size")
    })?;
    ensure!(size == SECTORS, "{size} sectors");
    inside_of(cloud, "other", CHECKSUM)
}

fn nothing_is_left(cloud: &Cloud, backend: &Backend, address: &str) -> anyhow::Result<()> {
    let run = |words: &str| cloud.c5c3_here("openstack", &words.split(' ').collect::<Vec<_>>());
    run("server delete --wait other")?;
    run(&format!("floating ip delete {address}"))?;
    run("volume snapshot delete before")?;
    until("the snapshot is gone", PATIENCE, || {
        let left = openstack(cloud, "volume snapshot list")?;
        Ok(if left == Value::Array(Vec::new()) {
            Ok(())
        } else {
            Err(left.to_string())
        })
    })?;
    run("volume delete data root")?;
    let process = format!("deployment/cinder-volume-{}", backend.name);
    let list = ["-n", NAMESPACE, "exec", &process, "--"];
    until("no volume is left", PATIENCE, || {
        let left = cloud.kubectl(&[&list, backend.listed_by].concat(), "")?;
        // Cinder keeps the source of a clone under another name.
        let left: Vec<&str> = left.lines().filter(|name| !name.ends_with(".deleted")).collect();
        Ok(if left.is_empty() {
            Ok(())
        } else {
            Err(left.join(" "))
        })
    })
}
