//! Disks of servers in Ceph: clones of their images, on no hypervisor, opened with keys that only those have who
//! open disks.

use std::collections::BTreeSet;

use anyhow::{Context, ensure};
use end_to_end::cloud::Cloud;
use serde_json::Value;

use super::NAMESPACE;
use super::world::World;

/// What `rbd` of a hypervisor prints, with Nova's own key.
pub(crate) fn rbd(world: &World<'_>, words: &[&str]) -> anyhow::Result<String> {
    let pods = world.pods("nova-compute-cell1")?;
    let pod = pods.first().context("a nova-compute")?;
    world.exec(pod, &[&["rbd", "--id", "nova"], words].concat())
}

pub(crate) fn a_server_starts_from_its_image_without_a_copy(world: &World<'_>) -> anyhow::Result<()> {
    let snapshot = format!("images/{}@snap", world.draft.image);
    let children = rbd(world, &["children", &snapshot])?;
    let disk = format!("vms/{}_disk", world.named("demo")?.server.id);
    ensure!(children.lines().any(|child| child == disk), "{disk}: {children}");
    no_disk_is_on_a_hypervisor(world)
}

/// What is there could be shared or copied when a guest moves.
pub(crate) fn no_disk_is_on_a_hypervisor(world: &World<'_>) -> anyhow::Result<()> {
    for pod in world.pods("nova-libvirt")? {
        let find = ["find", "/var/lib/nova/instances", "-name", "disk*"];
        let found = world.exec(&pod, &find)?;
        ensure!(found.is_empty(), "{}: {found}", pod.node);
    }
    Ok(())
}

/// Of the control plane only those have a key that open images and volumes themselves.
pub(crate) fn keys_are_where_disks_are_opened(cloud: &Cloud) -> anyhow::Result<()> {
    let pods = cloud.kubectl(&["-n", NAMESPACE, "get", "pods", "-o", "json"], "")?;
    let pods: Value = serde_json::from_str(&pods)?;
    let mut holders = BTreeSet::new();
    for pod in pods["items"].as_array().context("a list")? {
        let volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
        for volume in volumes {
            let secret = volume["secret"]["secretName"].as_str().unwrap_or_default();
            if secret.starts_with("ceph-") {
                let labels = &pod["metadata"]["labels"];
                let label = |name: &str| {
                    labels[format!("app.kubernetes.io/{name}")]
                        .as_str()
                        .unwrap_or("?")
                };
                holders.insert(format!("{} {}: {secret}", label("name"), label("component")));
            }
        }
    }
    let expected = ["cinder volume-ceph: ceph-cinder", "glance api: ceph-glance"];
    let expected: BTreeSet<String> = expected.map(str::to_owned).into();
    ensure!(holders == expected, "{holders:?}");
    Ok(())
}
