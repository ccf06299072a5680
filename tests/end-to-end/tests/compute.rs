//! A server on the network, with the real programs: OVN, libvirt and QEMU on an embedded hypervisor.
//! Needs root.

#[path = "compute/volumes.rs"]
mod volumes;

use std::time::Duration;

use anyhow::{Context, ensure};
use end_to_end::cloud::Cloud;
use end_to_end::patience::{until, until_ok};
use end_to_end::process::free_offset;
use serde_json::Value;

const NAMESPACE: &str = "openstack";
/// A guest has no processor of its own here: it is emulated, beside everything else.
const PATIENCE: Duration = Duration::from_secs(180);

#[test]
fn one_command_makes_a_server_that_is_reached_from_outside() -> anyhow::Result<()> {
    let cloud = Cloud::new()?;
    let offset = free_offset(&[5000, 8774, 8776, 8778, 9292, 9696])?.to_string();
    println!(
        "{}",
        cloud.c5c3_here("up", &["--port-offset", &offset, "--wait", "900"])?
    );
    let said = cloud.c5c3_here("demo", &["--wait", "600"])?;
    ensure!(said.contains("server demo is being made"), "{said}");
    let again = cloud.c5c3_here("demo", &["--wait", "600"])?;
    ensure!(
        again.contains("server demo is there") && !again.contains(" made"),
        "{again}"
    );
    its_name_and_its_key_came_from_the_metadata(&cloud)?;
    everything_that_serves_it_is_up(&cloud)?;
    it_lives_on_below_pods_that_are_replaced(&cloud)?;
    hypervisors_have_no_password_of_a_database(&cloud)?;
    volumes::a_volume_keeps_its_data_from_one_server_to_the_next(&cloud)?;
    deleted_it_leaves_nothing(&cloud)
}

/// What a command in the guest prints.
fn inside(cloud: &Cloud, command: &str) -> anyhow::Result<String> {
    inside_of(cloud, "demo", command)
}

fn inside_of(cloud: &Cloud, server: &str, command: &str) -> anyhow::Result<String> {
    let mut words = vec![server, "--"];
    words.extend(command.split(' '));
    Ok(cloud.c5c3_here("ssh", &words)?.trim().to_owned())
}

fn openstack(cloud: &Cloud, words: &str) -> anyhow::Result<Value> {
    let words: Vec<&str> = words.split(' ').collect();
    let said = cloud.c5c3_here("openstack", &[words.as_slice(), &["-f", "json"]].concat())?;
    serde_json::from_str(&said).with_context(|| said.clone())
}

fn its_name_and_its_key_came_from_the_metadata(cloud: &Cloud) -> anyhow::Result<()> {
    // Logged in with the key, over the floating address.
    ensure!(inside(cloud, "hostname")? == "demo");
    let (code, ..) = cloud.tried("ssh", &["demo", "--", "exit", "7"])?;
    ensure!(code == 7, "the command's exit code became {code}");
    let (code, _, said) = cloud.tried("ssh", &["nobody"])?;
    ensure!(
        code == 3 && said.contains("there is no server nobody"),
        "{code}: {said}"
    );
    let console = cloud.c5c3_here("console", &["demo"])?;
    ensure!(console.contains("hostname=demo.novalocal keys=1"), "{console}");
    Ok(())
}

fn everything_that_serves_it_is_up(cloud: &Cloud) -> anyhow::Result<()> {
    let services = openstack(cloud, "compute service list")?;
    let services = services.as_array().context("a list")?;
    ensure!(
        services.len() == 4,
        "two conductors, a scheduler, a hypervisor: {services:?}"
    );
    ensure!(
        services.iter().all(|service| service["State"] == "up"),
        "{services:?}"
    );
    let agents = openstack(cloud, "network agent list")?;
    let agents = agents.as_array().context("a list")?;
    ensure!(
        agents.len() == 2 && agents.iter().all(|agent| agent["Alive"] == true),
        "{agents:?}"
    );
    let nova = cloud.kubectl(&["-n", NAMESPACE, "get", "nova", "nova", "-o", "json"], "")?;
    let nova: Value = serde_json::from_str(&nova)?;
    let cells = &nova["status"]["cells"];
    ensure!(
        cells[0]["name"] == "cell1" && cells[0]["computeNodes"] == 1,
        "{cells}"
    );
    Ok(())
}

fn it_lives_on_below_pods_that_are_replaced(cloud: &Cloud) -> anyhow::Result<()> {
    let boot = "cat /proc/sys/kernel/random/boot_id";
    let before = inside(cloud, boot)?;
    let sets = [
        "nova-libvirt",
        "nova-compute-cell1",
        "neutron-ovn-agent",
        "ovn-controller",
        "ovn-ovs",
    ];
    for set in sets {
        let pods = cloud.kubectl(&["-n", NAMESPACE, "get", "pods", "-o", "name"], "")?;
        let prefix = format!("pod/{set}-");
        let pod = pods.lines().find(|pod| pod.starts_with(&prefix));
        let pod = pod.with_context(|| format!("no pod of {set} in {pods}"))?;
        cloud.kubectl(&["-n", NAMESPACE, "delete", pod], "")?;
    }
    for set in sets {
        let set = format!("daemonset/{set}");
        cloud.kubectl(
            &["-n", NAMESPACE, "rollout", "status", &set, "--timeout=180s"],
            "",
        )?;
    }
    let after = until_ok("the guest answers again", PATIENCE, || inside(cloud, boot))?;
    ensure!(before == after, "it was started anew");
    until("the hypervisor is up again", PATIENCE, || {
        let list = openstack(cloud, "hypervisor list")?;
        Ok(if list[0]["State"] == "up" {
            Ok(())
        } else {
            Err(list.to_string())
        })
    })
}

fn hypervisors_have_no_password_of_a_database(cloud: &Cloud) -> anyhow::Result<()> {
    for set in ["nova-compute-cell1", "nova-libvirt", "neutron-ovn-agent"] {
        let set = cloud.kubectl(&["-n", NAMESPACE, "get", "daemonset", set, "-o", "json"], "")?;
        let set: Value = serde_json::from_str(&set)?;
        let container = &set["spec"]["template"]["spec"]["containers"][0];
        for source in container["envFrom"].as_array().into_iter().flatten() {
            let name = source["secretRef"]["name"].as_str().context("a Secret")?;
            let secret = cloud.kubectl(&["-n", NAMESPACE, "get", "secret", name, "-o", "json"], "")?;
            let secret: Value = serde_json::from_str(&secret)?;
            let keys: Vec<&String> = secret["data"].as_object().context("data")?.keys().collect();
            ensure!(
                keys.iter().all(|key| !key.contains("CONNECTION")),
                "{name}: {keys:?}"
            );
        }
    }
    Ok(())
}

fn deleted_it_leaves_nothing(cloud: &Cloud) -> anyhow::Result<()> {
    let servers = openstack(cloud, "server list --all-projects")?;
    let id = servers[0]["ID"].as_str().context("the server")?.to_owned();
    cloud.c5c3_here("openstack", &["server", "delete", "--wait", "demo"])?;
    until("nothing of it is left", PATIENCE, || {
        let ports = openstack(cloud, &format!("port list --device-id {id}"))?;
        let usage = openstack(cloud, "hypervisor stats show")?;
        let left = ports.as_array().map_or(0, Vec::len);
        Ok(match (left, usage["running_vms"].as_i64()) {
            (0, Some(0) | None) => Ok(()),
            other => Err(format!("{other:?}")),
        })
    })?;
    let disks = cloud.kubectl(
        &[
            "-n",
            NAMESPACE,
            "exec",
            "daemonset/nova-libvirt",
            "--",
            "ls",
            "/var/lib/nova/instances",
        ],
        "",
    )?;
    ensure!(!disks.contains(&id), "{disks}");
    Ok(())
}
