//! The standard gRPC health check, as far as a probe needs it.

use std::net::SocketAddr;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use tokio::time::timeout;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Endpoint, Uri};
use tonic_prost::ProstCodec;

use crate::pods::host::Host;
use crate::pods::probes::handlers::Subject;

#[derive(Clone, PartialEq, prost::Message)]
struct Request {
    #[prost(string, tag = "1")]
    service: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Answer {
    #[prost(int32, tag = "1")]
    status: i32,
}

const SERVING: i32 = 1;

pub(in crate::pods) async fn check(
    host: &Host,
    subject: &Subject,
    port: i32,
    service: &str,
    limit: Duration,
) -> Result<(), String> {
    let port = u16::try_from(port).map_err(|_| format!("{port} is not a port"))?;
    let ip = subject
        .address
        .parse()
        .map_err(|_| "the pod has no address yet")?;
    let to = SocketAddr::new(ip, port);
    let ns = host.node.ns.clone();
    let asking = async {
        let channel = Endpoint::from_static("http://probe")
            .connect_with_connector(tower::service_fn(move |_: Uri| {
                let ns = ns.clone();
                async move { ns.connect(to).await.map(TokioIo::new) }
            }))
            .await
            .map_err(|e| e.to_string())?;
        let mut client = Grpc::new(channel);
        client.ready().await.map_err(|e| e.to_string())?;
        let request = tonic::Request::new(Request {
            service: service.into(),
        });
        let path = PathAndQuery::from_static("/grpc.health.v1.Health/Check");
        let answer: tonic::Response<Answer> = client
            .unary(request, path, ProstCodec::<Request, Answer>::default())
            .await
            .map_err(|s| s.message().to_owned())?;
        match answer.into_inner().status {
            SERVING => Ok(()),
            other => Err(format!("service unhealthy (responded with {other})")),
        }
    };
    timeout(limit, asking)
        .await
        .unwrap_or_else(|_| Err(format!("health check of {to} timed out")))
}
