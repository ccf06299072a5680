//! Pods have labels of the node that they run on: its zone, its region, the machine.
//!
//! - [`change`] decides what a pod lacks. Pure.
//! - `admit` answers the API server when a pod is bound to a node, or made for one.
//! - `follow` repairs the rest by watch: pods that nobody asked about, and nodes whose labels change.
//! - `certificates` looks after the webhook's own certificate, and tells the API server whom to trust.

mod admit;
mod certificates;
pub mod change;
mod follow;
mod nodes;
mod rights;

pub use rights::{Rights, rights};

use std::net::{IpAddr, SocketAddr};

use c5c3_kit::{Metrics, Stop};
use c5c3_webhook::{Call, Held, Server, Tls, review};
use futures::FutureExt;
use futures::future::BoxFuture;
use kube::Client;

use certificates::Certificates;
use nodes::Nodes;

/// The name of the program in a cluster: of its Service, its configuration, its Secrets.
pub const NAME: &str = "c5c3-labels-injector";

/// The labels that pods have of their node, unless others are named.
pub const KEYS: [&str; 3] = [
    "kubernetes.metal.cloud.sap/name",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
];

/// The API server sends no object that is larger.
const LARGEST: usize = 4 << 20;

#[derive(Clone, Debug)]
pub struct Settings {
    pub keys: Vec<String>,
    /// Where its Secrets are.
    pub namespace: String,
    /// What the API server calls it by.
    pub names: Vec<String>,
    pub addresses: Vec<IpAddr>,
}

/// What every replica does: it knows the nodes and answers the API server.
pub struct Injector {
    client: Client,
    settings: Settings,
    nodes: Nodes,
    server: Server,
    certificate: Held,
}

impl Injector {
    pub async fn bind(
        client: Client,
        settings: Settings,
        listen: SocketAddr,
    ) -> Result<Self, c5c3_webhook::Error> {
        let certificate = Held::default();
        let server = Server::bind(listen, LARGEST, Some(Tls::Held(certificate.clone()))).await?;
        Ok(Injector {
            nodes: Nodes::new(settings.keys.clone()),
            client,
            settings,
            server,
            certificate,
        })
    }

    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// What one of the replicas does beside: it writes to pods that differ.
    pub fn follower(&self, metrics: Metrics) -> impl FnOnce(Stop) -> BoxFuture<'static, ()> + use<> {
        let (client, nodes) = (self.client.clone(), self.nodes.clone());
        move |stop: Stop| {
            let follow = async move {
                tokio::select! {
                    () = stop.requested() => {}
                    () = follow::pods(client, nodes, metrics) => {}
                }
            };
            follow.boxed()
        }
    }

    /// Until the stop.
    pub async fn serve(self, stop: Stop) {
        let (client, nodes) = (self.client.clone(), self.nodes.clone());
        let answer = move |call: Call| {
            let (client, nodes) = (client.clone(), nodes.clone());
            review(call, move |request| async move {
                admit::judge(&client, &nodes, &request).await
            })
        };
        let certificates = Certificates {
            client: self.client.clone(),
            settings: self.settings,
            held: self.certificate,
        };
        tokio::select! {
            () = self.server.serve(stop, answer) => {}
            () = self.nodes.follow(self.client) => {}
            () = certificates.tend() => {}
        }
    }
}
