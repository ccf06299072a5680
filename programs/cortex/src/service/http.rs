//! The HTTP contract: `POST /scheduler/{nova|cinder|manila}/external`, `GET /why/ID`, `GET /state`,
//! `/metrics`, `/healthz`, `/readyz`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use c5c3_api::cortex::SchedulingDomain;
use c5c3_kit::http::{BodyError, accept, body, converse, respond};
use c5c3_kit::{Metrics, Stop};
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use super::{Refusal, Remembered, Scheduler};

/// Ten thousand hosts with long names are 3 MiB.
const LARGEST: usize = 32 << 20;
/// More callers wait for a place.
const CALLERS: usize = 512;
/// For answers to finish after the stop.
const GRACE: Duration = Duration::from_secs(2);

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";

/// A bound port; [`serve`](Self::serve) answers on it.
pub struct Server {
    listener: TcpListener,
    scheduler: Arc<Scheduler>,
    metrics: Metrics,
    /// Where decisions go that are to be kept.
    decisions: Option<mpsc::Sender<Arc<Remembered>>>,
}

impl Server {
    pub async fn bind(
        address: SocketAddr,
        scheduler: Arc<Scheduler>,
        metrics: Metrics,
        decisions: Option<mpsc::Sender<Arc<Remembered>>>,
    ) -> std::io::Result<Self> {
        scheduler.figures.register(&metrics);
        Ok(Server {
            listener: TcpListener::bind(address).await?,
            scheduler,
            metrics,
            decisions,
        })
    }

    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers until the stop; what has begun is finished.
    pub async fn serve(self, stop: Stop) {
        let Server {
            listener,
            scheduler,
            metrics,
            decisions,
        } = self;
        let answers = Answers {
            scheduler,
            metrics,
            decisions,
        };
        accept(&listener, stop, CALLERS, GRACE, |stream| {
            let _ = stream.set_nodelay(true);
            let answers = answers.clone();
            converse(stream, move |request| {
                let answers = answers.clone();
                async move { answers.answer(request).await }
            })
        })
        .await;
    }
}

#[derive(Clone)]
struct Answers {
    scheduler: Arc<Scheduler>,
    metrics: Metrics,
    decisions: Option<mpsc::Sender<Arc<Remembered>>>,
}

fn domain(path: &str) -> Option<(SchedulingDomain, &'static str)> {
    match path {
        "/scheduler/nova/external" => Some((SchedulingDomain::Nova, "/scheduler/nova/external")),
        "/scheduler/cinder/external" => Some((SchedulingDomain::Cinder, "/scheduler/cinder/external")),
        "/scheduler/manila/external" => Some((SchedulingDomain::Manila, "/scheduler/manila/external")),
        _ => None,
    }
}

impl Answers {
    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        if let Some((domain, path)) = domain(request.uri().path()) {
            let started = Instant::now();
            let response = self.schedule(domain, request).await;
            let code = response.status().as_u16();
            self.scheduler.figures.answered(path, code, started.elapsed());
            return response;
        }
        if request.method() != Method::GET {
            return respond(StatusCode::METHOD_NOT_ALLOWED, TEXT, "only GET\n");
        }
        let path = request.uri().path();
        if let Some(resource) = path.strip_prefix("/why/") {
            let found = self.scheduler.why(resource);
            return respond(
                StatusCode::OK,
                JSON,
                serde_json::json!({"decisions": found}).to_string(),
            );
        }
        match path {
            "/metrics" => respond(StatusCode::OK, OPEN_METRICS, self.metrics.render()),
            "/healthz" => respond(StatusCode::OK, TEXT, "ok\n"),
            "/readyz" if self.scheduler.world.fleet().is_empty() => {
                respond(StatusCode::SERVICE_UNAVAILABLE, TEXT, "no host is known yet\n")
            }
            "/readyz" => respond(StatusCode::OK, TEXT, "ok\n"),
            "/state" => {
                let draft = self.scheduler.world.draft();
                respond(
                    StatusCode::OK,
                    JSON,
                    serde_json::to_vec(&draft).unwrap_or_default(),
                )
            }
            _ => respond(StatusCode::NOT_FOUND, TEXT, "no such page\n"),
        }
    }

    /// Errors are plain text, as Nova's side expects.
    async fn schedule(&self, domain: SchedulingDomain, request: Request<Incoming>) -> Response<Full<Bytes>> {
        if request.method() != Method::POST {
            return respond(StatusCode::METHOD_NOT_ALLOWED, TEXT, "invalid request method");
        }
        let body = match body(request, LARGEST).await {
            Ok(body) => body,
            Err(BodyError::TooLarge) => {
                let text = format!("the request is larger than {LARGEST} bytes");
                return respond(StatusCode::PAYLOAD_TOO_LARGE, TEXT, text);
            }
            Err(BodyError::Broken(_)) => {
                return respond(StatusCode::BAD_REQUEST, TEXT, "failed to read request body");
            }
            Err(BodyError::TooSlow) => {
                return respond(StatusCode::REQUEST_TIMEOUT, TEXT, "the request took too long");
            }
        };
        match self.scheduler.answer(domain, &body) {
            Ok(answer) => {
                if answer.create_decision
                    && let (Some(decisions), Some(one)) = (&self.decisions, answer.remembered)
                    && decisions.try_send(one).is_err()
                {
                    self.scheduler.figures.decisions_lost.inc();
                }
                respond(StatusCode::OK, JSON, answer.body)
            }
            Err(Refusal::Bad(why)) => respond(StatusCode::BAD_REQUEST, TEXT, why.to_string()),
            Err(why) => respond(StatusCode::INTERNAL_SERVER_ERROR, TEXT, why.to_string()),
        }
    }
}

#[cfg(test)]
#[path = "http_tests.rs"]
mod tests;
