//! A small HTTP server for what others send: bucket notifications and admission reviews.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use ::http::{Method, Request, Response, StatusCode};
use bytes::Bytes;
use c5c3_kit::Stop;
use c5c3_kit::http::{self, BodyError, accept, body, converse};
use http_body_util::Full;
use hyper::body::Incoming;
use tokio::net::TcpListener;
use tokio::time::timeout;

use crate::Error;
use crate::certificate::Tls;

const CALLERS: usize = 128;
/// For a TLS handshake.
const SLOWEST: Duration = Duration::from_secs(10);
/// For answers to finish after the stop.
const GRACE: Duration = Duration::from_secs(2);

/// A complete request.
pub struct Call {
    pub method: Method,
    pub path: String,
    pub body: Bytes,
}

pub struct Answer {
    pub status: StatusCode,
    pub kind: &'static str,
    pub body: String,
}

impl Answer {
    pub fn text(status: StatusCode, body: impl Into<String>) -> Self {
        Answer {
            status,
            kind: "text/plain; charset=utf-8",
            body: body.into(),
        }
    }
}

/// A bound port; [`serve`](Self::serve) answers on it.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    largest: usize,
    tls: Option<Tls>,
}

impl Server {
    pub async fn bind(address: SocketAddr, largest: usize, tls: Option<Tls>) -> Result<Self, Error> {
        let failed = |why| Error::Listen { address, why };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        // Port 0 lets the system choose.
        let address = listener.local_addr().map_err(failed)?;
        if let Some(certificate) = &tls {
            certificate.acceptor()?;
        }
        Ok(Server {
            listener,
            address,
            largest,
            tls,
        })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers until the stop; what has begun is finished. Without a certificate yet nobody is answered.
    pub async fn serve<F>(self, stop: Stop, answer: impl Fn(Call) -> F + Send + Sync + 'static)
    where
        F: Future<Output = Answer> + Send + 'static,
    {
        let answer: Answers = Arc::new(move |call| Box::pin(answer(call)));
        let Server {
            listener,
            largest,
            tls,
            ..
        } = self;
        accept(&listener, stop, CALLERS, GRACE, |stream| {
            let acceptor = tls.as_ref().map(Tls::acceptor).transpose();
            let answer = answer.clone();
            async move {
                let respond = move |request| respond(request, largest, answer.clone());
                match acceptor {
                    Ok(None) => converse(stream, respond).await,
                    // There is no certificate yet.
                    Ok(Some(None)) => {}
                    Ok(Some(Some(acceptor))) => match timeout(SLOWEST, acceptor.accept(stream)).await {
                        Ok(Ok(stream)) => converse(stream, respond).await,
                        Ok(Err(error)) => tracing::debug!("TLS: {error}"),
                        Err(_) => tracing::debug!("TLS: a caller was too slow"),
                    },
                    Err(error) => tracing::error!("{error}"),
                }
            }
        })
        .await;
    }
}

type Answers = Arc<dyn Fn(Call) -> Pin<Box<dyn Future<Output = Answer> + Send>> + Send + Sync>;

async fn respond(request: Request<Incoming>, largest: usize, answer: Answers) -> Response<Full<Bytes>> {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let answer = match body(request, largest).await {
        Ok(body) => answer(Call { method, path, body }).await,
        Err(BodyError::TooLarge) => Answer::text(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("the body is larger than {largest} bytes\n"),
        ),
        Err(BodyError::Broken(error)) => Answer::text(
            StatusCode::BAD_REQUEST,
            format!("the body cannot be read: {error}\n"),
        ),
        Err(BodyError::TooSlow) => Answer::text(StatusCode::REQUEST_TIMEOUT, "the body came too slowly\n"),
    };
    http::respond(answer.status, answer.kind, answer.body)
}
