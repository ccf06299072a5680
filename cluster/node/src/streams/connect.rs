//! Connections to a port of a pod, from inside the pod: programs that listen on its
//! loopback are reached too.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use apiserver::pods::PodRef;
use k8s_cri::v1::PodSandboxState;
use tokio::net::TcpStream;

use super::NodeRuntime;
use crate::error::{Error, Result};
use crate::netns::NetNs;
use crate::pods::start::names;

const LIMIT: Duration = Duration::from_secs(10);

pub async fn connect(place: &NodeRuntime, pod: &PodRef, port: u16) -> Result<TcpStream> {
    let to = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let ns = if pod.object["spec"]["hostNetwork"] == true {
        place.node.ns.clone()
    } else {
        let process = sandbox_process(place, &pod.uid).await?;
        // Process ids of the node, seen through the node's own /proc.
        let path = format!("/proc/{}/root/proc/{process}/ns/net", place.node.init.pid);
        NetNs::open(&PathBuf::from(path))?
    };
    tokio::time::timeout(LIMIT, ns.connect(to))
        .await
        .map_err(|_| Error::said(format!("port {port} of pod {} does not answer", pod.name)))?
        .map_err(Error::system(format!(
            "connect to port {port} of pod {}",
            pod.name
        )))
}

async fn sandbox_process(place: &NodeRuntime, uid: &str) -> Result<u32> {
    let ready = PodSandboxState::SandboxReady as i32;
    let all = place.cri.sandboxes(&[(names::POD_UID, uid)]).await?;
    let sandbox = all
        .into_iter()
        .find(|s| s.state == ready)
        .ok_or_else(|| Error::said("the pod does not run"))?;
    let info = place.cri.sandbox_info(&sandbox.id).await?;
    let text = info.get("info").cloned().unwrap_or_default();
    let value: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
    let pid = value["pid"].as_u64().and_then(|p| u32::try_from(p).ok());
    pid.filter(|p| *p > 0)
        .ok_or_else(|| Error::said("the runtime does not report the pod's process"))
}
