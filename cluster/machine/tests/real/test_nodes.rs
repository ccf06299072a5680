//! A test test_nodes: nodes in a temporary state directory, gone when dropped.

use std::path::Path;
use std::sync::{Condvar, Mutex, Once, PoisonError};
use std::time::Duration;

use embedded_node::containerd::{Machine, plugin_directory};
use embedded_node::cri::{self, Cri};
use embedded_node::fabric::{self, Fabric, Neighbour};
use embedded_node::images::{Images, Registries, tiny, write_pause};
use embedded_node::node::{self, Blueprint, Node};
use embedded_node::{Addresses, Layout, Names, cgroups};

pub(crate) const NAMES: Names = Names {
    program: "c5c3",
    domain: "c5c3.io",
};
pub(crate) const BUSYBOX: &str = "c5c3.local/busybox:1";

/// Longest that anything is waited for: the machine may be busy with much else.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

/// Fails with one clear message when the machine lacks something.
pub(crate) fn require() {
    static LOG: Once = Once::new();
    LOG.call_once(|| {
        assert!(
            nix::unistd::geteuid().is_root(),
            "these tests make namespaces and containers: run them as root"
        );
        for program in ["containerd", "runc", "nft", "busybox"] {
            let found = std::env::var("PATH")
                .unwrap_or_default()
                .split(':')
                .any(|d| Path::new(d).join(program).exists());
            assert!(found, "{program} is missing: run scripts/install-packages");
        }
        assert!(
            plugin_directory().is_some(),
            "the CNI plugins are missing: run scripts/install-packages"
        );
    });
}

/// A few clusters at a time: more would only wait for each other's processors.
const AT_ONCE: usize = 2;
static TAKEN: Mutex<usize> = Mutex::new(0);
static FREED: Condvar = Condvar::new();

/// The right to run a cluster, until dropped.
pub(crate) struct Turn(());

impl Turn {
    pub(crate) fn wait() -> Self {
        let taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
        let full = |taken: &mut usize| *taken >= AT_ONCE;
        let mut taken = FREED
            .wait_while(taken, full)
            .unwrap_or_else(PoisonError::into_inner);
        *taken += 1;
        Self(())
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        *TAKEN.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        FREED.notify_one();
    }
}

pub(crate) struct TestNodes {
    pub layout: Layout,
    pub images: Images,
    /// Whether its nodes are for machines.
    pub hypervisors: bool,
    nodes: Vec<(String, u8)>,
    directory: Option<tempfile::TempDir>,
    _turn: Turn,
}

impl TestNodes {
    pub(crate) fn new(nodes: &[&str]) -> Self {
        require();
        let turn = Turn::wait();
        let directory = tempfile::Builder::new()
            .prefix("c5c3-node-")
            .tempdir_in("/var/tmp")
            .unwrap();
        let layout = Layout::new(NAMES, directory.path()).unwrap();
        layout.close_to_others().unwrap();
        let store = layout.state().join("images");
        write_pause(&store, NAMES).unwrap();
        tiny::write_busybox(&store, BUSYBOX, Path::new("/usr/bin/busybox")).unwrap();
        Self {
            images: Images::new(
                vec![store],
                directory.path().join("pulled"),
                Registries::new(NAMES, Vec::new()),
            ),
            layout,
            hypervisors: false,
            nodes: nodes
                .iter()
                .zip(1..)
                .map(|(name, index)| ((*name).to_owned(), index))
                .collect(),
            directory: Some(directory),
            _turn: turn,
        }
    }

    pub(crate) fn blueprint(&self, name: &str) -> Blueprint {
        let (_, index) = self.nodes.iter().find(|(n, _)| n == name).unwrap();
        Blueprint {
            layout: self.layout.node(name, *index),
            addresses: Addresses::default(),
            machine: machine(),
            hypervisor: self.hypervisors,
            shared: vec![self.layout.volumes()],
            all: self.nodes.clone(),
            init: vec![env!("CARGO_BIN_EXE_embedded-cluster").into(), "init".into()],
            programs: Vec::new(),
        }
    }

    /// Brings up the fabric and every node, ready for pods.
    pub(crate) async fn up(&self) -> (Fabric, Vec<(Node, Cri)>) {
        let fabric = Fabric::open(&self.layout, Addresses::default()).await.unwrap();
        let mut up = Vec::new();
        for (name, _) in &self.nodes {
            up.push(self.start(&fabric, name).await);
        }
        let neighbour = |index: u8| Neighbour {
            index,
            addresses: Addresses::default(),
            up: true,
        };
        let all: Vec<Neighbour> = self.nodes.iter().map(|(_, i)| neighbour(*i)).collect();
        for (node, _) in &up {
            fabric.route(node.layout.index, &node.ns, &all).await.unwrap();
        }
        (fabric, up)
    }

    pub(crate) async fn start(&self, fabric: &Fabric, name: &str) -> (Node, Cri) {
        let node = Node::start(&self.blueprint(name)).await.unwrap();
        let addresses = Addresses::default();
        fabric
            .plug(node.layout.index, &node.ns, &addresses)
            .await
            .unwrap();
        let channel = cri::channel(&node.layout.socket());
        let runtime = Cri::new(channel.clone());
        runtime.ready(Duration::from_secs(20)).await.unwrap();
        self.images.add_node(&node.layout, channel, "overlayfs").await;
        self.images.provide_pause(name).await.unwrap();
        self.images.provide(name, BUSYBOX, false).await.unwrap();
        (node, runtime)
    }
}

impl Drop for TestNodes {
    fn drop(&mut self) {
        let layouts: Vec<_> = self.nodes.iter().map(|(n, i)| self.layout.node(n, *i)).collect();
        // The test's own runtime may be the one that is unwinding.
        let ended = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                for layout in layouts {
                    if let Err(e) = node::kill(&layout).await {
                        eprintln!("clean-up: {e}");
                    }
                }
            });
        })
        .join();
        if let Err(e) = fabric::remove(&self.layout) {
            eprintln!("clean-up: {e}");
        }
        let _ = cgroups::remove_if_empty("c5c3-nodes");
        drop(self.directory.take());
        drop(ended);
    }
}

pub(crate) fn machine() -> Machine {
    let runc = ["/usr/sbin/runc", "/usr/bin/runc", "/usr/local/sbin/runc"]
        .into_iter()
        .find(|p| Path::new(p).exists())
        .unwrap();
    Machine {
        plugins: plugin_directory().unwrap().into(),
        runc: runc.into(),
        apparmor: false,
        snapshotter: "overlayfs".into(),
    }
}
