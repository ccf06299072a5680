//! What runs in pods: logs, commands, attached terminals and forwarded ports. The node that runs the
//! pods implements [`Provider`]; this module speaks Kubernetes' streaming protocols for it.

pub(crate) mod exec;
mod forward;
mod logs;
pub(crate) mod spdy;
mod tunnel;
mod websocket;

use std::pin::Pin;

use bytes::Bytes;
use futures::{Stream, future::BoxFuture};
use http::Response;
use serde_json::Value;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::mpsc,
};

use crate::{
    resource::Target,
    serve::{Body, Call},
    status::ApiError,
};

/// The pod that a request is about, as it is stored now.
#[derive(Clone, Debug)]
pub struct PodRef {
    pub cluster: String,
    pub namespace: String,
    pub name: String,
    pub uid: String,
    /// The node that the pod is bound to.
    pub node: String,
    pub object: Value,
}

/// `kubectl logs`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogOptions {
    pub container: String,
    pub follow: bool,
    pub previous: bool,
    pub timestamps: bool,
    pub since_seconds: Option<u64>,
    pub since_time: Option<jiff::Timestamp>,
    pub tail_lines: Option<u64>,
    pub limit_bytes: Option<u64>,
}

/// `kubectl exec` and `kubectl attach` (then without a command).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExecOptions {
    pub container: String,
    pub command: Vec<String>,
    pub stdin: bool,
    pub stdout: bool,
    pub stderr: bool,
    pub tty: bool,
}

/// New size of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Resize {
    pub width: u16,
    pub height: u16,
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exit {
    Code(i32),
    /// It could not be run or was lost.
    Failed(String),
}

pub type Reader = Box<dyn AsyncRead + Send + Unpin>;
pub type Writer = Box<dyn AsyncWrite + Send + Unpin>;
pub type LogStream = Pin<Box<dyn Stream<Item = std::io::Result<Bytes>> + Send>>;

/// A running command or an attached container. Streams that were not asked for are `None`; with a
/// terminal everything comes on `stdout`. Dropping a session ends it.
pub struct Session {
    pub stdin: Option<Writer>,
    pub stdout: Option<Reader>,
    pub stderr: Option<Reader>,
    pub resize: Option<mpsc::Sender<Resize>>,
    /// Resolves when the command has ended and its output is complete.
    pub exit: BoxFuture<'static, Exit>,
}

/// Both directions of a connection to a port.
pub trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Connection for T {}

/// Implemented by the node.
#[async_trait::async_trait]
pub trait Provider: Send + Sync {
    async fn logs(&self, pod: &PodRef, options: &LogOptions) -> Result<LogStream, ApiError>;
    async fn exec(&self, pod: &PodRef, options: &ExecOptions) -> Result<Session, ApiError>;
    async fn attach(&self, pod: &PodRef, options: &ExecOptions) -> Result<Session, ApiError>;
    async fn connect(&self, pod: &PodRef, port: u16) -> Result<Box<dyn Connection>, ApiError>;
}

/// Serves `log`, `exec`, `attach` and `portforward` of a pod.
pub async fn serve(call: Call, target: &Target, pod: Value) -> Result<Response<Body>, ApiError> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let pod = PodRef {
        cluster: call.cluster.name.to_string(),
        namespace: target.namespace.clone(),
        name: text(&pod["metadata"]["name"]),
        uid: text(&pod["metadata"]["uid"]),
        node: text(&pod["spec"]["nodeName"]),
        object: pod,
    };
    if pod.node.is_empty() {
        let message = format!("pod {} does not have a host assigned", pod.name);
        return Err(ApiError::bad_request(message));
    }
    let Some(provider) = call.cluster.pods() else {
        let message = format!(
            "no node of cluster {:?} serves logs and commands of pods",
            pod.cluster
        );
        return Err(ApiError::unavailable(message));
    };
    match target.subresource.as_str() {
        "log" => logs::serve(call, provider, &pod).await,
        "exec" => exec::serve(call, provider, pod, false).await,
        "attach" => exec::serve(call, provider, pod, true).await,
        _ => forward::serve(call, provider, pod),
    }
}

/// The container that is asked for: by name, by annotation, or the only one.
fn container(call: &Call, pod: &PodRef) -> Result<String, ApiError> {
    let names = |list: &str| -> Vec<&str> {
        let containers = pod.object["spec"][list].as_array();
        containers
            .into_iter()
            .flatten()
            .filter_map(|container| container["name"].as_str())
            .collect()
    };
    let (main, init) = (names("containers"), names("initContainers"));
    let all = [main.clone(), init.clone(), names("ephemeralContainers")].concat();
    if let Some(name) = call.query.get("container") {
        return if all.contains(&name) {
            Ok(name.to_owned())
        } else {
            Err(ApiError::bad_request(format!(
                "container {name} is not valid for pod {}",
                pod.name
            )))
        };
    }
    let annotations = &pod.object["metadata"]["annotations"];
    match annotations["kubectl.kubernetes.io/default-container"].as_str() {
        Some(name) if main.contains(&name) => Ok(name.to_owned()),
        _ => match main.as_slice() {
            [only] => Ok((*only).to_owned()),
            _ => {
                let mut message = format!(
                    "a container name must be specified for pod {}, choose one of: [{}]",
                    pod.name,
                    main.join(" ")
                );
                if !init.is_empty() {
                    message.push_str(&format!(" or one of the init containers: [{}]", init.join(" ")));
                }
                Err(ApiError::bad_request(message))
            }
        },
    }
}
