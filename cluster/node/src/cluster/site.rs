//! A logical cluster in this process: its first objects, its controllers, its network and its nodes.

use std::sync::Arc;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::settings::{DOMAIN, NodeEntry};
use super::supervise::{self, Ground, Site};
use super::tasks::keep;
use super::{bootstrap, pods};
use crate::error::{Error, Result};
use crate::network::{self, Exchange, Network};

impl Site {
    pub async fn found(
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
            network: Network::new(network::Settings {
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
        bootstrap::objects(&site.client, &addresses, node).await?;
        Ok(site)
    }

    /// The nodes of this cluster.
    pub fn nodes(&self) -> impl Iterator<Item = &NodeEntry> {
        let all = self.ground.settings.nodes.iter();
        all.filter(|node| node.cluster == self.cluster)
    }

    /// Everything that runs until `stop`.
    pub fn start(self: &Arc<Self>, stop: &CancellationToken) -> Vec<JoinHandle<()>> {
        let mut tasks = Vec::new();
        let (client, volumes, end) = (self.client.clone(), self.ground.layout.volumes(), stop.clone());
        tasks.push(keep("the workload controllers", stop.clone(), move || {
            let volumes = volumes.clone();
            let config = workloads::Config { volumes };
            workloads::run(client.clone(), config, end.clone().cancelled_owned())
        }));
        let (follow, user, end) = (self.network.clone(), self.client.clone(), stop.clone());
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
