//! `/metrics` and `/healthz` over HTTP.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Response, StatusCode};
use http_body_util::Full;
use tokio::net::TcpListener;

use crate::process::http::{accept, converse, respond};
use crate::process::metrics::Metrics;
use crate::process::stop::Stop;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const METRICS: &str = "/metrics";
/// Connections at a time; more wait.
const SCRAPERS: usize = 128;

type Render = dyn Fn() -> String + Send + Sync;

/// A bound endpoint; [`serve`](Self::serve) answers on it.
pub struct Endpoint {
    listener: TcpListener,
    content_type: &'static str,
    render: Arc<Render>,
    /// Read again before they are shown.
    metrics: Option<Metrics>,
}

impl Endpoint {
    pub async fn bind(address: SocketAddr, metrics: Metrics) -> std::io::Result<Self> {
        let shown = metrics.clone();
        let endpoint = Self::rendering(address, OPEN_METRICS, move || shown.render()).await?;
        Ok(Endpoint {
            metrics: Some(metrics),
            ..endpoint
        })
    }

    /// For metrics that are not those of controllers: `render` makes the page.
    pub async fn rendering(
        address: SocketAddr,
        content_type: &'static str,
        render: impl Fn() -> String + Send + Sync + 'static,
    ) -> std::io::Result<Self> {
        Ok(Endpoint {
            listener: TcpListener::bind(address).await?,
            content_type,
            render: Arc::new(render),
            metrics: None,
        })
    }

    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers until the stop.
    pub async fn serve(self, stop: Stop) {
        let Endpoint {
            listener,
            content_type,
            render,
            metrics,
        } = self;
        accept(&listener, stop, SCRAPERS, Duration::ZERO, |stream| {
            let (render, metrics) = (render.clone(), metrics.clone());
            converse(stream, move |request| {
                let (render, metrics) = (render.clone(), metrics.clone());
                async move {
                    let path = request.uri().path();
                    if let Some(metrics) = metrics.filter(|_| path == METRICS) {
                        metrics.refreshed().await;
                    }
                    answer(request.method(), path, content_type, &*render)
                }
            })
        })
        .await;
    }
}

fn answer(method: &Method, path: &str, content_type: &'static str, render: &Render) -> Response<Full<Bytes>> {
    let (status, kind, body) = match (method, path) {
        (&Method::GET, METRICS) => (StatusCode::OK, content_type, render()),
        (&Method::GET, "/healthz") => (StatusCode::OK, "text/plain", "ok\n".to_owned()),
        (&Method::GET, _) => {
            let text = "see /metrics and /healthz\n".to_owned();
            (StatusCode::NOT_FOUND, "text/plain", text)
        }
        _ => (
            StatusCode::METHOD_NOT_ALLOWED,
            "text/plain",
            "only GET\n".to_owned(),
        ),
    };
    respond(status, kind, body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    async fn get(address: SocketAddr, path: &str) -> String {
        let mut stream = tokio::net::TcpStream::connect(address).await.expect("connects");
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.expect("writes");
        let mut text = String::new();
        stream.read_to_string(&mut text).await.expect("reads");
        text
    }

    #[tokio::test]
    async fn serves_metrics_and_health_until_the_stop() {
        let metrics = Metrics::default();
        metrics.queue("a", 1);
        let told = metrics.clone();
        metrics.refresh_with(Box::new(move || {
            let told = told.clone();
            Box::pin(async move { told.queue("fresh", 1) })
        }));
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let endpoint = Endpoint::bind(address, metrics).await.expect("binds");
        let address = endpoint.address().expect("has an address");
        let (stopper, stop) = Stop::channel();
        let task = tokio::spawn(endpoint.serve(stop));
        assert!(!get(address, "/healthz").await.contains("fresh"));
        let scraped = get(address, "/metrics").await;
        assert!(
            scraped.contains("c5c3_queue_depth") && scraped.contains("fresh"),
            "{scraped}"
        );
        assert!(get(address, "/healthz").await.starts_with("HTTP/1.1 200"));
        assert!(get(address, "/other").await.starts_with("HTTP/1.1 404"));
        stopper.stop();
        task.await.expect("ends");
    }
}
