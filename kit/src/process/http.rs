//! The accept loop of every small HTTP server.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::process::stop::Stop;

/// For a header or a body to come in.
const SLOWEST: Duration = Duration::from_secs(10);
/// Pause after a connection could not be accepted. File descriptors have most likely run out: it lets some be
/// closed.
const PAUSE: Duration = Duration::from_secs(1);

/// Passes each connection to `serve`, at most `callers` at a time, until the stop. Connections that are
/// open then have `grace` to finish.
pub async fn accept<F>(
    listener: &TcpListener,
    stop: Stop,
    callers: usize,
    grace: Duration,
    serve: impl Fn(TcpStream) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let places = Arc::new(Semaphore::new(callers));
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            () = stop.requested() => break,
            Some(_) = connections.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!("cannot accept a connection: {error}");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        // The semaphore is never closed.
        let Ok(place) = places.clone().acquire_owned().await else {
            break;
        };
        let served = serve(stream);
        connections.spawn(async move {
            served.await;
            drop(place);
        });
    }
    let finish = async { while connections.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(grace, finish).await;
}

/// Answers the requests of one connection until it ends.
pub async fn converse<S, F>(stream: S, answer: impl Fn(Request<Incoming>) -> F)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    F: Future<Output = Response<Full<Bytes>>>,
{
    let service = service_fn(move |request| {
        let answered = answer(request);
        async move { Ok::<_, Infallible>(answered.await) }
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

/// Why the body of a request cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub enum BodyError {
    TooLarge,
    TooSlow,
    Broken(String),
}

/// The whole body of a request, at most `largest` bytes of it.
pub async fn body(request: Request<Incoming>, largest: usize) -> Result<Bytes, BodyError> {
    let body = Limited::new(request.into_body(), largest).collect();
    match tokio::time::timeout(SLOWEST, body).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(BodyError::TooLarge),
        Ok(Err(error)) => Err(BodyError::Broken(error.to_string())),
        Err(_) => Err(BodyError::TooSlow),
    }
}

pub fn respond(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
