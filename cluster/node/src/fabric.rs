//! The fabric: one network namespace with a bridge that joins the nodes, and another for the
//! data links of those that have one. It has no process and no default route; a mount keeps it.

use std::path::Path;

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::statfs::{FsType, TMPFS_MAGIC, statfs};

use crate::addresses::Addresses;
use crate::error::{Error, Result};
use crate::layout::{Layout, NodeLayout};
use crate::links::Links;
use crate::netns::{self, NetNs};

const BRIDGE: &str = "fab0";
/// The node's link to the fabric.
pub const UPLINK: &str = "eth0";
const DATA_BRIDGE: &str = "data0";
/// The node's link to the data network. It has no address: a virtual switch takes it.
pub const DATA_LINK: &str = "eth1";
/// Always the same: neighbours of the fabric on the data network need not learn a new one.
const DATA_HARDWARE: [u8; 6] = [0x02, 0xc5, 0xc3, 0, 2, 1];
const NSFS_MAGIC: FsType = FsType(0x6e73_6673);

/// A node of the fabric as the others see it; its cluster may be another one.
#[derive(Clone, Copy, Debug)]
pub struct Neighbour {
    pub index: u8,
    pub addresses: Addresses,
    pub up: bool,
}

pub struct Fabric {
    ns: NetNs,
    links: Links,
    addresses: Addresses,
}

impl Fabric {
    /// Adopts the fabric of this cluster or makes it.
    pub async fn open(layout: &Layout, addresses: Addresses) -> Result<Self> {
        prepare_run(layout.run())?;
        let handle = layout.fabric();
        let present = statfs(&handle).is_ok_and(|s| s.filesystem_type() == NSFS_MAGIC);
        if !present {
            netns::create(&handle)?;
        }
        let ns = NetNs::open(&handle)?;
        let links = Links::of(&ns).await?;
        links.up("lo").await?;
        links.bridge(BRIDGE).await?;
        let fabric = Self { ns, links, addresses };
        fabric.data_bridge().await?;
        Ok(fabric)
    }

    pub fn ns(&self) -> &NetNs {
        &self.ns
    }

    /// Connects a node of the cluster with these addresses, or finds it connected. True when a
    /// cable was laid.
    pub async fn plug(&self, index: u8, node: &NetNs, addresses: &Addresses) -> Result<bool> {
        let inside = Links::of(node).await?;
        let address = addresses.node(index);
        let bridge = self.links.bridge(BRIDGE).await?;
        let hardware = [0x02, 0xc5, 0xc3, 0, 0, index];
        let near = cable(index);
        let (uplink, mut laid) = self.lay(&near, bridge, node, &inside, UPLINK, hardware).await?;
        if !inside.has_address(uplink, address).await? {
            inside.up("lo").await?;
            inside.address(uplink, address, 24).await?;
            inside.up(UPLINK).await?;
            laid = true;
        }
        if laid {
            // Not by the pods' bridge, which comes with the first pod; packets to
            // services without a rule are refused before they reach the link.
            for network in addresses.virtual_networks() {
                inside.route_link(network, uplink, address).await?;
            }
        }
        Ok(laid)
    }

    /// Connects a node to the data network, or finds it connected. True when a cable was laid.
    pub async fn plug_data(&self, index: u8, node: &NetNs) -> Result<bool> {
        let inside = Links::of(node).await?;
        let bridge = self.data_bridge().await?;
        let hardware = [0x02, 0xc5, 0xc3, 0, 1, index];
        let near = data_cable(index);
        let (_, laid) = self
            .lay(&near, bridge, node, &inside, DATA_LINK, hardware)
            .await?;
        if laid {
            inside.up(DATA_LINK).await?;
        }
        Ok(laid)
    }

    /// The bridge of the data network with the fabric's own address on it.
    async fn data_bridge(&self) -> Result<u32> {
        let known = self.links.index(DATA_BRIDGE).await?;
        let bridge = self.links.bridge(DATA_BRIDGE).await?;
        let gateway = self.addresses.data_gateway();
        if known.is_none() {
            self.links.hardware(DATA_BRIDGE, DATA_HARDWARE).await?;
        }
        if !self.links.has_address(bridge, gateway).await? {
            self.links.address(bridge, gateway, 24).await?;
        }
        Ok(bridge)
    }

    /// A cable from `bridge` to the node, laid when it is missing; its far end's number and
    /// whether anything was done.
    async fn lay(
        &self,
        near: &str,
        bridge: u32,
        node: &NetNs,
        inside: &Links,
        far: &str,
        hardware: [u8; 6],
    ) -> Result<(u32, bool)> {
        let mut laid = false;
        if self.links.index(near).await?.is_none() || inside.index(far).await?.is_none() {
            inside.remove(far).await?;
            self.links.cable(near, bridge, node, far, hardware).await?;
            laid = true;
        }
        // The bridge may be a new one.
        if self.links.controller(near).await? != Some(bridge) {
            self.links.join(near, bridge).await?;
            laid = true;
        }
        let found = inside.index(far).await?;
        let found = found.ok_or_else(|| Error::said(format!("{far} at the end of {near} vanished")))?;
        Ok((found, laid))
    }

    pub async fn unplug(&self, index: u8) -> Result<()> {
        self.links.remove(&data_cable(index)).await?;
        self.links.remove(&cable(index)).await
    }

    /// Tells a node where the pods of the others are; those of nodes that are down fail
    /// at once.
    pub async fn route(&self, own: u8, node: &NetNs, others: &[Neighbour]) -> Result<()> {
        let inside = Links::of(node).await?;
        for other in others.iter().filter(|other| other.index != own) {
            let pods = other.addresses.pod_network(other.index);
            if other.up {
                inside.route_via(pods, other.addresses.node(other.index)).await?;
            } else {
                inside.route_unreachable(pods).await?;
            }
        }
        Ok(())
    }

    /// Links of the fabric, for checks.
    pub async fn names(&self) -> Result<Vec<String>> {
        self.links.names().await
    }

    pub async fn default_routes(&self) -> Result<usize> {
        self.links.default_routes().await
    }
}

fn cable(index: u8) -> String {
    format!("n{index}")
}

fn data_cable(index: u8) -> String {
    format!("d{index}")
}

/// The run directory is a private tmpfs: handles mounted there reach no other mount
/// namespace, and a reboot empties it.
fn prepare_run(run: &Path) -> Result<()> {
    std::fs::create_dir_all(run).map_err(Error::file("make directory", run))?;
    if is_mount_point(run) && statfs(run).is_ok_and(|s| s.filesystem_type() == TMPFS_MAGIC) {
        return Ok(());
    }
    let step = |r: nix::Result<()>| r.map_err(|e| Error::file("mount tmpfs on", run)(e.into()));
    step(mount(
        Some("tmpfs"),
        run,
        Some("tmpfs"),
        MsFlags::MS_NOSUID | MsFlags::MS_NODEV,
        Some("mode=700"),
    ))?;
    step(mount(
        None::<&str>,
        run,
        None::<&str>,
        MsFlags::MS_PRIVATE,
        None::<&str>,
    ))
}

/// Whether another file system starts at `path`.
pub(crate) fn is_mount_point(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let (Ok(own), Some(Ok(parent))) = (std::fs::metadata(path), path.parent().map(std::fs::metadata)) else {
        return false;
    };
    own.dev() != parent.dev()
}

/// Removes the fabric and the run directory. Every node is down by now.
pub fn remove(layout: &Layout) -> Result<()> {
    let handle = layout.fabric();
    while statfs(&handle).is_ok_and(|s| s.filesystem_type() == NSFS_MAGIC) {
        umount2(&handle, MntFlags::MNT_DETACH).map_err(|e| Error::file("unmount", &handle)(e.into()))?;
    }
    if layout.run().exists() {
        while is_mount_point(layout.run()) {
            umount2(layout.run(), MntFlags::MNT_DETACH)
                .map_err(|e| Error::file("unmount", layout.run())(e.into()))?;
        }
        std::fs::remove_dir_all(layout.run()).map_err(Error::file("remove", layout.run()))?;
    }
    Ok(())
}

/// Removes a tree that another process may be removing or filling at the same time.
fn clear_away(path: &Path) -> std::io::Result<()> {
    use std::io::ErrorKind::{DirectoryNotEmpty, NotFound};
    const TRIES: usize = 10;
    let mut last = Ok(());
    for _ in 0..TRIES {
        last = std::fs::remove_dir_all(path);
        match &last {
            Err(e) if e.kind() == NotFound && path.exists() => {}
            Err(e) if e.kind() == DirectoryNotEmpty => {}
            Err(e) if e.kind() == NotFound => return Ok(()),
            _ => break,
        }
    }
    last
}

/// Empties a node's run directory: stale sockets and namespace files of a dead node.
pub(crate) fn reset_run(node: &NodeLayout) -> Result<()> {
    clear_away(node.run()).map_err(Error::file("remove", node.run()))?;
    let inner = node.inner_run();
    std::fs::create_dir_all(&inner).map_err(Error::file("make directory", &inner))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_may_clear_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join("run");
        for _ in 0..20 {
            for n in 0..50 {
                std::fs::create_dir_all(at.join(format!("{n}/deep"))).unwrap();
            }
            let (one, other) = (at.clone(), at.clone());
            let threads = [one, other].map(|at| std::thread::spawn(move || clear_away(&at)));
            for thread in threads {
                thread.join().unwrap().unwrap();
            }
            assert!(!at.exists());
        }
    }
}
