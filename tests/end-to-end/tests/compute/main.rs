//! Servers on the network, with the real programs: OVN, libvirt and QEMU on two embedded hypervisors that
//! are a cluster of their own, with their disks in Ceph, which is in another. Needs root.

mod cells;
mod ceph;
mod comes_back;
mod consoles;
mod cortex;
mod drills;
mod foresight;
mod hosts;
mod idle;
mod keys;
mod mistakes;
mod pings;
mod placement;
mod servers;
mod tempest;
mod tls;
mod traces;
mod upgrade;
mod versions;
mod volumes;
mod writes;

use anyhow::{Context, ensure};
use end_to_end::cloud::Cloud;
use end_to_end::patience::{until, until_ok};
use end_to_end::world::{self, NAMESPACE, PATIENCE, World, decoded, made};
use openstack_client::Operating;
use serde_json::Value;

#[test]
fn one_command_makes_a_server_that_is_reached_from_outside() -> anyhow::Result<()> {
    let cloud = Cloud::new()?;
    let (offset, said) = made(&cloud, &[])?;
    ensure!(said.contains("server demo is being created"), "{said}");
    let again = cloud.c5c3_here("demo", &["--wait", "600"])?;
    ensure!(
        again.contains("server demo exists") && !again.contains(" created"),
        "{again}"
    );
    its_name_and_its_key_came_from_the_metadata(&cloud)?;
    everything_that_serves_it_is_up(&cloud)?;
    consoles::a_screen_is_shown(&cloud)?;
    let world = World::of(&cloud, offset)?;
    hosts::agents_tell_of_their_hosts(&world)?;
    ceph::a_server_starts_from_its_image_without_a_copy(&world)?;
    volumes::a_volume_keeps_its_data_from_one_server_to_the_next(&cloud, &volumes::CEPH)?;
    let second = servers::two_servers_on_two_hosts_reach_each_other(&world)?;
    servers::a_security_group_blocks_what_it_does_not_let_in(&world, &second)?;
    tls::only_libvirtd_commands_libvirtd(&world)?;
    tls::the_authority_is_not_on_hypervisors(&world)?;
    tls::a_new_certificate_is_taken_without_a_restart(&world)?;
    tls::networks_are_made_over_tls(&world)?;
    servers::a_guest_moves_while_it_is_pinged(&world, &second)?;
    ceph::no_disk_is_on_a_hypervisor(&world)?;
    servers::it_is_migrated_and_resized(&world, &second)?;
    let image = servers::it_is_kept_as_an_image_and_made_anew(&world, &second)?;
    servers::deleted_it_is_gone(&world, &second, &image)?;
    match std::env::var("C5C3_DRILLS") {
        Ok(rounds) => drills::long(&world, rounds.parse()?)?,
        Err(_) => drills::short(&world)?,
    }
    it_lives_on_below_pods_that_are_replaced(&cloud)?;
    hosts::an_emptied_host_gives_its_server_away(&world)?;
    hosts::a_server_of_a_host_without_power_starts_elsewhere(&world)?;
    hypervisors_have_no_password_of_a_database(&cloud)?;
    ceph::keys_are_where_disks_are_opened(&cloud)?;
    deleted_it_leaves_nothing(&cloud)?;
    tempest::smoke_tests_pass(&cloud)
}

#[test]
#[ignore = "another cloud, with a volume on a host that dies: make soak"]
fn a_volume_outlives_the_host_of_its_server() -> anyhow::Result<()> {
    let cloud = Cloud::new()?;
    let (offset, _) = made(&cloud, &[])?;
    let world = World::of(&cloud, offset)?;
    hosts::an_emptied_host_gives_its_server_away(&world)?;
    let entrusted = volumes::entrusted(&cloud)?;
    hosts::a_server_of_a_host_without_power_starts_elsewhere(&world)?;
    volumes::returned(&cloud, &entrusted)?;
    hypervisors_have_no_password_of_a_database(&cloud)?;
    deleted_it_leaves_nothing(&cloud)
}

#[test]
#[ignore = "another cloud, of which is foretold what a change does: make soak"]
fn what_a_change_does_and_what_blocks_is_told() -> anyhow::Result<()> {
    let cloud = Cloud::new()?;
    let (offset, _) = made(&cloud, &[])?;
    foresight::the_way_down_leads_to_a_pod_beside_the_guests(&World::of(&cloud, offset)?)?;
    foresight::a_change_is_foretold(&cloud)
}

#[test]
#[ignore = "another cloud, which is left alone and stopped: make soak"]
fn left_alone_it_is_silent_and_stopped_it_comes_back() -> anyhow::Result<()> {
    let cloud = Cloud::new()?;
    let (offset, _) = made(&cloud, &[])?;
    let world = World::of(&cloud, offset)?;
    idle::nothing_is_written_while_nothing_is_asked_for(&world)?;
    comes_back::a_server_and_its_volume_come_back_after_down(&world)?;
    hosts::a_server_whose_process_dies_runs_again(&world)
}

#[test]
#[ignore = "another cloud, whose programs die one by one: make soak"]
fn guests_hear_each_other_whatever_dies() -> anyhow::Result<()> {
    let cloud = Cloud::new()?;
    let (offset, _) = made(&cloud, &[])?;
    let world = World::of(&cloud, offset)?;
    let second = servers::two_servers_on_two_hosts_reach_each_other(&world)?;
    drills::guests_hear_each_other_whatever_dies(&world, &second.address)?;
    drills::flows_stay_without_the_southbound_database(&world, &second.address)?;
    drills::guests_hear_each_other_without_the_daemon(&world, &second.address)?;
    world.run(world.session.delete_server(&second.id))?;
    world.gone(&second.id, PATIENCE)
}

#[test]
#[ignore = "another cloud, in which Cortex says where servers go: make soak"]
fn cortex_says_where_servers_go() -> anyhow::Result<()> {
    let cloud = Cloud::new()?;
    let (offset, _) = made(&cloud, &[])?;
    let world = World::of(&cloud, offset)?;
    cortex::it_places_servers_and_is_not_missed(&world)?;
    placement::servers_land_where_cortex_says(&world)
}

#[test]
#[ignore = "another cloud, whose keys of Ceph change: make soak"]
fn keys_of_ceph_change_below_guests() -> anyhow::Result<()> {
    let cloud = Cloud::new()?;
    let (offset, _) = made(&cloud, &[])?;
    keys::keys_change_while_a_guest_has_a_volume(&World::of(&cloud, offset)?)
}

#[test]
#[ignore = "another cloud, for volumes that are files: make soak"]
fn volumes_go_from_one_server_to_the_next() -> anyhow::Result<()> {
    let cloud = Cloud::new()?;
    made(&cloud, &["--profile", "volumes"])?;
    volumes::a_volume_keeps_its_data_from_one_server_to_the_next(&cloud, &volumes::FILES)
}

/// What kubectl says of the hypervisors' cluster.
fn there(cloud: &Cloud, arguments: &[&str]) -> anyhow::Result<String> {
    let place = ["--context", "hypervisor", "-n", NAMESPACE];
    cloud.kubectl(&[place.as_slice(), arguments].concat(), "")
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
    all_of_nova_is_up(cloud, 1)?;
    everything_else_is_up(cloud)
}

/// With so many replicas of each part.
fn all_of_nova_is_up(cloud: &Cloud, replicas: usize) -> anyhow::Result<()> {
    let services = openstack(cloud, "compute service list")?;
    let services = services.as_array().context("a list")?;
    ensure!(
        services.len() == 3 * replicas + 2,
        "conductors of the API and of the cell, schedulers, two hypervisors: {services:?}"
    );
    ensure!(
        services.iter().all(|service| service["State"] == "up"),
        "{services:?}"
    );
    Ok(())
}

fn everything_else_is_up(cloud: &Cloud) -> anyhow::Result<()> {
    let volumes = openstack(cloud, "volume service list")?;
    let volumes = volumes.as_array().context("a list")?;
    ensure!(
        !volumes.is_empty() && volumes.iter().all(|service| service["State"] == "up"),
        "{volumes:?}"
    );
    let servers = openstack(cloud, "server list --long")?;
    let servers = servers.as_array().context("a list")?;
    let demo = servers
        .iter()
        .find(|server| server["Name"] == "demo")
        .context("demo")?;
    let host = demo["Host"].as_str().unwrap_or_default();
    ensure!(
        demo["Status"] == "ACTIVE" && demo["Power State"] == 1 && host.starts_with("hypervisor-"),
        "{demo}"
    );
    let agents = openstack(cloud, "network agent list")?;
    let agents = agents.as_array().context("a list")?;
    ensure!(
        agents.len() == 4 && agents.iter().all(|agent| agent["Alive"] == true),
        "{agents:?}"
    );
    let nova = cloud.kubectl(&["-n", NAMESPACE, "get", "nova", "nova", "-o", "json"], "")?;
    let nova: Value = serde_json::from_str(&nova)?;
    let cells = &nova["status"]["cells"];
    ensure!(
        cells[0]["name"] == "cell1" && cells[0]["computeNodes"] == 2,
        "{cells}"
    );
    let status = cloud.c5c3_here("status", &[])?;
    let ceph = "rook-ceph/storage   yes";
    for line in ["hypervisor-1 up", "hypervisor-2 up", "Servers: 1 ACTIVE", ceph] {
        ensure!(status.contains(line), "{status}");
    }
    let status: Value = serde_json::from_str(&cloud.c5c3_here("status", &["-o", "json"])?)?;
    let nodes = status["nodes"].as_array().context("nodes")?;
    let connected =
        |node: &&Value| node["cluster"] == "hypervisor" && node["compute"] == true && node["chassis"] == true;
    ensure!(
        nodes.len() == 4 && nodes.iter().filter(connected).count() == 2,
        "{nodes:?}"
    );
    everything_is_where_it_belongs(cloud)
}

fn everything_is_where_it_belongs(cloud: &Cloud) -> anyhow::Result<()> {
    let here = cloud.kubectl(&["-n", NAMESPACE, "get", "daemonsets", "-o", "name"], "")?;
    ensure!(here.trim().is_empty(), "agents beside the control plane: {here}");
    let pods = there(cloud, &["get", "pods", "-o", "name"])?;
    ensure!(pods.lines().count() == 12, "six on each hypervisor: {pods}");
    let routers = cloud.kubectl(&["-n", NAMESPACE, "get", "ovncluster", "ovn", "-o", "json"], "")?;
    let said = "ovn-controller runs on 2 nodes, routers on hypervisor-1";
    ensure!(routers.contains(said), "{routers}");
    let plane = cloud.kubectl(
        &["-n", NAMESPACE, "get", "controlplane", "cloud", "-o", "json"],
        "",
    )?;
    ensure!(
        plane.contains("available in cluster hypervisor: keystone"),
        "{plane}"
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
        let pods = there(cloud, &["get", "pods", "-o", "name"])?;
        let prefix = format!("pod/{set}-");
        let pods: Vec<&str> = pods.lines().filter(|pod| pod.starts_with(&prefix)).collect();
        ensure!(pods.len() == 2, "{set}: {pods:?}");
        there(cloud, &[&["delete"], pods.as_slice()].concat())?;
    }
    for set in sets {
        let set = format!("daemonset/{set}");
        there(cloud, &["rollout", "status", &set, "--timeout=180s"])?;
    }
    let after = until_ok("the guest answers again", PATIENCE, || inside(cloud, boot))?;
    ensure!(before == after, "it was started anew");
    hypervisors_are_up(cloud)
}

fn hypervisors_are_up(cloud: &Cloud) -> anyhow::Result<()> {
    until("the hypervisors are up", PATIENCE, || {
        let list = openstack(cloud, "hypervisor list")?;
        let up = |one: &Value| one["State"] == "up";
        Ok(if list.as_array().is_some_and(|all| all.iter().all(up)) {
            Ok(())
        } else {
            Err(list.to_string())
        })
    })
}

/// What hypervisors are given, by how the names of the Secrets begin. While certificates are replaced there are two of
/// a kind.
const GIVEN: [&str; 6] = [
    "neutron-agent-",
    "nova-compute-cell1-",
    "nova-disks-credentials-",
    "nova-libvirt-files-",
    "nova-libvirt-tls",
    "ovn-tls",
];

fn hypervisors_have_no_password_of_a_database(cloud: &Cloud) -> anyhow::Result<()> {
    let secrets: Value = serde_json::from_str(&there(cloud, &["get", "secrets", "-o", "json"])?)?;
    let secrets = secrets["items"].as_array().context("a list")?;
    for secret in secrets {
        let name = secret["metadata"]["name"].as_str().context("a name")?;
        ensure!(
            GIVEN.iter().any(|given| name.starts_with(given)),
            "nothing on a hypervisor needs Secret {name}"
        );
        for (key, value) in secret["data"].as_object().context("data")? {
            let text = decoded(value.as_str().context("a value")?)?;
            ensure!(
                !key.contains("CONNECTION") && !text.contains("mysql+pymysql://"),
                "the address of a database is in {name}, {key}"
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
    let pods = there(cloud, &["get", "pods", "-o", "name"])?;
    for pod in pods.lines().filter(|pod| pod.contains("nova-libvirt")) {
        // On a host that it left without a word Nova keeps the log of its console.
        let found = format!("*{id}/disk*");
        let find = ["find", "/var/lib/nova/instances", "-path", &found];
        let disks = there(cloud, &[&["exec", pod, "--"], find.as_slice()].concat())?;
        ensure!(disks.is_empty(), "{disks}");
    }
    Ok(())
}

#[test]
#[ignore = "another cloud, whose Ceph dies below a guest that writes: make soak"]
fn nothing_that_a_guest_wrote_is_lost() -> anyhow::Result<()> {
    let cloud = Cloud::new()?;
    made(&cloud, &[])?;
    writes::nothing_written_is_lost_whatever_dies(&cloud)
}
