//! A small HTTP server for what others send: bucket notifications and admission reviews.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use c5c3_kit::Stop;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::Error;
use crate::certificate::Tls;

const CALLERS: usize = 128;
/// For a handshake, a header, and a body to come in.
const SLOWEST: Duration = Duration::from_secs(10);

/// What came in, whole.
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
        let places = Arc::new(Semaphore::new(CALLERS));
        let mut connections = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                () = stop.requested() => break,
                Some(_) = connections.join_next() => continue,
                accepted = self.listener.accept() => accepted,
            };
            let stream = match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    // Out of file descriptors, most likely: a pause lets some be closed.
                    tracing::warn!("cannot take a caller: {error}");
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    continue;
                }
            };
            let acceptor = match self.tls.as_ref().map(Tls::acceptor).transpose() {
                Ok(Some(None)) => continue,
                Ok(acceptor) => acceptor.flatten(),
                Err(error) => {
                    tracing::error!("{error}");
                    continue;
                }
            };
            // The semaphore is never closed.
            let Ok(place) = places.clone().acquire_owned().await else {
                break;
            };
            let (answer, largest) = (answer.clone(), self.largest);
            connections.spawn(async move {
                match acceptor {
                    None => converse(stream, largest, answer).await,
                    Some(acceptor) => match tokio::time::timeout(SLOWEST, acceptor.accept(stream)).await {
                        Ok(Ok(stream)) => converse(stream, largest, answer).await,
                        Ok(Err(error)) => tracing::debug!("TLS: {error}"),
                        Err(_) => tracing::debug!("TLS: a caller was too slow"),
                    },
                }
                drop(place);
            });
        }
        let finish = async { while connections.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(Duration::from_secs(2), finish).await;
    }
}

type Answers = Arc<dyn Fn(Call) -> Pin<Box<dyn Future<Output = Answer> + Send>> + Send + Sync>;

async fn converse<S>(stream: S, largest: usize, answer: Answers)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |request| {
        let answer = answer.clone();
        async move { Ok::<_, Infallible>(respond(request, largest, &answer).await) }
    });
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(SLOWEST)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        tracing::debug!("connection: {error}");
    }
}

async fn respond(request: Request<Incoming>, largest: usize, answer: &Answers) -> Response<Full<Bytes>> {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let body = Limited::new(request.into_body(), largest).collect();
    let answer = match tokio::time::timeout(SLOWEST, body).await {
        Ok(Ok(body)) => {
            let body = body.to_bytes();
            answer(Call { method, path, body }).await
        }
        Ok(Err(error)) => {
            let too_much = error.is::<http_body_util::LengthLimitError>();
            let status = if too_much {
                StatusCode::PAYLOAD_TOO_LARGE
            } else {
                StatusCode::BAD_REQUEST
            };
            Answer::text(status, format!("the body cannot be read: {error}\n"))
        }
        Err(_) => Answer::text(StatusCode::REQUEST_TIMEOUT, "the body came too slowly\n"),
    };
    let mut response = Response::new(Full::new(Bytes::from(answer.body)));
    *response.status_mut() = answer.status;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(answer.kind));
    response
}
