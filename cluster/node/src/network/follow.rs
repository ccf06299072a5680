//! Follows Services and EndpointSlices and keeps the nodes in step.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::runtime::reflector::{self, Store};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::expose::{self, Exposed};
use super::frontends::{Protocol, Snapshot, exposures, frontends};
use super::table::{self, Own};
use crate::addresses::Addresses;
use crate::dns;
use crate::error::{Error, Result};
use crate::kubelet::Catalogue;
use crate::netns::NetNs;

/// Ports on a node's address that this program answers.
const DNS_PORT: u16 = 10053;
const API_PORT: u16 = 6443;
/// Changes that come together are applied together.
const TOGETHER: Duration = Duration::from_millis(20);

pub struct Settings {
    pub addresses: Addresses,
    pub domain: String,
    /// The API server on loopback of the machine.
    pub api: SocketAddr,
}

/// A node that takes part.
#[derive(Clone)]
pub struct Member {
    pub name: String,
    pub index: u8,
    pub ns: NetNs,
}

struct Joined {
    member: Member,
    masquerade: bool,
    applied: String,
    tasks: Vec<JoinHandle<()>>,
}

impl Drop for Joined {
    fn drop(&mut self) {
        // Sockets inside would keep a dead node's namespace alive.
        for task in &self.tasks {
            task.abort();
        }
    }
}

/// The services of a cluster on all its nodes.
pub struct Network {
    settings: Settings,
    snapshot: watch::Sender<Arc<Snapshot>>,
    catalogue: Arc<Catalogue>,
    joined: tokio::sync::Mutex<BTreeMap<String, Joined>>,
    /// Namespaces to connect from, for the listeners of the machine.
    ways: Arc<Mutex<BTreeMap<String, NetNs>>>,
    changed: Notify,
}

impl Network {
    pub fn new(settings: Settings) -> Arc<Self> {
        Arc::new(Self {
            settings,
            snapshot: watch::Sender::new(Arc::default()),
            catalogue: Arc::default(),
            joined: tokio::sync::Mutex::default(),
            ways: Arc::default(),
            changed: Notify::new(),
        })
    }

    pub fn catalogue(&self) -> Arc<Catalogue> {
        self.catalogue.clone()
    }

    pub(super) fn addresses(&self) -> &Addresses {
        &self.settings.addresses
    }

    pub(super) fn domain(&self) -> &str {
        &self.settings.domain
    }

    pub(super) fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.borrow().clone()
    }

    /// A namespace from which every pod and service can be reached.
    pub fn way(&self) -> Option<NetNs> {
        let ways = self.ways.lock().unwrap_or_else(PoisonError::into_inner);
        ways.values().next().cloned()
    }

    /// Rules, DNS and the API on a node that came up.
    pub async fn join(&self, member: Member) -> Result<()> {
        let plan = &self.settings.addresses;
        let own = plan.node(member.index);
        let bridged = member.ns.read_sysctl("bridge/bridge-nf-call-iptables").await;
        let masquerade = bridged.map_or(true, |v| v.trim() != "1");
        let failed = |what: &str| Error::system(format!("{what} on node {}", member.name));
        let at = SocketAddr::from((own, DNS_PORT));
        let udp = member.ns.udp(at).await.map_err(failed("DNS"))?;
        let tcp = member.ns.listen(at).await.map_err(failed("DNS"))?;
        let api = member
            .ns
            .listen(SocketAddr::from((own, API_PORT)))
            .await
            .map_err(failed("API"))?;
        let zone = dns::Zone::new(&self.settings.domain, *plan, self.snapshot.subscribe());
        let tasks = vec![
            tokio::spawn(dns::serve(zone, udp, tcp)),
            tokio::spawn(expose::inwards(api, self.settings.api)),
        ];
        let mut joined = Joined {
            member: member.clone(),
            masquerade,
            applied: String::new(),
            tasks,
        };
        self.apply(&mut joined).await?;
        self.joined.lock().await.insert(member.name.clone(), joined);
        let mut ways = self.ways.lock().unwrap_or_else(PoisonError::into_inner);
        ways.insert(member.name, member.ns);
        Ok(())
    }

    /// The node is down: nothing of this program stays in its namespace.
    pub async fn leave(&self, name: &str) {
        self.joined.lock().await.remove(name);
        self.ways
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(name);
    }

    fn builtin(&self) -> Vec<(Ipv4Addr, Protocol, u16, u16)> {
        let plan = &self.settings.addresses;
        vec![
            (plan.dns_service(), Protocol::Udp, 53, DNS_PORT),
            (plan.dns_service(), Protocol::Tcp, 53, DNS_PORT),
            (plan.api_service(), Protocol::Tcp, 443, API_PORT),
        ]
    }

    async fn apply(&self, joined: &mut Joined) -> Result<()> {
        let plan = &self.settings.addresses;
        let member = &joined.member;
        let own = Own {
            name: member.name.clone(),
            address: plan.node(member.index),
            pods: plan.pod_network(member.index),
            masquerade: joined.masquerade,
            builtin: self.builtin(),
        };
        let snapshot = self.snapshot.borrow().clone();
        let reserved = [plan.dns_service(), plan.api_service()];
        let all: Vec<_> = frontends(&snapshot)
            .into_iter()
            .filter(|f| !reserved.contains(&f.address))
            .collect();
        let text = table::render(&own, plan, &all);
        if text == joined.applied {
            return Ok(());
        }
        let done = member
            .ns
            .command("nft", &["-f", "-"], text.clone())
            .await
            .map_err(Error::system("run nft"))?;
        if !done.status.success() {
            return Err(Error::said(format!(
                "rules of node {}: {}",
                member.name,
                String::from_utf8_lossy(&done.stderr).trim()
            )));
        }
        joined.applied = text;
        Ok(())
    }

    /// Follows the API until `stop`.
    pub async fn run(self: Arc<Self>, client: Client, stop: CancellationToken) {
        let (services, following_services) = self.store::<Service>(&client);
        let (slices, following_slices) = self.store::<EndpointSlice>(&client);
        let work = async {
            let mut exposed = Exposed::default();
            loop {
                self.changed.notified().await;
                tokio::time::sleep(TOGETHER).await;
                let snapshot = Snapshot {
                    services: services.state(),
                    slices: slices.state(),
                };
                self.catalogue.set(snapshot.services.clone());
                let (wanted, wrong) = exposures(&snapshot);
                for text in wrong {
                    tracing::warn!("{text}");
                }
                self.snapshot.send_replace(Arc::new(snapshot));
                for joined in self.joined.lock().await.values_mut() {
                    if let Err(e) = self.apply(joined).await {
                        tracing::warn!("{e}");
                    }
                }
                let ways = self.ways.clone();
                let dial = move || {
                    let ways = ways.lock().unwrap_or_else(PoisonError::into_inner);
                    ways.values().next().cloned()
                };
                exposed.set(&wanted, dial).await;
            }
        };
        tokio::select! {
            () = stop.cancelled() => {}
            () = following_services => {}
            () = following_slices => {}
            () = work => {}
        }
    }

    fn store<K>(&self, client: &Client) -> (Store<K>, impl Future<Output = ()> + use<'_, K>)
    where
        K: kube::Resource<DynamicType = ()>
            + Clone
            + std::fmt::Debug
            + serde::de::DeserializeOwned
            + Send
            + Sync
            + 'static,
    {
        let (store, writer) = reflector::store();
        let watching = watcher(Api::<K>::all(client.clone()), watcher::Config::default());
        let mut events = reflector::reflector(writer, watching).default_backoff().boxed();
        let following = async move {
            while let Some(event) = events.next().await {
                match event {
                    Ok(watcher::Event::Init | watcher::Event::InitApply(_)) => {}
                    Ok(_) => self.changed.notify_one(),
                    Err(e) => tracing::debug!("watch of services: {e}"),
                }
            }
        };
        (store, following)
    }
}
