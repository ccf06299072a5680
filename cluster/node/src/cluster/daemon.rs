//! The process behind a cluster.

use std::fs::File;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node as NodeObject;
use kube::Api;
use serde::{Deserialize, Serialize};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Mutex, watch};
use tokio_util::sync::CancellationToken;

use super::settings::{DOMAIN, Settings};
use super::supervise::{self, Site};
use super::tasks::keep;
use super::{bootstrap, machine, pods};
use crate::error::{Error, Result};
use crate::fabric::Fabric;
use crate::images::{Images, Registries, write_pause};
use crate::layout::Layout;
use crate::network::{self, Network};
use crate::process::Process;

/// How a daemon is started.
#[derive(Clone, Debug)]
pub struct Options {
    pub state: PathBuf,
    /// Directories with images beside those that c5c3 brings along.
    pub image_stores: Vec<PathBuf>,
    /// Program and arguments that run [`crate::init::main`].
    pub init: Vec<String>,
}

/// The last line of a start.
pub const READY: &str = "ready";

/// Says what happens while a cluster starts.
pub type Say<'a> = &'a mut (dyn FnMut(&str) + Send);

/// Says it on standard output. Whoever started the daemon may be gone: it lives on.
pub fn say(line: &str) {
    let mut out = std::io::stdout();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// What a daemon tells others by a file.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Identity {
    #[serde(flatten)]
    process: Process,
    /// Its nodes are Ready, and what it brings along is there.
    #[serde(default)]
    ready: bool,
}

impl Identity {
    fn file(layout: &Layout) -> PathBuf {
        layout.state().join("daemon.json")
    }

    fn load(layout: &Layout) -> Option<Self> {
        serde_json::from_slice(&std::fs::read(Self::file(layout)).ok()?).ok()
    }

    fn store(&self, layout: &Layout) -> Result<()> {
        let text = serde_json::to_string(self).map_err(|e| Error::said(e.to_string()))?;
        crate::node::write(&Self::file(layout), &text)
    }
}

/// Whether the daemon's start has come to its end. A damaged file does not tell: then it is enough
/// that the API answers.
pub fn is_ready(layout: &Layout, daemon: &Process) -> bool {
    let told = |known: Identity| known.ready && known.process == *daemon;
    Identity::load(layout).map_or_else(|| Identity::file(layout).exists(), told)
}

/// The daemon of this cluster, when it runs.
pub fn running(layout: &Layout) -> Option<Process> {
    let known = Identity::load(layout).map(|known| known.process);
    known.filter(Process::alive).or_else(|| {
        // It has just started, or its file is damaged: the lock tells too.
        let lock = std::fs::metadata(lock_file(layout)).ok()?;
        let locks = std::fs::read_to_string("/proc/locks").ok()?;
        Process::of(holder(&locks, lock.ino())?)
    })
}

fn lock_file(layout: &Layout) -> PathBuf {
    layout.state().join("lock")
}

/// Who locks the file with this number, from /proc/locks. Two file systems may use one
/// number: then nobody is named.
fn holder(locks: &str, inode: u64) -> Option<i32> {
    let mut holders = locks.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let [_, "FLOCK", _, _, pid, file, ..] = fields.as_slice() else {
            return None;
        };
        let same = file.rsplit(':').next()?.parse() == Ok(inode);
        same.then(|| pid.parse().ok()).flatten()
    });
    let first = holders.next()?;
    holders.next().is_none().then_some(first)
}

/// One daemon for each state directory. The lock goes with the process; threads of one
/// that was just killed may hold it a moment longer.
async fn lock(layout: &Layout) -> Result<File> {
    let path = lock_file(layout);
    let file = File::create(&path).map_err(Error::file("open", &path))?;
    for _ in 0..100 {
        if file.try_lock().is_ok() {
            return Ok(file);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Err(Error::said(format!(
        "another c5c3 process runs the cluster in {}",
        layout.state().display()
    )))
}

/// A running cluster inside this process.
pub struct Running {
    server: apiserver::Server,
    /// The logical cluster that has the nodes.
    cluster: String,
    stop: CancellationToken,
    site: Arc<Site>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
    layout: Layout,
    identity: Identity,
    _lock: File,
}

impl Running {
    pub async fn start(options: &Options, say: Say<'_>) -> Result<Self> {
        crate::limits::raise_files();
        crate::limits::raise_watches();
        let layout = Layout::new(&options.state)?;
        let held = lock(&layout).await?;
        layout.close_to_others()?;
        let mut settings =
            Settings::load(&layout)?.ok_or_else(|| Error::said("the state directory has no settings"))?;
        let process = Process::current().ok_or_else(|| Error::said("cannot read /proc"))?;
        let identity = Identity {
            process,
            ready: false,
        };
        identity.store(&layout)?;

        let addresses = settings.addresses;
        say("starts the API server");
        let server = serve(&layout, &settings).await?;
        let address = server
            .addr()
            .ok_or_else(|| Error::said("the API server has no address"))?;
        if settings.port != address.port() {
            settings.port = address.port();
            settings.store(&layout)?;
        }
        let cluster = settings
            .clusters
            .first()
            .cloned()
            .unwrap_or_else(|| "default".into());
        let client = server.client(&cluster);
        bootstrap::objects(&client, &addresses).await?;

        let stop = CancellationToken::new();
        let mut tasks = Vec::new();
        for name in &settings.clusters {
            let client = server.client_as(name, "system:kube-controller-manager", &[]);
            let (volumes, end) = (layout.volumes(), stop.clone());
            tasks.push(keep("the workload controllers", stop.clone(), move || {
                let volumes = volumes.clone();
                let config = workloads::Config { volumes };
                workloads::run(client.clone(), config, end.clone().cancelled_owned())
            }));
        }
        say("prepares the network");
        let fabric = Fabric::open(&layout, addresses).await?;
        let network = Network::new(network::Settings {
            addresses,
            domain: DOMAIN.into(),
            api: address,
        });
        let proxy = server.client_as(&cluster, "system:kube-proxy", &[]);
        let (follow, user, end) = (network.clone(), proxy, stop.clone());
        tasks.push(keep("the network", stop.clone(), move || {
            follow.clone().run(user.clone(), end.clone())
        }));
        let builtin = layout.state().join("builtin");
        write_pause(&builtin)?;
        let mut stores = vec![builtin];
        for store in &options.image_stores {
            // Relative to where the user was: the daemon goes elsewhere later.
            stores.push(std::path::absolute(store).map_err(Error::file("resolve", store))?);
        }
        let streams = Arc::new(pods::Streams::default());
        server.set_pods(&cluster, streams.clone());
        let site = Arc::new(Site {
            machine: machine::detect(layout.state())?,
            layout: layout.clone(),
            settings: settings.clone(),
            kubelets: settings
                .nodes
                .iter()
                .map(|entry| {
                    let user = format!("system:node:{}", entry.name);
                    let client = server.client_as(&cluster, &user, &["system:nodes"]);
                    (entry.name.clone(), client)
                })
                .collect(),
            client,
            fabric,
            network,
            images: Images::new(
                stores,
                layout.state().join("pulled"),
                Registries::new(settings.registries.clone()),
            ),
            init: options.init.clone(),
            streams,
            up: watch::Sender::new(std::collections::BTreeMap::new()),
            routes: Mutex::new(()),
        });
        for entry in &settings.nodes {
            let (site, entry, end) = (site.clone(), entry.clone(), stop.clone());
            tasks.push(keep("a node's supervisor", stop.clone(), move || {
                supervise::node(site.clone(), entry.clone(), end.clone())
            }));
        }
        Ok(Self {
            server,
            cluster,
            stop,
            site,
            tasks,
            layout,
            identity,
            _lock: held,
        })
    }

    pub fn client(&self) -> kube::Client {
        self.site.client.clone()
    }

    /// A client that acts as someone else.
    pub fn client_as(&self, user: &str, groups: &[&str]) -> kube::Client {
        self.server.client_as(&self.cluster, user, groups)
    }

    /// Shows figures of the embedding program on the API server's `/metrics`.
    pub fn join_metrics(&self, others: impl Fn() -> String + Send + Sync + 'static) {
        self.server.join_metrics(others);
    }

    /// The way into the cluster's network.
    pub fn inside(&self) -> network::Inside {
        network::Inside::new(self.site.network.clone())
    }

    pub fn kubeconfig(&self) -> &Path {
        self.server.kubeconfig_path()
    }

    /// Waits until every node that is switched on is Ready. When some are not in time, that
    /// is said and the others are used; none at all is an error.
    pub async fn ready(&self, patience: Duration, say: Say<'_>) -> Result<()> {
        let deadline = tokio::time::Instant::now() + patience;
        let nodes: Api<NodeObject> = Api::all(self.client());
        let mut told = std::collections::BTreeSet::new();
        loop {
            let mut waiting = Vec::new();
            for entry in &self.site.settings.nodes {
                let layout = self.layout.node(&entry.name, entry.index);
                if super::power::is_off(&layout) {
                    continue;
                }
                let object = nodes.get_opt(&entry.name).await.ok().flatten();
                let up = self.site.up.borrow().contains_key(&entry.name);
                match up && object.is_some_and(|n| node_is_ready(&n)) {
                    true if told.insert(entry.name.clone()) => say(&format!("{} is Ready", entry.name)),
                    true => {}
                    false => waiting.push(entry.name.clone()),
                }
            }
            if waiting.is_empty() {
                return Ok(());
            }
            if tokio::time::Instant::now() > deadline {
                let why = late(!told.is_empty(), &waiting, self.layout.state())?;
                tracing::warn!("{why}");
                say(&why);
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Tells `up` that all is well, and lets go of its terminal and its directory.
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

    /// Ends this process' part. Nodes and pods run on.
    pub async fn stop(mut self) {
        self.stop.cancel();
        for task in std::mem::take(&mut self.tasks) {
            let _ = tokio::time::timeout(Duration::from_secs(5), task).await;
        }
        self.server.shutdown().await;
        let _ = std::fs::remove_file(Identity::file(&self.layout));
    }
}

/// What is said of nodes that are not ready in time; an error when there is no other.
fn late(others: bool, waiting: &[String], state: &Path) -> Result<String> {
    let log = state.join("c5c3.log");
    let why = format!(
        "{} did not become Ready: see {}",
        waiting.join(", "),
        log.display()
    );
    match others {
        true => Ok(format!("{why}; the others are used")),
        false => Err(Error::said(why)),
    }
}

fn node_is_ready(node: &NodeObject) -> bool {
    let conditions = node.status.iter().flat_map(|s| s.conditions.iter().flatten());
    conditions
        .filter(|c| c.type_ == "Ready")
        .any(|c| c.status == "True")
}

async fn serve(layout: &Layout, settings: &Settings) -> Result<apiserver::Server> {
    let addresses = &settings.addresses;
    let network = addresses.service_network();
    let mut names = vec![addresses.api_service().to_string()];
    names.extend(settings.nodes.iter().map(|n| addresses.node(n.index).to_string()));
    let config = |port: u16| apiserver::Config {
        state_dir: layout.state().join("api"),
        listen: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, port))),
        names: names.clone(),
        clusters: settings.clusters.clone(),
        service_network: (network.address, network.prefix),
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
    fn a_daemon_is_ready_when_it_says_so_of_itself() {
        let directory = tempfile::tempdir().unwrap();
        let layout = Layout::new(directory.path()).unwrap();
        let process = Process::current().unwrap();
        assert!(!is_ready(&layout, &process));
        for ready in [false, true] {
            Identity { process, ready }.store(&layout).unwrap();
            assert_eq!(running(&layout), Some(process));
            assert_eq!(is_ready(&layout, &process), ready);
        }
        std::fs::write(Identity::file(&layout), "{").unwrap();
        assert!(is_ready(&layout, &process), "a damaged file");
        let ready = true;
        Identity { process, ready }.store(&layout).unwrap();
        // Another process that has the number by now.
        let other = Process {
            start: process.start + 1,
            ..process
        };
        assert!(!is_ready(&layout, &other));
    }

    #[test]
    fn the_lock_names_its_holder() {
        let locks = "1: POSIX  ADVISORY  WRITE 5 fe:00:77 0 EOF\n2: FLOCK  ADVISORY  WRITE 1234 fe:00:77 0 EOF\n\
            2: -> FLOCK  ADVISORY  WRITE 99 fe:00:77 0 EOF\n";
        assert_eq!(holder(locks, 77), Some(1234));
        assert_eq!(holder(locks, 78), None);
        assert_eq!(holder("nonsense\n\n", 77), None);
    }

    #[test]
    fn some_nodes_are_enough() {
        let waiting = ["node-2".to_owned()];
        let said = late(true, &waiting, Path::new("/s")).unwrap();
        assert_eq!(
            said,
            "node-2 did not become Ready: see /s/c5c3.log; the others are used"
        );
        assert!(
            late(false, &waiting, Path::new("/s")).is_err(),
            "nothing could run"
        );
    }
}
