//! A node's agent: the pods that the API gives it, what the runtime tells, what others
//! want to know about it.

mod disk;
mod events;
mod fresh;
mod logs;
mod node_object;
mod objects;
mod orphans;
mod reporter;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

pub use disk::remove_unused;
pub use events::runtime_events;
pub use fresh::mark_fresh;
pub use logs::rotate_above;
pub use node_object::{Description, mark_down};
pub use objects::{Catalogue, KubeObjects};
pub use reporter::KubeReporter;

use crate::cri::Cri;
use crate::images::Images;
use crate::node::Node;
use crate::pods::sandbox::Dns;
use crate::pods::{Host, Worker, names, view};

/// What a node's agent works with.
#[derive(Clone)]
pub struct Setup {
    pub client: Client,
    pub node: Node,
    pub address: String,
    pub cri: Cri,
    pub images: Images,
    pub dns: Dns,
    pub services: Arc<Catalogue>,
    pub description: Description,
}

/// Safety net behind the runtime's events.
const RELIST: Duration = Duration::from_secs(10);

/// How often is looked for tokens that are due.
const RENEWAL: Duration = Duration::from_secs(60);

/// Runs the agent until `stop`, for one life of the node. Pods run on afterwards.
pub async fn run(setup: Setup, stop: CancellationToken) {
    let (changed, changes) = mpsc::unbounded_channel();
    let objects = Arc::new(KubeObjects::new(
        setup.client.clone(),
        setup.services.clone(),
        changed,
    ));
    let reporter = Arc::new(KubeReporter::new(setup.client.clone(), &setup.node.layout.name));
    let host = Arc::new(Host {
        node: setup.node,
        address: setup.address,
        cri: setup.cri,
        images: setup.images,
        dns: setup.dns,
        objects: objects.clone(),
        reporter,
        cpus: setup.description.cpus,
        memory: setup.description.memory,
        ready: watch::Sender::new(true),
    });
    let agent = Agent {
        host: host.clone(),
        workers: BTreeMap::new(),
        listed: false,
        seen: BTreeMap::new(),
    };
    tokio::select! {
        () = stop.cancelled() => {}
        () = agent.run(setup.client.clone(), changes) => {}
        () = node_object::keep(setup.client, host.clone(), setup.description) => {}
        () = logs::rotate(host.cri.clone()) => {}
        () = disk::watch(&host) => {}
        () = objects.renew_tokens(RENEWAL) => {}
    }
}

struct Agent {
    host: Arc<Host>,
    /// By the pod's uid.
    workers: BTreeMap<String, Worker>,
    /// The API has named all pods of this node at least once.
    listed: bool,
    /// State of every container and sandbox at the last look, with its pod.
    seen: BTreeMap<String, (i32, String)>,
}

impl Agent {
    async fn run(mut self, client: Client, mut changes: mpsc::UnboundedReceiver<String>) {
        let name = self.host.node.layout.name.clone();
        let selector = format!("spec.nodeName={name}");
        let config = watcher::Config::default().fields(&selector);
        // The managed fields are the largest part of a pod, and nobody here reads them.
        let mut pods = watcher(Api::<Pod>::all(client), config)
            .modify(|pod| pod.managed_fields_mut().clear())
            .boxed();
        let mut runtime = events::runtime_events(self.host.cri.channel());
        let mut relist = tokio::time::interval(RELIST);
        relist.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut listing: Vec<String> = Vec::new();
        loop {
            tokio::select! {
                Some(event) = pods.next() => match event {
                    Ok(watcher::Event::Apply(pod)) => self.take(pod),
                    Ok(watcher::Event::Delete(pod)) => self.gone(pod),
                    Ok(watcher::Event::Init) => listing.clear(),
                    Ok(watcher::Event::InitApply(pod)) => {
                        listing.push(view::uid(&pod).to_owned());
                        self.take(pod);
                    }
                    Ok(watcher::Event::InitDone) => {
                        self.listed = true;
                        // Pods that vanished while nobody watched are orphans now.
                        self.workers.retain(|uid, _| listing.contains(uid));
                        self.relist().await;
                    }
                    Err(e) => {
                        tracing::warn!(node = name, "watch of pods: {e}");
                        tokio::time::sleep(Duration::from_secs(1)).await;
                    }
                },
                Some(uid) = changes.recv() => {
                    if let Some(worker) = self.workers.get(&uid) {
                        worker.refresh();
                    }
                }
                Some(id) = runtime.recv() => self.happened(&id).await,
                _ = relist.tick() => self.relist().await,
            }
        }
    }

    fn take(&mut self, pod: Pod) {
        let uid = view::uid(&pod).to_owned();
        match self.workers.get(&uid) {
            Some(worker) if !worker.finished() => worker.update(pod),
            _ => {
                let worker = Worker::start(self.host.clone(), pod);
                self.workers.insert(uid, worker);
            }
        }
    }

    /// The object is gone. A pod that still runs here was deleted by force.
    fn gone(&mut self, mut pod: Pod) {
        let uid = view::uid(&pod).to_owned();
        let Some(worker) = self.workers.get(&uid) else {
            return;
        };
        if worker.finished() {
            self.workers.remove(&uid);
            return;
        }
        let now = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::now());
        pod.metadata.deletion_timestamp.get_or_insert(now);
        pod.metadata.deletion_grace_period_seconds = Some(orphans::GRACE);
        worker.update(pod);
    }

    /// A container or sandbox changed.
    async fn happened(&mut self, id: &str) {
        if !self.seen.contains_key(id) {
            self.relist().await;
        }
        if let Some((_, uid)) = self.seen.get(id)
            && let Some(worker) = self.workers.get(uid)
        {
            worker.poke();
        }
    }

    /// Compares everything the runtime has with the last look.
    async fn relist(&mut self) {
        let (sandboxes, containers) =
            match tokio::try_join!(self.host.cri.sandboxes(&[]), self.host.cri.containers(&[])) {
                Ok(both) => both,
                Err(e) => {
                    tracing::debug!("relist: {e}");
                    return;
                }
            };
        let of = |labels: &std::collections::HashMap<String, String>| {
            labels.get(names::POD_UID).cloned().unwrap_or_default()
        };
        let now: BTreeMap<String, (i32, String)> = sandboxes
            .iter()
            .map(|s| (s.id.clone(), (s.state, of(&s.labels))))
            .chain(
                containers
                    .iter()
                    .map(|c| (c.id.clone(), (c.state, of(&c.labels)))),
            )
            .collect();
        let changed = now
            .iter()
            .filter(|(id, state)| self.seen.get(*id) != Some(state))
            .chain(self.seen.iter().filter(|(id, _)| !now.contains_key(*id)));
        for (_, (_, uid)) in changed {
            if let Some(worker) = self.workers.get(uid) {
                worker.poke();
            }
        }
        self.seen = now;
        self.workers.retain(|_, worker| !worker.finished());
        if self.listed {
            orphans::end(&self.host, &sandboxes, |uid| self.workers.contains_key(uid)).await;
        }
    }
}
