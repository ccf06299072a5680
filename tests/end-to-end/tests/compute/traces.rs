//! What servers leave behind, in every place that knows of them.

use std::collections::BTreeSet;
use std::time::Duration;

use end_to_end::patience::until;
use openstack_client::{NetworkKind, Networking, Operating, Placement};

use super::ceph;
use super::world::World;

/// Everything that there is because of a server.
pub(crate) fn traces(world: &World<'_>) -> anyhow::Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    for server in world.run(world.session.all_servers())? {
        found.insert(format!("Nova: server {}", server.server.id));
    }
    for provider in world.run(world.session.resource_providers(None))? {
        for (class, used) in world.run(world.session.usages(&provider.uuid))? {
            if used > 0 {
                found.insert(format!("Placement: {used} {class} of {}", provider.name));
            }
        }
    }
    for port in world.run(world.session.found(NetworkKind::Port, &[]))? {
        found.insert(format!("Neutron: port {}", port.id));
    }
    for pod in world.pods("ovn-nb")? {
        let list = [
            "ovn-nbctl",
            "--no-leader-only",
            "--db=unix:/run/ovn/db.sock",
            "--bare",
            "--columns=name",
            "list",
            "Logical_Switch_Port",
        ];
        let names = world.exec(&pod, &list)?;
        found.extend(words(&names).map(|name| format!("OVN: logical port {name}")));
    }
    for pod in world.pods("nova-libvirt")? {
        let domains = world.exec(&pod, &["virsh", "list", "--all", "--uuid"])?;
        found.extend(words(&domains).map(|id| format!("{}: domain {id}", pod.node)));
        let disks = world.exec(&pod, &["ls", "/var/lib/nova/instances"])?;
        // Beside them are caches and notes of Nova's own.
        let disks = words(&disks).filter(|name| name.len() == 36);
        found.extend(disks.map(|id| format!("{}: disk of {id}", pod.node)));
    }
    let disks = ceph::rbd(world, &["ls", "vms"])?;
    found.extend(words(&disks).map(|name| format!("Ceph: {name}")));
    for pod in world.pods("ovn-ovs")? {
        let ports = world.exec(&pod, &["ovs-vsctl", "list-ports", "br-int"])?;
        let taps = words(&ports).filter(|name| name.starts_with("tap"));
        found.extend(taps.map(|name| format!("{}: interface {name}", pod.node)));
    }
    Ok(found)
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split_whitespace()
}

/// Waits until nothing is there that was not there before.
pub(crate) fn nothing_leaks(
    world: &World<'_>,
    before: &BTreeSet<String>,
    patience: Duration,
) -> anyhow::Result<()> {
    until("nothing is left behind", patience, || {
        let now = traces(world)?;
        let more: Vec<&String> = now.difference(before).collect();
        Ok(if more.is_empty() {
            Ok(())
        } else {
            Err(format!("{more:#?}"))
        })
    })
}
