//! The agent of a hypervisor node: what libvirt and the system say of the host, in the status of its
//! Hypervisor; migrations while they run; figures of every guest.

mod agent;
mod figures;
pub mod guest;
mod heartbeat;
pub mod host;
mod migration;
mod rights;
mod status;
mod system;
mod tracker;
mod units;
pub mod view;
mod xml;

pub use agent::NodeAgent;
pub use rights::{Rights, Shared, name, rights, rights_of_all};
pub use status::desired;
pub use units::{Unit, Units};

use std::path::PathBuf;
use std::sync::Arc;

use c5c3_kit::kinds::Key;
use c5c3_kit::{ClusterError, Clusters, Loop, Metrics, Stop};
use futures::StreamExt;
use libvirt_client::{Connection, EventKind, Session, Uri};
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::WatchStream;

use figures::Figures;
use tracker::Tracker;
use view::{Heard, View};

/// Events of migrations that wait.
const UNREAD: usize = 1024;

#[derive(Clone, Debug)]
pub struct Settings {
    /// The node, which is the name of its Hypervisor.
    pub node: String,
    /// Of Migrations.
    pub namespace: String,
    pub libvirt: Uri,
    /// How libvirt is reached.
    pub way: libvirt_client::Settings,
    /// Where the host's root is.
    pub root: PathBuf,
}

/// Looks after one node until the stop.
pub async fn run(
    clusters: Clusters,
    metrics: Metrics,
    settings: Settings,
    stop: Stop,
) -> Result<(), ClusterError> {
    let (_session, news) = Session::start(settings.libvirt, settings.way, EventKind::ALL.to_vec());
    let (seen, view) = watch::channel(Arc::new(View::default()));
    let (known, units) = watch::channel(Arc::new(Units::default()));
    let (told, heard) = mpsc::channel(UNREAD);
    let (of_tracker, to_tracker) = mpsc::channel(UNREAD);
    let (connected, connection) = watch::channel(None);
    Figures::serve(&metrics, connection);
    let tracker = Tracker {
        client: clusters.home().clone(),
        namespace: settings.namespace.clone(),
        node: settings.node.clone(),
    };
    let beat = heartbeat::beat(clusters.home().clone(), settings.namespace, settings.node.clone());
    let tasks = [
        tokio::spawn(view::follow(news, seen, told)),
        tokio::spawn(share(heard, connected, of_tracker)),
        tokio::spawn(tracker.run(to_tracker)),
        tokio::spawn(units::follow(settings.root.clone(), known)),
        tokio::spawn(beat),
    ];
    let agent = NodeAgent {
        view: view.clone(),
        units: units.clone(),
        root: settings.root,
    };
    let (node, same) = (settings.node.clone(), settings.node.clone());
    let result = Loop::new(agent, clusters, metrics)
        .with_fields(&format!("metadata.name={}", settings.node))
        .triggered_by(WatchStream::new(view).map(move |_| Key::new(None, &node)))
        .triggered_by(WatchStream::from_changes(units).map(move |_| Key::new(None, &same)))
        .run(stop)
        .await;
    tasks.iter().for_each(tokio::task::JoinHandle::abort);
    result
}

/// The connection of the moment, for the figures; all else is the tracker's.
async fn share(
    mut heard: mpsc::Receiver<Heard>,
    connected: watch::Sender<Option<Connection>>,
    tracker: mpsc::Sender<Heard>,
) {
    while let Some(heard) = heard.recv().await {
        match &heard {
            Heard::Connected(connection) => {
                connected.send_replace(Some(connection.clone()));
            }
            Heard::Lost => {
                connected.send_replace(None);
            }
            Heard::Event(_) => {}
        }
        if tracker.send(heard).await.is_err() {
            return;
        }
    }
}
