//! What runs on the hypervisors of a cell: nova-compute, and libvirtd where the node has none.

use std::collections::BTreeMap;

use c5c3_api::conditions::{CEPH_CONNECTED, service};
use c5c3_api::openstack::{Nova, VirtType};

use super::super::{ceph, shares};
use super::cells::Cell;
use super::{consoles, disks, migration};
use crate::shape::{
    Group, Groups, Process, Recurring, Rights, Runs, Service, Settings, Step, Variable, Volume, VolumeSource,
    Worker, Workload,
};

/// The label of nodes that carry servers.
const HYPERVISOR: &str = "node-role.kubernetes.io/hypervisor";
/// The label that tells the cell of such a node, where there are several.
const CELL: &str = "nova.openstack.c5c3.io/cell";

const LIBVIRT: &str = "libvirt";

pub(super) fn add(nova: &Nova, cells: &[Cell], to: &mut Service) {
    if nova.spec.compute.libvirt_image.is_some() {
        to.settings.push(Settings {
            name: LIBVIRT.to_owned(),
            files: [
                ("libvirtd.sh", include_str!("libvirtd.sh")),
                ("certificates.sh", include_str!("certificates.sh")),
            ]
            .map(|(name, text)| (name.to_owned(), text.to_owned()))
            .into(),
            ..Settings::default()
        });
        to.processes.extend(places(cells, LIBVIRT).map(|(name, cluster)| {
            let process = libvirt(nova, &name);
            process.in_cluster(cluster)
        }));
    }
    if let Some((server, settings)) = disks::server(nova) {
        to.settings.push(settings);
        to.processes
            .extend(places(cells, disks::NAME).map(|(name, cluster)| {
                let process = Process {
                    name,
                    ..server.clone()
                };
                process.in_cluster(cluster)
            }));
    }
    for cell in cells {
        let process = compute(nova, cell, is_first(cells, cell));
        to.settings.push(settings(nova, cell, &process.name));
        to.processes.push(process);
        if let Some((proxy, settings)) = consoles::proxy(nova, cell) {
            to.settings.push(settings);
            to.processes.push(proxy);
        }
    }
    let computes: Vec<String> = cells.iter().map(name).collect();
    for process in &mut to.processes {
        if let Some(cells) = speaks_to(process, cells) {
            process.keeps_to = cells.iter().map(name).collect();
        }
    }
    to.recurring.push(Recurring {
        steps: vec![Step::new("discover-hosts", &["/etc/nova/hosts.py", "60"])],
        nodes_of: computes,
        again: true,
        part: Some(service::CELLS_READY),
        ..Recurring::default()
    });
    to.groups = Some(Groups {
        field: "cells",
        count: Some("computeNodes"),
        told_by: Vec::new(),
        all: cells.iter().map(group).collect(),
    });
}

/// The cells to whose nova-computes a process speaks.
fn speaks_to<'a>(process: &Process, cells: &'a [Cell]) -> Option<&'a [Cell]> {
    if ["scheduler", "api", "conductor"].contains(&process.name.as_str()) {
        return Some(cells);
    }
    let of_cell =
        |cell: &Cell| process.name == super::conductor_name(cell) || process.name == consoles::name(cell);
    let own = cells.iter().position(of_cell)?;
    // Conductors that serve the API too ask all cells.
    let all = cells.get(own)?.own_bus().is_none() && process.name == super::conductor_name(cells.get(own)?);
    if all { Some(cells) } else { cells.get(own..=own) }
}

/// The clusters of the hypervisors, each with the name of its own set of these pods.
fn places(cells: &[Cell], set: &str) -> impl Iterator<Item = (String, Option<String>)> {
    let mut clusters: Vec<&Option<String>> = Vec::new();
    for cell in cells {
        if !clusters.contains(&&cell.cluster) {
            clusters.push(&cell.cluster);
        }
    }
    let named = |(index, cluster): (usize, &Option<String>)| match cluster {
        Some(other) if index > 0 => (format!("{set}-{other}"), cluster.clone()),
        _ if index > 0 => (format!("{set}-home"), None),
        _ => (set.to_owned(), cluster.clone()),
    };
    let named: Vec<_> = clusters.into_iter().enumerate().map(named).collect();
    named.into_iter()
}

/// Of the cells that share a cluster, cell1 or the first of the list.
fn is_first(cells: &[Cell], cell: &Cell) -> bool {
    let near = || cells.iter().filter(|other| other.cluster == cell.cluster);
    let first = near()
        .find(|other| other.name == "cell1")
        .or_else(|| near().next());
    first.is_some_and(|first| first.name == cell.name)
}

fn name(cell: &Cell) -> String {
    format!("compute-{}", cell.name)
}

fn group(cell: &Cell) -> Group {
    let proxy = cell.console_endpoint.iter().map(|_| consoles::name(cell));
    Group {
        name: cell.name.clone(),
        processes: [super::conductor_name(cell), name(cell)]
            .into_iter()
            .chain(proxy)
            .collect(),
        counted: Some(name(cell)),
        known: serde_json::Map::new(),
    }
}

fn hypervisors() -> BTreeMap<String, String> {
    BTreeMap::from([(HYPERVISOR.to_owned(), String::new())])
}

pub(super) fn on_all_hypervisors() -> Workload {
    Workload::DaemonSet {
        nodes: hypervisors(),
        unless: None,
    }
}

/// Hypervisors that name no cell are the first one's, so that a second cell takes none away.
fn nodes_of(cell: &Cell, first: bool) -> Workload {
    let mut nodes = hypervisors();
    if !first {
        nodes.insert(CELL.to_owned(), cell.name.clone());
    }
    Workload::DaemonSet {
        nodes,
        unless: first.then(|| (CELL, cell.name.clone())),
    }
}

fn libvirt(nova: &Nova, name: &str) -> Process {
    let runs = Runs::worker(
        &["sh", "-e", "/etc/nova/libvirtd.sh"],
        Worker::Answers(
            ["virsh", "-c", "qemu:///system", "version"]
                .map(str::to_owned)
                .into(),
        ),
    );
    let image = nova.spec.compute.libvirt_image.as_ref();
    Process {
        image: image.map(c5c3_api::common::Image::reference),
        workload: on_all_hypervisors(),
        settings: LIBVIRT.to_owned(),
        grace: 10,
        environment: [
            ("NODE_ADDRESS".to_owned(), Variable::Field("status.hostIP")),
            ("SHARES".to_owned(), Variable::Text(shares::BASE.to_owned())),
        ]
        .into_iter()
        .chain(migration::environment(nova))
        .collect(),
        volumes: [
            Volume::host("/run/libvirt"),
            Volume::host("/var/lib/libvirt"),
            // Domains, secrets and the host's identity outlive the pod.
            Volume::host_at("/var/lib/libvirt-etc", "/etc/libvirt"),
            Volume::host("/var/lib/nova"),
            Volume::host("/run/openvswitch"),
            Volume::host("/dev"),
            Volume::host("/sys/fs/cgroup"),
        ]
        .into_iter()
        .chain(shares::lent(&nova.spec.compute.volume_claims))
        .chain(ceph_keys(nova))
        .chain(migration::certificates(nova))
        .collect(),
        rights: Rights::Privileged { host_pid: true },
        ..Process::new(name, runs, service::CELLS_READY)
    }
}

/// Whether guests open disks in Ceph.
pub(super) fn is_in_ceph(nova: &Nova) -> bool {
    let compute = &nova.spec.compute;
    // The libvirtd of an operating system is given its keys by whoever brings it.
    let given = compute.libvirt_image.is_some() && !compute.volume_users.is_empty();
    compute.enabled && (compute.rbd.is_some() || given)
}

/// The keys with which guests open their disks.
fn ceph_keys(nova: &Nova) -> Vec<Volume> {
    let compute = &nova.spec.compute;
    let of_servers = compute.rbd.iter();
    let of_servers = of_servers.map(|rbd| (&rbd.ceph_secret_ref, &rbd.ceph_client_ref));
    let users = compute.volume_users.iter();
    let users = users.map(|user| (&user.ceph_secret_ref, &user.ceph_client_ref));
    let mut keys: Vec<Volume> = Vec::new();
    for (secret, client) in of_servers.chain(users) {
        let name = ceph::volume_name(secret);
        if keys.iter().all(|key| key.name != name) {
            keys.push(Volume {
                name,
                // Its name is part of the names that libvirt gives to keys.
                path: format!("/etc/ceph-keys/{}", secret.name),
                part: Some(CEPH_CONNECTED),
                source: VolumeSource::Keyring {
                    login: ceph::login(secret, client.as_ref(), "nova"),
                    files: &[ceph::KEYRING],
                    ceph_client: client.clone(),
                    // QEMU opens disks; whether the key is good is tried in the pods of nova-compute.
                    opens: None,
                    tried: false,
                    also: Vec::new(),
                },
            });
        }
    }
    keys
}

/// The keys of volumes, which nova-compute itself does not need: before it starts Ceph is asked whether it accepts
/// them. What it opens itself is tried as such.
fn tried_keys(nova: &Nova) -> Vec<Volume> {
    let own = nova
        .spec
        .compute
        .rbd
        .as_ref()
        .map(|rbd| &rbd.ceph_secret_ref.name);
    let tried = |mut key: Volume| {
        if let VolumeSource::Keyring {
            login, files, tried, ..
        } = &mut key.source
        {
            if Some(&login.secret) == own {
                return None;
            }
            (*files, *tried) = (&["ceph.conf", ceph::KEYRING], true);
        }
        key.name = format!("tried-{}", key.name);
        Some(key)
    };
    let given = nova.spec.compute.libvirt_image.iter();
    given.flat_map(|_| ceph_keys(nova)).filter_map(tried).collect()
}

fn compute(nova: &Nova, cell: &Cell, first: bool) -> Process {
    // libvirtd makes its socket when it is ready; Nova gives up at once without it.
    let start = format!(
        "trap 'exit 143' TERM; \
         until [ -S /run/libvirt/libvirt-sock ] || [ -S /run/libvirt/virtqemud-sock ]; do \
         echo waits for libvirtd; sleep 1; done; \
         mkdir -p /var/lib/nova/instances; exec {}",
        disks::command(nova)
    );
    let ports = super::super::bus_ports(cell.bus(nova));
    let runs = Runs::worker(&["sh", "-ec", &start], Worker::Connected(ports));
    let name = name(cell);
    let field = |name: &str, path| (name.to_owned(), Variable::Field(path));
    Process {
        workload: nodes_of(cell, first),
        cluster: cell.cluster.clone(),
        settings: name.clone(),
        grace: 30,
        environment: [
            field("OS_DEFAULT__HOST", "spec.nodeName"),
            field("OS_DEFAULT__MY_IP", "status.hostIP"),
            field("OS_LIBVIRT__LIVE_MIGRATION_INBOUND_ADDR", "status.hostIP"),
        ]
        .into_iter()
        .chain(consoles::addresses(cell))
        .collect(),
        volumes: [
            Volume::host("/run/libvirt"),
            Volume::host("/run/openvswitch"),
            Volume::host("/var/lib/nova"),
            // Nova reads a guest's console only when it finds the guest's terminal.
            Volume::host("/dev/pts"),
        ]
        .into_iter()
        // Volumes that are files are where Nova looks for them, here and in the pod of the guests.
        .chain(shares::lent(&nova.spec.compute.volume_claims))
        // Nova itself makes the disks of servers; those of Cinder it only passes on.
        .chain((nova.spec.compute.rbd.iter()).map(|rbd| ceph::keyring("ceph".to_owned(), rbd, "nova")))
        .chain(tried_keys(nova))
        .collect(),
        rights: Rights::Host {
            capabilities: vec!["CHOWN", "DAC_OVERRIDE", "FOWNER", "NET_ADMIN"],
        },
        ..Process::new(&name, runs, service::CELLS_READY)
            .after(&[&super::conductor_name(cell)])
            .upgraded_after(&["scheduler", "api"])
    }
}

/// No database in it: nova-compute asks its cell's conductors.
fn settings(nova: &Nova, cell: &Cell, name: &str) -> Settings {
    let helper = "privsep-helper --config-file /etc/nova/nova.conf";
    let virt_type = match nova.spec.compute.virt_type {
        VirtType::Kvm => "kvm",
        VirtType::Qemu => "qemu",
    };
    let mut settings = Settings::new("nova.conf").with(&[
        ("DEFAULT", "state_path", "/var/lib/nova"),
        ("DEFAULT", "compute_driver", "libvirt.LibvirtDriver"),
        ("DEFAULT", "force_raw_images", "false"),
        // A server whose making came to nothing without a word ends in ERROR, not in BUILD forever.
        ("DEFAULT", "instance_build_timeout", "1800"),
        // A resize finds room where the server is, too.
        ("DEFAULT", "allow_resize_to_same_host", "true"),
        ("DEFAULT", "resume_guests_state_on_host_boot", "true"),
        ("oslo_concurrency", "lock_path", "/var/lib/nova/lock"),
        ("libvirt", "virt_type", virt_type),
        ("libvirt", "connection_uri", "qemu:///system"),
        ("nova_sys_admin", "helper_command", helper),
        (
            "nova_sys_admin",
            "capabilities",
            "CAP_CHOWN,CAP_DAC_OVERRIDE,CAP_FOWNER",
        ),
        ("vif_plug_ovs_privileged", "helper_command", helper),
        ("vif_plug_ovs_privileged", "capabilities", "CAP_NET_ADMIN"),
        ("privsep_osbrick", "helper_command", helper),
        ("privsep_osbrick", "capabilities", ""),
        ("os_vif_ovs", "ovsdb_connection", "tcp:127.0.0.1:6640"),
        // Its conductors need not know the database of the API.
        ("workarounds", "disable_group_policy_check_upcall", "true"),
    ]);
    if nova.spec.compute.virt_type == VirtType::Qemu {
        settings = settings.with(&[
            // Emulated processors are the same everywhere.
            ("libvirt", "cpu_mode", "none"),
            ("workarounds", "skip_cpu_compare_on_dest", "true"),
        ]);
    }
    if !nova.spec.compute.volume_claims.is_empty() {
        settings = settings.with(&[("libvirt", "nfs_mount_point_base", shares::BASE)]);
    }
    if let Some(rbd) = &nova.spec.compute.rbd {
        settings = settings.with(&[
            // Only what is raw can be cloned.
            ("DEFAULT", "force_raw_images", "true"),
            ("libvirt", "images_type", "rbd"),
            ("libvirt", "images_rbd_pool", &rbd.pool),
            ("libvirt", "images_rbd_ceph_conf", ceph::CONFIGURATION),
        ]);
        settings.ceph = vec![
            ceph::user_option("libvirt", "rbd_user", rbd, "nova"),
            ceph::uuid_option("libvirt", rbd, "nova"),
        ];
    }
    settings = migration::on_hypervisors(nova, settings);
    // The cache is not reached from another cluster, and saves a hypervisor next to nothing.
    super::shared_options(nova, &mut settings, cell.cluster.is_none());
    consoles::on_hypervisors(cell, &mut settings);
    disks::client(nova, &mut settings);
    Settings {
        name: name.to_owned(),
        ..settings.bus("DEFAULT", &cell.bus_name())
    }
}
