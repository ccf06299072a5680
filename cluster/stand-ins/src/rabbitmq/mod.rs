//! `rabbitmq.com`: clusters, virtual hosts, users, permissions.

mod cluster;
mod definitions;
pub(crate) mod manifests;
mod members;
mod topology;
mod topology_objects;

use c5c3_api::foreign::rabbitmq::{Permission, User, Vhost};
use c5c3_kit::{Access, ClusterError};

pub use cluster::RabbitmqClusters;
pub use topology::TopologyObjects;

use crate::exec::ExecTarget;
use crate::group::Group;

/// The user of the image.
const UID: i64 = 42439;
const SERVER: &str = "rabbitmq";
/// Makes the node of the same pod evaluate its input.
const TELL: &[&str] = &["sh", "/etc/c5c3/config/tell.sh"];

/// Prints which members the node of the same pod sees.
const MEMBERS: &[&str] = &["sh", "/etc/c5c3/config/members.sh"];

fn place(namespace: &str, pod: &str) -> ExecTarget {
    ExecTarget {
        namespace: namespace.to_owned(),
        pod: pod.to_owned(),
        container: SERVER,
    }
}

/// What the controllers of this group may do.
pub fn access(access: Access) -> Access {
    access
        .with::<RabbitmqClusters>()
        .with::<TopologyObjects<Vhost>>()
        .with::<TopologyObjects<User>>()
        .with::<TopologyObjects<Permission>>()
}

/// Runs the controllers of this group until the stop.
pub(crate) async fn run(group: &Group) -> Result<(), ClusterError> {
    tokio::try_join!(
        group.run(RabbitmqClusters::new(group.client())),
        group.run(TopologyObjects::<Vhost>::new(group.client())),
        group.run(TopologyObjects::<User>::new(group.client())),
        group.run(TopologyObjects::<Permission>::new(group.client())),
    )?;
    Ok(())
}
