//! What people do with running pods: read logs, run commands, attach, reach ports.

mod attach;
mod connect;
mod exec;
mod log_line;
mod logs;

pub use attach::attach;
pub use connect::connect;
pub use exec::exec;
pub use logs::logs;

use apiserver::ApiError;

use crate::cri::Cri;
use crate::node::Node;
use crate::pods::start::names;

/// A node and its runtime.
#[derive(Clone)]
pub struct NodeRuntime {
    pub node: Node,
    pub cri: Cri,
}

/// Id of the newest instance of a container.
pub async fn container(place: &NodeRuntime, uid: &str, name: &str) -> Result<String, ApiError> {
    let labels = [(names::POD_UID, uid), (names::CONTAINER_NAME, name)];
    let found = place.cri.containers(&labels).await.map_err(ApiError::internal)?;
    let running = k8s_cri::v1::ContainerState::ContainerRunning as i32;
    let newest = found
        .into_iter()
        .filter(|c| c.state == running)
        .max_by_key(|c| c.metadata.as_ref().map_or(0, |m| m.attempt));
    newest.map(|c| c.id).ok_or_else(|| {
        ApiError::bad_request(format!(
            "container {name:?} does not run: see `kubectl describe pod`"
        ))
    })
}
