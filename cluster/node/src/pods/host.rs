//! What the workers of a node share, and their two borders: where objects come from and
//! where reports go.

use std::path::PathBuf;

use async_trait::async_trait;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, PodStatus, Secret};
use tokio::sync::watch;

use crate::cri::Cri;
use crate::error::Result;
use crate::images::Images;
use crate::node::Node;
use crate::pods::observe::view;
use crate::pods::start::fields::PodLocation;
use crate::pods::start::sandbox::Dns;
use crate::pods::volumes::TokenRequest;

/// A service account's token and when a new one is due.
#[derive(Clone)]
pub struct Token {
    pub value: String,
    pub renew_at: Timestamp,
}

/// Directory of the volume that a claim is bound to, or why there is none for it.
pub type Claimed = std::result::Result<PathBuf, String>;

/// Objects that pods name. `None` when one does not exist.
#[async_trait]
pub trait Objects: Send + Sync {
    async fn config_map(&self, pod: &Pod, name: &str) -> Result<Option<ConfigMap>>;
    async fn secret(&self, pod: &Pod, name: &str) -> Result<Option<Secret>>;
    async fn claim(&self, pod: &Pod, name: &str) -> Result<Claimed>;
    async fn token(&self, pod: &Pod, request: &TokenRequest) -> Result<Token>;
    /// Variables that describe the Services a pod can see.
    fn services(&self, namespace: &str) -> Vec<(String, String)>;
    /// The pod's worker is notified when an object that it names has changed.
    fn used(&self, pod: &Pod, needs: &crate::pods::volumes::Needs);
    fn unused(&self, pod: &Pod);
}

/// Where reports go.
#[async_trait]
pub trait Reporter: Send + Sync {
    /// Stores the status and says which version of the pod has it; none when the pod is gone.
    async fn status(&self, pod: &Pod, status: &PodStatus) -> Result<Option<String>>;
    /// The pod is gone from the node: the object may go too.
    async fn finish(&self, pod: &Pod) -> Result<()>;
    fn event(&self, pod: &Pod, event: Event);
}

/// Something that happened to a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub warning: bool,
    pub reason: &'static str,
    pub message: String,
    /// Name of the container that it is about.
    pub container: Option<String>,
}

impl Event {
    pub fn normal(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            warning: false,
            reason,
            message: message.into(),
            container: None,
        }
    }

    pub fn warning(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            warning: true,
            ..Self::normal(reason, message)
        }
    }

    pub fn about(self, container: &str) -> Self {
        Self {
            container: Some(container.into()),
            ..self
        }
    }
}

/// A node as its pods' workers see it.
pub struct Host {
    pub node: Node,
    pub address: String,
    pub cri: Cri,
    pub images: Images,
    pub dns: Dns,
    pub objects: std::sync::Arc<dyn Objects>,
    pub reporter: std::sync::Arc<dyn Reporter>,
    pub cpus: i64,
    pub memory: i64,
    /// Whether the API was told that the node is ready.
    pub ready: watch::Sender<bool>,
}

impl Host {
    pub fn place(&self, pod_address: Option<&str>) -> PodLocation {
        PodLocation {
            node: self.node.layout.name.clone(),
            node_address: self.address.clone(),
            pod_address: pod_address.unwrap_or_default().into(),
            cpus: self.cpus,
            memory: self.memory,
        }
    }

    pub fn event(&self, pod: &Pod, event: Event) {
        tracing::debug!(pod = view::name(pod), reason = event.reason, "{}", event.message);
        self.reporter.event(pod, event);
    }
}
