//! Keeps one node in its desired state: running, connected and with its agent; or off, with nothing of
//! it left.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use tokio::sync::{Mutex, watch};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::power;
use crate::settings::{DOMAIN, NodeEntry, Settings};
use crate::tasks;
use crate::{detect, pods};
use embedded_node::addresses::Addresses;
use embedded_node::containerd::Machine;
use embedded_node::cri::{self, Cri};
use embedded_node::error::{Error, Result};
use embedded_node::fabric::{Fabric, Neighbour};
use embedded_node::images::Images;
use embedded_node::kubelet::{self, Description, Setup};
use embedded_node::layout::Layout;
use embedded_node::network::{Member, Network};
use embedded_node::node::{self, Blueprint, Node};
use embedded_node::pods::start::sandbox::Dns;

/// How often to check whether a node that is off should be on.
const LOOK: Duration = Duration::from_millis(250);
/// How often a node's cable is checked.
const CABLE: Duration = Duration::from_secs(5);

/// What all nodes of the machine share.
pub(crate) struct Ground {
    pub layout: Layout,
    pub settings: Settings,
    pub fabric: Fabric,
    pub images: Images,
    pub machine: Machine,
    pub init: Vec<String>,
    /// Labels of nodes with a data link, as [`crate::daemon::Options`] has them.
    pub data_labels: Vec<(String, String)>,
    /// Nodes that are up.
    pub up: watch::Sender<BTreeMap<String, Node>>,
    /// Routes change one after the other.
    pub routes: Mutex<()>,
}

impl Ground {
    /// Labels of a Node beside those that every node has.
    fn labels(&self, entry: &NodeEntry) -> BTreeMap<String, String> {
        let mut labels = entry.traits.labels();
        let linked = self.data_labels.iter().filter(|_| entry.traits.has_data_link());
        for (key, value) in linked {
            let value = value.replace("{index}", &entry.index.to_string());
            labels.entry(key.clone()).or_insert(value);
        }
        labels
    }
}

/// What the nodes of a logical cluster share.
pub(crate) struct Site {
    pub ground: Arc<Ground>,
    pub cluster: String,
    pub addresses: Addresses,
    /// The administrator's, for the cluster's first objects and for the program around it.
    pub client: Client,
    pub accounts: Accounts,
    pub network: Arc<Network>,
    pub streams: Arc<pods::Streams>,
}

/// Clients under the names of those who act.
pub(crate) struct Accounts {
    pub workloads: workloads::Clients,
    pub network: Client,
    /// Says of a node what only those outside it can say.
    pub supervisor: Client,
    /// By the name of the node.
    pub kubelets: BTreeMap<String, Client>,
}

impl Site {
    fn blueprint(&self, entry: &NodeEntry) -> Blueprint {
        let ground = &self.ground;
        let shared: Vec<PathBuf> = vec![ground.layout.volumes()];
        let all = ground.settings.nodes.iter();
        Blueprint {
            layout: ground.layout.node(&entry.name, entry.index),
            addresses: self.addresses,
            machine: ground.machine.clone(),
            hypervisor: entry.traits.hypervisor,
            shared,
            all: all.map(|n| (n.name.clone(), n.index)).collect(),
            init: ground.init.clone(),
            programs: Vec::new(),
        }
    }

    /// The client of a node's agent; none acts under another name.
    fn kubelet(&self, node: &str) -> Result<Client> {
        let known = self.accounts.kubelets.get(node).cloned();
        known.ok_or_else(|| Error::said(format!("node {node} has no account in cluster {}", self.cluster)))
    }

    /// Lays the cables of a node that are missing; true when there were any.
    async fn plug(&self, entry: &NodeEntry, node: &Node) -> Result<bool> {
        let fabric = &self.ground.fabric;
        let data = if entry.traits.has_data_link() {
            fabric.plug_data(entry.index, &node.ns).await?
        } else {
            false
        };
        Ok(fabric.plug(entry.index, &node.ns, &self.addresses).await? || data)
    }
}

impl Ground {
    fn neighbours(&self, up: &BTreeMap<String, Node>) -> Result<Vec<Neighbour>> {
        let nodes = self.settings.nodes.iter();
        nodes
            .map(|node| {
                Ok(Neighbour {
                    index: node.index,
                    addresses: self.settings.addresses_of(&node.cluster)?,
                    up: up.contains_key(&node.name),
                })
            })
            .collect()
    }

    /// Every node learns which others are up.
    async fn route_all(&self) -> Result<()> {
        let _one = self.routes.lock().await;
        let up = self.up.borrow().clone();
        let state = self.neighbours(&up)?;
        for node in up.values() {
            self.fabric.route(node.layout.index, &node.ns, &state).await?;
        }
        Ok(())
    }
}

/// Supervises one node until `stop`; the node runs on afterwards.
pub(crate) async fn node(site: Arc<Site>, entry: NodeEntry, stop: CancellationToken) {
    let layout = site.ground.layout.node(&entry.name, entry.index);
    while !stop.is_cancelled() {
        if power::is_off(&layout) {
            // Also when the node died while this program was not running.
            if kubelet::mark_down(&site.accounts.supervisor, &entry.name)
                .await
                .is_ok()
            {
                wait_for(&stop, || !power::is_off(&layout)).await;
            } else {
                tokio::time::sleep(LOOK).await;
            }
            continue;
        }
        match bring_up(&site, &entry).await {
            Ok((node, agent)) => {
                live(&site, &entry, &node, &stop).await;
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
    let (blueprint, ground) = (site.blueprint(entry), &site.ground);
    let node = match Node::find(&blueprint.layout) {
        Some(node) => node,
        None => {
            kubelet::mark_fresh(&site.accounts.supervisor, &entry.name).await?;
            Node::start(&blueprint).await?
        }
    };
    site.plug(entry, &node).await?;
    let channel = cri::channel(&node.layout.socket());
    let runtime = Cri::new(channel.clone());
    runtime.ready(Duration::from_secs(60)).await?;
    ground
        .images
        .add_node(&node.layout, channel, &ground.machine.snapshotter)
        .await;
    ground.images.provide_pause(&entry.name).await?;
    site.network.leave(&entry.name).await;
    site.network
        .join(Member {
            name: entry.name.clone(),
            index: entry.index,
            ns: node.ns.clone(),
        })
        .await?;
    ground.up.send_modify(|up| {
        up.insert(entry.name.clone(), node.clone());
    });
    ground.route_all().await?;
    let addresses = &site.addresses;
    let version = runtime.version().await?;
    let setup = Setup {
        client: site.kubelet(&entry.name)?,
        node: node.clone(),
        address: addresses.node(entry.index).to_string(),
        cri: runtime.clone(),
        images: ground.images.clone(),
        dns: Dns {
            server: addresses.dns_service().to_string(),
            domain: DOMAIN.into(),
        },
        services: site.network.catalogue(),
        description: Description {
            cpus: detect::cpus(),
            memory: detect::memory(),
            pods: 250,
            pod_network: addresses.pod_network(entry.index).to_string(),
            runtime: format!("containerd://{}", version.runtime_version),
            labels: ground.labels(entry),
            taints: entry.traits.taints.clone(),
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
async fn live(site: &Site, entry: &NodeEntry, node: &Node, stop: &CancellationToken) {
    while !stop.is_cancelled() && node.alive() {
        tokio::select! {
            () = stop.cancelled() => return,
            () = node.init.ended() => return,
            () = tokio::time::sleep(CABLE) => {}
        }
        if node.alive() {
            match site.plug(entry, node).await {
                Ok(true) => {
                    tracing::info!(node = node.layout.name, "plugged in again");
                    if let Err(e) = site.ground.route_all().await {
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
    let ground = &site.ground;
    ground.up.send_modify(|up| {
        up.remove(name);
    });
    let marked = kubelet::mark_down(&site.accounts.supervisor, name).await;
    site.streams.remove(name).await;
    // Waits for an import that runs, perhaps into this node.
    ground.images.remove_node(name).await;
    let cleared = node::kill(&ground.layout.node(name, entry.index)).await;
    let unplugged = ground.fabric.unplug(entry.index).await;
    let routed = ground.route_all().await;
    for result in [marked, cleared, unplugged, routed] {
        if let Err(e) = result {
            tracing::warn!(node = name, "{e}");
        }
    }
}
