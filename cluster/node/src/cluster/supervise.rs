//! Keeps one node in the state that is wanted: running, plugged in, with its agent; or
//! off, and nothing of it left.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use tokio::sync::{Mutex, watch};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::power;
use super::settings::{DOMAIN, NodeEntry, Settings};
use super::tasks;
use super::{machine, pods};
use crate::containerd::Machine;
use crate::cri::{self, Cri};
use crate::error::Result;
use crate::fabric::Fabric;
use crate::images::Images;
use crate::kubelet::{self, Description, Setup};
use crate::layout::Layout;
use crate::network::{Member, Network};
use crate::node::{self, Blueprint, Node};
use crate::pods::sandbox::Dns;

/// How often is looked whether a node that is off should be on.
const LOOK: Duration = Duration::from_millis(250);
/// How often a node's cable is checked.
const CABLE: Duration = Duration::from_secs(5);

/// What the nodes of a cluster share.
pub struct Site {
    pub layout: Layout,
    pub settings: Settings,
    pub client: Client,
    /// By name, each under its own name.
    pub kubelets: BTreeMap<String, Client>,
    pub fabric: Fabric,
    pub network: Arc<Network>,
    pub images: Images,
    pub machine: Machine,
    pub init: Vec<String>,
    pub streams: Arc<pods::Streams>,
    /// Nodes that are up.
    pub up: watch::Sender<BTreeMap<String, Node>>,
    /// Routes change one after the other.
    pub routes: Mutex<()>,
}

impl Site {
    fn blueprint(&self, entry: &NodeEntry) -> Blueprint {
        let shared: Vec<PathBuf> = vec![self.layout.volumes()];
        Blueprint {
            layout: self.layout.node(&entry.name, entry.index),
            addresses: self.settings.addresses,
            machine: self.machine.clone(),
            shared,
            all: self
                .settings
                .nodes
                .iter()
                .map(|n| (n.name.clone(), n.index))
                .collect(),
            init: self.init.clone(),
        }
    }

    /// Every node learns which others are up.
    async fn route_all(&self) -> Result<()> {
        let _one = self.routes.lock().await;
        let up = self.up.borrow().clone();
        let state: Vec<(u8, bool)> = self
            .settings
            .nodes
            .iter()
            .map(|n| (n.index, up.contains_key(&n.name)))
            .collect();
        for node in up.values() {
            self.fabric.route(node.layout.index, &node.ns, &state).await?;
        }
        Ok(())
    }
}

/// Supervises one node until `stop`; the node runs on afterwards.
pub async fn node(site: Arc<Site>, entry: NodeEntry, stop: CancellationToken) {
    let layout = site.layout.node(&entry.name, entry.index);
    while !stop.is_cancelled() {
        if power::is_off(&layout) {
            // Also when the plug was pulled while nobody looked.
            if kubelet::mark_down(&site.client, &entry.name).await.is_ok() {
                wait_for(&stop, || !power::is_off(&layout)).await;
            } else {
                tokio::time::sleep(LOOK).await;
            }
            continue;
        }
        match bring_up(&site, &entry).await {
            Ok((node, agent)) => {
                live(&site, &node, &stop).await;
                drop(agent);
                if stop.is_cancelled() {
                    return;
                }
                drop(node);
                take_down(&site, &entry).await;
            }
            Err(e) => {
                tracing::warn!(node = entry.name, "{e}");
                site.network.leave(&entry.name).await;
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }
}

async fn wait_for(stop: &CancellationToken, test: impl Fn() -> bool) {
    while !stop.is_cancelled() && !test() {
        tokio::time::sleep(LOOK).await;
    }
}

/// The agent ends with its guard.
async fn bring_up(site: &Arc<Site>, entry: &NodeEntry) -> Result<(Node, DropGuard)> {
    let blueprint = site.blueprint(entry);
    let node = match Node::find(&blueprint.layout) {
        Some(node) => node,
        None => {
            kubelet::mark_fresh(&site.client, &entry.name).await?;
            Node::start(&blueprint).await?
        }
    };
    site.fabric.plug(entry.index, &node.ns).await?;
    let channel = cri::channel(&node.layout.socket());
    let runtime = Cri::new(channel.clone());
    runtime.ready(Duration::from_secs(60)).await?;
    site.images
        .add_node(&node.layout, channel, &site.machine.snapshotter)
        .await;
    site.images.provide_pause(&entry.name).await?;
    site.network.leave(&entry.name).await;
    site.network
        .join(Member {
            name: entry.name.clone(),
            index: entry.index,
            ns: node.ns.clone(),
        })
        .await?;
    site.up.send_modify(|up| {
        up.insert(entry.name.clone(), node.clone());
    });
    site.route_all().await?;
    let addresses = &site.settings.addresses;
    let version = runtime.version().await?;
    let setup = Setup {
        client: site.kubelets.get(&entry.name).unwrap_or(&site.client).clone(),
        node: node.clone(),
        address: addresses.node(entry.index).to_string(),
        cri: runtime.clone(),
        images: site.images.clone(),
        dns: Dns {
            server: addresses.dns_service().to_string(),
            domain: DOMAIN.into(),
        },
        services: site.network.catalogue(),
        description: Description {
            cpus: machine::cpus(),
            memory: machine::memory(),
            pods: 250,
            pod_network: addresses.pod_network(entry.index).to_string(),
            runtime: format!("containerd://{}", version.runtime_version),
            labels: Vec::new(),
        },
    };
    site.streams.add(&entry.name, node.clone(), runtime).await;
    let agent = CancellationToken::new();
    let stop = agent.clone();
    tasks::keep("a node's agent", agent.clone(), move || {
        kubelet::run(setup.clone(), stop.clone())
    });
    Ok((node, agent.drop_guard()))
}

/// Returns when the node is dead or the program stops.
async fn live(site: &Site, node: &Node, stop: &CancellationToken) {
    while !stop.is_cancelled() && node.alive() {
        tokio::select! {
            () = stop.cancelled() => return,
            () = node.init.ended() => return,
            () = tokio::time::sleep(CABLE) => {}
        }
        if node.alive() {
            match site.fabric.plug(node.layout.index, &node.ns).await {
                Ok(true) => {
                    tracing::info!(node = node.layout.name, "plugged in again");
                    if let Err(e) = site.route_all().await {
                        tracing::warn!("{e}");
                    }
                }
                Ok(false) => {}
                Err(e) => tracing::debug!("{e}"),
            }
        }
    }
}

/// The node died: others stop sending to it, and the API learns that its pods are gone.
async fn take_down(site: &Site, entry: &NodeEntry) {
    let name = &entry.name;
    tracing::warn!(node = name, "is down");
    // First of all: everything else may wait for something.
    site.network.leave(name).await;
    site.up.send_modify(|up| {
        up.remove(name);
    });
    let marked = kubelet::mark_down(&site.client, name).await;
    site.streams.remove(name).await;
    // Waits for an import that runs, perhaps into this node.
    site.images.remove_node(name).await;
    let cleared = node::kill(&site.layout.node(name, entry.index)).await;
    let unplugged = site.fabric.unplug(entry.index).await;
    let routed = site.route_all().await;
    for result in [marked, cleared, unplugged, routed] {
        if let Err(e) = result {
            tracing::warn!(node = name, "{e}");
        }
    }
}
