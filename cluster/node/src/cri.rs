//! Client of a node's container runtime, CRI v1 over its UNIX socket.

use std::path::Path;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use k8s_cri::v1::image_service_client::ImageServiceClient;
use k8s_cri::v1::runtime_service_client::RuntimeServiceClient;
use k8s_cri::v1::{
    self as cri, ContainerConfig, ContainerFilter, ContainerStatus, ImageSpec, PodSandboxConfig,
    PodSandboxFilter, PodSandboxStatus,
};
use tokio::net::UnixStream;
use tokio::time::{Instant, sleep};
use tonic::transport::{Channel, Endpoint, Uri};
use tonic::{Request, Response, Status};

use crate::error::{Error, Result};

const MESSAGE_LIMIT: usize = 32 << 20;
const QUICK: Duration = Duration::from_secs(30);
/// Starting a sandbox or container waits for disks and the network set-up.
const SLOW: Duration = Duration::from_secs(240);
/// Longer than anybody waits: beyond some hundred years the runtime counts wrongly, and gRPC
/// has no way to say it.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

#[derive(Clone)]
pub struct Cri {
    channel: Channel,
}

/// A channel that connects when first used and again when containerd restarted.
pub fn channel(socket: &Path) -> Channel {
    let socket = socket.to_path_buf();
    // The address is not used: every connection goes to the socket.
    Endpoint::from_static("http://containerd").connect_with_connector_lazy(tower::service_fn(
        move |_: Uri| {
            let socket = socket.clone();
            async move { UnixStream::connect(socket).await.map(TokioIo::new) }
        },
    ))
}

fn ask<T>(message: T, limit: Duration) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(limit.min(LONGEST));
    request
}

fn seconds(limit: Duration) -> i64 {
    i64::try_from(limit.min(LONGEST).as_secs()).unwrap_or(i64::MAX)
}

fn answer<T>(call: &'static str, answer: Result<Response<T>, Status>) -> Result<T> {
    answer.map(Response::into_inner).map_err(|status| Error::Runtime {
        call,
        status: Box::new(status),
    })
}

impl Cri {
    pub fn new(channel: Channel) -> Self {
        Self { channel }
    }

    pub fn channel(&self) -> Channel {
        self.channel.clone()
    }

    fn runtime(&self) -> RuntimeServiceClient<Channel> {
        RuntimeServiceClient::new(self.channel()).max_decoding_message_size(MESSAGE_LIMIT)
    }

    fn image(&self) -> ImageServiceClient<Channel> {
        ImageServiceClient::new(self.channel()).max_decoding_message_size(MESSAGE_LIMIT)
    }

    /// Waits until the runtime and its network are ready.
    pub async fn ready(&self, patience: Duration) -> Result<()> {
        let deadline = Instant::now() + patience;
        loop {
            let missing = match self.conditions().await {
                Ok(conditions) => match conditions.into_iter().find(|c| !c.status) {
                    None => return Ok(()),
                    Some(c) => format!("{} is false: {} {}", c.r#type, c.reason, c.message),
                },
                Err(e) => e.to_string(),
            };
            if Instant::now() >= deadline {
                return Err(Error::said(format!("containerd is not ready: {missing}")));
            }
            sleep(Duration::from_millis(20)).await;
        }
    }

    pub async fn conditions(&self) -> Result<Vec<cri::RuntimeCondition>> {
        let request = ask(cri::StatusRequest { verbose: false }, Duration::from_secs(2));
        let status = answer("Status", self.runtime().status(request).await)?;
        Ok(status.status.unwrap_or_default().conditions)
    }

    pub async fn version(&self) -> Result<cri::VersionResponse> {
        let request = ask(cri::VersionRequest::default(), QUICK);
        answer("Version", self.runtime().version(request).await)
    }

    pub async fn run_sandbox(&self, config: PodSandboxConfig) -> Result<String> {
        let request = cri::RunPodSandboxRequest {
            config: Some(config),
            ..Default::default()
        };
        let made = self.runtime().run_pod_sandbox(ask(request, SLOW)).await;
        Ok(answer("RunPodSandbox", made)?.pod_sandbox_id)
    }

    pub async fn stop_sandbox(&self, id: &str) -> Result<()> {
        let request = cri::StopPodSandboxRequest {
            pod_sandbox_id: id.into(),
        };
        gone_is_fine(answer(
            "StopPodSandbox",
            self.runtime().stop_pod_sandbox(ask(request, SLOW)).await,
        ))
    }

    pub async fn remove_sandbox(&self, id: &str) -> Result<()> {
        let request = cri::RemovePodSandboxRequest {
            pod_sandbox_id: id.into(),
        };
        gone_is_fine(answer(
            "RemovePodSandbox",
            self.runtime().remove_pod_sandbox(ask(request, SLOW)).await,
        ))
    }

    pub async fn sandboxes(&self, labels: &[(&str, &str)]) -> Result<Vec<cri::PodSandbox>> {
        let request = cri::ListPodSandboxRequest {
            filter: Some(PodSandboxFilter {
                label_selector: selector(labels),
                ..Default::default()
            }),
        };
        let listed = self.runtime().list_pod_sandbox(ask(request, QUICK)).await;
        Ok(answer("ListPodSandbox", listed)?.items)
    }

    pub async fn sandbox_status(&self, id: &str) -> Result<PodSandboxStatus> {
        let request = cri::PodSandboxStatusRequest {
            pod_sandbox_id: id.into(),
            verbose: false,
        };
        let status = self.runtime().pod_sandbox_status(ask(request, QUICK)).await;
        Ok(answer("PodSandboxStatus", status)?.status.unwrap_or_default())
    }

    /// What the runtime tells beyond the specification, as JSON texts.
    pub async fn sandbox_info(&self, id: &str) -> Result<std::collections::HashMap<String, String>> {
        let request = cri::PodSandboxStatusRequest {
            pod_sandbox_id: id.into(),
            verbose: true,
        };
        let status = self.runtime().pod_sandbox_status(ask(request, QUICK)).await;
        Ok(answer("PodSandboxStatus", status)?.info)
    }

    pub async fn create_container(
        &self,
        sandbox: &str,
        config: ContainerConfig,
        sandbox_config: PodSandboxConfig,
    ) -> Result<String> {
        let request = cri::CreateContainerRequest {
            pod_sandbox_id: sandbox.into(),
            config: Some(config),
            sandbox_config: Some(sandbox_config),
        };
        let made = self.runtime().create_container(ask(request, SLOW)).await;
        Ok(answer("CreateContainer", made)?.container_id)
    }

    pub async fn start_container(&self, id: &str) -> Result<()> {
        let request = cri::StartContainerRequest {
            container_id: id.into(),
        };
        let started = self.runtime().start_container(ask(request, SLOW)).await;
        answer("StartContainer", started).map(drop)
    }

    /// SIGTERM, then SIGKILL after `grace`.
    pub async fn stop_container(&self, id: &str, grace: Duration) -> Result<()> {
        let grace = grace.min(LONGEST - QUICK);
        let request = cri::StopContainerRequest {
            container_id: id.into(),
            timeout: seconds(grace),
        };
        let stopped = self.runtime().stop_container(ask(request, grace + QUICK)).await;
        gone_is_fine(answer("StopContainer", stopped))
    }

    pub async fn remove_container(&self, id: &str) -> Result<()> {
        let request = cri::RemoveContainerRequest {
            container_id: id.into(),
        };
        gone_is_fine(answer(
            "RemoveContainer",
            self.runtime().remove_container(ask(request, SLOW)).await,
        ))
    }

    pub async fn containers(&self, labels: &[(&str, &str)]) -> Result<Vec<cri::Container>> {
        let request = cri::ListContainersRequest {
            filter: Some(ContainerFilter {
                label_selector: selector(labels),
                ..Default::default()
            }),
        };
        let listed = self.runtime().list_containers(ask(request, QUICK)).await;
        Ok(answer("ListContainers", listed)?.containers)
    }

    pub async fn container_status(&self, id: &str) -> Result<ContainerStatus> {
        let request = cri::ContainerStatusRequest {
            container_id: id.into(),
            verbose: false,
        };
        let status = self.runtime().container_status(ask(request, QUICK)).await;
        Ok(answer("ContainerStatus", status)?.status.unwrap_or_default())
    }

    /// Runs a command in a container; the runtime ends it after `limit`.
    pub async fn exec(&self, id: &str, command: &[String], limit: Duration) -> Result<cri::ExecSyncResponse> {
        let request = cri::ExecSyncRequest {
            container_id: id.into(),
            cmd: command.to_vec(),
            timeout: seconds(limit).max(1),
        };
        let done = self
            .runtime()
            .exec_sync(ask(request, limit.saturating_add(Duration::from_secs(10))))
            .await;
        answer("ExecSync", done)
    }

    pub async fn exec_url(&self, request: cri::ExecRequest) -> Result<String> {
        let made = self.runtime().exec(ask(request, QUICK)).await;
        Ok(answer("Exec", made)?.url)
    }

    pub async fn attach_url(&self, request: cri::AttachRequest) -> Result<String> {
        let made = self.runtime().attach(ask(request, QUICK)).await;
        Ok(answer("Attach", made)?.url)
    }

    pub async fn reopen_log(&self, id: &str) -> Result<()> {
        let request = cri::ReopenContainerLogRequest {
            container_id: id.into(),
        };
        let done = self.runtime().reopen_container_log(ask(request, QUICK)).await;
        answer("ReopenContainerLog", done).map(drop)
    }

    /// The image, when the node has it.
    pub async fn find_image(&self, reference: &str) -> Result<Option<cri::Image>> {
        let request = cri::ImageStatusRequest {
            image: Some(ImageSpec {
                image: reference.into(),
                ..Default::default()
            }),
            verbose: false,
        };
        let status = self.image().image_status(ask(request, QUICK)).await;
        Ok(answer("ImageStatus", status)?.image)
    }

    pub async fn remove_image(&self, id: &str) -> Result<()> {
        let request = cri::RemoveImageRequest {
            image: Some(ImageSpec {
                image: id.into(),
                ..Default::default()
            }),
        };
        let removed = self.image().remove_image(ask(request, QUICK)).await;
        gone_is_fine(answer("RemoveImage", removed))
    }

    pub async fn images(&self) -> Result<Vec<cri::Image>> {
        let listed = self
            .image()
            .list_images(ask(cri::ListImagesRequest::default(), QUICK))
            .await;
        Ok(answer("ListImages", listed)?.images)
    }
}

fn selector(labels: &[(&str, &str)]) -> std::collections::HashMap<String, String> {
    labels
        .iter()
        .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
        .collect()
}

fn gone_is_fine<T>(answer: Result<T>) -> Result<()> {
    match answer {
        Err(e) if e.code() == Some(tonic::Code::NotFound) => Ok(()),
        other => other.map(drop),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_time_is_too_long_to_ask_for() {
        let longest = Duration::from_secs(i64::MAX.unsigned_abs());
        let request = ask((), longest);
        assert!(request.metadata().get("grpc-timeout").is_some());
        // The runtime multiplies it to nanoseconds.
        assert!(seconds(longest).checked_mul(1_000_000_000).is_some());
        assert_eq!(seconds(Duration::from_secs(30)), 30);
    }
}
