//! The agent of Open vSwitch on a hypervisor: bridges, bonds, flows and the connection to OVN, with what looks
//! wrong, in the status of its OVSNode. It answers requests too: traces of a packet's way, captures of a port.

mod agent;
mod control;
mod look;
mod openflow;
mod requests;
mod rights;
mod view;

pub use agent::{OvsAgent, desired};
pub use rights::{Shared, rights_of_all};
pub use view::{FOLLOWED, View};

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use c5c3_api::ovs::OvsNode;
use c5c3_kit::fault::plain;
use c5c3_kit::kinds::Key;
use c5c3_kit::{ClusterError, Clusters, Loop, Metrics, Stop};
use futures::StreamExt;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, Patch, PatchParams};
use kube::{Client, Resource, ResourceExt};
use ovsdb_client::{Follow, Session, Way, remotes};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_stream::wrappers::WatchStream;

#[derive(Clone, Debug)]
pub struct Settings {
    /// The node, which is the name of its OVSNode.
    pub node: String,
    /// Of the OVSNode.
    pub namespace: String,
    /// Where the sockets of Open vSwitch are.
    pub switch: PathBuf,
    /// Where those of OVN are.
    pub ovn: PathBuf,
    /// Between looks at flows and at ovn-controller, which tell nothing by themselves.
    pub interval: Duration,
}

/// Looks after one node until the stop.
pub async fn run(
    clusters: Clusters,
    metrics: Metrics,
    settings: Settings,
    stop: Stop,
) -> Result<(), ClusterError> {
    let client = clusters.home().clone();
    tokio::select! {
        () = stop.requested() => return Ok(()),
        () = present(&client, &settings) => {}
    }
    let database = format!("unix:{}", settings.switch.join("db.sock").display());
    let follow = Follow {
        remotes: remotes(&database).unwrap_or_default(),
        database: "Open_vSwitch".to_owned(),
        tables: FOLLOWED
            .iter()
            .map(|(table, columns)| {
                let columns = columns.iter().map(|column| (*column).to_owned());
                ((*table).to_owned(), columns.collect())
            })
            .collect(),
        leader: false,
    };
    let session = Session::start(follow, Way::default());
    let desk = requests::Desk {
        client: client.clone(),
        namespace: settings.namespace.clone(),
        node: settings.node.clone(),
    };
    let tasks = [
        tokio::spawn(desk.clone().traces(settings.switch.clone())),
        tokio::spawn(desk.captures(session.watch())),
    ];
    let (seen, view) = watch::channel(Arc::new(View::default()));
    let looks = tokio::spawn(look::follow(session, settings.clone(), seen));
    let agent = OvsAgent { view: view.clone() };
    let (node, place) = (settings.node.clone(), settings.namespace.clone());
    let result = Loop::new(agent, clusters, metrics)
        .in_namespace(Some(settings.namespace))
        .with_fields(&format!("metadata.name={}", settings.node))
        .triggered_by(WatchStream::new(view).map(move |_| Key::new(Some(&place), &node)))
        .run(stop)
        .await;
    looks.abort();
    tasks.iter().for_each(tokio::task::JoinHandle::abort);
    result
}

const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(30);

/// Makes the OVSNode, however long that takes. It goes with its Node.
async fn present(client: &Client, settings: &Settings) {
    let mut pause = FIRST;
    loop {
        match make(client, settings).await {
            Ok(()) => return,
            Err(error) => tracing::warn!("cannot make OVSNode {}: {}", settings.node, plain(&error)),
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST);
    }
}

async fn make(client: &Client, settings: &Settings) -> kube::Result<()> {
    let nodes: Api<Node> = Api::all(client.clone());
    let node = nodes.get_metadata(&settings.node).await?;
    let owners: Vec<Value> = node
        .uid()
        .map(|uid| json!({"apiVersion": "v1", "kind": "Node", "name": settings.node, "uid": uid}))
        .into_iter()
        .collect();
    let object = json!({
        "apiVersion": OvsNode::api_version(&()), "kind": OvsNode::kind(&()),
        "metadata": {"name": settings.node, "ownerReferences": owners},
        "spec": {"nodeRef": {"name": settings.node}},
    });
    let api: Api<OvsNode> = Api::namespaced(client.clone(), &settings.namespace);
    let params = PatchParams::apply("c5c3-ovs-agent").force();
    api.patch(&settings.node, &params, &Patch::Apply(&object))
        .await
        .map(drop)
}
