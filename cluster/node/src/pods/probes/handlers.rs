//! The ways to ask a container something: run a command in it, connect to it, send it a
//! request. Probes and hooks share them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::{Container, ExecAction, HTTPGetAction};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use tokio::time::timeout;

use crate::pods::host::Host;

const BODY_LIMIT: usize = 10 << 10;

/// Where a container is.
#[derive(Clone, Debug)]
pub(in crate::pods) struct Subject {
    pub id: String,
    pub address: String,
    pub ports: BTreeMap<String, i32>,
}

impl Subject {
    pub(in crate::pods) fn new(container: &Container, id: &str, address: &str) -> Self {
        let named = container.ports.iter().flatten();
        Self {
            id: id.into(),
            address: address.into(),
            ports: named
                .filter_map(|p| Some((p.name.clone()?, p.container_port)))
                .collect(),
        }
    }

    fn socket(&self, host: Option<&str>, port: &IntOrString) -> Result<SocketAddr, String> {
        let number = match port {
            IntOrString::Int(n) => *n,
            IntOrString::String(name) => match self.ports.get(name) {
                Some(n) => *n,
                None => name
                    .parse()
                    .map_err(|_| format!("the container has no port named {name:?}"))?,
            },
        };
        let number = u16::try_from(number).map_err(|_| format!("{number} is not a port"))?;
        let ip = host.filter(|h| !h.is_empty()).unwrap_or(&self.address);
        let ip = ip.parse().map_err(|_| format!("{ip:?} is not an address"))?;
        Ok(SocketAddr::new(ip, number))
    }
}

/// Output of the command, or how it failed.
pub(in crate::pods) async fn exec(
    host: &Host,
    subject: &Subject,
    action: &ExecAction,
    limit: Duration,
) -> Result<String, String> {
    let command = action.command.clone().unwrap_or_default();
    let done = host
        .cri
        .exec(&subject.id, &command, limit)
        .await
        .map_err(|e| match e.code() {
            Some(tonic::Code::DeadlineExceeded) => {
                format!("command timed out after {limit:?}")
            }
            _ => e.to_string(),
        })?;
    let output = String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned();
    match done.exit_code {
        0 => Ok(output),
        _ => Err(output),
    }
}

pub(in crate::pods) async fn tcp(
    host: &Host,
    subject: &Subject,
    address: Option<&str>,
    port: &IntOrString,
    limit: Duration,
) -> Result<(), String> {
    let to = subject.socket(address, port)?;
    match timeout(limit, host.node.ns.connect(to)).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(e)) => Err(format!("dial tcp {to}: {e}")),
        Err(_) => Err(format!("dial tcp {to}: i/o timeout")),
    }
}

/// The answer's status.
pub(in crate::pods) async fn http(
    host: &Host,
    subject: &Subject,
    action: &HTTPGetAction,
    limit: Duration,
) -> Result<u16, String> {
    let to = subject.socket(action.host.as_deref(), &action.port)?;
    let path = action.path.as_deref().unwrap_or("/");
    let path = if path.starts_with('/') {
        path.to_owned()
    } else {
        format!("/{path}")
    };
    let secure = action.scheme.as_deref() == Some("HTTPS");
    let ask = async {
        let stream = host.node.ns.connect(to).await.map_err(|e| e.to_string())?;
        if secure {
            get(
                crate::pods::probes::tls::connect(stream, to.ip()).await?,
                action,
                to,
                &path,
            )
            .await
        } else {
            get(stream, action, to, &path).await
        }
    };
    let scheme = if secure { "https" } else { "http" };
    match timeout(limit, ask).await {
        Ok(answer) => answer.map_err(|e| format!("Get \"{scheme}://{to}{path}\": {e}")),
        Err(_) => Err(format!(
            "Get \"{scheme}://{to}{path}\": context deadline exceeded"
        )),
    }
}

async fn get<S>(stream: S, action: &HTTPGetAction, to: SocketAddr, path: &str) -> Result<u16, String>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|e| e.to_string())?;
    let driving = tokio::spawn(connection);
    let mut request = http::Request::get(path);
    let own = action.http_headers.iter().flatten();
    let mut named = false;
    for header in own {
        named |= header.name.eq_ignore_ascii_case("host");
        request = request.header(&header.name, &header.value);
    }
    if !named {
        request = request.header("host", to.to_string());
    }
    let request = request
        .header("user-agent", "kube-probe/1.37")
        .header("accept", "*/*")
        .header("connection", "close")
        .body(Empty::<Bytes>::new())
        .map_err(|e| e.to_string())?;
    let answer = sender.send_request(request).await.map_err(|e| e.to_string());
    let status = match answer {
        Ok(response) => {
            let status = response.status().as_u16();
            // Read a part of it: some servers complain about readers that leave at once.
            let _ = Limited::new(response.into_body(), BODY_LIMIT).collect().await;
            Ok(status)
        }
        Err(e) => Err(e),
    };
    driving.abort();
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_by_name() {
        let container: Container = serde_json::from_value(serde_json::json!({
            "name": "c", "ports": [{ "name": "web", "containerPort": 8080 }] }))
        .unwrap();
        let subject = Subject::new(&container, "id", "10.0.0.1");
        let name = |n: &str| IntOrString::String(n.into());
        assert_eq!(subject.socket(None, &name("web")).unwrap().port(), 8080);
        assert_eq!(subject.socket(None, &name("81")).unwrap().port(), 81);
        assert!(subject.socket(None, &name("no")).is_err());
        assert!(subject.socket(None, &IntOrString::Int(70000)).is_err());
        let other = subject.socket(Some("127.0.0.1"), &IntOrString::Int(1)).unwrap();
        assert_eq!(other.to_string(), "127.0.0.1:1");
    }
}
