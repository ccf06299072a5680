//! The process behind the cluster: makes the nodes and does what no program of Kubernetes does here: DNS,
//! volumes, images, and the API on loopback. Nodes and their programs outlive it.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use embedded_node::cri::{self, Cri};
use embedded_node::fabric::{Fabric, Neighbour};
use embedded_node::images::{Images, Registries, write_pause};
use embedded_node::layout::Layout;
use embedded_node::network::expose::Exposed;
use embedded_node::network::frontends::{Exposure, Snapshot};
use embedded_node::node::{Blueprint, Node};
use embedded_node::process::Process;
use embedded_node::{Error, Names, Result};
use k8s_openapi::api::core::v1::Node as NodeObject;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, ResourceExt};
use machine::daemon::say;
use machine::identity::{Identity, lock};
use machine::{Settings, detect};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::access::Access;
use crate::programs::{API_PORT, Ground};
use crate::{images, names, volumes};

/// How the daemon is started.
pub(crate) struct Options {
    pub names: Names,
    pub state: PathBuf,
    pub programs: PathBuf,
    /// The layout with images, and the names of those to bring; none stands for all.
    pub store: PathBuf,
    pub images: Vec<String>,
    /// Program and arguments that run the node's init.
    pub init: Vec<String>,
}

const PATIENCE: Duration = Duration::from_secs(150);

/// The daemon's whole life: prints progress, then `ready`, and runs until SIGTERM.
pub(crate) async fn run(options: &Options) -> Result<()> {
    let mut terminate = signal(SignalKind::terminate()).map_err(Error::system("listen for signals"))?;
    embedded_node::limits::raise_files();
    embedded_node::limits::raise_watches();
    let layout = Layout::new(options.names, &options.state)?;
    let _held = lock(&layout).await?;
    layout.close_to_others()?;
    let mut settings =
        Settings::load(&layout)?.ok_or_else(|| Error::said("the state directory has no settings"))?;
    let process = Process::current().ok_or_else(|| Error::said("cannot read /proc"))?;
    let mut identity = Identity {
        process,
        program: process.program().unwrap_or_default(),
        ready: false,
    };
    identity.store(&layout)?;
    if settings.port == 0 {
        settings.port = free_port().await?;
        settings.store(&layout)?;
    }

    say("prepares keys and the network");
    let api = layout.state().join("api");
    let addresses = settings.addresses;
    let named = settings.nodes.iter();
    let named: Vec<(String, String)> = named
        .map(|node| (node.name.clone(), addresses.node(node.index).to_string()))
        .collect();
    let access = Access::prepare(&api, &addresses, settings.port, &named)?;
    let ground = Ground {
        programs: &options.programs,
        api: &api,
        access: &access,
        addresses: &addresses,
    };
    let nodes = nodes(options, &layout, &settings, &ground).await?;
    let first = nodes
        .first()
        .ok_or_else(|| Error::said("the cluster has no node"))?;

    let mut loopback = Exposed::default();
    let wanted = Exposure {
        service: "the API".to_owned(),
        listen: settings.port,
        to: std::net::SocketAddrV4::new(addresses.node(first.layout.index), API_PORT),
    };
    let ns = first.ns.clone();
    let mut failed = loopback.set(&[wanted], move || Some(ns.clone())).await;
    if let Some((_, why)) = failed.pop() {
        return Err(Error::said(format!("port {} of loopback: {why}", settings.port)));
    }
    let known = watch::Sender::new(Arc::new(Snapshot::default()));
    names::serve(first, &addresses, known.subscribe()).await?;

    say("waits for the API server");
    let client = connect(&api.join("kubeconfig")).await?;
    volumes::install(&client).await?;
    tokio::spawn(names::follow(client.clone(), first.clone(), known));
    tokio::spawn(volumes::provide(client.clone(), layout.volumes()));

    say("brings images to the nodes");
    let (stock, stocked) = stock(options, &layout, &nodes).await?;
    images::bring(&stock, &stocked, &options.store, &options.images).await;
    tokio::spawn(images::keep(
        stock,
        stocked,
        options.store.clone(),
        options.images.clone(),
    ));
    ready(&client, nodes.len()).await?;
    identity.ready = true;
    identity.store(&layout)?;
    say(machine::daemon::READY);
    terminate.recv().await;
    let _ = std::fs::remove_file(Identity::file(&layout));
    Ok(())
}

async fn free_port() -> Result<u16> {
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let listener = TcpListener::bind(any).await;
    listener
        .and_then(|listener| Ok(listener.local_addr()?.port()))
        .map_err(Error::system("find a free port"))
}

/// Starts the nodes, or finds them running.
async fn nodes(
    options: &Options,
    layout: &Layout,
    settings: &Settings,
    ground: &Ground<'_>,
) -> Result<Vec<Node>> {
    let addresses = settings.addresses;
    let fabric = Fabric::open(layout, addresses).await?;
    let machine = detect::machine(layout.state())?;
    let mut up = Vec::new();
    for (position, entry) in settings.nodes.iter().enumerate() {
        let node = layout.node(&entry.name, entry.index);
        let node = match Node::find(&node) {
            Some(node) => node,
            None => {
                say(&format!("starts {}", entry.name));
                let blueprint = Blueprint {
                    programs: ground.of(&node, position == 0)?,
                    layout: node,
                    addresses,
                    machine: machine.clone(),
                    hypervisor: entry.traits.hypervisor,
                    shared: ground.shared(layout.volumes()),
                    all: settings.nodes.iter().map(|n| (n.name.clone(), n.index)).collect(),
                    init: options.init.clone(),
                };
                Node::start(&blueprint).await?
            }
        };
        fabric.plug(entry.index, &node.ns, &addresses).await?;
        up.push(node);
    }
    let all: Vec<Neighbour> = settings
        .nodes
        .iter()
        .map(|node| Neighbour {
            index: node.index,
            addresses,
            up: true,
        })
        .collect();
    for node in &up {
        fabric.route(node.layout.index, &node.ns, &all).await?;
    }
    Ok(up)
}

/// The image store of the nodes, and the names of those that take from it. Every pod needs the first image.
async fn stock(options: &Options, layout: &Layout, nodes: &[Node]) -> Result<(Images, Vec<String>)> {
    let builtin = layout.state().join("builtin");
    write_pause(&builtin, options.names)?;
    let stores = vec![builtin, options.store.clone()];
    let pulled = layout.state().join("pulled");
    let images = Images::new(stores, pulled, Registries::new(options.names, Vec::new()));
    let snapshotter = detect::machine(layout.state())?.snapshotter;
    for node in nodes {
        let channel = cri::channel(&node.layout.socket());
        Cri::new(channel.clone()).ready(Duration::from_secs(60)).await?;
        images.add_node(&node.layout, channel, &snapshotter).await;
        images.provide_pause(&node.layout.name).await?;
    }
    Ok((
        images,
        nodes.iter().map(|node| node.layout.name.clone()).collect(),
    ))
}

/// An administrator's client, as soon as the API server answers.
async fn connect(kubeconfig: &std::path::Path) -> Result<Client> {
    let said = |e: &dyn std::fmt::Display| Error::said(format!("{}: {e}", kubeconfig.display()));
    let file = Kubeconfig::read_from(kubeconfig).map_err(|e| said(&e))?;
    let options = KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(file, &options).await;
    let client = Client::try_from(config.map_err(|e| said(&e))?).map_err(|e| said(&e))?;
    let deadline = Instant::now() + PATIENCE;
    loop {
        let request = http_get("/readyz")?;
        let answer = tokio::time::timeout(Duration::from_secs(5), client.request_text(request)).await;
        match answer {
            Ok(Ok(_)) => return Ok(client),
            _ if Instant::now() < deadline => tokio::time::sleep(Duration::from_millis(200)).await,
            Ok(Err(e)) => return Err(Error::said(format!("the API server does not get ready: {e}"))),
            Err(_) => return Err(Error::said("the API server does not answer")),
        }
    }
}

fn http_get(path: &str) -> Result<http::Request<Vec<u8>>> {
    http::Request::get(path)
        .body(Vec::new())
        .map_err(|e| Error::said(e.to_string()))
}

/// Waits until every node is Ready.
async fn ready(client: &Client, count: usize) -> Result<()> {
    let nodes: Api<NodeObject> = Api::all(client.clone());
    let deadline = Instant::now() + PATIENCE;
    loop {
        let listed = nodes.list(&Default::default()).await;
        let listed = listed.map(|list| list.items).unwrap_or_default();
        let good = listed.iter().filter(|node| is_ready(node)).count();
        if good >= count {
            let names: Vec<String> = listed.iter().map(ResourceExt::name_any).collect();
            say(&format!("{} is Ready", names.join(", ")));
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(Error::said(format!(
                "{good} of {count} nodes are Ready: see kubelet.log of the others in the state directory"
            )));
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

fn is_ready(node: &NodeObject) -> bool {
    let conditions = node.status.iter().flat_map(|s| s.conditions.iter().flatten());
    conditions
        .filter(|c| c.type_ == "Ready")
        .any(|c| c.status == "True")
}
