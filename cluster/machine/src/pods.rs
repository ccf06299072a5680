//! Logs, commands and ports of pods, for the API server.

use std::collections::BTreeMap;

use apiserver::ApiError;
use apiserver::pods::{Connection, ExecOptions, LogOptions, LogStream, PodRef, Provider, Session};
use async_trait::async_trait;
use tokio::sync::RwLock;

use embedded_node::cri::Cri;
use embedded_node::node::Node;
use embedded_node::streams;

/// The nodes that are up, by name.
#[derive(Default)]
pub(crate) struct Streams {
    nodes: RwLock<BTreeMap<String, streams::NodeRuntime>>,
}

impl Streams {
    pub(crate) async fn add(&self, name: &str, node: Node, cri: Cri) {
        let place = streams::NodeRuntime { node, cri };
        self.nodes.write().await.insert(name.into(), place);
    }

    pub(crate) async fn remove(&self, name: &str) {
        self.nodes.write().await.remove(name);
    }

    async fn place(&self, pod: &PodRef) -> Result<streams::NodeRuntime, ApiError> {
        let nodes = self.nodes.read().await;
        nodes
            .get(&pod.node)
            .cloned()
            .ok_or_else(|| ApiError::unavailable(format!("node {:?} of the pod is down", pod.node)))
    }
}

fn failed(e: embedded_node::Error) -> ApiError {
    ApiError::internal(e)
}

#[async_trait]
impl Provider for Streams {
    async fn logs(&self, pod: &PodRef, options: &LogOptions) -> Result<LogStream, ApiError> {
        let place = self.place(pod).await?;
        streams::logs(&place, pod, options).await
    }

    async fn exec(&self, pod: &PodRef, options: &ExecOptions) -> Result<Session, ApiError> {
        let place = self.place(pod).await?;
        let id = streams::container(&place, &pod.uid, &options.container).await?;
        streams::exec(&place, &id, options).await.map_err(failed)
    }

    async fn attach(&self, pod: &PodRef, options: &ExecOptions) -> Result<Session, ApiError> {
        let place = self.place(pod).await?;
        let id = streams::container(&place, &pod.uid, &options.container).await?;
        streams::attach(&place, &id, options).await.map_err(failed)
    }

    async fn connect(&self, pod: &PodRef, port: u16) -> Result<Box<dyn Connection>, ApiError> {
        let place = self.place(pod).await?;
        let stream = streams::connect(&place, pod, port).await.map_err(failed)?;
        Ok(Box::new(stream))
    }
}
