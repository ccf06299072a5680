//! Follows Services and EndpointSlices and keeps the nodes in step.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::runtime::reflector::{self, Store};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::balancers::{self, Shown};
use super::conntrack;
use super::exchange::Exchange;
use super::expose::Exposed;
use super::frontends::{Exposure, Frontend, Protocol, Snapshot, exposures, frontends, full_name};
use super::pool::{Pool, is_balancer};
use super::table::{self, Own};
use crate::addresses::Addresses;
use crate::dns;
use crate::error::{Error, Result};
use crate::kubelet::Catalogue;
use crate::names::Names;
use crate::netns::NetNs;

/// Ports on a node's address that this program answers.
const DNS_PORT: u16 = 10053;
const API_PORT: u16 = 6443;
/// Changes that come together are applied together.
const TOGETHER: Duration = Duration::from_millis(20);
/// After a port of the machine could not be opened, or rules could not be set.
const RETRY: Duration = Duration::from_secs(5);
/// How long a node waits for the first list of Services.
const LISTING: Duration = Duration::from_secs(30);

pub struct Settings {
    pub names: Names,
    /// Name of the logical cluster.
    pub cluster: String,
    pub addresses: Addresses,
    pub domain: String,
    /// The API server, as pods of this cluster see it.
    pub api: apiserver::Entrance,
    /// Where the clusters of the fabric learn of each other.
    pub exchange: Arc<Exchange>,
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
    /// The snapshot is one of the API, not the empty one of the beginning.
    listed: watch::Sender<bool>,
    catalogue: Arc<Catalogue>,
    joined: tokio::sync::Mutex<BTreeMap<String, Joined>>,
    /// Namespaces to connect from, for the listeners of the machine.
    ways: Arc<Mutex<BTreeMap<String, NetNs>>>,
    /// Nodes known to be off: their endpoints take no connections, whatever the API says yet.
    down: Mutex<BTreeSet<String>>,
    /// Addresses that the fabric's other clusters reach.
    pool: Mutex<Pool>,
    changed: Notify,
}

impl Network {
    pub fn new(settings: Settings) -> Arc<Self> {
        Arc::new(Self {
            pool: Mutex::new(Pool::new(settings.addresses.balancer_network())),
            settings,
            snapshot: watch::Sender::new(Arc::default()),
            listed: watch::Sender::new(false),
            catalogue: Arc::default(),
            joined: tokio::sync::Mutex::default(),
            ways: Arc::default(),
            down: Mutex::default(),
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
        lock(&self.ways).values().next().cloned()
    }

    /// Waits until the Services of the cluster are known. Rules made before would take those of
    /// a node away that ran on while this program did not.
    async fn known(&self) -> Result<()> {
        let mut listed = self.listed.subscribe();
        let waiting = listed.wait_for(|listed| *listed);
        match tokio::time::timeout(LISTING, waiting).await {
            Ok(Ok(_)) => Ok(()),
            _ => Err(Error::said("the Services of the cluster are not known yet")),
        }
    }

    /// Rules, DNS and the API on a node that came up.
    pub async fn join(&self, member: Member) -> Result<()> {
        self.known().await?;
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
            tokio::spawn(self.settings.api.clone().serve(api)),
        ];
        let mut joined = Joined {
            member: member.clone(),
            masquerade,
            applied: String::new(),
            tasks,
        };
        lock(&self.down).remove(&member.name);
        self.apply(&mut joined).await?;
        self.joined.lock().await.insert(member.name.clone(), joined);
        lock(&self.ways).insert(member.name, member.ns);
        self.changed.notify_one();
        Ok(())
    }

    /// The node is down: nothing of this program stays in its namespace, and no other node
    /// sends to it any more.
    pub async fn leave(&self, name: &str) {
        let mut all = self.joined.lock().await;
        all.remove(name);
        lock(&self.ways).remove(name);
        lock(&self.down).insert(name.to_owned());
        self.publish();
        if !self.apply_all(&mut all).await {
            // Whoever follows the API tries again.
            self.changed.notify_one();
        }
    }

    /// False when the rules of a node are not what they should be.
    async fn apply_all(&self, all: &mut BTreeMap<String, Joined>) -> bool {
        let each = all.values_mut().map(|joined| self.apply(joined));
        let mut good = true;
        for applied in futures::future::join_all(each).await {
            if let Err(e) = applied {
                tracing::warn!("{e}");
                good = false;
            }
        }
        good
    }

    /// Ports of Services with the endpoints that can be reached.
    fn living(&self) -> Vec<Frontend> {
        let plan = &self.settings.addresses;
        let reserved = [plan.dns_service(), plan.api_service()];
        let snapshot = self.snapshot.borrow().clone();
        let down = lock(&self.down);
        let mut all = frontends(&snapshot);
        all.retain(|f| !reserved.contains(&f.address));
        for frontend in &mut all {
            let off = |node: &Option<String>| node.as_ref().is_some_and(|name| down.contains(name));
            frontend.backends.retain(|b| !off(&b.node));
        }
        all
    }

    /// The other clusters learn what the balancers of this one are.
    fn publish(&self) {
        let snapshot = self.snapshot.borrow().clone();
        let balanced = lock(&self.pool).frontends(&snapshot.services, &self.living());
        self.settings.exchange.publish(&self.settings.cluster, balanced);
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
            table: self.settings.names.program,
            name: member.name.clone(),
            address: plan.node(member.index),
            pods: plan.pod_network(member.index),
            masquerade: joined.masquerade,
            builtin: self.builtin(),
        };
        let mut all = self.living();
        all.extend(self.settings.exchange.all());
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
        let first = joined.applied.is_empty();
        joined.applied = text;
        if first {
            return Ok(());
        }
        let builtin = [plan.dns_service(), plan.api_service()];
        let virtual_networks = plan.virtual_networks();
        let node = own.address;
        let stale = move |flow: &conntrack::Flow| {
            let to = flow.to;
            let service = virtual_networks.iter().any(|network| network.contains(*to.ip()));
            let service = service && !builtin.contains(to.ip());
            let takes = |f: &Frontend| {
                let named = (f.address, f.port) == (*to.ip(), to.port())
                    || (*to.ip() == node && f.node_port == Some(to.port()));
                f.protocol == Protocol::Udp && named
            };
            let frontend = all.iter().find(|f| takes(f));
            match frontend {
                Some(frontend) => frontend.backends.iter().all(|b| b.to != flow.from),
                None => service,
            }
        };
        match conntrack::forget(&member.ns, stale).await {
            Ok(0) => {}
            Ok(count) => tracing::debug!(node = member.name, count, "flows to old endpoints forgotten"),
            Err(e) => tracing::warn!(node = member.name, "flows to old endpoints: {e}"),
        }
        Ok(())
    }

    /// Follows the API until `stop`.
    pub async fn run(self: Arc<Self>, client: Client, stop: CancellationToken) {
        let (services, following_services) = self.store::<Service>(&client);
        let (slices, following_slices) = self.store::<EndpointSlice>(&client);
        let work = async {
            // The other half of a list is no picture of the cluster.
            let both = tokio::join!(services.wait_until_ready(), slices.wait_until_ready());
            if both.0.is_err() || both.1.is_err() {
                return;
            }
            self.changed.notify_one();
            let mut exposed = Exposed::default();
            let mut balancers = balancers::Balancers::new(&client);
            let mut others = self.settings.exchange.subscribe();
            let mut again = false;
            loop {
                tokio::select! {
                    () = self.changed.notified() => tokio::time::sleep(TOGETHER).await,
                    Ok(()) = others.changed() => {}
                    // A port that was taken may be free by now, and a node may take its rules.
                    () = tokio::time::sleep(RETRY), if again => {}
                }
                let snapshot = Snapshot {
                    services: services.state(),
                    slices: slices.state(),
                };
                self.catalogue.set(snapshot.services.clone());
                let (wanted, wrong) = exposures(&snapshot, self.settings.names);
                let snapshot = Arc::new(snapshot);
                self.snapshot.send_replace(snapshot.clone());
                lock(&self.pool).settle(&snapshot.services);
                self.publish();
                others.mark_unchanged();
                self.listed.send_replace(true);
                again = !self.apply_all(&mut *self.joined.lock().await).await;
                let ways = self.ways.clone();
                let dial = move || lock(&ways).values().next().cloned();
                let failed = exposed.set(&wanted, dial).await;
                again |= !failed.is_empty();
                let shown = shown(&snapshot, &lock(&self.pool), &wanted, &failed);
                again |= !balancers.report(&snapshot, &shown, &failed, &wrong).await;
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
        let watching = watcher(Api::<K>::all(client.clone()), watcher::Config::default())
            .modify(|object| object.managed_fields_mut().clear());
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

/// Where each balancer is to be found: on the fabric, and on the machine when it listens there.
fn shown(
    snapshot: &Snapshot,
    pool: &Pool,
    wanted: &[Exposure],
    failed: &[(Exposure, std::io::Error)],
) -> BTreeMap<String, Shown> {
    let balancers = snapshot.services.iter().filter(|service| is_balancer(service));
    balancers
        .map(|service| {
            let name = full_name(service);
            let listens = wanted.iter().any(|exposure| exposure.service == name)
                && failed.iter().all(|(exposure, _)| exposure.service != name);
            let fabric = pool.of(service);
            (name, Shown { fabric, listens })
        })
        .collect()
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    async fn server(directory: &tempfile::TempDir) -> apiserver::Server {
        let config = apiserver::Config {
            state_dir: directory.path().into(),
            ..apiserver::Config::default()
        };
        apiserver::Server::start(config).await.unwrap()
    }

    fn network(server: &apiserver::Server) -> Arc<Network> {
        Network::new(Settings {
            cluster: "default".into(),
            addresses: Addresses::default(),
            domain: "cluster.local".into(),
            api: server.entrance("default").unwrap(),
            exchange: Arc::default(),
            names: crate::names::EXAMPLE,
        })
    }

    #[tokio::test]
    async fn nodes_wait_until_the_services_are_known() {
        let directory = tempfile::tempdir().unwrap();
        let server = server(&directory).await;
        let client = server.client("default");
        let service =
            serde_json::json!({ "metadata": { "name": "web" }, "spec": { "ports": [{ "port": 80 }] } });
        let services: Api<Service> = Api::default_namespaced(client.clone());
        let service = serde_json::from_value(service).unwrap();
        services.create(&Default::default(), &service).await.unwrap();
        let network = network(&server);
        assert!(network.known().now_or_never().is_none());
        let stop = CancellationToken::new();
        let running = tokio::spawn(network.clone().run(client, stop.clone()));
        network.known().await.unwrap();
        let names: Vec<String> = network.snapshot().services.iter().map(|s| s.name_any()).collect();
        assert!(names.contains(&"web".into()), "{names:?}");
        stop.cancel();
        running.await.unwrap();
        server.shutdown().await;
    }

    #[tokio::test]
    async fn rules_that_could_not_be_set_are_tried_again() {
        let directory = tempfile::tempdir().unwrap();
        let server = server(&directory).await;
        let network = network(&server);
        network.leave("a").await;
        assert!(network.changed.notified().now_or_never().is_none());
        let member = Member {
            name: "b".into(),
            index: 2,
            ns: NetNs::gone(),
        };
        let broken = Joined {
            member,
            masquerade: false,
            applied: String::new(),
            tasks: Vec::new(),
        };
        network.joined.lock().await.insert("b".into(), broken);
        network.leave("a").await;
        assert!(network.changed.notified().now_or_never().is_some());
        assert!(!network.apply_all(&mut *network.joined.lock().await).await);
    }
}
