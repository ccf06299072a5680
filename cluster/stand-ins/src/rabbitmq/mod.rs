//! `rabbitmq.com`: clusters, virtual hosts, users, permissions.

mod cluster;
mod definitions;
mod manifests;
mod topology;
mod topology_objects;

pub use cluster::RabbitmqClusters;
pub use topology::TopologyObjects;

use crate::exec::Place;

/// The user of the image.
const UID: i64 = 42439;
const SERVER: &str = "rabbitmq";
/// Has the node of the same pod evaluate its input.
const TELL: &[&str] = &["sh", "/etc/c5c3/config/tell.sh"];

fn place(namespace: &str, pod: &str) -> Place {
    Place {
        namespace: namespace.to_owned(),
        pod: pod.to_owned(),
        container: SERVER,
    }
}
