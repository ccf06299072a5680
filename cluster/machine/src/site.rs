//! A logical cluster in this process: its first objects, its controllers, its network and its nodes.

use std::sync::Arc;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::settings::{DOMAIN, NodeEntry};
use crate::supervise::{self, Accounts, Ground, Site};
use crate::tasks::keep;
use crate::{bootstrap, pods};
use embedded_node::error::{Error, Result};
use embedded_node::network::{self, Exchange, Network};

impl Site {
    pub(crate) async fn found(
        server: &apiserver::Server,
        ground: &Arc<Ground>,
        exchange: &Arc<Exchange>,
        cluster: &str,
    ) -> Result<Arc<Self>> {
        let addresses = ground.settings.addresses_of(cluster)?;
        let client = server.client(cluster);
        let api = server.entrance(cluster).map_err(|e| Error::said(e.to_string()))?;
        let streams = Arc::new(pods::Streams::default());
        server.set_pods(cluster, streams.clone());
        let site = Arc::new(Self {
            ground: ground.clone(),
            cluster: cluster.into(),
            addresses,
            client,
            accounts: Accounts::of(server, ground, cluster),
            network: Network::new(network::Settings {
                names: ground.layout.names(),
                cluster: cluster.into(),
                addresses,
                domain: DOMAIN.into(),
                api,
                exchange: exchange.clone(),
            }),
            streams,
        });
        let inside = network::Inside::new(site.network.clone());
        server.set_network(cluster, Arc::new(inside));
        let node = site.nodes().map(|node| node.index).min().unwrap_or(1);
        let provisioner = ground.layout.names().provisioner();
        bootstrap::objects(&site.client, &addresses, node, &provisioner).await?;
        Ok(site)
    }

    /// The nodes of this cluster.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = &NodeEntry> {
        let all = self.ground.settings.nodes.iter();
        all.filter(|node| node.cluster == self.cluster)
    }

    /// Everything that runs until `stop`.
    pub(crate) fn start(self: &Arc<Self>, stop: &CancellationToken) -> Vec<JoinHandle<()>> {
        let mut tasks = Vec::new();
        let (clients, volumes) = (self.accounts.workloads.clone(), self.ground.layout.volumes());
        let names = self.ground.layout.names();
        let config = workloads::Config {
            volumes,
            provisioner: names.provisioner(),
            slices: names.slices(),
        };
        let end = stop.clone();
        tasks.push(keep("the workload controllers", stop.clone(), move || {
            workloads::run(clients.clone(), config.clone(), end.clone().cancelled_owned())
        }));
        let (follow, user) = (self.network.clone(), self.accounts.network.clone());
        let end = stop.clone();
        tasks.push(keep("the network", stop.clone(), move || {
            follow.clone().run(user.clone(), end.clone())
        }));
        for entry in self.nodes() {
            let (site, entry, end) = (self.clone(), entry.clone(), stop.clone());
            tasks.push(keep("a node's supervisor", stop.clone(), move || {
                supervise::node(site.clone(), entry.clone(), end.clone())
            }));
        }
        tasks
    }
}

impl Accounts {
    /// Each acts under the name, and with the rights, that it has in Kubernetes.
    fn of(server: &apiserver::Server, ground: &Ground, cluster: &str) -> Self {
        let nodes = ground.settings.nodes.iter();
        let nodes = nodes.filter(|node| node.cluster == cluster);
        Accounts {
            workloads: workloads::Clients {
                controllers: server.client_as(cluster, "system:kube-controller-manager", &[]),
                scheduler: server.client_as(cluster, "system:kube-scheduler", &[]),
            },
            network: server.client_as(cluster, "system:kube-proxy", &[]),
            supervisor: server.client_as(
                cluster,
                "system:serviceaccount:kube-system:node-supervisor",
                &["system:serviceaccounts", "system:serviceaccounts:kube-system"],
            ),
            kubelets: nodes
                .map(|node| {
                    let user = format!("system:node:{}", node.name);
                    (
                        node.name.clone(),
                        server.client_as(cluster, &user, &["system:nodes"]),
                    )
                })
                .collect(),
        }
    }
}
