//! The process behind a cluster.

use std::fs::File;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node as NodeObject;
use kube::Api;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Mutex, watch};
use tokio_util::sync::CancellationToken;

use crate::detect;
use crate::identity::{Identity, lock};
use crate::settings::Settings;
use crate::supervise::{Ground, Site};
use embedded_node::error::{Error, Result};
use embedded_node::fabric::Fabric;
use embedded_node::images::{Images, Registries, write_pause};
use embedded_node::layout::Layout;
use embedded_node::names::Names;
use embedded_node::network;
use embedded_node::process::Process;

pub use crate::identity::{is_ready, running};

/// How a daemon is started.
#[derive(Clone, Debug)]
pub struct Options {
    pub names: Names,
    pub state: PathBuf,
    /// Directories with images beside those that this program brings along.
    pub image_stores: Vec<PathBuf>,
    /// Program and arguments that run [`embedded_node::init::main`].
    pub init: Vec<String>,
    /// Labels of nodes with a data link; `{index}` stands for the node's number.
    pub data_labels: Vec<(String, String)>,
}

/// Printed last when the cluster has started.
pub const READY: &str = "ready";

/// Says what happens while a cluster starts.
pub type Say<'a> = &'a mut (dyn FnMut(&str) + Send);

/// Prints to standard output. If whoever started the daemon is gone, it continues.
pub fn say(line: &str) {
    let mut out = std::io::stdout();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// A running cluster inside this process.
pub struct Running {
    server: apiserver::Server,
    stop: CancellationToken,
    ground: Arc<Ground>,
    /// One for each logical cluster.
    sites: Vec<Arc<Site>>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
    layout: Layout,
    identity: Identity,
    _lock: File,
}

impl Running {
    pub async fn start(options: &Options, say: Say<'_>) -> Result<Self> {
        embedded_node::limits::raise_files();
        embedded_node::limits::raise_watches();
        let layout = Layout::new(options.names, &options.state)?;
        let held = lock(&layout).await?;
        layout.close_to_others()?;
        let mut settings =
            Settings::load(&layout)?.ok_or_else(|| Error::said("the state directory has no settings"))?;
        let process = Process::current().ok_or_else(|| Error::said("cannot read /proc"))?;
        let identity = Identity {
            process,
            program: process.program().unwrap_or_default(),
            ready: false,
        };
        identity.store(&layout)?;

        say("starting the API server");
        let server = serve(&layout, &settings).await?;
        let address = server
            .addr()
            .ok_or_else(|| Error::said("the API server has no address"))?;
        if settings.port != address.port() {
            settings.port = address.port();
            settings.store(&layout)?;
        }
        say("preparing the network");
        let fabric = Fabric::open(&layout, settings.addresses).await?;
        let builtin = layout.state().join("builtin");
        write_pause(&builtin, options.names)?;
        let mut stores = vec![builtin];
        for store in &options.image_stores {
            // Relative to where the user was: the daemon goes elsewhere later.
            stores.push(std::path::absolute(store).map_err(Error::file("resolve", store))?);
        }
        let ground = Arc::new(Ground {
            machine: detect::machine(layout.state())?,
            layout: layout.clone(),
            fabric,
            images: Images::new(
                stores,
                layout.state().join("pulled"),
                Registries::new(options.names, settings.registries.clone()),
            ),
            init: options.init.clone(),
            data_labels: options.data_labels.clone(),
            settings,
            up: watch::Sender::new(std::collections::BTreeMap::new()),
            routes: Mutex::new(()),
        });
        let exchange = Arc::default();
        let clusters = ground.settings.clusters.iter();
        let sites = clusters.map(|cluster| Site::found(&server, &ground, &exchange, cluster));
        let sites = futures::future::try_join_all(sites).await?;
        let stop = CancellationToken::new();
        let tasks = sites.iter().flat_map(|site| site.start(&stop)).collect();
        Ok(Self {
            server,
            stop,
            ground,
            sites,
            tasks,
            layout,
            identity,
            _lock: held,
        })
    }

    /// A logical cluster; without a name, the first.
    fn site(&self, cluster: Option<&str>) -> Result<&Arc<Site>> {
        let cluster = cluster.unwrap_or(self.ground.settings.first());
        let found = self.sites.iter().find(|site| site.cluster == cluster);
        found.ok_or_else(|| {
            let known = self.ground.settings.clusters.join(", ");
            Error::Refused(format!("there is no cluster {cluster:?}; there are: {known}"))
        })
    }

    /// Names of the logical clusters, the first one first.
    pub fn clusters(&self) -> &[String] {
        &self.ground.settings.clusters
    }

    /// Does a node of this cluster run guests?
    pub fn has_hypervisors(&self, cluster: &str) -> bool {
        let mut nodes = self.ground.settings.nodes.iter();
        nodes.any(|node| node.cluster == cluster && node.traits.hypervisor)
    }

    /// An administrator's client of a cluster; without a name, of the first.
    pub fn client(&self, cluster: Option<&str>) -> Result<kube::Client> {
        Ok(self.site(cluster)?.client.clone())
    }

    /// A client that acts as someone else.
    pub fn client_as(&self, cluster: Option<&str>, user: &str, groups: &[&str]) -> Result<kube::Client> {
        let site = self.site(cluster)?;
        Ok(self.server.client_as(&site.cluster, user, groups))
    }

    /// Shows figures of the embedding program on the API server's `/metrics`.
    pub fn join_metrics(&self, others: impl Fn() -> String + Send + Sync + 'static) {
        self.server.join_metrics(others);
    }

    /// The way into a cluster's network; without a name, the first's.
    pub fn inside(&self, cluster: Option<&str>) -> Result<network::Inside> {
        Ok(network::Inside::new(self.site(cluster)?.network.clone()))
    }

    pub fn kubeconfig(&self) -> &Path {
        self.server.kubeconfig_path()
    }

    /// Waits until every node that is switched on is Ready. When some are not in time, that
    /// is said and the others are used; none at all is an error.
    pub async fn ready(&self, patience: Duration, say: Say<'_>) -> Result<()> {
        let deadline = tokio::time::Instant::now() + patience;
        let mut told = std::collections::BTreeSet::new();
        loop {
            let mut waiting = Vec::new();
            for (site, entry) in self.sites.iter().flat_map(|s| s.nodes().map(move |n| (s, n))) {
                let nodes: Api<NodeObject> = Api::all(site.client.clone());
                let layout = self.layout.node(&entry.name, entry.index);
                if crate::power::is_off(&layout) {
                    continue;
                }
                let object = nodes.get_opt(&entry.name).await.ok().flatten();
                let up = self.ground.up.borrow().contains_key(&entry.name);
                let is_ready = up && object.is_some_and(|n| node_is_ready(&n));
                if !is_ready {
                    waiting.push(entry.name.clone());
                } else if told.insert(entry.name.clone()) {
                    say(&format!("{} is Ready", entry.name));
                }
            }
            if waiting.is_empty() {
                return Ok(());
            }
            if tokio::time::Instant::now() > deadline {
                let why = late(
                    !told.is_empty(),
                    &waiting,
                    &self.layout.names().log(self.layout.state()),
                )?;
                tracing::warn!("{why}");
                say(&why);
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Reports to `up` that everything is healthy, and detaches from its terminal and directory.
    pub fn announce(&mut self) -> Result<()> {
        self.identity.ready = true;
        self.identity.store(&self.layout)?;
        say(READY);
        let null = File::options()
            .write(true)
            .open("/dev/null")
            .map_err(Error::file("open", "/dev/null"))?;
        nix::unistd::dup2_stdout(&null).map_err(Error::system("let go of the terminal"))?;
        std::env::set_current_dir("/").map_err(Error::file("enter", "/"))
    }

    /// Stops what runs in this process. Nodes and pods keep running.
    pub async fn stop(mut self) {
        self.stop.cancel();
        for task in std::mem::take(&mut self.tasks) {
            let _ = tokio::time::timeout(Duration::from_secs(5), task).await;
        }
        self.server.shutdown().await;
        let _ = std::fs::remove_file(Identity::file(&self.layout));
    }
}

/// The message about nodes that are not ready in time; an error when there is no other node.
fn late(others: bool, waiting: &[String], log: &Path) -> Result<String> {
    let why = format!(
        "{} did not become Ready: see {}",
        waiting.join(", "),
        log.display()
    );
    if others {
        Ok(format!("{why}; continuing with the others"))
    } else {
        Err(Error::said(why))
    }
}

fn node_is_ready(node: &NodeObject) -> bool {
    let conditions = node.status.iter().flat_map(|s| s.conditions.iter().flatten());
    conditions
        .filter(|c| c.type_ == "Ready")
        .any(|c| c.status == "True")
}

async fn serve(layout: &Layout, settings: &Settings) -> Result<apiserver::Server> {
    let mut names = Vec::new();
    let mut networks = std::collections::BTreeMap::new();
    for cluster in &settings.clusters {
        let addresses = settings.addresses_of(cluster)?;
        let network = addresses.service_network();
        names.push(addresses.api_service().to_string());
        networks.insert(cluster.clone(), (network.address, network.prefix));
    }
    let nodes = settings.nodes.iter();
    names.extend(nodes.map(|n| settings.addresses.node(n.index).to_string()));
    let config = |port: u16| apiserver::Config {
        state_dir: layout.state().join("api"),
        listen: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, port))),
        names: names.clone(),
        clusters: settings.clusters.clone(),
        service_networks: networks.clone(),
        ..apiserver::Config::default()
    };
    match apiserver::Server::start(config(settings.port)).await {
        // The port of last time is taken by now: any other will do, the kubeconfig tells.
        Err(apiserver::StartError::Listen { .. }) if settings.port != 0 => {
            apiserver::Server::start(config(0)).await
        }
        other => other,
    }
    .map_err(|e| Error::said(e.to_string()))
}

/// The daemon's whole life: prints progress, then `ready`, and runs until SIGTERM.
pub async fn run(options: &Options) -> Result<()> {
    let mut terminate = signal(SignalKind::terminate()).map_err(Error::system("listen for signals"))?;
    let mut running = Running::start(options, &mut say).await?;
    running.ready(Duration::from_secs(120), &mut say).await?;
    running.announce()?;
    terminate.recv().await;
    running.stop().await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_nodes_are_enough() {
        let waiting = ["node-2".to_owned()];
        let said = late(true, &waiting, Path::new("/s/log")).unwrap();
        assert_eq!(
            said,
            "node-2 did not become Ready: see /s/log; continuing with the others"
        );
        assert!(
            late(false, &waiting, Path::new("/s/log")).is_err(),
            "nothing could run"
        );
    }
}
