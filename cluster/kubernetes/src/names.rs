//! DNS of the cluster, and Services on loopback of the machine.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use embedded_node::dns;
use embedded_node::network::expose::Exposed;
use embedded_node::network::frontends::{Snapshot, exposures};
use embedded_node::node::Node;
use embedded_node::{Addresses, Error, Result};
use futures::StreamExt;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::runtime::reflector::{self, Store};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};
use tokio::sync::{Notify, watch};

use crate::programs::DOMAIN;

const TOGETHER: Duration = Duration::from_millis(20);
/// After a port of the machine could not be opened.
const RETRY: Duration = Duration::from_secs(5);

/// Names, answered on the node's own address until the sender goes.
pub(crate) async fn serve(
    node: &Node,
    addresses: &Addresses,
    known: watch::Receiver<Arc<Snapshot>>,
) -> Result<()> {
    let at = SocketAddr::from((addresses.node(node.layout.index), 53));
    let failed = |e| Error::System {
        what: format!("DNS on {at}"),
        source: e,
    };
    let udp = node.ns.udp(at).await.map_err(failed)?;
    let tcp = node.ns.listen(at).await.map_err(failed)?;
    let zone = dns::Zone::new(DOMAIN, *addresses, known);
    tokio::spawn(dns::serve(zone, udp, tcp));
    Ok(())
}

/// Follows Services and their endpoints forever; `node` is where connections come from.
pub(crate) async fn follow(client: Client, node: Node, known: watch::Sender<Arc<Snapshot>>) {
    let changed = Arc::new(Notify::new());
    let services = store::<Service>(&client, &changed);
    let slices = store::<EndpointSlice>(&client, &changed);
    let mut exposed = Exposed::default();
    let mut again = false;
    loop {
        tokio::select! {
            () = changed.notified() => tokio::time::sleep(TOGETHER).await,
            () = tokio::time::sleep(RETRY), if again => {}
        }
        let snapshot = Snapshot {
            services: services.state(),
            slices: slices.state(),
        };
        let (wanted, wrong) = exposures(&snapshot, node.layout.names);
        known.send_replace(Arc::new(snapshot));
        for (service, why) in wrong {
            tracing::warn!("{service}: {why}");
        }
        let ns = node.ns.clone();
        let failed = exposed.set(&wanted, move || Some(ns.clone())).await;
        again = !failed.is_empty();
        for (exposure, why) in failed {
            tracing::warn!("{} on port {}: {why}", exposure.service, exposure.listen);
        }
    }
}

/// What the API has of a kind, kept by a task.
fn store<K>(client: &Client, changed: &Arc<Notify>) -> Store<K>
where
    K: kube::Resource<DynamicType = ()>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned
        + Send
        + Sync
        + 'static,
{
    let (reader, writer) = reflector::store();
    let api: Api<K> = Api::all(client.clone());
    let watching = watcher(api, watcher::Config::default());
    let mut events = reflector::reflector(writer, watching).default_backoff().boxed();
    let changed = changed.clone();
    tokio::spawn(async move {
        while let Some(event) = events.next().await {
            match event {
                // Half a list is no picture of the cluster.
                Ok(watcher::Event::Init | watcher::Event::InitApply(_)) => {}
                Ok(_) => changed.notify_one(),
                Err(e) => tracing::debug!("follow the API: {e}"),
            }
        }
    });
    reader
}
