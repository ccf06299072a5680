//! GET over plain HTTP, with a deadline and a limit: for Prometheus and for a Cortex that runs.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

const DEADLINE: Duration = Duration::from_secs(30);
const LARGEST: usize = 256 << 20;

#[derive(Debug, thiserror::Error)]
pub enum WebError {
    #[error("{0} is not an http address")]
    Address(String),
    #[error("no answer from {0}: {1}")]
    NoAnswer(String, String),
    #[error("{0} answered {1}: {2}")]
    Refused(String, u16, String),
}

pub async fn get(url: &str) -> Result<Bytes, WebError> {
    let failed = |why: &dyn std::fmt::Display| WebError::NoAnswer(url.to_owned(), why.to_string());
    match tokio::time::timeout(DEADLINE, ask(url)).await {
        Ok(answer) => answer,
        Err(_) => Err(failed(&format!("nothing within {} s", DEADLINE.as_secs()))),
    }
}

async fn ask(url: &str) -> Result<Bytes, WebError> {
    let address = || WebError::Address(url.to_owned());
    let failed = |why: &dyn std::fmt::Display| WebError::NoAnswer(url.to_owned(), why.to_string());
    let uri: http::Uri = url.parse().map_err(|_| address())?;
    let host = uri.host().ok_or_else(address)?;
    if uri.scheme_str() != Some("http") {
        return Err(address());
    }
    let stream = TcpStream::connect((host, uri.port_u16().unwrap_or(80))).await;
    let stream = stream.map_err(|error| failed(&error))?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| failed(&error))?;
    tokio::spawn(connection);
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let request = http::Request::get(path)
        .header(
            "host",
            uri.authority().map_or(host, |authority| authority.as_str()),
        )
        .body(Empty::<Bytes>::new())
        .map_err(|error| failed(&error))?;
    let response = sender
        .send_request(request)
        .await
        .map_err(|error| failed(&error))?;
    let status = response.status();
    let body = Limited::new(response.into_body(), LARGEST).collect().await;
    let body = body.map_err(|error| failed(&error))?.to_bytes();
    if !status.is_success() {
        let text = String::from_utf8_lossy(&body).chars().take(200).collect();
        return Err(WebError::Refused(url.to_owned(), status.as_u16(), text));
    }
    Ok(body)
}
