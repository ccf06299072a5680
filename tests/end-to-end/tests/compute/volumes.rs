//! A volume goes from one server to another and keeps what was written.

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

fn written_by_a_running_server(cloud: &Cloud, backend: &Backend) -> anyhow::Result<String> {
    openstack(cloud, "server add volume demo data")?;
    until_ok("the disk is in the guest", PATIENCE, || {
        inside(cloud, "ls /dev/vdb")
    })?;
    inside(cloud, "dd if=/dev/urandom of=/dev/vdb bs=1M count=4 && sync")?;
    let written = inside(cloud, CHECKSUM)?;
    becomes(cloud, "volume", "data", "in-use")?;
    if backend.online {
        moved_and_grown(cloud, &written)?;
    }
    cloud.c5c3_here("openstack", &["server", "remove", "volume", "demo", "data"])?;
    becomes(cloud, "volume", "data", "available")?;
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
        Ok(if left.is_empty() { Ok(()) } else { Err(left) })
    })
}
