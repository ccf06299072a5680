//! The way to a webhook and back.

use std::{io, net::IpAddr};

use bytes::Bytes;
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::{Network, hook::WebhookAddress};
use crate::pods::Connection;

/// As large as a request may be.
const LIMIT: usize = 3 << 20;

pub(super) async fn post(
    network: Option<&dyn Network>,
    place: &WebhookAddress,
    seconds: u64,
    question: &Value,
) -> Result<Value, String> {
    let target = format!("{}?timeout={seconds}s", place.path);
    let sent = send(network, place, &target, question).await;
    sent.map_err(|why| {
        format!(
            "failed to call webhook: Post \"https://{}:{}{target}\": {why}",
            place.host, place.port
        )
    })
}

async fn send(
    network: Option<&dyn Network>,
    place: &WebhookAddress,
    target: &str,
    question: &Value,
) -> Result<Value, String> {
    let text = |error: &dyn std::error::Error| error.to_string();
    let stream = connect(network, place).await.map_err(|error| text(&error))?;
    let tls = TlsConnector::from(place.tls.clone());
    let stream = tls
        .connect(place.server.clone(), stream)
        .await
        .map_err(|error| text(&error))?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| text(&error))?;
    let connection = tokio::spawn(connection);
    let body = serde_json::to_vec(question).map_err(|error| text(&error))?;
    let request = Request::post(target)
        .header(header::HOST, format!("{}:{}", place.host, place.port))
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::ACCEPT, "application/json")
        .body(Full::new(Bytes::from(body)))
        .map_err(|error| text(&error))?;
    let response = sender.send_request(request).await.map_err(|error| text(&error))?;
    let status = response.status();
    let body = Limited::new(response.into_body(), LIMIT).collect().await;
    connection.abort();
    if status != StatusCode::OK {
        return Err(format!("the webhook answered {status}"));
    }
    let bytes = body.map_err(|error| error.to_string())?.to_bytes();
    serde_json::from_slice(&bytes).map_err(|error| format!("the answer is no JSON: {error}"))
}

/// Inside the cluster's network, else on this machine; nothing goes further.
async fn connect(network: Option<&dyn Network>, place: &WebhookAddress) -> io::Result<Box<dyn Connection>> {
    if let Some(network) = network
        && let Some(stream) = network.connect(&place.host, place.port).await?
    {
        return Ok(stream);
    }
    let local = place.host == "localhost" || place.host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    if !local {
        let why = format!("{} is neither in the cluster nor on this machine", place.host);
        return Err(io::Error::new(io::ErrorKind::AddrNotAvailable, why));
    }
    let stream = TcpStream::connect((place.host.as_str(), place.port)).await?;
    stream.set_nodelay(true)?;
    Ok(Box::new(stream))
}
