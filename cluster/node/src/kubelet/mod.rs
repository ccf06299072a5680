//! A node's agent: the pods that the API gives it, what the runtime tells, what others
//! want to know about it.

mod claims;
mod disk;
mod ends;
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
use k8s_cri::v1 as runtime;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub use disk::remove_unused;
use events::{Happened, runtime_events};
pub use fresh::mark_fresh;
pub use logs::rotate_above;
pub use node_object::{Description, mark_down};
pub use objects::{Catalogue, KubeObjects};
pub use reporter::KubeReporter;

use ends::Ends;

use crate::cri::Cri;
use crate::images::Images;
use crate::node::Node;
use crate::pods::observe::view;
use crate::pods::start::names;
use crate::pods::start::sandbox::Dns;
use crate::pods::{Host, Worker};

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

/// How often tokens are checked for renewal.
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
        ends: Ends::default(),
    };
    tokio::select! {
        () = stop.cancelled() => {}
        () = agent.run(setup.client.clone(), changes) => {}
        () = node_object::keep(setup.client, host.clone(), setup.description) => {}
        () = logs::rotate(host.cri.clone(), host.node.layout.containerd_log()) => {}
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
    /// Every container and sandbox at the last look.
    seen: BTreeMap<String, Seen>,
    ends: Ends,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    state: i32,
    alive: bool,
    /// Of its pod.
    uid: String,
}

impl Agent {
    async fn run(mut self, client: Client, mut changes: mpsc::UnboundedReceiver<String>) {
        let name = self.host.node.layout.name.clone();
        let selector = format!("spec.nodeName={name}");
        let config = watcher::Config::default().fields(&selector);
        // The managed fields are the largest part of a pod, and nothing here reads them.
        let mut pods = watcher(Api::<Pod>::all(client), config)
            .modify(|pod| pod.managed_fields_mut().clear())
            .boxed();
        let mut events = runtime_events(self.host.cri.channel());
        let mut relist = tokio::time::interval(RELIST);
        relist.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut listing: Vec<String> = Vec::new();
        loop {
            let due = self.ends.due();
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
                        // Pods that vanished while the watch was broken are orphans now.
                        self.keep_listed(&listing);
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
                Some(event) = events.recv() => self.happened(event).await,
                () = at(due) => self.relist().await,
                _ = relist.tick() => self.relist().await,
            }
        }
    }

    fn take(&mut self, pod: Pod) {
        let uid = view::uid(&pod).to_owned();
        match self.workers.get(&uid) {
            Some(worker) if !worker.ended() => worker.update(pod),
            _ => {
                let worker = Worker::start(self.host.clone(), pod);
                self.workers.insert(uid, worker);
            }
        }
    }

    /// Nobody else tells what the others used.
    fn keep_listed(&mut self, listing: &[String]) {
        let gone = self.workers.keys().filter(|uid| !listing.contains(uid));
        for uid in gone {
            let mut pod = Pod::default();
            pod.metadata.uid = Some(uid.clone());
            self.host.objects.unused(&pod);
        }
        self.workers.retain(|uid, _| listing.contains(uid));
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
        self.take(pod);
    }

    async fn happened(&mut self, event: Happened) {
        let id = match event {
            Happened::Ended(id) => return self.ends.told(id, Instant::now()),
            Happened::OutOfMemory(id) => id,
        };
        if !self.seen.contains_key(&id) {
            self.relist().await;
        }
        if let Some(seen) = self.seen.get(&id)
            && let Some(worker) = self.workers.get(&seen.uid)
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
                    self.ends.looked(|_| true, Instant::now());
                    return;
                }
            };
        let of = |labels: &std::collections::HashMap<String, String>| {
            labels.get(names::POD_UID).cloned().unwrap_or_default()
        };
        let seen = |state, ended, labels| Seen {
            state,
            alive: state != ended,
            uid: of(labels),
        };
        let ended = runtime::PodSandboxState::SandboxNotready as i32;
        let sandboxes_now = sandboxes
            .iter()
            .map(|s| (s.id.clone(), seen(s.state, ended, &s.labels)));
        let ended = runtime::ContainerState::ContainerExited as i32;
        let containers_now = containers
            .iter()
            .map(|c| (c.id.clone(), seen(c.state, ended, &c.labels)));
        let now: BTreeMap<String, Seen> = sandboxes_now.chain(containers_now).collect();
        let changed = now
            .iter()
            .filter(|(id, seen)| self.seen.get(*id) != Some(seen))
            .chain(self.seen.iter().filter(|(id, _)| !now.contains_key(*id)));
        for (_, seen) in changed {
            if let Some(worker) = self.workers.get(&seen.uid) {
                worker.poke();
            }
        }
        self.seen = now;
        let alive = |id: &str| self.seen.get(id).is_some_and(|seen| seen.alive);
        self.ends.looked(alive, Instant::now());
        self.workers.retain(|_, worker| !worker.finished());
        if self.listed {
            orphans::end(&self.host, &sandboxes, |uid| self.workers.contains_key(uid)).await;
        }
    }
}

/// Never, when nothing is due.
async fn at(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}
